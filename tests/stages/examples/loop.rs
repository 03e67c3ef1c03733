//! Never comes back.

use std::hint::black_box;

use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde_json::Value;

struct Loop;

impl Module for Loop {
    type Config = Value;
}

impl Stage for Loop {
    fn add(_: &Call<Value>, _: &Document, _: &Host) -> Result<Outcome, Error> {
        let mut turns: u64 = 0;
        loop {
            turns = black_box(turns.wrapping_add(1));
        }
    }
}

export_stage!(Loop: stage);
