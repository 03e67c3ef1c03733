//! How costs grow: with attachments, routes in the pod, the size of results, and entries in the state folder.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::calls::life;
use crate::case::{Case, Subject, spec};
use crate::place::Place;
use crate::process::Spec;
use crate::stats::{micros, ms};

/// Measured points of one thing.
#[derive(Debug)]
struct Series {
    what: &'static str,
    command: &'static str,
    /// Size and least wall time.
    points: Vec<(usize, Duration)>,
}

impl Series {
    fn new(what: &'static str, command: &'static str) -> Series {
        Series { what, command, points: Vec::new() }
    }

    /// The exponent of the growth from each point to the next; above 1 is faster than the input.
    fn exponents(&self) -> impl Iterator<Item = f64> {
        self.points.windows(2).map(|pair| match pair {
            [(small, fast), (large, slow)] => {
                (slow.as_secs_f64() / fast.as_secs_f64()).ln() / (*large as f64 / *small as f64).ln()
            }
            _ => 0.0,
        })
    }

    fn line(&self) -> String {
        let mut text = format!("{:<34} {:<7}", self.what, self.command);
        for (size, wall) in &self.points {
            // Writing to a String does not fail.
            let _ = write!(text, " {:>14}", format!("{size}: {}", ms(*wall)));
        }
        let exponents: Vec<String> = self.exponents().map(|exponent| format!("{exponent:.2}")).collect();
        let _ = write!(text, "\n{:<42} exponents {}", "", exponents.join(" "));
        text
    }

    fn to_value(&self) -> Value {
        let points: Vec<Value> =
            self.points.iter().map(|(size, wall)| json!({"size": size, "leastUs": micros(*wall)})).collect();
        json!({"what": self.what, "command": self.command, "points": points})
    }
}

/// Measures all series with catena; each point is the least of some rounds.
pub(crate) fn measure(place: &Place, metas: &[Subject], rounds: usize) -> Result<Value, String> {
    let Some(catena) = metas.first() else { return Ok(json!({})) };
    let mut all = Vec::new();
    for group in [
        attachments(place, catena, rounds)?,
        results(place, catena, rounds)?,
        routes(place, catena, rounds)?,
        entries(place, catena, rounds)?,
    ] {
        for series in &group {
            println!("{}", series.line());
        }
        all.extend(group);
    }
    Ok(json!({"growth": all.iter().map(Series::to_value).collect::<Vec<_>>()}))
}

fn attachments(place: &Place, catena: &Subject, rounds: usize) -> Result<Vec<Series>, String> {
    let what = "attachments, delegates included";
    let mut series = ["ADD", "CHECK", "DEL"].map(|command| Series::new(what, command));
    let mut alone = Series::new("attachments, delegates alone", "ADD");
    for count in [1, 2, 4, 8, 16, 32, 64] {
        let case = Case::canned(place, count, false, 0)?;
        point(place, &case, catena, rounds, count, &mut series)?;
        point(place, &case, &Subject::Alone, rounds, count, std::slice::from_mut(&mut alone))?;
    }
    Ok(series.into_iter().chain([alone]).collect())
}

fn results(place: &Place, catena: &Subject, rounds: usize) -> Result<Vec<Series>, String> {
    let mut series = ["ADD", "CHECK", "DEL"].map(|command| Series::new("bytes of a result", command));
    for kib in [1, 4, 16, 64, 256, 1023] {
        let case = Case::canned(place, 1, false, kib << 10)?;
        if let Err(error) = point(place, &case, catena, rounds, kib << 10, &mut series) {
            println!("a result of {kib} KiB: {}", error.lines().next().unwrap_or_default());
            break;
        }
    }
    Case::canned(place, 1, false, 0)?;
    Ok(series.into())
}

