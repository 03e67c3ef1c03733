//! Where an ADD's time goes: what a catena that was built with the feature `timeline` says of itself, beside what no
//! ADD can do without.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::calls::life;
use crate::case::Case;
use crate::place::Place;
use crate::process::{Cost, Spec};
use crate::stats::{Samples, micros, millis};
use crate::subject::{Meta, Subject};

/// The environment variable that the build looks at (engine/src/timeline.rs).
const VARIABLE: &str = "CATENA_TIMELINE";

/// One of a call's marks: nanoseconds since its first, what had just been done, and whether by the main thread.
type Mark = (u64, String, bool);

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// By thread (the main one first), in the order of the first call.
    steps: [Vec<Step>; 2],
    /// The whole process.
    whole: Samples,
    /// What of that is before `main` and after the answer: starting and ending a process, and writing the marks down.
    around: Samples,
    /// An empty static process, the delegate alone, and the two syncs of a new file.
    floors: Vec<(&'static str, Samples)>,
}

/// The same mark of all calls.
#[derive(Debug)]
struct Step {
    done: String,
    /// How often that had been done before in the same call.
    time: usize,
    at: Samples,
    took: Samples,
}

/// Runs ADD around one canned delegate, in turns with the floors.
pub(crate) fn measure(
    place: &Place,
    catena: &Meta,
    empty: PathBuf,
    rounds: usize,
) -> Result<Timeline, String> {
    let case = Case::canned(place, 1, false, 0)?;
    let file = place.folder.join("timeline");
    let empty = Spec { program: empty, args: Vec::new(), env: Vec::new(), stdin: String::new() };
    let floors = ["an empty static process", "the delegate alone", "a new file and its folder synced"];
    let mut timeline = Timeline {
        floors: floors.into_iter().map(|what| (what, Samples::default())).collect(),
        ..Timeline::default()
    };
    // The first round fills caches and makes folders.
    for round in 0..=rounds {
        let mut alone = Cost::default();
        life(place, &case, &Subject::Alone, &mut |command, specs, outputs| {
            for spec in specs {
                let cost = place.runner.run(spec)?;
                outputs.push(place.runner.output());
                if command == "ADD" {
                    alone = cost;
                }
            }
            Ok(())
        })?;
        let costs = [place.runner.run(&empty)?, alone, Cost { wall: sync(place)?, ..Cost::default() }];
        let mut whole = Duration::ZERO;
        let _ = fs::remove_file(&file);
        life(place, &case, &Subject::Meta(catena), &mut |command, specs, outputs| {
            for spec in specs {
                let mut spec = spec.clone();
                if command == "ADD" {
                    spec.env.push((VARIABLE.to_owned(), file.display().to_string()));
                }
                let cost = place.runner.run(&spec)?;
                outputs.push(place.runner.output());
                if command == "ADD" {
                    whole = cost.wall;
                }
            }
            Ok(())
        })?;
        if round == 0 {
            continue;
        }
        for ((_, samples), cost) in timeline.floors.iter_mut().zip(costs) {
            samples.push(cost);
        }
        let text = fs::read_to_string(&file).map_err(|error| {
            format!("{}: {error}; CATENA_BIN has to be built with the feature timeline", file.display())
        })?;
        let marks: Vec<Mark> = serde_json::from_str(text.trim())
            .map_err(|error| format!("{}: {error}: {text}", file.display()))?;
        timeline.add(whole, &marks);
    }
    Ok(timeline)
}

/// What the ledger does before a delegate gets its request: a file of its size, on the same disk.
fn sync(place: &Place) -> Result<Duration, String> {
    let path = place.folder.join("synced");
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let folder = File::open(&place.folder).map_err(at)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(at)?;
    file.write_all(&[b'x'; 2048]).map_err(at)?;
    let start = Instant::now();
    file.sync_all().and_then(|()| folder.sync_all()).map_err(at)?;
    let took = start.elapsed();
    fs::remove_file(&path).map_err(at)?;
    Ok(took)
}

