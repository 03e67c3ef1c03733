//! The contract with modules that are out there: a version that was released never changes.

use std::path::{Path, PathBuf};

use catena::node::Digest;

/// Each version's folder and the digest of its files. A new version gets a line of its own; no line ever changes.
const VERSIONS: [(&str, &str); 1] =
    [("0.1.0", "sha256:db80022094fb9e5ae525ebf5212a283c37f9de207bd33da126bc243b410aaada")];

fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
}

/// Of the names and texts of a folder's files, in the order of their names.
fn digest(folder: &Path) -> Digest {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        all.extend(format!("{name} {}\n", text.len()).bytes());
        all.extend(text);
    }
    Digest::of(&all)
}

#[test]
fn a_released_version_is_as_it_was() {
    for (version, frozen) in VERSIONS {
        let found = digest(&wit().join(version));
        assert_eq!(
            found.as_str(),
            frozen,
            "wit/{version} was changed; modules are built against it, so put it back, and make a new version of what \
             has to be new (see sdk/COMPATIBILITY.md)"
        );
    }
    let folders =
        std::fs::read_dir(wit()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut folders: Vec<String> = folders.collect();
    folders.sort();
    assert_eq!(
        folders,
        VERSIONS.map(|(version, _)| version),
        "each version of the contract has its digest here"
    );
}
