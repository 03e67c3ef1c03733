//! A fuzz target for everything that parses what others send. Each is a plain function of bytes, driven with mutations
//! of the recorded calls and of the vectors: FUZZ_INPUTS of each (`make fuzz` takes many more), repeatable by FUZZ_SEED.
//! Before them come the inputs of `regressions/TARGET/`, in the form in which a failure shows its input.

mod corpus;
mod driver;
mod shapes;
mod targets;
#[path = "../../../sdk/cni/tests/support/targets.rs"]
mod values;

use driver::{Target, drive, grows_linearly};

/// The inputs that mutations start from.
type Corpus = fn() -> Vec<Vec<u8>>;

/// Name, target and the part of the corpus that it starts from.
const TARGETS: &[(&str, Target, Corpus)] = &[
    ("json", values::json, corpus::documents),
    ("environment", targets::environment, corpus::environments),
    ("request", targets::request, corpus::requests),
    ("config-list", values::list, corpus::lists),
    ("result", values::result, corpus::results),
    ("prev-result", values::prev_result, corpus::results),
    ("cni-args-and-names", values::texts, corpus::texts),
    ("version-reply", values::version_reply, corpus::version_replies),
    ("error-object", values::error_object, corpus::results),
    ("delegate-output", targets::delegate_output, corpus::results),
    ("cache", targets::cache, corpus::cache_files),
    ("device-info", targets::device_info, corpus::device_descriptions),
    ("versions-file", targets::versions_file, corpus::versions_files),
    ("ledger", targets::ledger, corpus::ledger_entries),
    ("outcome", targets::outcome, corpus::results),
    ("rewrite", targets::rewrite, corpus::lists),
    ("intents", targets::intents, corpus::intents),
    ("node-config", targets::node_config, corpus::node_files),
    ("module-lock", targets::module_lock, corpus::node_files),
    ("module-wants", targets::module_wants, corpus::grants),
    ("recording", targets::recording, corpus::recordings),
];

/// The work of one that compares every element of a list with every other.
#[test]
fn a_parser_that_takes_quadratic_time_is_noticed() {
    fn elements(bytes: &[u8]) -> usize {
        bytes.iter().filter(|byte| **byte == b',').count()
    }
    let shape = |size: usize| [vec![b'x'; 59], vec![b',']].concat().repeat(size / 60);
    let quadratic: Target = |bytes| {
        let steps = elements(bytes).pow(2);
        std::hint::black_box((0..steps).map(std::hint::black_box).fold(0, usize::wrapping_add));
    };
    let linear: Target = |bytes| {
        std::hint::black_box(elements(bytes));
    };
    grows_linearly("linear", linear, &shape);
    assert!(std::panic::catch_unwind(|| grows_linearly("quadratic", quadratic, &shape)).is_err());
}

/// One test for each target, so that they run side by side and one failure does not hide another: no input makes it
/// panic, and none of up to 1 MiB takes it more than linear time.
macro_rules! targets {
    ($($test:ident: $name:literal),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                let (name, target, corpus) = TARGETS.iter().find(|(name, ..)| *name == $name).expect("a target");
                drive(name, *target, &corpus());
                for (shape, make) in shapes::SHAPES {
                    grows_linearly(&format!("{name} on {shape}"), *target, make);
                }
            }
        )+

        #[test]
        fn every_target_is_driven() {
            let driven = [$($name),+];
            assert!(TARGETS.iter().all(|(name, ..)| driven.contains(name)));
            // The kernel's replies and a guest's requests are read where nobody but the crate itself reaches.
            let known = [&driven[..], &["netlink-reply", "netlink-datagram", "route-requests"]].concat();
            for name in driver::with_regressions() {
                assert!(known.contains(&name.as_str()), "regressions/{name}: there is no such target");
            }
        }
    };
}

targets! {
    json: "json",
    environment: "environment",
    request: "request",
    config_list: "config-list",
    result: "result",
    prev_result: "prev-result",
    cni_args_and_names: "cni-args-and-names",
    version_reply: "version-reply",
    error_object: "error-object",
    delegate_output: "delegate-output",
    cache: "cache",
    device_info: "device-info",
    versions_file: "versions-file",
    ledger: "ledger",
    outcome: "outcome",
    rewrite: "rewrite",
    intents: "intents",
    node_config: "node-config",
    module_lock: "module-lock",
    module_wants: "module-wants",
    recording: "recording",
}
