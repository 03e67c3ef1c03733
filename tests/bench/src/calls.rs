//! Whole calls: every command of every case through every subject, in turns within one run.

use std::path::PathBuf;

use crate::case::{Case, version_spec};
use crate::measured::{Key, Measured, NO_DELEGATE};
use crate::place::Place;
use crate::process::{Cost, Spec};
use crate::subject::{Meta, Subject};
use crate::trace::trace;

/// What is measured.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) cases: Vec<Case>,
    pub(crate) catena: Meta,
    pub(crate) other: Option<Meta>,
    pub(crate) empty: PathBuf,
    pub(crate) rounds: usize,
}

/// What is learned of the processes that carry one command out, in whichever way they are run.
type Observe<'a> = &'a mut dyn FnMut(&mut Measured, Key<'_>, &[Spec], &mut Vec<String>) -> Result<(), String>;

/// Carries the plan out. The first round is not counted: it fills caches, and makes folders.
pub(crate) fn measure(place: &Place, plan: &Plan) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for round in 0..=plan.rounds {
        plan.round(place, &mut measured, &mut |measured, key, specs, outputs| {
            let mut sum = Cost::default();
            for spec in specs {
                sum += place.runner.run(spec)?;
                outputs.push(place.runner.output());
            }
            if round > 0 {
                measured.entry(key).push(sum);
            }
            Ok(())
        })?;
    }
    // Once more under a tracer, for what does not vary.
    plan.round(place, &mut measured, &mut |measured, key, specs, outputs| {
        let sum = &mut measured.entry(key).trace;
        for spec in specs {
            let one = trace(&place.runner, spec)?;
            outputs.push(place.runner.output());
            sum.calls += one.calls;
            sum.peak_kib = sum.peak_kib.max(one.peak_kib);
        }
        Ok(())
    })?;
    Ok(measured)
}

impl Plan {
    fn metas(&self) -> impl Iterator<Item = &Meta> {
        std::iter::once(&self.catena).chain(&self.other)
    }

    /// Everything once.
    fn round(&self, place: &Place, measured: &mut Measured, observe: Observe<'_>) -> Result<(), String> {
        let empty =
            Spec { program: self.empty.clone(), args: Vec::new(), env: Vec::new(), stdin: String::new() };
        observe(measured, Key::EMPTY, &[empty], &mut Vec::new())?;
        for meta in self.metas() {
            let key = Key { case: NO_DELEGATE, subject: meta.name, command: "VERSION" };
            let version = [version_spec(place, meta)];
            carry_out(measured, &Subject::Meta(meta), key, &version, &mut Vec::new(), observe)?;
        }
        for case in &self.cases {
            for subject in std::iter::once(Subject::Alone).chain(self.metas().map(Subject::Meta)) {
                if case.is_for(&subject) {
                    one_life(place, case, &subject, measured, observe)?;
                }
            }
        }
        Ok(())
    }
}

/// Observes one command. That another meta-plugin fails is noted, and it is not asked again.
fn carry_out(
    measured: &mut Measured,
    subject: &Subject<'_>,
    key: Key<'_>,
    specs: &[Spec],
    outputs: &mut Vec<String>,
    observe: Observe<'_>,
) -> Result<(), String> {
    if measured.failure(key).is_some() {
        return Ok(());
    }
    match observe(measured, key, specs, outputs) {
        Err(error) if subject.is_other() => {
            measured.fail(key, error);
            Ok(())
        }
        outcome => outcome,
    }
}

/// Observes the life of one pod. What a life needs to go on is ADD and DEL: where another meta-plugin fails in one of
/// them, the rest is not to be had, and what it has left must not be in the way of the next.
fn one_life(
    place: &Place,
    case: &Case,
    subject: &Subject<'_>,
    measured: &mut Measured,
    observe: Observe<'_>,
) -> Result<(), String> {
    let key = |command| Key { case: &case.name, subject: subject.name(), command };
    let vital = [key("ADD"), key("DEL")];
    if vital.iter().any(|key| measured.failure(*key).is_some()) {
        return Ok(());
    }
    let outcome = life(place, case, subject, &mut |command, specs, outputs| {
        carry_out(measured, subject, key(command), specs, outputs, observe)?;
        match vital.iter().find_map(|key| measured.failure(*key)) {
            Some(failure) => Err(failure.to_owned()),
            None => Ok(()),
        }
    });
    match outcome {
        Err(error) if subject.is_other() => {
            for command in ["ADD", "CHECK", "DEL"] {
                measured.fail(key(command), error.clone());
            }
            place.clear(case.networks.iter().map(|(_, ifname)| ifname.as_str()))
        }
        outcome => outcome,
    }
}

/// Runs processes and appends what each wrote to stdout.
type Run<'a> = &'a mut dyn FnMut(&'static str, &[Spec], &mut Vec<String>) -> Result<(), String>;

/// STATUS where the version has it, ADD, CHECK and DEL of one pod.
pub(crate) fn life(place: &Place, case: &Case, subject: &Subject<'_>, run: Run<'_>) -> Result<(), String> {
    if case.version == "1.1.0" {
        run("STATUS", &case.specs(place, subject, "STATUS", &[]), &mut Vec::new())?;
    }
    let mut outputs = Vec::new();
    run("ADD", &case.specs(place, subject, "ADD", &[]), &mut outputs)?;
    let parse = |output: &String| {
        serde_json::from_str(output).map_err(|error| format!("ADD answered {output:?}: {error}"))
    };
    let results: Vec<serde_json::Value> = outputs.iter().map(parse).collect::<Result<_, String>>()?;
    for command in ["CHECK", "DEL"] {
        run(command, &case.specs(place, subject, command, &results), &mut Vec::new())?;
    }
    Ok(())
}
