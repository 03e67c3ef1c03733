//! How costs grow: with attachments, the size of results, routes in the pod, and entries in the state folder.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::calls::life;
use crate::case::{Case, meta_spec};
use crate::place::Place;
use crate::process::Cost;
use crate::series::{Point, Series, summary};
use crate::stats::Samples;
use crate::subject::{Meta, Subject};
use crate::trace::trace;

/// The largest result that a stage may see and give (the contract's limit of a document).
const LARGEST_RESULT: usize = 1 << 20;

const COMMANDS: [&str; 4] = ["STATUS", "ADD", "CHECK", "DEL"];

/// The destination of the route of that number.
type Prefix = fn(usize) -> String;

/// What is measured, and how often.
#[derive(Debug)]
struct Growth<'a> {
    place: &'a Place,
    catena: &'a Meta,
    rounds: usize,
}

/// Measures all series with catena, in turns with the delegates alone.
pub(crate) fn measure(place: &Place, catena: &Meta, rounds: usize) -> Result<Value, String> {
    let growth = Growth { place, catena, rounds };
    let mut all = Vec::new();
    for group in [
        Growth::attachments,
        Growth::linked_attachments,
        Growth::results,
        Growth::routes,
        Growth::entries,
        Growth::waiting,
    ] {
        let group = group(&growth)?;
        for series in &group {
            println!("{}", series.table());
        }
        all.extend(group);
    }
    println!("{}", summary(&all));
    Ok(json!({"growth": all.iter().map(Series::to_value).collect::<Vec<_>>()}))
}

/// A series of each command.
fn group(what: &'static str, linked: bool) -> Vec<Series> {
    COMMANDS.iter().map(|command| Series::new(what, command, !linked || *command != "DEL")).collect()
}

impl Growth<'_> {
    fn attachments(&self) -> Result<Vec<Series>, String> {
        self.attachments_of("attachments", false)
    }

    /// With links, each of which is one more in every dump of them.
    fn linked_attachments(&self) -> Result<Vec<Series>, String> {
        self.attachments_of("attachments with links", true)
    }

    fn attachments_of(&self, what: &'static str, linked: bool) -> Result<Vec<Series>, String> {
        let mut group = group(what, linked);
        for count in [1, 2, 4, 8, 16, 32, 64] {
            let case = Case::canned(self.place, count, linked, 0)?;
            self.point(&case, count, &mut group)?;
        }
        Ok(group)
    }

    fn results(&self) -> Result<Vec<Series>, String> {
        let mut group = group("bytes of a result", false);
        for bytes in [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, LARGEST_RESULT] {
            let case = Case::canned(self.place, 1, false, bytes)?;
            self.point(&case, bytes, &mut group)?;
        }
        Ok(group)
    }

    fn routes(&self) -> Result<Vec<Series>, String> {
        let mut group = group("other routes of each family, one moved", true);
        let case = Case::moved(self.place)?;
        self.place.in_pod(
            "ip link add many type veth peer name many-peer; ip link set many up; ip link set many-peer up",
        )?;
        let prefixes: [(&str, Prefix); 2] = [
            ("-4", |i| format!("11.{}.{}.{}/32", i >> 16, i >> 8 & 255, i & 255)),
            ("-6", |i| format!("2001:db8::{:x}:{:x}/128", i >> 16, i & 0xffff)),
        ];
        let file = self.place.folder.join("batch");
        let mut there = 0;
        for count in [10, 100, 1_000, 10_000, 100_000] {
            for (family, prefix) in prefixes {
                let mut batch = String::new();
                for i in there..count {
                    // Writing to a String does not fail.
                    let _ = writeln!(batch, "route add {} dev many", prefix(i));
                }
                fs::write(&file, batch).map_err(|error| format!("{}: {error}", file.display()))?;
                self.place.in_pod(&format!("ip {family} -batch {}", file.display()))?;
            }
            there = count;
            self.point(&case, count, &mut group)?;
        }
        self.place.in_pod("ip link del many")?;
        Ok(group)
    }

    /// Finished entries of other containers.
    fn entries(&self) -> Result<Vec<Series>, String> {
        let state = State::new(self, "root-entries")?;
        let mut group = group("recorded sandboxes", false);
        let mut gc = Series::new("recorded sandboxes", "GC", true);
        let mut there = 0;
        for count in [1, 10, 100, 1_000, 10_000, 100_000] {
            (there..count).try_for_each(|i| state.record(i))?;
            there = count;
            self.point(&state.case, count, &mut group)?;
            gc.points.push(self.gc(&state, count)?);
        }
        group.push(gc);
        Ok(group)
    }

    /// Entries of other containers whose DEL has failed and is not yet to be tried again: DEL and GC look at all of
    /// them. (Of those that are due a call tries one, whatever their number.)
    fn waiting(&self) -> Result<Vec<Series>, String> {
        let state = State::new(self, "root-waiting")?;
        let mut group = group("sandboxes that wait for a retry", false);
        let mut gc = Series::new("sandboxes that wait for a retry", "GC", true);
        let mut there = 0;
        for count in [1, 10, 100, 1_000] {
            (there..count).try_for_each(|i| state.record(i).and_then(|()| state.mark(i)))?;
            there = count;
            self.point(&state.case, count, &mut group)?;
            gc.points.push(self.gc(&state, count)?);
        }
        group.push(gc);
        Ok(group)
    }

    /// A life of a pod with catena and without, as often as there are rounds, and one more under a tracer.
    fn point(&self, case: &Case, size: usize, group: &mut [Series]) -> Result<(), String> {
        let catena = Subject::Meta(self.catena);
        for series in group.iter_mut() {
            series.points.push(Point { size, with: Samples::default(), alone: Samples::default() });
        }
        let mut last = |command: &str, note: &mut dyn FnMut(&mut Point)| {
            let of_command = group.iter_mut().filter(|series| series.command == command);
            of_command.filter_map(|series| series.points.last_mut()).for_each(note);
        };
        for _ in 0..self.rounds {
            for subject in [catena, Subject::Alone] {
                life(self.place, case, &subject, &mut |command, specs, outputs| {
                    let mut sum = Cost::default();
                    for spec in specs {
                        sum += self.place.runner.run(spec)?;
                        outputs.push(self.place.runner.output());
                    }
                    last(command, &mut |point| match subject {
                        Subject::Alone => point.alone.push(sum),
                        Subject::Meta(_) => point.with.push(sum),
                    });
                    Ok(())
                })?;
            }
        }
        life(self.place, case, &catena, &mut |command, specs, outputs| {
            for spec in specs {
                let traced = trace(&self.place.runner, spec)?;
                outputs.push(self.place.runner.output());
                last(command, &mut |point| point.with.trace = traced);
            }
            Ok(())
        })
    }

    /// GC that has to keep everything.
    fn gc(&self, state: &State, count: usize) -> Result<Point, String> {
        let valid: Vec<Value> =
            (0..count).map(|i| json!({"containerID": State::container(i), "ifname": "eth0"})).collect();
        let conf = json!({
            "cniVersion": "1.1.0", "name": "bench", "type": self.catena.kind(),
            "cni.dev/valid-attachments": valid,
            "delegates": [{"cniVersion": "1.1.0", "name": "instant0", "type": "instant"}],
        });
        let spec = meta_spec(self.place, state.case.root, self.catena, "GC", "", conf.to_string());
        let mut point = Point { size: count, with: Samples::default(), alone: Samples::default() };
        // What takes seconds needs no ten rounds to be told from noise.
        for _ in 0..if count > 10_000 { self.rounds.min(3) } else { self.rounds } {
            point.with.push(self.place.runner.run(&spec)?);
        }
        point.with.trace = trace(&self.place.runner, &spec)?;
        Ok(point)
    }
}

