//! What a swap of the default routes of both families costs on the kernel, in process, beside other routes, and how
//! that grows. Beside it is what it cannot do without: one bare dump of the same routes under the kernel's strict
//! filter.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use catena::routes::kernel::Kernel;
use catena::routes::netns::Netns;
use catena_routes::{ApplyFailure, Change, Family, Hop, Journal, Prefix, RouteSpec, Scope};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use crate::process::Cost;
use crate::stats::{Samples, micros, millis};
use crate::verdict::Verdict;

/// Numbers of other routes of each family, for `catena-bench calls`.
pub(crate) const SOME: &[usize] = &[FEW, 1_000, 10_000];

/// The same for who has time.
pub(crate) const MANY: &[usize] = &[FEW, 1_000, 10_000, 100_000];

/// How many routes a pod has; growth is judged from here on.
const FEW: usize = 10;

/// Milliseconds that a swap may take beside [`FEW`] other routes.
const SWAP_BUDGET: f64 = 0.5;

/// How many times faster than a bare dump a swap's cost may grow from one number of routes to the next. A quarter is for
/// caches and noise, as in the other growths.
const GROWTH_BUDGET: f64 = 1.25;

const MAIN: u32 = 254;

/// What was measured beside so many other routes.
#[derive(Debug)]
struct Row {
    others: usize,
    swap: Samples,
    dump: Samples,
}

/// Rows from few to many.
#[derive(Debug)]
pub(crate) struct Swaps {
    rows: Vec<Row>,
}

/// Measures in turns, so that what slows the machine slows all rows; those with many routes in every tenth round.
pub(crate) fn measure(others: &[usize], rounds: usize) -> Result<Swaps, String> {
    let mut pods = others.iter().map(|others| Pod::new(*others)).collect::<Result<Vec<_>, _>>()?;
    let row = |others: &usize| Row { others: *others, swap: Samples::default(), dump: Samples::default() };
    let mut rows: Vec<Row> = others.iter().map(row).collect();
    // The first round fills caches and is not counted.
    for round in 0..=rounds {
        for (pod, row) in pods.iter_mut().zip(&mut rows) {
            if row.others > 1_000 && round > 0 && round % 10 != 1 {
                continue;
            }
            let (dump, swap) = (pod.dump()?, pod.swap()?);
            if round > 0 {
                row.dump.push(Cost { wall: dump, ..Cost::default() });
                row.swap.push(Cost { wall: swap, ..Cost::default() });
            }
        }
    }
    Ok(Swaps { rows })
}

impl Swaps {
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:>12} {:>10} {:>10} {:>7} {:>9} {:>9}\n",
            "other routes", "swap ms", "dump ms", "ratio", "swap ×", "dump ×"
        );
        let times = |row: &Row| (millis(row.swap.median()), millis(row.dump.median()));
        let first = self.rows.first().map(times).unwrap_or_default();
        for row in &self.rows {
            let (swap, dump) = times(row);
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "{:>12} {swap:>10.3} {dump:>10.3} {:>7.1} {:>9.1} {:>9.1}",
                row.others,
                swap / dump,
                swap / first.0,
                dump / first.1
            );
        }
        text
    }

    pub(crate) fn to_value(&self) -> Value {
        let times =
            |samples: &Samples| json!({"min": micros(samples.least()), "median": micros(samples.median())});
        self.rows
            .iter()
            .map(|row| json!({"others": row.others, "swapUs": times(&row.swap), "dumpUs": times(&row.dump)}))
            .collect()
    }

    /// One for the cost beside few routes, one for the worst growth from one row to the next: over all rows what a swap
    /// costs beside no route at all would hide it.
    pub(crate) fn verdicts(&self) -> Result<[Verdict; 2], String> {
        let missing =
            || format!("no swap beside {FEW} other routes and more was measured, and budgets need it");
        let few = self.rows.first().ok_or_else(missing)?;
        if few.others != FEW {
            return Err(missing());
        }
        let growth = |[less, more]: &[Row; 2], of: fn(&Samples) -> Duration| {
            let by = |samples: fn(&Row) -> &Samples| {
                of(samples(more)).as_secs_f64() / of(samples(less)).as_secs_f64()
            };
            by(|row| &row.swap) / by(|row| &row.dump)
        };
        let steps = self.rows.array_windows::<2>();
        let of =
            |step: &[Row; 2]| (growth(step, Samples::median), growth(step, Samples::least), step[1].others);
        let worst = steps.map(of).max_by(|one, other| one.0.total_cmp(&other.0)).ok_or_else(missing)?;
        Ok([
            Verdict {
                what: format!("default routes of both families swapped in process, beside {FEW} others"),
                unit: "ms",
                measured: millis(few.swap.median()),
                least: millis(few.swap.least()),
                budget: SWAP_BUDGET,
            },
            Verdict {
                what: format!("growth of that up to {} others, over a bare dump's", worst.2),
                unit: "×",
                measured: worst.0,
                least: worst.1,
                budget: GROWTH_BUDGET,
            },
        ])
    }
}

/// A network namespace with two links, of which one has the default routes and the other all other routes.
#[derive(Debug)]
struct Pod {
    kernel: Kernel,
    scope: Scope,
    /// The default routes that are there, and those that come next.
    pair: [Vec<RouteSpec>; 2],
}

const LINKS: &str = "
    echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
    ip link set lo up
    for i in 0 1; do
        ip link add net$i type veth peer name peer$i
        ip link set peer$i up; ip link set net$i up
        ip addr add 10.$i.0.2/24 dev net$i; ip addr add fd0$i::2/64 dev net$i nodad
    done";

