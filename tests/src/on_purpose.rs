//! Every case of the vectors that catena answers in another way than the reference on purpose: the file, the case, and
//! the rule that says so. The exact answer stands in the test that runs the file; a case that is answered differently
//! and is not listed here fails, and so does one that is listed and answered the same.

/// File without `.json`, id, rule.
pub const ON_PURPOSE: &[(&str, &str, &str)] = &[
    (
        "result-conversion",
        "null-iface-same",
        "cni.md k 3: refuse null elements; here the reference hands one on unread",
    ),
    (
        "result-conversion",
        "null-iface-110-100",
        "cni.md k 3: refuse null elements; 1.1.0 and 1.0.0 are one type, so the reference hands one on",
    ),
    (
        "result-conversion",
        "null-iface-110-040",
        "cni.md c.4: a null interface crashes the reference; refuse it cleanly",
    ),
    (
        "result-conversion",
        "null-iface-040-031",
        "cni.md k 3: refuse null elements; 0.4.0 and 0.3.1 are one type, so the reference hands one on",
    ),
    (
        "result-conversion",
        "null-ip-040-110",
        "cni.md c.4: a null address crashes the reference; refuse it cleanly",
    ),
    (
        "result-conversion",
        "null-ip-110-040",
        "cni.md c.4: a null address crashes the reference; refuse it cleanly",
    ),
    ("result-conversion", "ifidx-neg", "design.md 4: a bad index is never returned to a runtime; -1 is one"),
    (
        "result-conversion",
        "ifidx-neg-down",
        "design.md 4: a bad index is never returned to a runtime, in an older version neither",
    ),
    (
        "result-conversion",
        "ifidx-oob",
        "design.md 4: a bad index is never returned to a runtime; 9 of 1 is one",
    ),
    (
        "result-conversion",
        "ifidx-noifaces",
        "design.md 4: a bad index is never returned to a runtime; without interfaces any is",
    ),
    (
        "result-conversion",
        "addr-missing",
        "cni.md c.1: a missing address comes out as a text that nobody can read back",
    ),
    (
        "result-conversion",
        "addr-missing-040",
        "cni.md c.1: a missing address comes out as a text that nobody can read back, in 0.4.0 as well",
    ),
    (
        "result-conversion",
        "route-nodst",
        "cni.md c.1: a missing dst comes out as a text that nobody can read back",
    ),
    (
        "result-conversion",
        "ip4-noip",
        "cni.md c.1: ip is required in an ip4 block; it would come out unreadable",
    ),
    (
        "result-conversion",
        "unknown-fields",
        "design.md 5: vendors add members, so those of a result are kept where they can be; cni.md c.1: libcni drops them",
    ),
    ("result-conversion", "dup-interfaces", "the vector's own note: a curiosity that need not be copied"),
    (
        "result-conversion/answers",
        "pair-0.1.0-to-0.1.0",
        "design.md 4: every result is 1.1.0 on its way; cni.md c.4: down from there routes keep dst and gw only",
    ),
    (
        "result-conversion/answers",
        "pair-0.1.0-to-0.2.0",
        "design.md 4: every result is 1.1.0 on its way; cni.md c.4: down from there routes keep dst and gw only",
    ),
    (
        "result-conversion/answers",
        "pair-0.2.0-to-0.1.0",
        "design.md 4: every result is 1.1.0 on its way; cni.md c.4: down from there routes keep dst and gw only",
    ),
    (
        "result-conversion/answers",
        "empty-0.1.0-to-0.2.0",
        "cni.md k 2: an empty result to a 0.1/0.2 request fails with a clear message",
    ),
    (
        "result-conversion/answers",
        "empty-0.2.0-to-0.1.0",
        "cni.md k 2: an empty result to a 0.1/0.2 request fails with a clear message",
    ),
    (
        "plugin-stdout",
        "extra",
        "design.md 5: vendors add members, so those of a delegate's answer are kept; cni.md c.1: libcni drops them",
    ),
    (
        "plugin-stdout",
        "nover-ip4-11",
        "design.md 1: nobody meets a pod with two truths; the reference loses the address silently (cni.md c.2)",
    ),
    ("conflist-parse", "bignum", "cni.md b.2, k 4: numbers are kept as they were written"),
    (
        "plugin-lookup",
        "emptyelem",
        "cni.md g: skip empty elements, which mean the current folder to the reference",
    ),
    ("plugin-lookup", "relative", "cni.md g: skip relative elements"),
    (
        "exec-behaviour",
        "fail-silent",
        "cni.md k 5: an error object has a code, where the reference says 0 (cni.md g); here for nothing on stdout: 110",
    ),
    (
        "exec-behaviour",
        "fail-stderr",
        "cni.md k 5: an error object has a code, where the reference says 0 (cni.md g); here for its stderr is the reference's text: 110",
    ),
    (
        "exec-behaviour",
        "fail-text",
        "cni.md k 5: an error object has a code, where the reference says 0 (cni.md g); here for a text: 110",
    ),
    (
        "exec-behaviour",
        "fail-empty-obj",
        "cni.md k 5: an error object has a code, where the reference says 0 (cni.md g); here for {}: 110",
    ),
    (
        "exec-behaviour",
        "fail-result",
        "cni.md k 5: an error object has a code, where the reference says 0 (cni.md g); here for a result: 110",
    ),
    (
        "exec-behaviour",
        "fail-two",
        "cni.md k 5: an error object has a code, where the reference says 0 (cni.md g); here for two documents: 110",
    ),
    (
        "exec-behaviour",
        "fail-code-str",
        "cni.md k 5: an error object has a code, where the reference says 0 (cni.md g); here for a code that is a text: 110",
    ),
    (
        "exec-behaviour",
        "fail-code-neg",
        "cni.md k 5: an error object has a code, where the reference says 0 (cni.md g); here for a negative code: 110",
    ),
    (
        "exec-behaviour",
        "fail-null",
        "cni.md k 5: an error object has a code, where the reference says 0 (cni.md g); here for null: 110",
    ),
    (
        "exec-behaviour",
        "signal",
        "cni.md k 5: an error object has a code, where the reference says 0; killed by a signal: 112",
    ),
    (
        "exec-behaviour",
        "noexec",
        "cni.md k 5: an error object has a code, where the reference says 0; it cannot be run for its mode: 7",
    ),
    (
        "exec-behaviour",
        "badinterp",
        "cni.md k 5: an error object has a code, where the reference says 0; it cannot be run for its interpreter: 7",
    ),
    (
        "exec-behaviour",
        "noshebang",
        "cni.md k 5: an error object has a code, where the reference says 0; it cannot be run for its format: 7",
    ),
    (
        "exec-behaviour",
        "timeout",
        "design.md 7: a delegate has a deadline and a process group, which is killed; cni.md k 12: 111",
    ),
    (
        "exec-behaviour",
        "timeout-child",
        "cni.md k 12: kill the group, do not wait on pipes held by orphans: 111",
    ),
    (
        "exec-behaviour",
        "timeout-child-bg",
        "cni.md g: do not wait for orphans, so the deadline is never reached",
    ),
    ("exec-behaviour", "busy", "cni.md g: retry ETXTBSY with a fresh command"),
    (
        "exec-behaviour",
        "busy-stdin",
        "cni.md g: retry ETXTBSY with a fresh command, which gets the request too",
    ),
    (
        "exec-behaviour",
        "busy-forever-add",
        "cni.md g: retry ETXTBSY, bounded, then fail: 11, which cni.md a.4 calls try again later",
    ),
    (
        "exec-behaviour",
        "busy-forever-del",
        "cni.md g: retry ETXTBSY, bounded, then fail; a DEL never succeeds unrun",
    ),
    ("exec-behaviour", "big", "design.md 9: a delegate's output is bounded by 4 MiB; formats.md: 110"),
    (
        "chain",
        "add-020",
        "design.md 7: CHECK fails only on what catena asserted, so a list of 0.2.0 is left out",
    ),
    (
        "chain",
        "add-nover",
        "design.md 7: CHECK fails only on what catena asserted, so a list of 0.1.0 is left out",
    ),
    (
        "chain",
        "cache-downgrade",
        "design.md 7: CHECK fails only on what catena asserted, so a list below 0.4.0 is left out",
    ),
    (
        "chain",
        "mixed-result-version",
        "cni.md k 1: prevResult is converted to each delegate's request version",
    ),
    ("chain", "del-fails-last", "cni.md k 8: DEL runs all plugins, also past one that fails"),
    ("chain", "missing-plugin", "cni.md k 8: DEL runs all plugins, also past one that is missing"),
    ("chain", "status", "cni.md f: ask VERSION before forwarding STATUS"),
    ("chain", "status-fails", "cni.md f: ask VERSION before forwarding STATUS"),
    ("chain", "gc-valid", "cni.md f: ask VERSION before forwarding GC"),
    ("chain", "gc-stale", "cni.md f: ask VERSION before forwarding GC"),
    ("chain", "gc-empty", "cni.md k 3: no null is ever emitted, so an empty set is an empty list"),
    ("chain", "gc-fails", "cni.md f: ask VERSION before forwarding GC"),
    (
        "env-validation",
        "ADD-notns-netns",
        "cni.md a.1: each command decides itself; ADD looks into the namespace: 8",
    ),
    (
        "env-validation",
        "CHECK-notns-netns",
        "cni.md a.1: each command decides itself; CHECK looks into the namespace: 8",
    ),
    (
        "env-validation",
        "CHECK-gone-netns",
        "cni.md a.1: each command decides itself; CHECK needs the namespace: 8",
    ),
    (
        "env-validation",
        "ADD-own-netns",
        "cni.md k 6: check own-namespace before acting; cni.md k 5: one JSON document on stdout, always",
    ),
    (
        "env-validation",
        "override-yes",
        "cni.md k 6: check own-namespace before acting; cni.md k 5: one JSON document on stdout, always",
    ),
    ("env-validation", "DEL-own-netns", "design.md 7: on DEL a namespace equal to our own counts as gone"),
    (
        "env-validation",
        "unknown-and-badstdin",
        "cni.md a.1: an unknown command is code 4; the environment is judged before the request",
    ),
    (
        "containerd-acceptance",
        "oob-len",
        "cni.md h: index == len crashes containerd; design.md 4: it never leaves",
    ),
    (
        "containerd-acceptance",
        "neg",
        "cni.md h: a negative index crashes containerd; design.md 4: it never leaves",
    ),
    (
        "containerd-acceptance",
        "idx0-noifaces",
        "cni.md h: an index with no interfaces crashes containerd; design.md 4: it never leaves",
    ),
    (
        "containerd-acceptance",
        "nulliface",
        "cni.md h: a null interface crashes containerd; design.md 4: it never leaves",
    ),
    (
        "containerd-acceptance",
        "addrmissing",
        "cni.md h: a missing address yields pod IP <nil>; cni.md k 3: refuse it",
    ),
    (
        "plugin-results-by-version",
        "21 ptp 1.1.0",
        "cni.md k 1: delegates are sent a version they list: 1.0.0",
    ),
    (
        "plugin-results-by-version",
        "22 bridge 1.1.0",
        "cni.md k 1: delegates are sent a version they list: 1.0.0",
    ),
    (
        "plugin-results-by-version",
        "23 macvlan 1.1.0",
        "cni.md k 1: delegates are sent a version they list: 1.0.0",
    ),
    (
        "plugin-results-by-version",
        "24 ptp 1.2.0",
        "cni.md k 1: delegates are sent a version they list: 1.0.0",
    ),
    (
        "plugin-results-by-version",
        "25 bridge 1.2.0",
        "cni.md k 1: delegates are sent a version they list: 1.0.0",
    ),
    (
        "plugin-results-by-version",
        "26 macvlan 1.2.0",
        "cni.md k 1: delegates are sent a version they list: 1.0.0",
    ),
    (
        "plugin-results-by-version",
        "31 host-local 1.1.0",
        "cni.md k 1: delegates are sent a version they list: 1.0.0",
    ),
];

/// The rule for a case, if it is listed.
pub fn rule(file: &str, id: &str) -> Option<&'static str> {
    ON_PURPOSE.iter().find(|(in_file, of, _)| *in_file == file && *of == id).map(|(.., rule)| *rule)
}

/// How many cases of a file are listed.
pub fn count(file: &str) -> usize {
    ON_PURPOSE.iter().filter(|(in_file, ..)| *in_file == file).count()
}
