//! What catena costs: `catena-bench calls` measures whole calls beside the delegates alone and an empty process,
//! `catena-bench growth` how each cost grows. `make bench` and `make bench-growth` run them.

mod budget;
mod calls;
mod case;
mod growth;
mod instructions;
mod place;
mod process;
mod stats;
mod trace;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::sys::signal::{Signal, raise};
use serde_json::{Value, json};

use calls::Plan;
use case::{Case, Subject};
use place::Place;

const USAGE: &str =
    "usage: catena-bench calls|growth|instructions|once [--rounds N] [--dir FOLDER] [--json FILE]
  calls    ADD, CHECK, DEL, STATUS and VERSION, in turns with the delegates alone and an empty process
  growth   how the costs grow with attachments, routes, results and recorded state
  instructions
           compare the instructions of each command with their bounds
  once     one ADD and DEL, prefixed by the command line in CATENA_BENCH_UNDER (a profiler)
CATENA_BIN names catena, CATENA_CNI_PLUGINS the folder of the reference plugins, CATENA_BENCH_OTHER another
meta-plugin, which gets the same configs with its file name as their type.";

/// What was asked for on the command line.
#[derive(Debug)]
struct Options {
    rounds: usize,
    folder: PathBuf,
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let word = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let outcome = match word.as_str() {
        trace::STOP => Err(stop_then_exec(&rest)),
        "calls" | "growth" | "instructions" | "once" => place::enter().and_then(|()| run(&word, &rest)),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("catena-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Lets a tracer take hold before the program starts.
fn stop_then_exec(args: &[String]) -> String {
    let Some((program, args)) = args.split_first() else { return USAGE.to_owned() };
    if let Err(errno) = raise(Signal::SIGSTOP) {
        return format!("raise: {errno}");
    }
    format!("{program}: {}", Command::new(program).args(args).exec())
}

fn run(word: &str, args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let place = Place::new(&options.folder)?;
    let catena = named("CATENA_BIN")?;
    let own = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let beside = |name: &str| own.with_file_name(name);
    for name in ["instant", "linked"] {
        place.install(&beside("bench-delegate"), name)?;
    }
    let plugins = named("CATENA_CNI_PLUGINS")?;
    for name in ["ptp", "bridge", "host-local"] {
        place.install(&plugins.join(name), name)?;
    }
    let meta = |program: &Path| -> Result<Subject, String> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Subject::Meta { program: place.install(program, &name)?, name })
    };
    let mut metas = vec![meta(&catena)?];
    if std::env::var_os("CATENA_BENCH_OTHER").is_some() {
        metas.push(meta(&named("CATENA_BENCH_OTHER")?)?);
    }
    let began = load();
    let mut report = match word {
        "once" => return once(&place, &metas),
        "instructions" => return instructions::check(&place, &metas),
        "growth" => growth::measure(&place, &metas, options.rounds)?,
        _ => {
            let mut cases = Vec::new();
            for count in [1, 2, 4, 8] {
                cases.push(Case::canned(&place, count, false, 0)?);
            }
            cases.push(Case::canned(&place, 1, true, 0)?);
            cases.push(Case::canned(&place, 2, true, 0)?);
            cases.push(Case::moved(&place)?);
            cases.push(Case::reference(&place, &["ptp"], false));
            cases.push(Case::reference(&place, &["bridge"], false));
            cases.push(Case::reference(&place, &["ptp", "bridge"], true));
            let plan = Plan { cases, metas, empty: beside("bench-empty"), rounds: options.rounds };
            let measured = calls::measure(&place, &plan)?;
            print!("{}", measured.table());
            let size = fs::metadata(&catena).map_err(|error| format!("{}: {error}", catena.display()))?.len();
            let verdicts = budget::verdicts(&measured, size);
            println!();
            for verdict in &verdicts {
                println!("{}", verdict.line());
            }
            let notes = [budget::route_note(&measured), budget::speed_note(&measured)];
            for note in notes.into_iter().flatten() {
                println!("{note}");
            }
            json!({
                "calls": measured.to_value(),
                "budgets": verdicts.iter().map(budget::Verdict::to_value).collect::<Vec<_>>(),
            })
        }
    };
    let ended = load();
    println!("\n{} rounds; load average {began} before, {ended} after", options.rounds);
    report["rounds"] = json!(options.rounds);
    report["load"] = json!([began, ended]);
    if let Some(file) = options.json {
        write(&file, &report)?;
        println!("also in {}", file.display());
    }
    Ok(())
}

/// One ADD and DEL around a canned delegate, for a profiler.
fn once(place: &Place, metas: &[Subject]) -> Result<(), String> {
    let case = Case::canned(place, 1, false, 0)?;
    let under: Vec<String> = std::env::var("CATENA_BENCH_UNDER")
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let Some(subject) = metas.first() else { return Ok(()) };
    calls::life(place, &case, subject, &mut |command, specs, results| {
        for spec in specs {
            let mut spec = spec.clone();
            if let (Some((profiler, args)), "ADD") = (under.split_first(), command) {
                let program = spec.program.display().to_string();
                spec.program = PathBuf::from(profiler);
                spec.args = args.iter().cloned().chain([program]).collect();
            }
            let cost = place.runner.run(&spec)?;
            println!("{command}: {} ms", stats::ms(cost.wall));
            results.push(place.runner.output());
        }
        Ok(())
    })
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options { rounds: 100, folder: PathBuf::from("target/bench/place"), json: None };
    let mut args = args.iter();
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option} needs a value\n{USAGE}"))?;
        match option.as_str() {
            "--rounds" => {
                options.rounds = value.parse().map_err(|error| format!("--rounds {value}: {error}"))?;
            }
            "--dir" => options.folder = PathBuf::from(value),
            "--json" => options.json = Some(PathBuf::from(value)),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

fn named(variable: &str) -> Result<PathBuf, String> {
    let value = std::env::var_os(variable).ok_or_else(|| format!("{variable} is not set\n{USAGE}"))?;
    fs::canonicalize(&value).map_err(|error| format!("{variable}={}: {error}", value.display()))
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn write(file: &Path, report: &Value) -> Result<(), String> {
    let at = |error: std::io::Error| format!("{}: {error}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(at)?;
    }
    fs::write(file, format!("{report:#}\n")).map_err(at)
}
