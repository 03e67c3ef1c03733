//! Deletes the attachment's default routes of both families, one call each, then panics.

use catena_sdk::route::Family;
use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde_json::Value;

struct Trap;

impl Module for Trap {
    type Config = Value;
}

impl Stage for Trap {
    fn add(_: &Call<Value>, _: &Document, host: &Host) -> Result<Outcome, Error> {
        let mut deleted = 0;
        for family in Family::ALL {
            for route in host.default_routes(family)? {
                host.delete(&route)?;
                deleted += 1;
            }
        }
        panic!("trapped on purpose after {deleted} deleted default routes");
    }
}

export_stage!(Trap: stage);
