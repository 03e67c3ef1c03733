//! `catenactl`: what people run beside the plugin. Nothing here is on the way of a pod.

mod cmd;
mod compile;
mod component;
mod error;
mod output;

use std::process::ExitCode;

use clap::Parser;

use cmd::Command;

/// Install, inspect and show what catena does.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, after_help = error::EXIT_CODES)]
struct Arguments {
    /// Print one JSON document instead of text for people
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command.run().and_then(|report| output::print(&report, arguments.json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("catenactl: {}", output::plain(&error.to_string()));
            ExitCode::from(error.exit_code())
        }
    }
}
