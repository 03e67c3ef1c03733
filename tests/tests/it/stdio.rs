//! What goes over stdin and stderr: a request that does not end, and what delegates say beside their answer.

use std::io::Write;
use std::process::Stdio;

use catena_tests::conf;
use catena_tests::runtime::{Pod, Reply};
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::world::{self, OWN_BIN, World};
use serde_json::{Value, json};

/// A caller that keeps its end of the pipe open gets an error when the time for a call is over.
#[test]
fn a_request_that_does_not_end() {
    let world = World::new();
    world.write("/etc/catena/node.json", r#"{"deadlines": {"callSeconds": 1}}"#);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    for command in ["ADD", "DEL", "GC", "STATUS"] {
        let mut process = world.command(&format!("{OWN_BIN}/catena"));
        process
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &pod.id)
            .env("CNI_NETNS", &pod.netns)
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", OWN_BIN)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = process.spawn().expect("catena");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(br#"{"cniVersion":"#).expect("writing");
        let output = child.wait_with_output().expect("its end");
        drop(stdin);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let error: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"));
        assert_eq!((output.status.code(), &error["code"]), (Some(1), &json!(5)), "{command}: {stdout}");
        assert!(stdout.contains("stdin") && stdout.contains("14 bytes"), "{command}: {stdout}");
    }
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after calls that never came");
}

/// libcni hands a successful plugin's stderr on to its own; of a failed one it is dropped, so it goes to the log.
#[test]
fn what_delegates_say_on_stderr() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let noisy = |name: &str, exit: u8| {
        let sh = format!("printf 'from {name}\\033[31m\\nand more\\n' >&2");
        scripted::conf(
            name,
            json!({
                "ADD": { "sh": sh, "result": if exit == 0 { json!({}) } else { json!({ "code": 77, "msg": "no" }) }, "exit": exit },
            }),
        )
    };
    let mut outer = conf::catena(json!([noisy("one", 0), noisy("two", 1)]));
    outer["logFile"] = json!("/var/log/catena.log");
    let reply = pod.add(&outer);
    reply.fails_with(77, &["two", "no"]);
    assert_eq!(
        reply.output.stderr,
        "delegate scripted for eth0 (ADD): from one\\u{1b}[31m\ndelegate scripted for eth0 (ADD): and more\n"
    );
    let line: Value = serde_json::from_str(world.read("/var/log/catena.log").trim()).expect("one line");
    let ran: Vec<String> = line["delegates"]
        .as_array()
        .expect("the delegates' processes")
        .iter()
        .map(|run| format!("{} {} {} {}", run["command"], run["ifname"], run["exit"], run["stderr"]))
        .collect();
    assert_eq!(
        ran,
        [
            r#""ADD" "eth0" 0 ["from one\\u{1b}[31m","and more"]"#,
            r#""ADD" "net1" 1 ["from two\\u{1b}[31m","and more"]"#,
            r#""DEL" "net1" 0 null"#,
            r#""DEL" "eth0" 0 null"#,
        ]
    );
}

/// Whoever floods stderr, or has nobody who reads it: the answer comes.
#[test]
fn a_flood_on_stderr_holds_nobody() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let flood = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo '{}'";
    let outer = conf::catena(json!([scripted::runs("one", flood), scripted::runs("two", flood)]));
    let reply = pod.add(&outer);
    reply.result();
    assert!(reply.output.stderr.len() < 64 * 1024, "{} bytes", reply.output.stderr.len());
    pod.del(&outer, None).done();

    // A pipe that nobody reads, and one whose reader has gone.
    for redirect in ["2> >(sleep 5)", "2> >(exit 0)"] {
        let script = format!(
            "export CNI_COMMAND=ADD CNI_CONTAINERID=unread CNI_NETNS={} CNI_IFNAME=eth0 CNI_PATH={OWN_BIN}; \
             {OWN_BIN}/catena {redirect}",
            pod.netns
        );
        let mut process = world.command("bash");
        process.args(["-c", &script]);
        let reply =
            Reply { what: redirect.into(), output: world::finish(process, outer.to_string().as_bytes()) };
        assert_eq!(reply.output.exit, Some(0), "{redirect}: {reply:?}");
        Pod { id: "unread".into(), ..pod.clone() }.del(&outer, None).done();
    }
}
