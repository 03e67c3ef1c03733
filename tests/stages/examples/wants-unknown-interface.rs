//! Imports an interface that no catena has.

use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde_json::Value;

struct WantsUnknownInterface;

impl Module for WantsUnknownInterface {
    type Config = Value;
}

#[cfg(target_family = "wasm")]
mod unknown {
    #![allow(unsafe_code, unreachable_pub, clippy::undocumented_unsafe_blocks, reason = "generated")]

    wit_bindgen::generate!({
        inline: "
            package test:unknown@0.1.0;
            interface teleport { jump: func(to: string) -> bool; }
            world traveller { import teleport; }
        ",
    });
}

#[cfg(target_family = "wasm")]
fn jump() -> bool {
    unknown::test::unknown::teleport::jump("elsewhere")
}

#[cfg(not(target_family = "wasm"))]
fn jump() -> bool {
    false
}

impl Stage for WantsUnknownInterface {
    fn add(_: &Call<Value>, _: &Document, _: &Host) -> Result<Outcome, Error> {
        Ok(if jump() { Outcome::unchanged().tag("elsewhere") } else { Outcome::unchanged() })
    }
}

export_stage!(WantsUnknownInterface: stage);
