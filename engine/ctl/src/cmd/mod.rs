mod bench;
mod build;
mod check;
mod completions;
mod forget;
mod gc;
mod inspect;
pub(crate) mod install;
mod list;
mod new;
mod recompile;
mod replay;
mod rollback;
mod run;
mod show;
mod why;

use clap::Subcommand;

use crate::error::Error;
use crate::output::Report;

/// One verb each, in the order of a module's life.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    New(new::New),
    Build(build::Build),
    Inspect(inspect::Inspect),
    Run(run::Run),
    Replay(replay::Replay),
    Bench(bench::Bench),
    Check(check::Check),
    Install(install::Install),
    Rollback(rollback::Rollback),
    List(list::List),
    Recompile(recompile::Recompile),
    Gc(gc::Gc),
    Show(show::Show),
    Why(why::Why),
    Forget(forget::Forget),
    Completions(completions::Completions),
}

impl Command {
    pub(crate) fn run(self) -> Result<Report, Error> {
        match self {
            Self::New(new) => new.run(),
            Self::Build(build) => build.run(),
            Self::Inspect(inspect) => inspect.run(),
            Self::Run(run) => run.run(),
            Self::Replay(replay) => replay.run(),
            Self::Bench(bench) => bench.run(),
            Self::Check(check) => check.run(),
            Self::Install(install) => install.run(),
            Self::Rollback(rollback) => rollback.run(),
            Self::List(list) => list.run(),
            Self::Recompile(recompile) => recompile.run(),
            Self::Gc(gc) => gc.run(),
            Self::Show(show) => show.run(),
            Self::Why(why) => why.run(),
            Self::Forget(forget) => forget.run(),
            Self::Completions(completions) => completions.run(),
        }
    }
}
