//! Denies with what it was told, where its config says: `{"in": "arrange"}`, or `admit`, `add` or `check`.

use catena_sdk::{
    Admit, Arrange, Call, Candidate, Document, Error, Host, Intent, Module, Outcome, Stage, Verdict,
    export_stage,
};
use serde::Deserialize;
use serde_json::{Value, json};

struct Told;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    r#in: String,
}

impl Module for Told {
    type Config = Config;
    const LOG_PANICS: bool = false;
}

fn deny(call: &Call<Config>, place: &str, more: Value) -> Result<(), Error> {
    if call.config.r#in != place {
        return Ok(());
    }
    Err(Error::Denied(json!({"context": call.context.all, "more": more}).to_string()))
}

impl Arrange for Told {
    fn arrange(call: &Call<Config>, attachments: &[Candidate], _: &Host) -> Result<Vec<Intent>, Error> {
        let all = attachments.iter().map(|attachment| Value::Object(attachment.all.clone()));
        deny(call, "arrange", all.collect())?;
        Ok(attachments.iter().map(|attachment| attachment.intent.clone()).collect())
    }
}

impl Admit for Told {
    fn admit(call: &Call<Config>, config: &Value, _: &Host) -> Result<Verdict, Error> {
        deny(call, "admit", config.clone())?;
        Ok(Verdict::Allow)
    }
}

impl Stage for Told {
    fn add(call: &Call<Config>, document: &Document, _: &Host) -> Result<Outcome, Error> {
        deny(call, "add", json!(document.format))?;
        Ok(Outcome::unchanged())
    }

    fn check(call: &Call<Config>, document: &Document, _: &Host) -> Result<(), Error> {
        deny(call, "check", json!(document.format))
    }
}

export_stage!(Told: arrange, admit, stage);
