//! Hands out a text that would clear and colour a terminal, wherever a module can hand out one. Its config says where:
//! `{"where": "denied"}`.

use catena_sdk::route::{Family, Hop, Prefix, Route};
use catena_sdk::{
    Admit, Call, Document, Error, Host, Level, Module, Outcome, Problem, Settings, Stage, Verdict,
    export_stage,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Escape sequences, a bell, line ends, a C1 control and a character that turns the line round.
const TEXT: &str = "\u{1b}[2J\u{1b}[31mall is well\u{1b}[0m\u{7}\r\n\u{9b}1m\u{202e}";

struct Escapes;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    r#where: Where,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Where {
    Denied,
    Config,
    Result,
    Later,
    Failed,
    Panic,
    Log,
    /// The value of a publication.
    Publication,
    /// The key of a publication.
    Key,
    Tag,
    /// Why a failed call is accepted.
    Reason,
    /// A member of the result.
    Member,
    /// The name of a link.
    Link,
    /// A config that `admit` rewrites.
    Rewrite,
    /// What `settings` finds.
    Settings,
}

impl Module for Escapes {
    type Config = Config;
}

impl Admit for Escapes {
    fn admit(call: &Call<Config>, config: &Value, _: &Host) -> Result<Verdict, Error> {
        if call.config.r#where != Where::Rewrite {
            return Ok(Verdict::Allow);
        }
        let mut config = config.clone();
        config["plugins"][0]["script"]["ADD"]["result"]["dns"] = json!({"domain": TEXT});
        Ok(Verdict::Rewrite(config))
    }
}

fn route(link: &str) -> Route {
    Route::new(Prefix::default_route(Family::V4), vec![Hop::new(link, Some([203, 0, 113, 99].into()))])
}

impl Stage for Escapes {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        let unchanged = Outcome::unchanged();
        Ok(match call.config.r#where {
            Where::Denied => return Err(Error::Denied(TEXT.into())),
            Where::Config => return Err(Error::InvalidConfig(TEXT.into())),
            Where::Result => return Err(Error::InvalidResult(TEXT.into())),
            Where::Later => return Err(Error::TryLater(TEXT.into())),
            Where::Failed => {
                return Err(Error::Failed { code: 300, message: TEXT.into(), details: Some(TEXT.into()) });
            }
            Where::Panic => panic!("{TEXT}"),
            Where::Log => {
                for level in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
                    host.log(level, TEXT);
                }
                unchanged
            }
            Where::Publication => unchanged.publish("example.com/x", &json!({TEXT: TEXT})),
            Where::Key => unchanged.publish(TEXT, &json!(1)),
            Where::Tag => unchanged.tag(TEXT),
            Where::Reason => match host.add(&route(&call.ifname)) {
                Err(error) => unchanged.tolerate(&error, TEXT),
                Ok(_) => return Err(Error::failed("the gateway is out of reach, but the route was made")),
            },
            Where::Member => {
                let mut value = document.value()?;
                value["dns"] = json!({"domain": TEXT});
                Outcome::changed(Document { format: document.format.clone(), text: value.to_string() })
            }
            Where::Link => {
                host.add(&route(TEXT))?;
                unchanged
            }
            Where::Rewrite | Where::Settings => unchanged,
        })
    }
}

impl Settings for Escapes {
    fn validate(config: &Config) -> Vec<Problem> {
        let wrong = config.r#where == Where::Settings;
        wrong.then(|| Problem { path: format!("/{TEXT}"), message: TEXT.into() }).into_iter().collect()
    }
}

export_stage!(Escapes: admit, stage, settings; wants = r#"{
    "publish": ["example.com/x"], "result": ["dns"], "config": ["/plugins/0/script/ADD/result/dns"]
}"#);
