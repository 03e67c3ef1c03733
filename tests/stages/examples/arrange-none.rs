//! Stands in for `default-gateway` and decides differently: an attachment that asks for nothing gets no IPv4
//! default route.

use catena_sdk::route::{Change, Family};
use catena_sdk::{
    Action, Arrange, Call, Candidate, Document, Error, Host, Intent, Module, Outcome, Stage, export_stage,
};
use serde_json::Value;

struct ArrangeNone;

impl Module for ArrangeNone {
    type Config = Value;
}

impl Arrange for ArrangeNone {
    fn arrange(_: &Call<Value>, attachments: &[Candidate], _: &Host) -> Result<Vec<Intent>, Error> {
        let decide = |attachment: &Candidate| {
            let asks = attachment.request.default_route.is_some();
            Intent { ipv4: if asks { Action::Leave } else { Action::Filter }, ipv6: Action::Leave }
        };
        Ok(attachments.iter().map(decide).collect())
    }
}

impl Stage for ArrangeNone {
    fn add(call: &Call<Value>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        if call.context.intent.ipv4 != Action::Filter {
            return Ok(Outcome::unchanged());
        }
        let changes: Vec<Change> = host.default_routes(Family::V4)?.into_iter().map(Change::Delete).collect();
        if !changes.is_empty() {
            host.apply(&changes)?;
        }
        let mut result = document.result()?;
        result.routes.retain(|route| !(route.dst.is_default() && route.dst.is_ipv4()));
        Ok(Outcome::changed(Document::from_result(&result)?))
    }
}

// A name that an author is likely to choose.
const WANTS: &str = r#"{"result": ["routes"]}"#;

export_stage!(ArrangeNone: arrange, stage; wants = WANTS);