impl Pod {
    fn new(others: usize) -> Result<Pod, String> {
        let netns = new_netns()?;
        run(&netns, &["sh", "-euc", LINKS], "")?;
        let (mut v4, mut v6) = (String::new(), String::new());
        for i in 0..others {
            let (a, b, c) = (i / 65_536, i / 256 % 256, i % 256);
            // Writing to a String does not fail.
            let _ = writeln!(v4, "route add 100.{}.{b}.{c}/32 via 10.1.0.1", 64 + a);
            let _ = writeln!(v6, "route add 2001:db8:{a:x}:{b:x}:{c:x}::/80 via fd01::1");
        }
        for (family, batch) in [("-4", v4), ("-6", v6)] {
            run(&netns, &["ip", family, "-batch", "-"], &batch)?;
        }
        let mut kernel = Kernel::of(&netns);
        settle(&mut kernel)?;
        let link = |kernel: &mut Kernel, name: &str| match kernel.find_link(name) {
            Ok(Some(link)) => Ok(link.index),
            Ok(None) => Err(format!("the link {name} is not there")),
            Err(error) => Err(format!("the link {name}: {error}")),
        };
        let (first, second) = (link(&mut kernel, "net0")?, link(&mut kernel, "net1")?);
        let via = |gateways: [&str; 2]| -> Result<Vec<RouteSpec>, String> {
            gateways.into_iter().map(|gateway| default_via(gateway, first)).collect()
        };
        let pair = [via(["10.0.0.1", "fd00::1"])?, via(["10.0.0.254", "fd00::9"])?];
        let mut pod = Pod { kernel, scope: Scope { links: vec![first, second], tables: vec![MAIN] }, pair };
        let there: Vec<Change> = pod.pair[0].iter().cloned().map(Change::Add).collect();
        pod.apply(&there)?;
        Ok(pod)
    }

    /// Reads all routes, as little as a judgement about them can do with.
    fn dump(&mut self) -> Result<Duration, String> {
        let start = Instant::now();
        dump(&mut self.kernel)?;
        Ok(start.elapsed())
    }

    fn swap(&mut self) -> Result<Duration, String> {
        let [old, new] = &self.pair;
        let changes: Vec<Change> =
            old.iter().cloned().map(Change::Delete).chain(new.iter().cloned().map(Change::Add)).collect();
        let start = Instant::now();
        self.apply(&changes)?;
        let wall = start.elapsed();
        self.pair.swap(0, 1);
        Ok(wall)
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), String> {
        let applied = self.kernel.apply(&self.scope, changes, &mut Journal::new());
        applied.map(|_| ()).map_err(|ApplyFailure { errors, .. }| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            format!("the default routes were not swapped: {}", errors.join("; "))
        })
    }
}

fn default_via(gateway: &str, link: u32) -> Result<RouteSpec, String> {
    let gateway: IpAddr = gateway.parse().map_err(|error| format!("{gateway}: {error}"))?;
    Ok(RouteSpec::new(Prefix::default_route(Family::of(gateway)), vec![Hop::via(gateway, link)]))
}

fn dump(kernel: &mut Kernel) -> Result<usize, String> {
    let mut count = 0;
    for family in Family::ALL {
        count += kernel.routes(family, MAIN).map_err(|error| format!("the routes: {error}"))?.len();
    }
    Ok(count)
}

/// Waits until the kernel has added the link-local routes, which it does a little after a link is up.
fn settle(kernel: &mut Kernel) -> Result<(), String> {
    let mut before = dump(kernel)?;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(50));
        let now = dump(kernel)?;
        if now == before {
            return Ok(());
        }
        before = now;
    }
    Err("the routes of a new network namespace do not come to rest".to_owned())
}

/// A namespace that nobody else has.
fn new_netns() -> Result<Netns, String> {
    let make = || {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| format!("a new network namespace: {errno}"))?;
        Netns::current().map_err(|error| error.to_string())
    };
    // A thread's namespace is that of what it starts, so this one's must not change.
    std::thread::spawn(make)
        .join()
        .map_err(|_| "the thread of a new network namespace panicked".to_owned())?
}

/// Runs a command inside the namespace.
fn run(netns: &Netns, command: &[&str], input: &str) -> Result<(), String> {
    let [program, args @ ..] = command else { return Ok(()) };
    let output = || {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        // Dropped when all is written: the end of the input.
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        child.wait_with_output()
    };
    let output = netns
        .run(output)
        .map_err(|error| error.to_string())?
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(millis: u64) -> Samples {
        let mut samples = Samples::default();
        samples.push(Cost { wall: Duration::from_millis(millis), ..Cost::default() });
        samples
    }

    fn swaps(rows: &[(usize, u64, u64)]) -> Swaps {
        let row = |(others, swap, dump): &(usize, u64, u64)| Row {
            others: *others,
            swap: samples(*swap),
            dump: samples(*dump),
        };
        Swaps { rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn growth_is_judged_by_the_worst_row() {
        let [swap, growth] = swaps(&[(10, 4, 1), (100, 8, 10), (1_000, 96, 80)]).verdicts().unwrap();
        assert_eq!((swap.measured, swap.holds()), (4.0, false));
        assert_eq!((growth.measured, growth.holds()), (1.5, false));
        assert!(growth.what.contains("1000"), "{}", growth.what);
        let [_, growth] = swaps(&[(10, 4, 1), (100, 16, 4)]).verdicts().unwrap();
        assert_eq!((growth.measured, growth.holds()), (1.0, true));
    }

    #[test]
    fn without_rows_there_is_no_verdict() {
        for rows in [&[][..], &[(10, 1, 1)], &[(100, 1, 1), (1_000, 1, 1)]] {
            assert!(swaps(rows).verdicts().is_err(), "{rows:?}");
        }
    }
}
