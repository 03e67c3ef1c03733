//! Works on DEL, where its config says how it misbehaves: `{"del": "trap"}`, or `spin`, `deny` or `memory`. Without one it
//! does nothing there.

use std::hint::black_box;

use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde::Deserialize;

struct BadDel;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    del: Option<Way>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    Trap,
    Spin,
    Deny,
    Memory,
}

impl Module for BadDel {
    type Config = Config;
}

impl Stage for BadDel {
    fn add(_: &Call<Config>, _: &Document, _: &Host) -> Result<Outcome, Error> {
        Ok(Outcome::unchanged())
    }

    fn del(call: &Call<Config>, _: &Document, _: &Host) -> Result<(), Error> {
        match call.config.del {
            None => Ok(()),
            Some(Way::Trap) => panic!("trapped on purpose"),
            Some(Way::Spin) => {
                let mut turns: u64 = 0;
                loop {
                    turns = black_box(turns.wrapping_add(1));
                }
            }
            Some(Way::Deny) => Err(Error::Denied("nobody leaves".into())),
            Some(Way::Memory) => {
                let mut taken: Vec<Vec<u8>> = Vec::new();
                loop {
                    taken.push(black_box(Vec::with_capacity(1 << 20)));
                }
            }
        }
    }
}

export_stage!(BadDel: stage);
