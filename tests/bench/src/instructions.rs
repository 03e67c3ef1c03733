//! Instructions of single calls, counted by valgrind's callgrind: the same number on a busy machine as on an idle one,
//! so that a regression is seen when it lands.

use std::fs;
use std::path::PathBuf;

use crate::calls::life;
use crate::case::{Case, version_spec};
use crate::measured::NO_DELEGATE;
use crate::place::Place;
use crate::process::Spec;
use crate::subject::{Meta, Subject};

/// How far above its bound a count may be, in percent. Two runs of one binary differ by 0.01 %; another processor
/// (memcpy has variants) and another path of the target folder by less than 2.
const TOLERANCE: u64 = 3;

/// What a command of a case may cost in the binary of `make fast`. Raise a bound only together with a reason for what
/// the instructions buy; lower it when a cut has landed.
#[derive(Debug)]
struct Bound {
    case: &'static str,
    command: &'static str,
    instructions: u64,
    why: &'static str,
}

const ONE: &str = "instant ×1";
const EIGHT: &str = "instant ×8";
const MOVED: &str = "linked ×2, default route moved";

const BOUNDS: [Bound; 7] = [
    Bound {
        case: NO_DELEGATE,
        command: "VERSION",
        instructions: 335_000,
        why: "start, relocation and one line of JSON",
    },
    Bound {
        case: ONE,
        command: "STATUS",
        instructions: 725_000,
        why: "modules are found and checked; none is made ready, none runs",
    },
    Bound {
        case: ONE,
        command: "ADD",
        instructions: 4_700_000,
        why: "the artifact is read, three stages run on the result (default-gateway is not asked for anything), one \
              delegate, the ledger, a link dump and its own link twice",
    },
    Bound {
        case: ONE,
        command: "CHECK",
        instructions: 1_315_000,
        why: "one delegate, one link dump; no built-in stage was asked for anything, so none is made ready",
    },
    Bound {
        case: ONE,
        command: "DEL",
        instructions: 1_340_000,
        why: "one delegate, the ledger is read; no built-in stage acts on DEL, so none is made ready",
    },
    Bound {
        case: EIGHT,
        command: "ADD",
        instructions: 17_000_000,
        why: "what one attachment needs, and seven times the instances of three stages, a delegate, its link asked for \
              twice, and lines in the ledger",
    },
    Bound {
        case: MOVED,
        command: "ADD",
        instructions: 10_800_000,
        why: "two attachments; default-gateway arranges, and runs on both results; the routes of both families are read \
              before and after each change, and when the host looks at what came of it",
    },
];

/// How one bound is kept.
#[derive(Debug, PartialEq)]
struct Outcome {
    line: String,
    holds: bool,
}

impl Bound {
    /// A command that was not counted is an error: nothing would be known of it.
    fn judge(&self, counts: &[Count]) -> Result<Outcome, String> {
        let Bound { case, command, instructions: bound, why } = self;
        let counted = counts.iter().find(|count| count.case == *case && count.command == *command);
        let count =
            counted.ok_or_else(|| format!("{command} of '{case}' has a bound and was not counted"))?;
        let holds = count.instructions <= bound + bound * TOLERANCE / 100;
        let line = format!(
            "{case:<31} {command:<8} {:>9} instructions, bound {bound:>9} ({:+.1} %)  {}  {why}",
            count.instructions,
            (count.instructions as f64 / *bound as f64 - 1.0) * 100.0,
            if holds { "holds" } else { "EXCEEDED" }
        );
        Ok(Outcome { line, holds })
    }
}

/// What was counted.
#[derive(Debug)]
struct Count {
    case: String,
    command: &'static str,
    instructions: u64,
}

/// Counts, prints, and fails where a count is above its bound.
pub(crate) fn check(place: &Place, catena: &Meta) -> Result<(), String> {
    let version = count(place, &version_spec(place, catena))?;
    let mut counts = vec![Count { case: NO_DELEGATE.to_owned(), command: "VERSION", instructions: version }];
    let cases = [Case::canned(place, 1, false, 0)?, Case::canned(place, 8, false, 0)?, Case::moved(place)?];
    let subject = Subject::Meta(catena);
    for case in &cases {
        // The first life makes folders, and learns the delegates' versions.
        life(place, case, &subject, &mut |_, specs, outputs| {
            for spec in specs {
                place.runner.run(spec)?;
                outputs.push(place.runner.output());
            }
            Ok(())
        })?;
        life(place, case, &subject, &mut |command, specs, outputs| {
            for spec in specs {
                if BOUNDS.iter().any(|bound| bound.case == case.name && bound.command == command) {
                    let instructions = count(place, spec)?;
                    counts.push(Count { case: case.name.clone(), command, instructions });
                } else {
                    place.runner.run(spec)?;
                }
                outputs.push(place.runner.output());
            }
            Ok(())
        })?;
    }
    let mut above = Vec::new();
    for bound in &BOUNDS {
        let Outcome { line, holds } = bound.judge(&counts)?;
        println!("{line}");
        if !holds {
            above.push(format!("{} of '{}'", bound.command, bound.case));
        }
    }
    if above.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more instructions than tests/bench/src/instructions.rs allows: {}; find out where with \
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

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound { case: ONE, command: "ADD", instructions: 1_000, why: "a reason" };

    fn counted(instructions: u64) -> Result<Outcome, String> {
        BOUND.judge(&[Count { case: ONE.to_owned(), command: "ADD", instructions }])
    }

    #[test]
    fn a_bound_holds_up_to_its_tolerance() {
        assert!(counted(900).unwrap().holds && counted(1_030).unwrap().holds);
        let outcome = counted(1_031).unwrap();
        assert!(!outcome.holds && outcome.line.contains("(+3.1 %)  EXCEEDED  a reason"), "{outcome:?}");
    }

    #[test]
    fn what_was_not_counted_is_an_error() {
        for (case, command) in [(EIGHT, "ADD"), (ONE, "DEL")] {
            let counts = [Count { case: case.to_owned(), command, instructions: 1 }];
            assert!(BOUND.judge(&counts).unwrap_err().contains("was not counted"));
        }
    }
}
