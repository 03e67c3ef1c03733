use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Call, Candidate, Document, Error, Host, Intent, Outcome, Problem, Verdict};

/// What all of a module's exports share: the type of its configuration, which is the `config` of its pipeline
/// entry. `#[serde(deny_unknown_fields)]` makes a misspelt key an error that names it.
pub trait Module {
    type Config: DeserializeOwned;

    /// A panic ends a module as a trap, which has no text. So file, line and message are logged before, which
    /// makes `log` one of the module's imports even where its code logs nothing. `false` for a module that must
    /// not import it; its panics are traps without a reason.
    const LOG_PANICS: bool = true;
}

/// Decides, once per ADD and before anything runs, who owns the default routes.
pub trait Arrange: Module {
    /// One intent for each attachment, in their order. Unless written, what the stages before have decided stays.
    fn arrange(
        _call: &Call<Self::Config>,
        attachments: &[Candidate],
        _host: &Host,
    ) -> Result<Vec<Intent>, Error> {
        Ok(attachments.iter().map(|attachment| attachment.intent.clone()).collect())
    }
}

/// Asked for every attachment before the first delegate runs.
pub trait Admit: Module {
    /// `config` is the attachment's CNI config: always a list (`plugins`), with a single config as its only plugin; in
    /// chained mode catena's own config with its `prevResult`, which cannot be rewritten. Unless written, everything is
    /// allowed.
    fn admit(_call: &Call<Self::Config>, _config: &Value, _host: &Host) -> Result<Verdict, Error> {
        Ok(Verdict::Allow)
    }
}

/// Works on an attachment's result.
pub trait Stage: Module {
    /// After the attachment's delegate made `result`. Unless written, nothing is changed: a stage may only check.
    ///
    /// The attachments before this one are done. Links and routes of later ones may be there already: with
    /// `"parallel": true` in catena's config all secondaries' delegates have run before the first secondary's stages.
    fn add(_call: &Call<Self::Config>, _result: &Document, _host: &Host) -> Result<Outcome, Error> {
        Ok(Outcome::unchanged())
    }

    /// After the delegate's own CHECK; `result` is the recorded one. Read only.
    fn check(_call: &Call<Self::Config>, _result: &Document, _host: &Host) -> Result<(), Error> {
        Ok(())
    }

    /// Before the delegate's DEL. Read only and advisory: an error is logged and stops nothing.
    fn del(_call: &Call<Self::Config>, _result: &Document, _host: &Host) -> Result<(), Error> {
        Ok(())
    }
}

/// Judges the module's own configuration without doing anything.
pub trait Settings: Module {
    /// Faults that the type of the configuration cannot express. That it can be read at all has been seen to.
    fn validate(_config: &Self::Config) -> Vec<Problem> {
        Vec::new()
    }
}