impl Timeline {
    fn add(&mut self, whole: Duration, marks: &[Mark]) {
        let of = |nanos: u64| Cost { wall: Duration::from_nanos(nanos), ..Cost::default() };
        for (thread, is_main) in [true, false].into_iter().enumerate() {
            let mut before = 0;
            let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
            for (at, done, _) in marks.iter().filter(|(.., main)| *main == is_main) {
                let count = seen.entry(done).or_default();
                let step = self.step(thread, done, *count);
                *count += 1;
                step.at.push(of(*at));
                step.took.push(of(at.saturating_sub(before)));
                before = *at;
            }
        }
        let last = marks.iter().filter(|(.., main)| *main).map(|(at, ..)| *at).max().unwrap_or_default();
        self.whole.push(Cost { wall: whole, ..Cost::default() });
        self.around.push(Cost { wall: whole.saturating_sub(Duration::from_nanos(last)), ..Cost::default() });
    }

    fn step(&mut self, thread: usize, done: &str, time: usize) -> &mut Step {
        let steps = &mut self.steps[thread];
        let found = steps.iter().position(|step| step.done == done && step.time == time);
        let place = found.unwrap_or_else(|| {
            let (at, took) = (Samples::default(), Samples::default());
            steps.push(Step { done: done.to_owned(), time, at, took });
            steps.len() - 1
        });
        &mut steps[place]
    }

    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for (steps, thread) in self.steps.iter().zip(["main thread", "thread beside"]) {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{:>8} {:>9} {:>9}  {thread}", "at ms", "took ms", "least");
            for step in steps {
                let _ = writeln!(
                    text,
                    "{:>8.3} {:>9.3} {:>9.3}  {}",
                    millis(step.at.median()),
                    millis(step.took.median()),
                    millis(step.took.least()),
                    step.done
                );
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{:>8} {:>9}", "median", "least");
        let rest = [
            ("the whole process", &self.whole),
            ("of it before main and after the answer, the marks' writing included", &self.around),
        ];
        let floors = self.floors.iter().map(|(what, samples)| (*what, samples));
        for (what, samples) in rest.into_iter().chain(floors) {
            let _ =
                writeln!(text, "{:>8.3} {:>9.3}  {what}", millis(samples.median()), millis(samples.least()));
        }
        text
    }

    pub(crate) fn to_value(&self) -> Value {
        let times =
            |samples: &Samples| json!({"min": micros(samples.least()), "median": micros(samples.median())});
        let steps = |steps: &[Step]| -> Value {
            let step = |step: &Step| json!({"done": step.done, "atUs": times(&step.at), "tookUs": times(&step.took)});
            steps.iter().map(step).collect()
        };
        let floors: Vec<Value> =
            self.floors.iter().map(|(what, samples)| json!({"what": what, "us": times(samples)})).collect();
        json!({
            "main": steps(&self.steps[0]), "beside": steps(&self.steps[1]),
            "wholeUs": times(&self.whole), "aroundUs": times(&self.around), "floors": floors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_by_thread_and_by_their_count() {
        let mark = |at: u64, done: &str, main: bool| (at * 1_000_000, done.to_owned(), main);
        let mut timeline = Timeline::default();
        let marks = [
            mark(0, "begun", true),
            mark(2, "read", false),
            mark(3, "stage", true),
            mark(5, "stage", true),
            mark(9, "answered", true),
        ];
        for whole in [11, 13] {
            timeline.add(Duration::from_millis(whole), &marks);
        }
        let table = timeline.table();
        for line in [
            "   5.000     2.000     2.000  stage",
            "   2.000     2.000     2.000  read",
            "   2.000  of it before main and after the answer, the marks' writing included",
        ] {
            assert!(table.contains(line), "{table}");
        }
        assert_eq!(timeline.to_value()["main"].as_array().map(Vec::len), Some(4));
    }
}
