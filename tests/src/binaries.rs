//! The programs under test, as the environment names them.

use std::path::{Path, PathBuf};

/// `catena`, from `CATENA_BIN`.
pub fn catena() -> PathBuf {
    named("CATENA_BIN")
}

/// `catena` with points that panic on demand, from `CATENA_PANICS_BIN`.
pub fn panicking() -> PathBuf {
    named("CATENA_PANICS_BIN")
}

/// `catenactl`, from `CATENACTL_BIN`.
pub fn catenactl() -> PathBuf {
    named("CATENACTL_BIN")
}

/// The folder with the test stages (`*.wasm`), from `CATENA_TEST_STAGES`.
pub fn stages() -> PathBuf {
    named("CATENA_TEST_STAGES")
}

/// The folder with the reference CNI plugins, from `CATENA_CNI_PLUGINS`.
pub fn plugins() -> PathBuf {
    let folder = named("CATENA_CNI_PLUGINS");
    assert!(
        folder.join("ptp").is_file() && folder.join("bridge").is_file(),
        "CATENA_CNI_PLUGINS={}: no ptp and bridge in it; run: make setup",
        folder.display()
    );
    folder
}

/// The scripted delegate, which cargo builds beside the tests.
pub fn scripted() -> PathBuf {
    // The library is not told CARGO_BIN_EXE_*; the test binary lies in deps/, the program one folder up.
    let test = std::env::current_exe().expect("the test binary's own path");
    let program = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("scripted"))
        .find(|program| program.is_file());
    program.unwrap_or_else(|| {
        panic!("no scripted delegate beside {}; run: cargo build -p catena-tests", test.display())
    })
}

fn named(variable: &str) -> PathBuf {
    let value = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set; run the integration tests with: make test"));
    let path = Path::new(&value).to_path_buf();
    assert!(path.exists(), "{variable}={}: there is no such file; run: make test", path.display());
    path.canonicalize().unwrap_or_else(|error| panic!("{variable}={}: {error}", path.display()))
}
