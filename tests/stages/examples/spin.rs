//! Never comes back.

use std::hint::black_box;

use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde_json::Value;

struct Spin;

impl Module for Spin {
    type Config = Value;
}

impl Stage for Spin {
    fn add(_: &Call<Value>, _: &Document, _: &Host) -> Result<Outcome, Error> {
        let mut turns: u64 = 0;
        loop {
            turns = black_box(turns.wrapping_add(1));
        }
    }
}

export_stage!(Spin: stage);
