//! Imports an interface that no catena has.

use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde_json::Value;

struct UnknownImport;

impl Module for UnknownImport {
    type Config = Value;
}

#[cfg(target_family = "wasm")]
mod unknown {
    #![allow(unsafe_code, unreachable_pub, clippy::undocumented_unsafe_blocks, reason = "generated")]

    wit_bindgen::generate!({
        inline: "
            package example:unknown@1.0.0;
            interface thing { jump: func(to: string) -> bool; }
            world traveller { import thing; }
        ",
    });
}

#[cfg(target_family = "wasm")]
fn jump() -> bool {
    unknown::example::unknown::thing::jump("elsewhere")
}

#[cfg(not(target_family = "wasm"))]
fn jump() -> bool {
    false
}

impl Stage for UnknownImport {
    fn add(_: &Call<Value>, _: &Document, _: &Host) -> Result<Outcome, Error> {
        Ok(if jump() { Outcome::unchanged().tag("elsewhere") } else { Outcome::unchanged() })
    }
}

export_stage!(UnknownImport: stage);
