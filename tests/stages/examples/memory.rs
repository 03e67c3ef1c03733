//! Takes memory until there is none.

use std::hint::black_box;

use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde_json::Value;

struct Memory;

impl Module for Memory {
    type Config = Value;
}

impl Stage for Memory {
    fn add(_: &Call<Value>, _: &Document, _: &Host) -> Result<Outcome, Error> {
        let mut taken: Vec<Vec<u8>> = Vec::new();
        loop {
            taken.push(black_box(Vec::with_capacity(1 << 20)));
        }
    }
}

export_stage!(Memory: stage);
