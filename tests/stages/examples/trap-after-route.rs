//! Deletes the attachment's default routes of both families, one call each, then panics.

use catena_sdk::route::Family;
use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage, export_stage};
use serde_json::Value;

struct TrapAfterRoute;

impl Module for TrapAfterRoute {
    type Config = Value;
}

impl Stage for TrapAfterRoute {
    fn add(_: &Call<Value>, _: &Document, host: &Host) -> Result<Outcome, Error> {
        let mut deleted = 0;
        for family in Family::ALL {
            for route in host.default_routes(family)? {
                host.delete(&route)?;
                deleted += 1;
            }
        }
        panic!("{deleted} default routes deleted, and now this");
    }
}

export_stage!(TrapAfterRoute: stage);
