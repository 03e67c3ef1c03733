//! A module of contract 0.2: publishes what only that contract tells it.

wit_bindgen::generate!({
    inline: "
        package test:next;
        world module {
            import catena:stage/log@0.2.0;
            export catena:stage/stage@0.2.0;
        }
    ",
    path: "@WIT@",
    world: "test:next/module",
    generate_all,
});

use exports::catena::stage::stage::{Call, Document, Error, Guest, Outcome, Publication};

struct Next;

impl Guest for Next {
    fn run(call: Call, _: Document) -> Result<Outcome, Error> {
        catena::stage::log::write(catena::stage::log::Level::Info, "of the next contract");
        let publication = Publication { key: "example.com/next".into(), value: call.attempt.to_string() };
        let publications = vec![publication];
        Ok(Outcome { result: None, tags: Vec::new(), publications, tolerated: Vec::new(), remark: None })
    }
}

export!(Next);
