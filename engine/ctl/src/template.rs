//! The projects that `catenactl new` makes: the examples of the SDK, under another name.

use clap::ValueEnum;

/// The language of a new project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lang {
    Rust,
    Python,
    Js,
}

/// The name in the examples.
const NAME: &str = "deny-network";
/// What the Rust example says because it cannot panic. The author's stage may, and shall say where.
const MUTE: &str =
    "    // What cannot panic needs no log, and so no grant at all.\n    const LOG_PANICS: bool = false;\n";

macro_rules! example {
    ($folder:literal: $($file:literal),+) => {
        &[$(($file, include_str!(concat!("../../../sdk/examples/", $folder, "/", $file)))),+]
    };
}

static RUST: &[(&str, &str)] =
    example!("deny-network": "src/lib.rs", "fixtures/denied.json", "fixtures/allowed.json");
static PYTHON: &[(&str, &str)] = example!("deny-network-python":
    ".gitignore", "catena.json", "policy.py", "stage.py", "test_policy.py", "requirements.txt", "wit/world.wit",
    "fixtures/denied.json", "fixtures/allowed.json");
static JS: &[(&str, &str)] = example!("deny-network-js":
    ".gitignore", "catena.json", "policy.js", "stage.js", "policy.test.js", "package.json", "wit/world.wit",
    "fixtures/denied.json", "fixtures/allowed.json");

const CARGO: &str = include_str!("../templates/Cargo.toml");
const README: &str = include_str!("../templates/README.md");

impl Lang {
    /// The spelling on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Lang::Rust => "rust",
            Lang::Python => "python",
            Lang::Js => "js",
        }
    }

    /// What makes its tools ready, in the project's folder.
    pub(crate) fn set_up(self) -> Option<&'static str> {
        match self {
            Lang::Rust => None,
            Lang::Python => Some("python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"),
            Lang::Js => Some("npm install"),
        }
    }

    fn test(self) -> &'static str {
        match self {
            Lang::Rust => {
                "cargo test                                             # no root and no wasm needed"
            }
            Lang::Python => {
                "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt   # once\npython3 -m unittest"
            }
            Lang::Js => "npm install                                            # once\nnpm test",
        }
    }

    /// The options of install that the project needs as it is.
    fn grants(self) -> &'static str {
        match self {
            Lang::Rust => " --grant log=true",
            Lang::Python | Lang::Js => "",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Lang::Rust => "The stage is in `src/lib.rs`. `catena/` is the SDK, as this catenactl brought it.",
            _ => {
                "The policy is in a file of its own, which needs nothing of catena to be tested. `wit/world.wit` says \
                 what the module exports; a capability (`import catena:stage/routes@0.1.0;`) goes there too."
            }
        }
    }
}

/// The files of a project: path and text.
pub(crate) fn files(lang: Lang, name: &str, sdk: &str) -> Vec<(&'static str, String)> {
    let example = match lang {
        Lang::Rust => RUST,
        Lang::Python => PYTHON,
        Lang::Js => JS,
    };
    let own = |text: &str| text.replace(MUTE, "").replace(NAME, name);
    let mut files: Vec<(&str, String)> = example.iter().map(|(path, text)| (*path, own(text))).collect();
    if lang == Lang::Rust {
        files.push(("Cargo.toml", CARGO.replace(NAME, name).replace("@SDK@", sdk)));
        files.push((".gitignore", "/target/\n/*.wasm\n".to_owned()));
    }
    let readme = README.replace("@TEST@", lang.test()).replace("@FILES@", lang.about());
    let readme = readme.replace("@GRANTS@", lang.grants());
    files.push(("README.md", readme.replace(NAME, name)));
    files
}
