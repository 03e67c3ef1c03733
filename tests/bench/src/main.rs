//! What catena costs: `catena-bench calls` measures whole calls beside the delegates alone and an empty process,
//! `catena-bench routes` a swap of default routes in process, `catena-bench growth` how each cost grows, `catena-bench
//! timeline` where an ADD's time goes. `make bench`, `make cost`, `make bench-growth` and `make bench-timeline` run them.

mod budget;
mod calls;
mod case;
mod growth;
mod instructions;
mod measured;
mod module;
mod place;
mod process;
mod routes;
mod series;
mod stats;
mod subject;
mod timeline;
mod trace;
mod verdict;

use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::sys::signal::{Signal, raise};
use serde_json::{Value, json};

use calls::Plan;
use case::Case;
use place::Place;
use routes::Swaps;
use subject::{Meta, Subject};
use verdict::Verdict;

const USAGE: &str =
    "usage: catena-bench calls|routes|growth|timeline|instructions|once [--rounds N] [--dir FOLDER] [--json FILE]
  calls    ADD, CHECK, DEL, STATUS and VERSION, in turns with the delegates alone and an empty process, and a swap of
           the default routes in process, with the budgets
  routes   that swap beside 10 to 100,000 other routes
  growth   how the costs grow with attachments, routes, results and recorded state
  timeline when an ADD gets where; CATENA_BIN has to be built with the feature timeline
  instructions
           compare the instructions of each command with their bounds
  once     one ADD and DEL, prefixed by the command line in CATENA_BENCH_UNDER (a profiler)
CATENA_BIN names catena, CATENA_CNI_PLUGINS the folder of the reference plugins. For calls, CATENACTL_BIN names catenactl
(or it lies beside catena), CATENA_TEST_STAGES the folder of the test stages, and CATENA_BENCH_OTHER another
meta-plugin, which gets the same configs with its own type; what it cannot do is n/a.
A budget that is exceeded is told and no failure: times are for a reader who knows what else the machine did. What cannot
be measured is a failure, and so is an instruction count above its bound.";

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
        "calls" | "routes" | "growth" | "timeline" | "instructions" | "once" => {
            place::enter().and_then(|()| run(&word, &rest))
        }
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
    let began = load();
    let mut report = match word {
        "routes" => swaps(&options)?,
        _ => {
            let place = Place::new(&options.folder)?;
            let catena = prepare(&place)?;
            match word {
                "once" => return once(&place, &catena),
                "instructions" => return instructions::check(&place, &catena),
                "growth" => growth::measure(&place, &catena, options.rounds)?,
                "timeline" => {
                    let timeline =
                        timeline::measure(&place, &catena, beside("bench-empty")?, options.rounds)?;
                    println!("{}", timeline.table());
                    timeline.to_value()
                }
                _ => calls(&place, catena, options.rounds)?,
            }
        }
    };
    let ended = load();
    println!("{} rounds; load average {began} before, {ended} after", options.rounds);
    report["rounds"] = json!(options.rounds);
    report["load"] = json!([began, ended]);
    if let Some(file) = &options.json {
        write(file, &report)?;
        println!("also in {}", file.display());
    }
    Ok(())
}

/// Puts the programs where runtimes have them; returns the one under test.
fn prepare(place: &Place) -> Result<Meta, String> {
    for name in ["instant", "linked"] {
        place.install(&beside("bench-delegate")?, name)?;
    }
    let plugins = named("CATENA_CNI_PLUGINS")?;
    for name in ["ptp", "bridge", "host-local"] {
        place.install(&plugins.join(name), name)?;
    }
    Meta::catena(place, &named("CATENA_BIN")?)
}

fn swaps(options: &Options) -> Result<Value, String> {
    let swaps = routes::measure(routes::MANY, options.rounds)?;
    print!("{}", swaps.table());
    let verdicts = swaps.verdicts()?;
    print_verdicts(&verdicts);
    Ok(report(&swaps, &verdicts))
}

fn calls(place: &Place, catena: Meta, rounds: usize) -> Result<Value, String> {
    let program = named("CATENA_BIN")?;
    let catenactl = match std::env::var_os("CATENACTL_BIN") {
        Some(_) => named("CATENACTL_BIN")?,
        None => program.with_file_name("catenactl"),
    };
    module::install(place, &catenactl, &named("CATENA_TEST_STAGES")?.join("pass.wasm"))?;
    let other = match std::env::var_os("CATENA_BENCH_OTHER") {
        Some(_) => {
            let program = named("CATENA_BENCH_OTHER")?;
            println!("{} is {}", Meta::OTHER, program.display());
            Some(Meta::other(place, &program)?)
        }
        None => None,
    };
    let with_module = Case::canned(place, 1, false, 0)?.with_module();
    module::check(place, &with_module, &catena)?;
    let mut cases = vec![Case::canned(place, 1, false, 0)?, with_module];
    for count in [2, 4, 8] {
        cases.push(Case::canned(place, count, false, 0)?);
    }
    cases.push(Case::canned(place, 8, false, 0)?.at_once());
    cases.push(Case::canned(place, 1, true, 0)?);
    cases.push(Case::canned(place, 2, true, 0)?);
    cases.push(Case::moved(place)?);
    cases.push(Case::reference(place, &["ptp"], false));
    cases.push(Case::reference(place, &["bridge"], false));
    cases.push(Case::reference(place, &["ptp", "bridge"], true));
    let plan = Plan { cases, catena, other, empty: beside("bench-empty")?, rounds };
    let measured = calls::measure(place, &plan)?;
    println!("{}", measured.table());
    let swaps = routes::measure(routes::SOME, rounds)?;
    println!("{}", swaps.table());
    let size = fs::metadata(&program).map_err(|error| format!("{}: {error}", program.display()))?.len();
    let mut verdicts = budget::verdicts(&measured, size)?;
    verdicts.extend(swaps.verdicts()?);
    println!("{}\n{}", budget::route_note(&measured)?, budget::speed_note(&measured)?);
    print_verdicts(&verdicts);
    let mut report = report(&swaps, &verdicts);
    report["calls"] = measured.to_value();
    Ok(report)
}

fn print_verdicts(verdicts: &[Verdict]) {
    for verdict in verdicts {
        println!("{}", verdict.line());
    }
    println!("{}\n", verdict::summary(verdicts));
}

fn report(swaps: &Swaps, verdicts: &[Verdict]) -> Value {
    json!({
        "routes": swaps.to_value(),
        "budgets": verdicts.iter().map(Verdict::to_value).collect::<Vec<_>>(),
    })
}

/// One ADD and DEL around a canned delegate, for a profiler.
fn once(place: &Place, catena: &Meta) -> Result<(), String> {
    let case = Case::canned(place, 1, false, 0)?;
    let under: Vec<String> = std::env::var("CATENA_BENCH_UNDER")
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    calls::life(place, &case, &Subject::Meta(catena), &mut |command, specs, outputs| {
        for spec in specs {
            let mut spec = spec.clone();
            if let (Some((profiler, args)), "ADD") = (under.split_first(), command) {
                let program = spec.program.display().to_string();
                spec.program = PathBuf::from(profiler);
                spec.args = args.iter().cloned().chain([program]).collect();
            }
            let cost = place.runner.run(&spec)?;
            println!("{command}: {} ms", stats::ms(cost.wall));
            outputs.push(place.runner.output());
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
                let rounds: NonZeroUsize =
                    value.parse().map_err(|error| format!("--rounds {value}: {error}"))?;
                options.rounds = rounds.get();
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

/// A program that cargo builds together with this one.
fn beside(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    Ok(own.with_file_name(name))
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
