//! Capability arguments, from the runtime and from an attachment's requests to the delegates.

use catena_tests::conf;
use catena_tests::runtime::Pod;
use catena_tests::score::Score;
use catena_tests::scripted;
use catena_tests::vectors;
use catena_tests::world::World;
use serde_json::{Map, Value, json};

/// A delegate that declares these capabilities.
fn declaring<'a>(name: &str, capabilities: impl IntoIterator<Item = &'a str>) -> Value {
    let mut delegate = scripted::conf(name, json!({}));
    let declared: Map<String, Value> =
        capabilities.into_iter().map(|capability| (capability.to_owned(), json!(true))).collect();
    delegate["capabilities"] = Value::Object(declared);
    delegate
}

/// What the delegate of this network got as `runtimeConfig` with its last ADD.
fn got(world: &World, network: &str) -> Value {
    let calls = scripted::calls(world);
    let add = calls.iter().rev().find(|call| call["command"] == "ADD" && call["stdin"]["name"] == network);
    add.expect("an ADD")["stdin"]["runtimeConfig"].clone()
}

/// One capability argument, as the runtime's own and, where an attachment can ask for it, as asked for by one.
fn comes_through(world: &World, name: &str, value: &Value, number: usize) -> Result<(), String> {
    let pod = Pod { id: format!("c{number}"), ..Pod::new(world, &format!("p{number}")) };
    let declared = || declaring("first", [name]);
    let second = || declaring("second", [name]);
    let mut outer = conf::catena(json!([declared(), second()]));
    outer["capabilities"] = json!({ name: true });
    outer["runtimeConfig"] = json!({ name: value });
    pod.add(&outer).result();
    if got(world, "first") != json!({ name: value }) {
        return Err(format!("the primary got {}", got(world, "first")));
    }
    if !got(world, "second").is_null() {
        return Err(format!("another than the primary got {}", got(world, "second")));
    }
    pod.del(&outer, None).done();
    if !["portMappings", "bandwidth"].contains(&name) {
        return Ok(());
    }
    let asking = json!({ "config": second(), name: value });
    let outer = conf::catena(json!([declared(), asking]));
    pod.add(&outer).result();
    let second_got = got(world, "second");
    pod.del(&outer, None).done();
    if second_got == json!({ name: value }) { Ok(()) } else { Err(format!("asked for, it got {second_got}")) }
}

#[test]
fn in_both_spellings() {
    let world = World::new();
    let mut score = Score::of("runtime-capabilities");
    let document = vectors::document("runtime-capabilities");
    let mut number = 0;
    for spelling in ["containerd", "conventions"] {
        for (name, value) in document[spelling].as_object().expect("capabilities") {
            number += 1;
            let id = format!("{spelling} {name}");
            score.add(&id, false, comes_through(&world, name, value, number));
        }
    }
    score.finish(0);
    assert_eq!(number, 10);
}
