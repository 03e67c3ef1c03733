//! Answers with what no stage should. Its config says with what: `{"what": "json"}`.

use catena_sdk::{
    Arrange, Call, Candidate, Document, Error, Host, Intent, Module, Outcome, Stage, export_stage,
};
use serde::Deserialize;
use serde_json::json;

struct Nonsense;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    what: What,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    /// A result that is no JSON.
    #[default]
    Json,
    /// An address that names an interface which is not there.
    Index,
    /// An interface that is null.
    Null,
    /// A format that does not exist.
    Format,
    /// A format that is not that of the document.
    Mismatch,
    /// An address that no delegate gave.
    Address,
    /// A result of 2 MiB.
    Huge,
    /// An error with a code that is the host's.
    Code,
    /// An error text that would colour and clear a terminal.
    Escape,
    /// An error text of 1 MiB.
    Long,
    /// 1000 log lines of 10 KiB.
    Log,
    /// An arrangement with one intent too many; nothing in `stage`.
    Arrangement,
}

impl Module for Nonsense {
    type Config = Config;
}

impl Arrange for Nonsense {
    fn arrange(call: &Call<Config>, attachments: &[Candidate], _: &Host) -> Result<Vec<Intent>, Error> {
        let mut intents: Vec<Intent> = attachments.iter().map(|a| a.intent.clone()).collect();
        if call.config.what == What::Arrangement {
            intents.push(Intent::default());
        }
        Ok(intents)
    }
}

impl Stage for Nonsense {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        let result = |text: String| Outcome::changed(Document { format: "cni/1.1.0".into(), text });
        Ok(match call.config.what {
            What::Json => result("{\"cniVersion\": ".into()),
            What::Index => result(
                json!({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.5/24", "interface": 99}]})
                    .to_string(),
            ),
            What::Null => result(json!({"cniVersion": "1.1.0", "interfaces": [null]}).to_string()),
            What::Format => {
                Outcome::changed(Document { format: "cni/9.9.9".into(), text: document.text.clone() })
            }
            What::Mismatch => result(json!({"cniVersion": "0.2.0"}).to_string()),
            What::Address => {
                let mut value = document.value()?;
                value["ips"] = json!([{"address": "203.0.113.200/24"}]);
                result(value.to_string())
            }
            What::Huge => {
                let mut value = document.value()?;
                value["filler"] = "x".repeat(2 << 20).into();
                result(value.to_string())
            }
            What::Code => {
                return Err(Error::Failed { code: 11, message: "a code of the host".into(), details: None });
            }
            What::Escape => {
                return Err(Error::failed("\u{1b}[2J\u{1b}[31mall is well\u{1b}[0m\u{7}\r\n\u{202e}"));
            }
            What::Long => return Err(Error::failed("x".repeat(1 << 20))),
            What::Log => {
                for _ in 0..1000 {
                    host.log(catena_sdk::Level::Info, &"x".repeat(10 << 10));
                }
                Outcome::unchanged()
            }
            What::Arrangement => Outcome::unchanged(),
        })
    }
}

export_stage!(Nonsense: arrange, stage; wants = r#"{"result": ["routes"]}"#);
