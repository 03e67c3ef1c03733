//! Modules that import WASI, as `cargo build --target wasm32-wasip2` makes them.

use crate::stage::{ANSWER, Node, call, component, document, host, run};
use catena::node::Limits;
use catena::routes::backend::Backend;
use catena::wasm::{Command, Host, StageError, limits};

/// As much of WASI 0.2 as is used here.
const WIT: &str = r#"
package test:more { world more {
    import wasi:io/error@0.2.0; import wasi:io/poll@0.2.0; import wasi:io/streams@0.2.0;
    import wasi:clocks/wall-clock@0.2.0; import wasi:clocks/monotonic-clock@0.2.0;
    import wasi:random/random@0.2.0; import wasi:cli/stdout@0.2.0; import wasi:cli/stderr@0.2.0; import wasi:cli/exit@0.2.0;
    import wasi:cli/environment@0.2.0; import wasi:filesystem/types@0.2.0; import wasi:filesystem/preopens@0.2.0;
    import wasi:sockets/instance-network@0.2.0;
} }
package wasi:io@0.2.0 {
    interface error { resource error; }
    interface poll { resource pollable { block: func(); } }
    interface streams {
        use error.{error};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
    }
}
package wasi:clocks@0.2.0 {
    interface wall-clock { record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime; }
    interface monotonic-clock {
        use wasi:io/poll@0.2.0.{pollable};
        now: func() -> u64;
        subscribe-duration: func(when: u64) -> pollable;
    }
}
package wasi:random@0.2.0 { interface random { get-random-u64: func() -> u64; } }
package wasi:cli@0.2.0 {
    interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }
    interface stderr { use wasi:io/streams@0.2.0.{output-stream}; get-stderr: func() -> output-stream; }
    interface exit { exit: func(status: result); }
    interface environment { get-arguments: func() -> list<string>; }
}
package wasi:filesystem@0.2.0 {
    interface types {
        enum error-code {
            access, would-block, already, bad-descriptor, busy, deadlock, quota, exist, file-too-large,
            illegal-byte-sequence, in-progress, interrupted, invalid, io, is-directory, loop, too-many-links,
            message-size, name-too-long, no-device, no-entry, no-lock, insufficient-memory, insufficient-space,
            not-directory, not-empty, not-recoverable, unsupported, no-tty, no-such-device, overflow, not-permitted,
            pipe, read-only, invalid-seek, text-file-busy, cross-device,
        }
        flags descriptor-flags {
            read, write, file-integrity-sync, data-integrity-sync, requested-write-sync, mutate-directory,
        }
        flags path-flags { symlink-follow }
        flags open-flags { create, directory, exclusive, truncate }
        resource descriptor {
            create-directory-at: func(path: string) -> result<_, error-code>;
            open-at: func(path-flags: path-flags, path: string, open-flags: open-flags, %flags: descriptor-flags)
                -> result<descriptor, error-code>;
        }
    }
    interface preopens { use types.{descriptor}; get-directories: func() -> list<tuple<descriptor, string>>; }
}
package wasi:sockets@0.2.0 {
    interface instance-network { resource network; instance-network: func() -> network; }
}
"#;

fn stage(fields: &str, body: &str) -> Vec<u8> {
    let export =
        format!(r#"(func (export "catena:stage/stage@0.1.0#run") (param $args i32) (result i32) {body})"#);
    component("runner", WIT, fields, &export)
}

/// The answer: a failure whose code is what `value` computes.
fn tells(value: &str) -> String {
    format!(
        "(i32.store8 (i32.const 1024) (i32.const 1)) (i32.store8 (i32.const 1028) (i32.const 4))
         (i32.store (i32.const 1032) {value}) {ANSWER}"
    )
}

fn told(component: &[u8], grants: &[&str]) -> u32 {
    run(component, grants).0.unwrap_err().code()
}

#[test]
fn time_stands_still_without_a_grant() {
    let fields = r#"(import "wasi:clocks/wall-clock@0.2.0" "now" (func $now (param i32)))
        (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $ticks (result i64)))"#;
    // Tells 1000, and one more for each clock that went on between two looks.
    let body = format!(
        "(local $i i32) (local $t i64)
         (call $now (i32.const 2048)) (local.set $t (call $ticks))
         (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 100000))))
         (call $now (i32.const 2064)) {}",
        tells(
            "(i32.add (i32.const 1000) (i32.add
                (i32.ne (i32.load (i32.const 2056)) (i32.load (i32.const 2072)))
                (i64.ne (local.get $t) (call $ticks))))"
        )
    );
    let component = stage(fields, &body);
    assert_eq!(told(&component, &[]), 1000);
    assert_eq!(told(&component, &["clock=true"]), 1002);
}

