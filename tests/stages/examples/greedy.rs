//! Takes more of one thing than there is. Its config says of what: `{"what": "stack"}`.

use std::hint::black_box;

use catena_sdk::{Call, Document, Error, Host, Level, Module, Outcome, Stage, export_stage};
use serde::Deserialize;
use serde_json::json;

struct Greedy;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    what: What,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Stack,
    Calls,
    Log,
    /// Bytes from the guest to the host at once.
    Transfer,
    Tags,
    /// Bytes of publications.
    Publications,
}

impl Module for Greedy {
    type Config = Config;
}

/// Deeper than any stack. It keeps nothing in memory, where a compiled module has a stack of its own that would end
/// first.
#[inline(never)]
fn deeper(depth: u64) -> u64 {
    if depth < 2 { depth } else { deeper(depth - 1) ^ deeper(depth - 2).rotate_left(1) }
}

impl Stage for Greedy {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        let mut outcome = Outcome::unchanged();
        match call.config.what {
            What::Stack => drop(black_box(deeper(black_box(u64::MAX)))),
            What::Calls => {
                for _ in 0..1000 {
                    host.link("lo")?;
                }
            }
            What::Log => {
                for _ in 0..100_000 {
                    host.log(Level::Info, "more");
                }
            }
            What::Transfer => {
                let text = " ".repeat(5 << 20);
                outcome.result = Some(Document { format: document.format.clone(), text });
            }
            What::Tags => outcome.tags = (0..1000).map(|number| format!("tag-{number}")).collect(),
            What::Publications => {
                outcome = outcome.publish("example.com/x", &json!("x".repeat(300 << 10)));
            }
        }
        Ok(outcome)
    }
}

export_stage!(Greedy: stage; wants = r#"{"publish": ["example.com/x"]}"#);
