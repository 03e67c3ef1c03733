//! Instructions of single calls, counted by valgrind's callgrind: the same number on a busy machine as on an idle one,
//! so that a regression is seen when it lands.

use std::fs;
use std::path::PathBuf;

use crate::calls::life;
use crate::case::{Case, Subject, spec};
use crate::place::Place;
use crate::process::Spec;

/// How far above its bound a count may be, in percent. Two runs of one binary differ by 0.01 %; another processor
/// (memcpy has variants) and another path of the target folder by less than 2.
const TOLERANCE: u64 = 3;

/// A command, and what it may cost in the binary of `make fast` around one canned delegate. Raise a bound only together
/// with a reason for what the instructions buy; lower it when a cut has landed.
const BOUNDS: [(&str, u64, &str); 5] = [
    ("VERSION", 335_000, "start, relocation and one line of JSON"),
    ("STATUS", 740_000, "modules are found and checked; none is made ready, none runs"),
    (
        "ADD",
        5_050_000,
        "the artifact is read, three stages run on the result (default-gateway is not asked for anything), one \
         delegate, the ledger, two link dumps",
    ),
    (
        "CHECK",
        1_345_000,
        "one delegate, one link dump; no built-in stage was asked for anything, so none is made ready",
    ),
    (
        "DEL",
        1_375_000,
        "one delegate, the ledger is read; no built-in stage acts on DEL, so none is made ready",
    ),
];

/// Counts, prints, and fails where a count is above its bound.
pub(crate) fn check(place: &Place, metas: &[Subject]) -> Result<(), String> {
    let Some(subject @ Subject::Meta { program, .. }) = metas.first() else { return Ok(()) };
    let case = Case::canned(place, 1, false, 0)?;
    // The first life makes folders, and learns the delegate's versions.
    life(place, &case, subject, &mut |_, specs, results| {
        for spec in specs {
            place.runner.run(spec)?;
            results.push(place.runner.output());
        }
        Ok(())
    })?;
    let mut counts =
        vec![("VERSION".to_owned(), count(place, &spec(place, program, "VERSION", "", "{}".to_owned()))?)];
    life(place, &case, subject, &mut |command, specs, results| {
        for spec in specs {
            counts.push((command.to_owned(), count(place, spec)?));
            results.push(place.runner.output());
        }
        Ok(())
    })?;
    let mut above = Vec::new();
    for (command, bound, what) in BOUNDS {
        let Some((_, count)) = counts.iter().find(|(counted, _)| counted == command) else { continue };
        let holds = *count <= bound + bound * TOLERANCE / 100;
        println!(
            "{command:<8} {count:>9} instructions, bound {bound:>9} ({:+.1} %)  {}  {what}",
            (*count as f64 / bound as f64 - 1.0) * 100.0,
            if holds { "holds" } else { "EXCEEDED" }
        );
        if !holds {
            above.push(command);
        }
    }
    if above.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} executed more instructions than tests/bench/src/instructions.rs allows; find out where with \
         CATENA_BENCH_UNDER=\"valgrind --tool=callgrind\" and `catena-bench once`, then cut, or raise the bound with a \
         reason",
        above.join(", ")
    ))
}

fn count(place: &Place, spec: &Spec) -> Result<u64, String> {
    let out = place.folder.join("callgrind.out");
    let mut args = vec![
        "-q".to_owned(),
        "--tool=callgrind".to_owned(),
        format!("--callgrind-out-file={}", out.display()),
        spec.program.display().to_string(),
    ];
    args.extend(spec.args.iter().cloned());
    let counted = Spec { program: PathBuf::from("/usr/bin/valgrind"), args, ..spec.clone() };
    place.runner.run(&counted)?;
    let text = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    total.ok_or_else(|| format!("{}: no totals in it", out.display()))
}