#[test]
fn a_stage_cannot_sleep() {
    let fields = r#"(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $subscribe (param i64) (result i32)))
        (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))"#;
    let body = format!("(call $block (call $subscribe (i64.const 3600000000000))) {ANSWER}");
    for grants in [&[][..], &["clock=true"]] {
        let start = std::time::Instant::now();
        run(&stage(fields, &body), grants).0.unwrap();
        assert!(start.elapsed() < std::time::Duration::from_secs(20));
    }
}

#[test]
fn random_numbers_are_the_containers() {
    let fields = r#"(import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))"#;
    let component = stage(fields, &tells("(i32.or (i32.const 65536) (i32.wrap_i64 (call $random)))"));
    assert_eq!(told(&component, &[]), told(&component, &[]));
    let node = Node::new();
    node.install("x", &component, &[]);
    let other = catena::wasm::Host::new("c2", Default::default(), false);
    let module = node.module("x").unwrap();
    let codes =
        [host(), other].map(|host| module.run(&call(Command::Add), &document(), host).0.unwrap_err().code());
    assert_ne!(codes[0], codes[1]);
    let codes: std::collections::BTreeSet<u32> = (0..3).map(|_| told(&component, &["random=true"])).collect();
    assert!(codes.len() > 1);
}

#[test]
fn standard_output_is_the_log() {
    let fields = r#"(import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))
        (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
        (data (i32.const 8) "one\ntwo\1b[2J")"#;
    let body = format!("(call $write (call $stdout) (i32.const 8) (i32.const 11) (i32.const 2048)) {ANSWER}");
    let (answer, host, _) = run(&stage(fields, &body), &[]);
    answer.unwrap();
    let lines: Vec<&str> = host.logs.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines, ["one", "two\\u{1b}[2J"]);
}

/// Where the text at 8 is written to standard error before a trap, after `more`.
fn traps_with_words(text: &str, more: &str) -> StageError {
    let fields = format!(
        r#"(import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))
        (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
        (import "catena:stage/log@0.1.0" "write" (func $log (param i32 i32 i32)))
        (data (i32.const 8) "{text}") (data (i32.const 1008) "an info an error")"#
    );
    let length = text.replace("\\n", "n").len();
    let body = format!(
        "(local $i i32) {more}
         (call $write (call $stderr) (i32.const 8) (i32.const {length}) (i32.const 2048)) (unreachable)"
    );
    run(&stage(&fields, &body), &["log=true"]).0.unwrap_err()
}

/// Languages with a runtime of their own write why they end to standard error.
#[test]
fn the_last_words_of_a_module() {
    let python = "Traceback (most recent call last):\\n  in run\\nValueError: no tier\\n";
    // Log lines at info level, so many that none is left for standard error.
    let lines = "(loop $l
        (call $log (i32.const 1) (i32.const 1008) (i32.const 7))
        (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 200))))";
    let error = "(call $log (i32.const 3) (i32.const 1016) (i32.const 8))";
    for (more, words) in [
        (String::new(), "ValueError: no tier"),
        (lines.to_owned(), "ValueError: no tier"),
        // What a module says as an error goes before, whether or not there was room for it.
        (error.to_owned(), "an error"),
        (format!("{lines} {error}"), "an error"),
    ] {
        let trap = traps_with_words(python, &more);
        let StageError::Trap { message, .. } = &trap else { panic!("{trap}") };
        assert!(
            message.contains("unreachable") && message.ends_with(&format!("it had logged: {words}")),
            "{message}"
        );
    }
    let trap = traps_with_words("", "");
    assert!(!trap.to_string().contains("logged"), "{trap}");
}

