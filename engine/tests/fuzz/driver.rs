//! Drives a fuzz target, a plain function of bytes: with mutations of a corpus, by a seed, so that a failure can be
//! repeated; and with large inputs, to see that its work grows no faster than they do.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A parser, called on anything. It panics where it finds a fault.
pub(crate) type Target = fn(&[u8]);

/// Inputs for each target, unless FUZZ_INPUTS says otherwise.
const INPUTS: u64 = 3000;
/// An input does not grow beyond this; what larger ones cost is seen in [`grows_linearly`].
const LARGEST: usize = 64 * 1024;

/// Pieces that mean something to one of the parsers, or nearly do.
const TOKENS: &[&[u8]] = &[
    b"null", b"true", b"{}", b"[]", b"\"\"", b"-0", b"1e400", b"-1", b"0", b"9223372036854775808", b"1.10", b"15e2",
    b"123456789012345678901234567890", b"\\u0000", b"\\ud800", b"\\ud83d\\ude00", b"\\\"", b"\xff", b"\xc3", b"\xef\xbb\xbf",
    "\u{202e}".as_bytes(), "\u{17f}".as_bytes(), b"\0", b"\n", b"\r\n", b";", b"=", b",", b":", b"/", b"..", b"%", b" ",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":",
    b"\"cniVersion\":\"1.1.0\",", b"\"cniVersion\":\"0.2.0\",", b"\"CNIVERSION\":\"0.4.0\",", b"\"cniVersion\":1,", b"0.1.0", b"1.2.0",
    b"\"name\":\"n\",", b"\"type\":\"t\",", b"\"plugins\":[", b"\"delegates\":[", b"\"config\":\"{}\",", b"\"prevResult\":{},",
    b"\"ips\":[", b"\"interfaces\":[", b"\"routes\":[", b"\"dst\":\"0.0.0.0/0\",", b"\"address\":\"192.0.2.5/24\",", b"\"interface\":0,",
    b"\"ip4\":{\"ip\":\"::/0\"},", b"\"code\":7,", b"\"msg\":\"m\",", b"\"capabilities\":{\"mac\":true},", b"\"runtimeConfig\":{},",
    b"::ffff:192.0.2.5/120", b"192.0.2.256", b"fe80::1%eth0", b"\"$serde_json::private::Number\":\"x\",",
    b"\"$serde_json::private::RawValue\":\"{\",", b"CNI_COMMAND=ADD\0", b"CNI_NETNS=\0", b"CNI_ARGS=", b"\"schema\":1,", b"\"finished\"",
];

/// splitmix64: one word of state, and every seed is a good one.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`; 0 for 0.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % (limit.max(1) as u64)) as usize
    }

    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let (a, b) = (self.below(len + 1), self.below(len + 1));
        // Mostly short ones.
        let (from, to) = (a.min(b), a.max(b));
        from..to.min(from + 1 + self.below(40))
    }
}

/// Runs `target` on mutations of `corpus`. A panic fails with the input, and with what repeats it.
pub(crate) fn drive(name: &str, target: Target, corpus: &[Vec<u8>]) {
    assert!(!corpus.is_empty(), "{name}: no corpus");
    let number = |variable: &str, default: u64| {
        let value = std::env::var(variable).ok();
        value.map_or(default, |value| value.parse().unwrap_or_else(|error| panic!("{variable}: {error}")))
    };
    let inputs = number("FUZZ_INPUTS", INPUTS);
    let seed = number("FUZZ_SEED", 1);
    let mut hasher = DefaultHasher::new();
    (name, seed).hash(&mut hasher);
    let mut random = Random(hasher.finish());
    let regressions = regressions(name);
    // What is in the corpus has to pass as it is.
    for input in regressions.iter().chain(corpus) {
        check(name, target, input, seed);
    }
    for _ in 0..inputs {
        let input = mutate(&mut random, corpus);
        check(name, target, &input, seed);
    }
    let total = (regressions.len() + corpus.len()) as u64 + inputs;
    writeln!(std::io::stderr(), "fuzz {name}: {total} inputs, seed {seed}").expect("stderr");
}

fn regressions_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/regressions")
}

