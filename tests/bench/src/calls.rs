//! Whole calls: every command of every case through every subject, in turns within one run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::case::{Case, Subject, spec};
use crate::place::Place;
use crate::process::{Cost, Spec};
use crate::stats::{Samples, ms};
use crate::trace::trace;

/// Case, subject and command.
type Key = (String, String, String);

/// All samples, in the order in which they first came.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    order: Vec<Key>,
    samples: BTreeMap<Key, Samples>,
}

impl Measured {
    pub(crate) fn get(&self, case: &str, subject: &str, command: &str) -> Option<&Samples> {
        self.samples.get(&(case.to_owned(), subject.to_owned(), command.to_owned()))
    }

    fn entry(&mut self, case: &str, subject: &str, command: &str) -> &mut Samples {
        let key = (case.to_owned(), subject.to_owned(), command.to_owned());
        if !self.samples.contains_key(&key) {
            self.order.push(key.clone());
        }
        self.samples.entry(key).or_default()
    }

    pub(crate) fn to_value(&self) -> Value {
        let one = |key: &Key| {
            let mut value = self.samples.get(key).map(Samples::to_value).unwrap_or_default();
            value["case"] = json!(key.0);
            value["subject"] = json!(key.1);
            value["command"] = json!(key.2);
            value
        };
        self.order.iter().map(one).collect()
    }

    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<32} {:<8} {:<14} {:>8} {:>8} {:>8} {:>9} {:>8} {:>9} {:>8} {:>7}\n",
            "case",
            "command",
            "subject",
            "min ms",
            "median",
            "p95",
            "over",
            "cpu ms",
            "peak MiB",
            "syscalls",
            "faults"
        );
        let mut last = "";
        for (case, subject, command) in &self.order {
            let Some(samples) = self.get(case, subject, command) else { continue };
            let beside = if case == "no delegate" {
                self.get(case, "empty process", "–")
            } else {
                self.get(case, "alone", command)
            };
            let over = match beside {
                Some(beside) if subject != "alone" && subject != "empty process" => {
                    format!(
                        "{:+.2}",
                        (samples.median().as_secs_f64() - beside.median().as_secs_f64()) * 1000.0
                    )
                }
                _ => String::new(),
            };
            text += &format!(
                "{:<32} {:<8} {:<14} {:>8} {:>8} {:>8} {:>9} {:>8} {:>9.1} {:>8} {:>7}\n",
                if last == case { "" } else { case },
                command,
                subject,
                ms(samples.least()),
                ms(samples.median()),
                ms(samples.wall(0.95)),
                over,
                ms(samples.cpu()),
                samples.trace.peak_kib as f64 / 1024.0,
                samples.trace.calls,
                samples.faults(),
            );
            last = case;
        }
        text
    }
}

/// What is measured.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) cases: Vec<Case>,
    pub(crate) metas: Vec<Subject>,
    pub(crate) empty: PathBuf,
    pub(crate) rounds: usize,
}

/// Carries the plan out. The first round is not counted: it fills caches, and makes folders.
pub(crate) fn measure(place: &Place, plan: &Plan) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for round in 0..=plan.rounds {
        let counts = round > 0;
        let empty =
            Spec { program: plan.empty.clone(), args: Vec::new(), env: Vec::new(), stdin: String::new() };
        let mut alone = vec![("empty process".to_owned(), "–", empty)];
        for meta in &plan.metas {
            if let Subject::Meta { name, program } = meta {
                alone.push((name.clone(), "VERSION", spec(place, program, "VERSION", "", "{}".to_owned())));
            }
        }
        for (subject, command, spec) in alone {
            let cost = place.runner.run(&spec)?;
            if counts {
                measured.entry("no delegate", &subject, command).push(cost);
            }
        }
        for case in &plan.cases {
            for subject in std::iter::once(&Subject::Alone).chain(&plan.metas) {
                life(place, case, subject, &mut |command, specs, results| {
                    let mut sum = Cost::default();
                    for spec in specs {
                        sum += place.runner.run(spec)?;
                        results.push(place.runner.output());
                    }
                    if counts {
                        measured.entry(&case.name, name(subject), command).push(sum);
                    }
                    Ok(())
                })?;
            }
        }
    }
    observe(place, plan, &mut measured)?;
    Ok(measured)
}

/// Once more under a tracer, for what does not vary.
fn observe(place: &Place, plan: &Plan, measured: &mut Measured) -> Result<(), String> {
    let empty = Spec { program: plan.empty.clone(), args: Vec::new(), env: Vec::new(), stdin: String::new() };
    measured.entry("no delegate", "empty process", "–").trace = trace(&place.runner, &empty)?;
    for meta in &plan.metas {
        if let Subject::Meta { name, program } = meta {
            let spec = spec(place, program, "VERSION", "", "{}".to_owned());
            measured.entry("no delegate", name, "VERSION").trace = trace(&place.runner, &spec)?;
        }
    }
    for case in &plan.cases {
        for subject in std::iter::once(&Subject::Alone).chain(&plan.metas) {
            life(place, case, subject, &mut |command, specs, results| {
                let sum = &mut measured.entry(&case.name, name(subject), command).trace;
                for spec in specs {
                    let one = trace(&place.runner, spec)?;
                    results.push(place.runner.output());
                    sum.calls += one.calls;
                    sum.peak_kib = sum.peak_kib.max(one.peak_kib);
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

fn name(subject: &Subject) -> &str {
    match subject {
        Subject::Alone => "alone",
        Subject::Meta { name, .. } => name,
    }
}

/// Runs processes and appends what each wrote to stdout.
type Run<'a> = &'a mut dyn FnMut(&str, &[Spec], &mut Vec<String>) -> Result<(), String>;

/// STATUS where the version has it, ADD, CHECK and DEL of one pod.
pub(crate) fn life(place: &Place, case: &Case, subject: &Subject, run: Run<'_>) -> Result<(), String> {
    if case.version == "1.1.0" {
        run("STATUS", &case.specs(place, subject, "STATUS", &[]), &mut Vec::new())?;
    }
    let mut outputs = Vec::new();
    run("ADD", &case.specs(place, subject, "ADD", &[]), &mut outputs)?;
    let parse = |output: &String| {
        serde_json::from_str(output).map_err(|error| format!("ADD answered {output:?}: {error}"))
    };
    let results: Vec<Value> = outputs.iter().map(parse).collect::<Result<_, String>>()?;
    for command in ["CHECK", "DEL"] {
        run(command, &case.specs(place, subject, command, &results), &mut Vec::new())?;
    }
    Ok(())
}