/// A state folder of its own, and what an entry in it looks like.
#[derive(Debug)]
struct State {
    case: Case,
    folder: PathBuf,
    sample: String,
}

/// The container of the calls that are measured (CNI_CONTAINERID).
const OWN: &str = r#""containerId":"bench""#;

impl State {
    fn new(growth: &Growth<'_>, root: &'static str) -> Result<State, String> {
        let Growth { place, catena, .. } = growth;
        let case = Case { root, ..Case::canned(place, 1, false, 0)? };
        let folder = place.root(root, catena.name).join("var/lib/catena/state");
        let mut sample = String::new();
        life(place, &case, &Subject::Meta(catena), &mut |command, specs, outputs| {
            for spec in specs {
                place.runner.run(spec)?;
                outputs.push(place.runner.output());
            }
            if command == "ADD" {
                let file = folder.join("bench@bench@meta@eth0.json");
                sample = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            }
            Ok(())
        })?;
        if !sample.contains(OWN) {
            return Err(format!("an entry of the ledger without {OWN}: {sample}"));
        }
        Ok(State { case, folder, sample })
    }

    fn container(i: usize) -> String {
        format!("c{i}")
    }

    fn stem(i: usize) -> String {
        format!("{}@bench@meta@eth0", Self::container(i))
    }

    /// Puts the entry of another container there.
    fn record(&self, i: usize) -> Result<(), String> {
        let container = format!(r#""containerId":"{}""#, Self::container(i));
        self.write(format!("{}.json", Self::stem(i)), &self.sample.replace(OWN, &container))
    }

    /// Marks it as one whose DEL has failed so often that it is left alone for an hour.
    fn mark(&self, i: usize) -> Result<(), String> {
        let failed = self.folder.join("failed");
        fs::create_dir_all(&failed).map_err(|error| format!("{}: {error}", failed.display()))?;
        self.write(format!("failed/{}", Self::stem(i)), &".".repeat(100))
    }

    fn write(&self, name: String, text: &str) -> Result<(), String> {
        let file = self.folder.join(name);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }
}