/// The targets that have such inputs.
#[allow(dead_code, reason = "one of those who drive targets asks")]
pub(crate) fn with_regressions() -> Vec<String> {
    let folders = fs::read_dir(regressions_folder()).expect("tests/fuzz/regressions");
    folders.map(|folder| folder.expect("a folder").file_name().to_string_lossy().into_owned()).collect()
}

/// Inputs that were trouble once, or look like it: a file each, `b"…"` with escapes as in Rust.
fn regressions(name: &str) -> Vec<Vec<u8>> {
    let Ok(files) = fs::read_dir(regressions_folder().join(name)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let inside = text.trim().strip_prefix("b\"").and_then(|text| text.strip_suffix('"'));
        unescaped(inside.unwrap_or_else(|| panic!("{}: not b\"…\"", path.display())))
    };
    paths.iter().map(read).collect()
}

/// Undoes [`slice::escape_ascii`].
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next() } else { None };
        bytes.push(match escaped {
            None => byte,
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b'x') => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = str::from_utf8(&digits).expect("two digits");
                u8::from_str_radix(digits, 16).expect("two hexadecimal digits")
            }
            Some(other) => other,
        });
    }
    bytes
}

fn check(name: &str, target: Target, input: &[u8], seed: u64) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        let shown = input.get(..4000).unwrap_or(input).escape_ascii();
        let rest = if input.len() > 4000 { " …" } else { "" };
        eprintln!("fuzz {name}: FUZZ_SEED={seed}: {} bytes: b\"{shown}\"{rest}", input.len());
        std::panic::resume_unwind(payload);
    }
}

fn mutate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        let range = random.range(input.len());
        match random.below(9) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 => drop(input.splice(at..at, [random.next() as u8])),
            2 => drop(input.drain(range)),
            3 => {
                let copy = input[range].to_vec();
                input.splice(at..at, copy);
            }
            4 => input.truncate(at),
            5 => input[range]
                .iter_mut()
                .filter(|byte| byte.is_ascii_alphabetic())
                .for_each(|byte| *byte ^= 0x20),
            6 => {
                let other = &corpus[random.below(corpus.len())];
                let piece = other[random.range(other.len())].to_vec();
                input.splice(range, piece);
            }
            7 => {
                // A run of one piece.
                let token = TOKENS[random.below(TOKENS.len())];
                let run = token.repeat(1 + random.below(200));
                input.splice(at..at, run);
            }
            _ => drop(input.splice(range, TOKENS[random.below(TOKENS.len())].iter().copied())),
        }
        input.truncate(LARGEST);
    }
    input
}

/// Runs `target` on inputs of one shape, of 1 MiB and of the smallest size that takes a time that can be measured, and
/// compares the CPU time of the two: a parser that takes quadratic time needs 256 times as much for 16 times the bytes.
pub(crate) fn grows_linearly(name: &str, target: Target, shape: &dyn Fn(usize) -> Vec<u8>) {
    const SMALLEST: usize = 1 << 14;
    const LARGE: usize = 1 << 20;
    /// Allowed beyond what a linear one takes: caches are smaller than the larger input, and memory has to be had.
    const SLACK: u32 = 4;
    /// Nothing that takes less can be said to grow.
    const FLOOR: Duration = Duration::from_micros(200);
    /// Something else may be in the way of one run, or of a few.
    const TRIES: usize = 5;
    let least = |input: &[u8], tries: usize, enough: Duration| {
        let mut least = Duration::MAX;
        for _ in 0..tries {
            least = least.min(cpu_time(|| target(input)));
            if least <= enough {
                break;
            }
        }
        least
    };
    let mut size = SMALLEST;
    let small = loop {
        let cost = least(&shape(size), 3, Duration::ZERO);
        if cost >= FLOOR || size * 4 >= LARGE {
            break cost.max(FLOOR);
        }
        size *= 2;
    };
    let limit = small * SLACK * u32::try_from(LARGE / size).expect("at most 64");
    let large = least(&shape(LARGE), TRIES, limit);
    assert!(large <= limit, "{name}: {size} bytes took {small:?}, {LARGE} {large:?}: more than {limit:?}");
}

fn cpu_time(run: impl FnOnce()) -> Duration {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the thread's clock"));
    let before = now();
    run();
    now().saturating_sub(before)
}
