//! The page about threats names a test for everything that it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Where the tests of a first word are, below the workspace.
fn folder(word: &str) -> Option<&'static str> {
    Some(match word {
        "it" => "tests/tests/it",
        "faults" => "tests/tests/faults",
        "runtimes" => "tests/runtimes/tests/it",
        "ctl" => "engine/ctl/tests/it",
        "node" => "engine/src",
        _ => return None,
    })
}

#[test]
fn every_named_test_exists() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let page = fs::read_to_string(workspace.join("engine/THREATS.md")).expect("engine/THREATS.md");
    let names: BTreeSet<&str> = page.split('`').filter(|word| word.contains("::")).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let words: Vec<&str> = name.split("::").collect();
        let (first, test) = (words[0], words[words.len() - 1]);
        let folder = folder(first).unwrap_or_else(|| panic!("{name}: no such tests"));
        let file = format!("{folder}/{}.rs", words[1..words.len() - 1].join("/"));
        let source =
            fs::read_to_string(workspace.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(
            source.contains(&format!("#[test]\nfn {test}()"))
                || source.contains(&format!("    #[test]\n    fn {test}()")),
            "{file} has no test {test}"
        );
    }
}
