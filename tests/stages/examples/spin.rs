//! Never comes back: from `stage`, or, with `"at": "settings"`, from judging its config.

use std::hint::black_box;

use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Problem, Settings, Stage, export_stage};
use serde_json::Value;

struct Spin;

impl Module for Spin {
    type Config = Value;
}

fn spin() -> ! {
    let mut turns: u64 = 0;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

impl Stage for Spin {
    fn add(_: &Call<Value>, _: &Document, _: &Host) -> Result<Outcome, Error> {
        spin()
    }
}

impl Settings for Spin {
    fn validate(config: &Value) -> Vec<Problem> {
        if config["at"] == "settings" { spin() } else { Vec::new() }
    }
}

export_stage!(Spin: stage, settings);
