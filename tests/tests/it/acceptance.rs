//! The rules that answers are checked by, against what containerd really made of results
//! (tests/vectors/containerd-acceptance.json).

use catena_tests::acceptance::eth0_addresses;
use catena_tests::score::Score;
use catena_tests::vectors;
use serde_json::json;

/// Results that containerd crashes on or takes for an address `<nil>`: the rule here is stricter. Id, and what is said.
const DIFFERENT: [(&str, &str); 5] = [
    (
        "oob-len",
        "cannot use the CNI result: ips[0].interface is 1, which names none of its 1 interfaces, counted from 0",
    ),
    (
        "neg",
        "cannot use the CNI result: ips[0].interface is -1, which names none of its 1 interfaces, counted from 0",
    ),
    (
        "idx0-noifaces",
        "cannot use the CNI result: ips[0].interface is 0, which names none of its 0 interfaces, counted from 0",
    ),
    ("nulliface", "cannot read the CNI result: interfaces[0] is null"),
    ("addrmissing", "cannot read the CNI result: ips[0].address is missing"),
];

#[test]
fn the_rule_for_containerd_is_containerds() {
    let mut score = Score::of("containerd-acceptance");
    for case in vectors::cases("containerd-acceptance") {
        let id = case["id"].as_str().expect("an id");
        let ours = DIFFERENT.iter().find(|(different, _)| *different == id);
        let outcome = match (eth0_addresses(&case["result"]), ours) {
            (Err(error), Some((_, words))) if error.to_string() == *words => Ok(()),
            (Ok(addresses), None) if case["expect"] == "ok" => {
                let accepted = !addresses.is_empty();
                let same = case["accepted"] == accepted && case["eth0_ips"] == json!(addresses);
                if same { Ok(()) } else { Err(format!("{addresses:?} instead of {}", case["eth0_ips"])) }
            }
            (Err(_), None) if case["expect"] == "error" => Ok(()),
            (outcome, _) => Err(format!("{outcome:?}; the vector: {case}")),
        };
        score.add(id, ours.is_some(), outcome);
    }
    score.finish();
}
