//! `catenactl`: what people run beside the plugin. Nothing here is on the way of a pod.

mod cmd;
mod compile;
mod component;
mod diff;
mod entries;
mod error;
mod fixture;
#[path = "../../build/key.rs"]
mod key;
mod namespace;
mod output;
mod problem;
mod project;
mod record;
mod sdk;
#[path = "../../build/mod.rs"]
#[allow(dead_code, reason = "each program that builds stages uses a part of it")]
mod stages;
mod store;
mod template;
mod trial;

use std::process::ExitCode;

use clap::Parser;

use cmd::Command;

/// Make, build, try, install and look after catena's stages, and show what catena did
#[derive(Debug, Parser)]
#[command(name = "catenactl", version, propagate_version = true, after_help = error::EXIT_CODES)]
struct Arguments {
    /// Print one JSON document instead of text for people
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(wrong) => return misused(&wrong),
    };
    let report = arguments.command.run();
    match report.and_then(|report| output::print(&report, arguments.json).map(|()| report.exit)) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            output::complain(&error, arguments.json);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Answers what could not be understood, and `--help`. Which options there are is not known then, so `--json` counts
/// wherever it stands.
fn misused(wrong: &clap::Error) -> ExitCode {
    // Who does not read it has the exit status.
    let _ = wrong.print();
    if wrong.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        output::error_document(wrong.to_string().trim_end());
    }
    ExitCode::from(u8::try_from(wrong.exit_code()).unwrap_or(2))
}
