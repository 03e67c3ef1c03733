use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use catena::attach::rehearse::{Rehearsal, rehearse};
use catena::report::record::StageRecord;
use serde_json::{Value, json};

use super::run::{Prepared, prepare};
use crate::error::Error;
use crate::output::{Progress, Report, line, time};
use crate::trial::Trial;

/// Measure what a module or a pipeline costs on a fixture: time, fuel and memory of each stage
///
/// Fuel and memory are the same on every machine, time is this machine's. What a process costs, and the artifact's
/// way from the disk, come on top in a pod's ADD.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// [MODULE] FIXTURE: as for run
    #[arg(num_args = 1..=2, required = true, value_name = "MODULE> <FIXTURE")]
    paths: Vec<String>,
    /// The module's own config, instead of the fixture's
    #[arg(long, value_name = "JSON", value_parser = crate::trial::json)]
    config: Option<Value>,
    /// How often it is run
    #[arg(short = 'n', long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    #[command(flatten)]
    trial: Trial,
}

/// What the runs of one call of a stage have cost.
#[derive(Debug, Default)]
struct Cost {
    times: Vec<Duration>,
    fuel: u64,
    memory: usize,
}

impl Cost {
    fn add(&mut self, record: &StageRecord) {
        self.times.push(record.duration);
        self.fuel = self.fuel.max(record.fuel);
        self.memory = self.memory.max(record.memory);
    }
}

impl Bench {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let Prepared { given, ready, notes } = prepare(&self.paths, self.config, self.trial)?;
        let _progress = Progress::start(format!("{} runs", self.runs));
        // In the order of the calls.
        let mut costs: BTreeMap<(usize, String), Cost> = BTreeMap::new();
        let mut whole = Vec::new();
        let mut last = None;
        for _ in 0..self.runs {
            let start = Instant::now();
            let rehearsal =
                rehearse(&given, &ready.pipeline, &ready.node).map_err(|error| Error::Refused(error.msg))?;
            whole.push(start.elapsed());
            for (position, (name, record)) in calls(&rehearsal).enumerate() {
                costs.entry((position, name)).or_default().add(record);
            }
            last = rehearsal.answer.err();
        }
        let (mut text, mut stages) = (String::new(), Vec::new());
        for ((_, name), cost) in &mut costs {
            let (least, median) = least_and_median(&mut cost.times);
            let memory = cost.memory >> 10;
            let what =
                format!("{} least, {} median, {} fuel, {memory} KiB", time(least), time(median), cost.fuel);
            line(&mut text, "stage", &format!("{name}: {what}"));
            stages.push(json!({
                "call": name, "leastUs": micros(least), "medianUs": micros(median), "fuel": cost.fuel,
                "memory": cost.memory,
            }));
        }
        let (least, median) = least_and_median(&mut whole);
        line(
            &mut text,
            "all",
            &format!("{} least, {} median, {} runs", time(least), time(median), self.runs),
        );
        for note in &notes {
            line(&mut text, "note", note);
        }
        if let Some(error) = &last {
            line(&mut text, "note", &format!("each run ended in code {}: {}", error.code, error.msg));
        }
        let json = json!({
            "runs": self.runs, "stages": stages, "leastUs": micros(least), "medianUs": micros(median),
            "error": last.map(|error| error.msg), "notes": notes,
        });
        Ok(Report::new(text, json))
    }
}

/// Every call of a stage with its name: `deny-network admit net1`.
fn calls(rehearsal: &Rehearsal) -> impl Iterator<Item = (String, &StageRecord)> {
    let arrange = rehearsal.record.arrange.iter().map(|record| (String::new(), record));
    let attachments = rehearsal.record.attachments.iter();
    let others =
        attachments.flat_map(|one| one.stages.iter().map(|record| (format!(" {}", one.ifname), record)));
    let called = arrange.chain(others).filter(|(_, record)| record.outcome != "skipped");
    called.map(|(place, record)| (format!("{} {}{place}", record.stage, record.export), record))
}

fn least_and_median(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    (times.first().copied().unwrap_or_default(), median)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
