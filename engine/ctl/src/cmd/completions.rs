use clap::CommandFactory as _;
use clap_complete::{Generator as _, Shell};
use serde_json::json;

use crate::error::Error;
use crate::output::Report;

/// Print a shell's completions: eval "$(catenactl completions bash)"
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let mut command = crate::Arguments::command();
        command.set_bin_name("catenactl");
        command.build();
        let mut script = Vec::new();
        self.shell.try_generate(&command, &mut script).map_err(Error::Output)?;
        // A script has tabs, which a line for people must not have.
        let text = String::from_utf8_lossy(&script).replace('\t', "    ");
        let json = json!({ "shell": self.shell.to_string(), "script": text });
        Ok(Report::new(text, json))
    }
}
