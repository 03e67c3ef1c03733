//! Every verb, used wrongly.

use serde_json::Value;

use crate::stage::Node;

/// The verbs that `--help` lists.
fn verbs(node: &Node) -> Vec<String> {
    let help = String::from_utf8(node.ctl(&["--help"]).stdout).unwrap();
    let (_, list) = help.split_once("Commands:\n").unwrap_or_else(|| panic!("{help}"));
    let lines = list.lines().take_while(|line| !line.is_empty());
    let words = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    words.filter(|word| !word.is_empty() && *word != "help").map(str::to_owned).collect()
}

#[test]
fn programs_are_told_of_wrong_usage() {
    let node = Node::new();
    let verbs = verbs(&node);
    assert!(verbs.len() > 15, "{verbs:?}");
    for verb in &verbs {
        for args in
            [&[verb.as_str(), "--json", "--no-such-option"][..], &["--json", verb, "--no-such-option"]]
        {
            let output = node.ctl(args);
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains("--no-such-option"), "{args:?}: {said}");
            let document: Value =
                serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"));
            assert!(
                document["error"].as_str().is_some_and(|text| text.contains("--no-such-option")),
                "{document}"
            );
        }
        let output = node.ctl(&[verb, "--no-such-option"]);
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{verb}: text is for people");
    }
    let output = node.ctl(&["--json"]);
    assert_eq!(output.status.code(), Some(2), "no verb at all");
    let help = node.ctl(&["list", "--help", "--json"]);
    assert!(help.status.success() && help.stdout.starts_with(b"List the modules"), "help is for people");
}