#[test]
fn nothing_of_the_process_is_seen() {
    let fields = r#"(import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))
        (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))"#;
    let body = format!(
        "(call $arguments (i32.const 2048)) (call $directories (i32.const 2064)) {}",
        tells("(i32.add (i32.const 1000) (i32.add (i32.load (i32.const 2052)) (i32.load (i32.const 2068))))")
    );
    let component = stage(fields, &body);
    assert_eq!(told(&component, &[]), 1000);
    assert_eq!(told(&component, &[r#"dirs={"/etc":"ro"}"#]), 1001);
}

/// Makes the folder `made` in the granted one. Tells 1000, or 2000 if it could not.
fn makes_a_folder() -> Vec<u8> {
    let fields = r#"(import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))
        (import "wasi:filesystem/types@0.2.0" "[method]descriptor.create-directory-at" (func $make (param i32 i32 i32 i32)))
        (data (i32.const 8) "made")"#;
    let body = format!(
        "(call $directories (i32.const 2048))
         (call $make (i32.load (i32.load (i32.const 2048))) (i32.const 8) (i32.const 4) (i32.const 2064))
         {}",
        tells("(i32.mul (i32.const 1000) (i32.add (i32.const 1) (i32.load8_u (i32.const 2064))))")
    );
    stage(fields, &body)
}

#[test]
fn a_folder_is_written_to_only_where_something_may_be_changed() {
    let node = Node::new();
    let folder = node.path("/data");
    let made = folder.join("made");
    std::fs::create_dir(&folder).unwrap();
    let grant = |access: &str| format!(r#"dirs={{"{}":"{access}"}}"#, folder.display());
    let tells = |command: Command, host: Host| {
        node.module("x").unwrap().run(&call(command), &document(), host).0.unwrap_err().code()
    };
    node.install("x", &makes_a_folder(), &[&grant("ro")]);
    assert_eq!(tells(Command::Add, host()), 2000);
    node.install("x", &makes_a_folder(), &[&grant("rw")]);
    // On check and del, and before the first delegate.
    assert_eq!(tells(Command::Check, Host::new("c1", Default::default(), true)), 2000);
    // In monitor mode, and on a recording.
    let monitored = Host { backend: Backend::Nowhere.dry_run(), ..host() };
    assert_eq!(tells(Command::Add, monitored), 2000);
    let recorded = Host { backend: Backend::recorded(Default::default()), ..host() };
    assert_eq!(tells(Command::Add, recorded), 2000);
    assert!(!made.exists());
    assert_eq!(tells(Command::Add, host()), 1000);
    assert!(made.exists());
}

#[test]
fn a_granted_folder_that_is_missing_is_the_nodes_fault() {
    let node = Node::new();
    let folder = node.path("/data");
    node.install("x", &makes_a_folder(), &[&format!(r#"dirs={{"{}":"rw"}}"#, folder.display())]);
    let error = node.module("x").unwrap().run(&call(Command::Add), &document(), host()).0.unwrap_err();
    assert!(matches!(error, StageError::Unusable { code: 104, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("make the folder, or take it out of modules.x.grants.dirs"), "{text}");
}

/// Opens a path in the first folder that was granted; tells 1000 where it is open, else 2000 and the error's number.
fn opens(path: &str, open_flags: u32, flags: u32) -> Vec<u8> {
    let fields = format!(
        r#"(import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))
        (import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at"
            (func $open (param i32 i32 i32 i32 i32 i32 i32)))
        (data (i32.const 8) "{path}")"#
    );
    let length = path.len();
    let body = format!(
        "(call $directories (i32.const 2048))
         (if (i32.eqz (i32.load (i32.const 2052))) (then (unreachable)))
         (call $open (i32.load (i32.load (i32.const 2048))) (i32.const 1) (i32.const 8) (i32.const {length})
            (i32.const {open_flags}) (i32.const {flags}) (i32.const 2064))
         {}",
        tells(
            "(select (i32.const 1000) (i32.add (i32.const 2000) (i32.load8_u (i32.const 2068)))
                (i32.eqz (i32.load8_u (i32.const 2064))))"
        )
    );
    stage(&fields, &body)
}

#[test]
fn nothing_outside_a_granted_folder_is_reached() {
    let place = tempfile::tempdir().unwrap();
    let granted = place.path().join("granted");
    std::fs::create_dir_all(granted.join("deep")).unwrap();
    std::fs::write(granted.join("inside"), "x").unwrap();
    std::fs::write(place.path().join("outside"), "a secret").unwrap();
    for (name, target) in
        [("up", "../outside"), ("absolute", "/etc/passwd"), ("folder", ".."), ("deep/up", "../../outside")]
    {
        std::os::unix::fs::symlink(target, granted.join(name)).unwrap();
    }
    let grant = |access: &str| format!("dirs={{{granted:?}:{access:?}}}");
    const CREATE: u32 = 1;
    const READ: u32 = 1;
    const WRITE: u32 = 3;
    assert_eq!(told(&opens("inside", 0, READ), &[&grant("ro")]), 1000);
    for path in [
        "../outside",
        "deep/../../outside",
        "up",
        "deep/up",
        "absolute",
        "folder/outside",
        "/etc/passwd",
        "//etc/passwd",
        "..",
    ] {
        for access in ["ro", "rw"] {
            let code = told(&opens(path, 0, READ), &[&grant(access)]);
            assert!((2000..2037).contains(&code), "{path} with {access}: {code}");
        }
        told(&opens(path, CREATE, WRITE), &[&grant("rw")]);
    }
    assert_eq!(std::fs::read_to_string(place.path().join("outside")).unwrap(), "a secret");
    let left: Vec<_> =
        std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");

    // What is read-only is not written, not even made.
    for (path, flags) in [("inside", 0), ("new", CREATE)] {
        let code = told(&opens(path, flags, WRITE), &[&grant("ro")]);
        assert!((2000..2037).contains(&code), "{path}: {code}");
        assert_eq!(told(&opens(path, flags, WRITE), &[&grant("rw")]), 1000, "{path}");
    }
    assert!(granted.join("new").is_file());
}

#[test]
fn leaving_is_a_failure() {
    let fields = r#"(import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))"#;
    let (answer, ..) = run(&stage(fields, "(call $exit (i32.const 1)) (unreachable)"), &[]);
    let error = answer.unwrap_err();
    assert!(
        matches!(&error, StageError::Trap { message, .. } if message.contains("exited with status 1")),
        "{error}"
    );
}

#[test]
fn sockets_are_refused() {
    let fields =
        r#"(import "wasi:sockets/instance-network@0.2.0" "instance-network" (func $network (result i32)))"#;
    let component = stage(fields, &format!("(drop (call $network)) {ANSWER}"));
    let output = Node::new().try_install("x", &component, &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("wasi:sockets") && text.contains("no network"), "{text}");
}

/// Asks for a random number so often.
fn asks(count: u32) -> Vec<u8> {
    let fields = r#"(import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))"#;
    let body = format!(
        "(local $i i32) (loop $l (drop (call $random)) (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const {count})))) {ANSWER}"
    );
    stage(fields, &body)
}

#[test]
fn calls_are_counted() {
    let most = limits::wasi_calls(&Limits::default());
    assert!(run(&asks(most), &[]).0.is_ok());
    let error = run(&asks(most + 1), &[]).0.unwrap_err();
    assert_eq!(error.code(), 103);
    let text = error.to_string();
    assert!(text.contains("4096 calls of WASI") && text.contains("limits.hostCalls"), "{text}");
}

#[test]
fn calls_end_with_the_calls_time() {
    let node = Node::new();
    node.install("x", &asks(1), &[]);
    let late = Host { until: Some(std::time::Instant::now()), ..host() };
    let error = node.module("x").unwrap().run(&call(Command::Add), &document(), late).0.unwrap_err();
    assert!(error.code() == 11 && error.to_string().contains("deadlines.callSeconds"), "{error}");
}