fn routes(place: &Place, catena: &Subject, rounds: usize) -> Result<Vec<Series>, String> {
    let mut series =
        ["ADD", "CHECK", "DEL"].map(|command| Series::new("routes in the pod, one moved", command));
    let case = Case::moved(place)?;
    place.in_pod(
        "ip link add many type veth peer name many-peer; ip link set many up; ip link set many-peer up",
    )?;
    let mut there = 0;
    for count in [10, 100, 1_000, 10_000, 100_000] {
        let mut batch = String::new();
        for i in there..count {
            let _ = writeln!(batch, "route add 11.{}.{}.{}/32 dev many", i >> 16, i >> 8 & 255, i & 255);
        }
        there = count;
        let file = place.folder.join("batch");
        fs::write(&file, batch).map_err(|error| format!("{}: {error}", file.display()))?;
        place.in_pod(&format!("ip -batch {}", file.display()))?;
        point(place, &case, catena, rounds, count, &mut series)?;
    }
    place.in_pod("ip link del many")?;
    Ok(series.into())
}

/// Fills the state folder with finished entries of other containers.
fn entries(place: &Place, catena: &Subject, rounds: usize) -> Result<Vec<Series>, String> {
    let mut series =
        ["ADD", "CHECK", "DEL", "STATUS"].map(|command| Series::new("entries in the state folder", command));
    let mut gc = Series::new("entries in the state folder", "GC");
    let case = Case::canned(place, 1, false, 0)?;
    let state = place.folder.join("root/var/lib/catena/state");
    let mut sample = String::new();
    life(place, &case, catena, &mut |command, specs, results| {
        for spec in specs {
            place.runner.run(spec)?;
            results.push(place.runner.output());
        }
        if command == "ADD" {
            let file = state.join("bench@bench@meta@eth0.json");
            sample = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    })?;
    let mut there = 0;
    for count in [1, 10, 100, 1_000, 10_000, 100_000] {
        for i in there..count {
            let text = sample.replace(r#""containerId":"bench""#, &format!(r#""containerId":"c{i}""#));
            let file = state.join(format!("c{i}@bench@meta@eth0.json"));
            fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        there = count;
        point(place, &case, catena, rounds, count, &mut series)?;
        let rounds = if count > 1_000 { 1 } else { rounds };
        let gc_spec = gc_spec(place, catena, count);
        gc.points.push((count, least(place, &gc_spec, rounds)?));
    }
    Ok(series.into_iter().chain([gc]).collect())
}

/// GC that has to keep everything.
fn gc_spec(place: &Place, catena: &Subject, count: usize) -> Spec {
    let valid: Vec<Value> =
        (0..count).map(|i| json!({"containerID": format!("c{i}"), "ifname": "eth0"})).collect();
    let conf = json!({
        "cniVersion": "1.1.0", "name": "bench", "type": "catena", "cni.dev/valid-attachments": valid,
        "delegates": [{"cniVersion": "1.1.0", "name": "instant0", "type": "instant"}],
    });
    let program = match catena {
        Subject::Meta { program, .. } => program.clone(),
        Subject::Alone => place.folder.join("bin/instant"),
    };
    spec(place, &program, "GC", "", conf.to_string())
}

fn least(place: &Place, spec: &Spec, rounds: usize) -> Result<Duration, String> {
    let mut least = Duration::MAX;
    for _ in 0..rounds.max(1) {
        least = least.min(place.runner.run(spec)?.wall);
    }
    Ok(least)
}

/// Adds a point of that size to each series.
fn point(
    place: &Place,
    case: &Case,
    subject: &Subject,
    rounds: usize,
    size: usize,
    series: &mut [Series],
) -> Result<(), String> {
    let mut least = vec![Duration::MAX; series.len()];
    for _ in 0..rounds.max(1) {
        life(place, case, subject, &mut |command, specs, results| {
            let mut sum = Duration::ZERO;
            for spec in specs {
                sum += place.runner.run(spec)?.wall;
                results.push(place.runner.output());
            }
            for (series, least) in series.iter().zip(&mut least) {
                if series.command == command {
                    *least = (*least).min(sum);
                }
            }
            Ok(())
        })?;
    }
    for (series, least) in series.iter_mut().zip(least) {
        series.points.push((size, least));
    }
    Ok(())
}
