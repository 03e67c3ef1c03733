mod inspect;
mod install;
mod show;

use clap::Subcommand;

use crate::error::Error;
use crate::output::Report;

/// One verb each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Install(install::Install),
    Inspect(inspect::Inspect),
    Show(show::Show),
}

impl Command {
    pub(crate) fn run(self) -> Result<Report, Error> {
        match self {
            Self::Install(install) => install.run(),
            Self::Inspect(inspect) => inspect.run(),
            Self::Show(show) => show.run(),
        }
    }
}
