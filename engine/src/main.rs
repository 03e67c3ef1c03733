//! The CNI plugin `catena`: see the library for how it works.

use std::process::ExitCode;

fn main() -> ExitCode {
    catena::call::run()
}
