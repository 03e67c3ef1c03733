//! Callers and configs that mean harm: names that try to leave the folders of state, planted links, floods. A clear
//! error, and nothing touched outside.

use catena_tests::conf::{self, Stack};
use catena_tests::ground::{self, made};
use catena_tests::runtime::{Pod, Reply, gc_conf};
use catena_tests::scripted;
use catena_tests::state::{self, Traces};
use catena_tests::world::{World, finish};
use serde_json::{Value, json};

/// Files that nobody may touch.
fn victims(world: &World) -> String {
    world.sh("sha256sum /etc/passwd /etc/group /victim/* /var/lib/victim; ls -la /victim /etc /var/lib")
}

fn with_victims(world: &World) {
    world.sh(
        "mkdir /victim; for name in a b c; do echo keep >/victim/$name; done; echo keep >/var/lib/victim",
    );
}

#[test]
fn names_that_try_to_leave_their_folder() {
    let world = ground::world();
    with_victims(&world);
    let pod = ground::pod(&world, "pod");
    let conf = ground::config();
    pod.add(&conf).result();
    pod.del(&conf, None).done();
    let (before, kept) = (Traces::of(&world, Some(&pod.netns)), victims(&world));
    let long = "x".repeat(5000);
    let hostile = [
        "../../../victim/a",
        "..",
        ".",
        "a/b",
        "/victim/a",
        "a\nb",
        "-rf",
        "@",
        "ä",
        " ",
        "$(touch /victim/d)",
    ];
    for id in hostile {
        for command in ["ADD", "CHECK", "DEL"] {
            let pod = Pod { id: id.into(), ..pod.clone() };
            pod.call("catena", command, &conf).fails_with(4, &["CNI_CONTAINERID"]);
        }
    }
    for ifname in ["../x", "..", ".", "a/b", "a b", "a:b", "sixteen-letters-"] {
        for command in ["ADD", "CHECK", "DEL"] {
            let pod = Pod { ifname: ifname.into(), ..pod.clone() };
            pod.call("catena", command, &conf).fails_with(4, &["CNI_IFNAME"]);
        }
    }
    for name in hostile {
        for command in ["ADD", "CHECK", "DEL", "GC", "STATUS"] {
            let mut outer = conf.clone();
            outer["cniVersion"] = json!("1.1.0");
            outer["name"] = json!(name);
            pod.call("catena", command, &outer).fails_with(7, &["network name"]);
            outer["name"] = json!("outer");
            outer["delegates"][1]["name"] = json!(name);
            pod.call("catena", command, &outer).fails_with(7, &["delegates[1]", "network name"]);
        }
        let mut outer = conf.clone();
        outer["delegates"][1]["type"] = json!(format!("{name}/../../bin/sh"));
        pod.add(&outer).fails_with(7, &["delegates[1]", "plugin type"]);
        outer["delegates"][1] = json!({"config": conf["delegates"][1], "interface": format!("{name}/x")});
        pod.add(&outer).fails_with(7, &["delegates[1].interface"]);
    }
    // A long id is no attack, and is shortened where it becomes a file's name.
    let longest = Pod { id: long, ..pod.clone() };
    let answers = conf::catena(json!([scripted::answers("one", json!({"cniVersion": "1.0.0"}))]));
    // libcni's cache has no room for it.
    longest.add(&answers).fails_with(5, &["cache"]);
    longest.del(&answers, None).done();
    let longest = Pod { id: "x".repeat(200), ..pod.clone() };
    let result = longest.add(&conf).result();
    longest.del(&conf, Some(&result)).done();
    for key in ["binDir", "cniDir", "logFile"] {
        for path in [
            "/victim",
            "/victim/a",
            "/var/lib/cni/catena/../../../victim",
            "/opt/cni/bin/../../../victim",
            "/var/log/../../victim/d.log",
            "/var/log/d",
            "victim",
            "/proc/self/root/victim",
        ] {
            let mut outer = conf.clone();
            outer[key] = json!(path);
            let failure = pod.add(&outer).failure();
            assert!(failure.text().contains(key), "{key}={path:?}: {failure:?}");
        }
    }
    let mut newest = conf.clone();
    newest["cniVersion"] = json!("1.1.0");
    // What is listed as valid is only compared.
    pod.call("catena", "GC", &gc_conf(&newest, &[("../../victim/a", "../x")])).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after hostile names");
    assert_eq!(victims(&world), kept);
    assert_eq!(made(&world), Vec::<String>::new());
}

/// A link where catena is about to write, read or remove: what it leads to stays as it is.
#[test]
fn planted_links() {
    const STEM: &str = "/var/lib/catena/state/id-pod@outer@meta@eth0";
    let cache = "/var/lib/cni/catena/results";
    for (link, add, del) in [
        (format!("{STEM}.lock"), 5, 0),
        (format!("{STEM}.children"), 5, 0),
        (format!("{STEM}.json"), 0, 0),
        ("/var/lib/catena/state/failed/id-pod@outer@meta@eth0".to_owned(), 0, 0),
        (format!("{cache}/net1-id-pod-net1"), 0, 0),
        (format!("{cache}/.net1-id-pod-net1"), 5, 0),
        ("/run/catena/status/outer-id-pod-eth0.json".to_owned(), 0, 0),
        ("/run/catena/status/outer-id-pod-eth0.json.new".to_owned(), 5, 0),
        ("/run/catena/versions.json".to_owned(), 0, 0),
        ("/run/catena/versions.json.new".to_owned(), 0, 0),
    ] {
        let world = ground::world();
        with_victims(&world);
        let pod = ground::pod(&world, "pod");
        let conf = ground::config();
        let result = pod.add(&conf).result();
        pod.del(&conf, Some(&result)).done();
        let (before, kept) = (Traces::of(&world, Some(&pod.netns)), victims(&world));
        let plant = format!("mkdir -p -m 0700 $(dirname {link}); ln -sfn /victim/a {link}");
        world.sh(&plant);
        // A delegate that has to be asked for its versions, so that these are written down.
        scripted::change(&world, "net0", &{
            let mut script = ground::script(0);
            script["GC"] = json!({});
            script
        });
        let reply = pod.add(&conf);
        if add == 0 {
            reply.result();
        } else {
            reply.fails_with(add, &[]);
        }
        let mut newest = conf.clone();
        newest["cniVersion"] = json!("1.1.0");
        for delegate in newest["delegates"].as_array_mut().expect("a list") {
            delegate["cniVersion"] = json!("1.1.0");
        }
        pod.call("catena", "STATUS", &newest).done();
        assert_eq!(victims(&world), kept, "{link}, after ADD");
        world.sh(&format!("rm -f {link}"));
        pod.del(&conf, None).done();
        // A DEL with the link there, in place of what the ADD has left.
        pod.add(&conf).result();
        world.sh(&plant);
        let reply = pod.del(&conf, None);
        if del == 0 {
            reply.done();
            assert_eq!(made(&world), Vec::<String>::new(), "{link}, after DEL");
        } else {
            reply.fails_with(del, &[&link]);
        }
        assert_eq!(victims(&world), kept, "{link}, after DEL");
        world.sh(&format!("rm -f {link}"));
        pod.del(&conf, None).done();
        assert_eq!(victims(&world), kept, "{link}, after the last DEL");
        assert_eq!(made(&world), Vec::<String>::new(), "{link}");
        Traces::of(&world, Some(&pod.netns)).same_as(&before, &link);
    }
}

/// A fifo or folder in a file's place: nobody waits for it, and what it cannot be used for is told.
#[test]
fn planted_fifos_and_folders() {
    const STEM: &str = "/var/lib/catena/state/id-pod@outer@meta@eth0";
    let cache = "/var/lib/cni/catena/results";
    // The codes of ADD and DEL with a fifo, then with a folder.
    for (path, fifo, folder) in [
        (format!("{STEM}.lock"), [5, 0], [5, 0]),
        (format!("{STEM}.children"), [5, 0], [5, 0]),
        (format!("{STEM}.json"), [0, 0], [0, 0]),
        ("/var/lib/catena/state/failed/id-pod@outer@meta@eth0".to_owned(), [0, 0], [0, 0]),
        (format!("{cache}/net1-id-pod-net1"), [0, 0], [5, 5]),
        (format!("{cache}/.net1-id-pod-net1"), [5, 0], [5, 5]),
        ("/run/catena/status/outer-id-pod-eth0.json".to_owned(), [0, 0], [5, 5]),
        ("/run/catena/status/outer-id-pod-eth0.json.new".to_owned(), [5, 0], [5, 5]),
        ("/run/catena/versions.json".to_owned(), [0, 0], [0, 0]),
        ("/run/catena/versions.json.new".to_owned(), [0, 0], [0, 0]),
    ] {
        for (make, codes) in [("mkfifo", fifo), ("mkdir", folder)] {
            let world = ground::world();
            ground::set_deadlines(&world, 5, 5, 10);
            let pod = ground::pod(&world, "pod");
            let conf = ground::config();
            let result = pod.add(&conf).result();
            pod.del(&conf, Some(&result)).done();
            let before = Traces::of(&world, Some(&pod.netns));
            let plant = format!("mkdir -p -m 0700 $(dirname {path}); rm -f {path}; {make} {path}");
            let clear = format!("rm -rf {path}");
            let answers = |reply: &Reply, code: i64| {
                assert!(reply.output.elapsed.as_secs() < 8, "{make} {path}: {:?}", reply.output.elapsed);
                if code == 0 {
                    assert_eq!(reply.output.exit, Some(0), "{make} {path}: {reply:?}");
                } else {
                    reply.fails_with(code, &["id-pod"]);
                }
            };
            world.sh(&plant);
            answers(&pod.add(&conf), codes[0]);
            let mut newest = conf.clone();
            newest["cniVersion"] = json!("1.1.0");
            for delegate in newest["delegates"].as_array_mut().expect("a list") {
                delegate["cniVersion"] = json!("1.1.0");
            }
            answers(&pod.call("catena", "STATUS", &newest), 0);
            world.sh(&clear);
            pod.del(&conf, None).done();
            pod.add(&conf).result();
            world.sh(&plant);
            answers(&pod.del(&conf, None), codes[1]);
            assert_eq!(made(&world), Vec::<String>::new(), "{make} {path}, after DEL");
            world.sh(&clear);
            pod.del(&conf, None).done();
            Traces::of(&world, Some(&pod.netns)).same_as(&before, &format!("{make} {path}"));
        }
    }
}

/// The number of a process that has died belongs to another one by the time of DEL.
#[test]
fn a_recycled_process_number() {
    let world = World::new();
    let script = |name: &str| {
        format!(
            "unshare --net sleep 1000 >/dev/null 2>&1 & pid=$!; echo $pid >/run/{name}\n\
             while [ $(readlink /proc/$pid/ns/net) = $(readlink /proc/self/ns/net) ]; do :; done; echo $pid"
        )
    };
    let pid = world.sh(&script("first")).trim().to_owned();
    let path = format!("/proc/{pid}/ns/net");
    let pod = Pod { netns: path.clone(), ..Pod::existing(&world, "pod") };
    let conf = conf::catena(json!([conf::ptp(1, Stack::V4)]));
    let result = pod.add(&conf).result();
    world.sh(&format!("kill -9 {pid}; while [ -d /proc/{pid} ]; do sleep 0.01; done"));
    // Whoever starts next gets the number.
    let next: u32 = pid.parse().expect("a number");
    let again = world.sh(&format!("echo {} >/proc/sys/kernel/ns_last_pid\n{}", next - 1, script("second")));
    assert_eq!(again.trim(), pid, "the number was not given again");
    let other = Pod { netns: path.clone(), id: "id-other".into(), ..pod.clone() };
    let other_conf = {
        let mut conf = conf::catena(json!([conf::ptp(2, Stack::V4)]));
        conf["name"] = json!("others");
        conf
    };
    let other_result = other.add(&other_conf).result();
    assert_eq!(state::links(&world, Some(&path)), ["eth0"]);
    pod.del(&conf, Some(&result)).done();
    assert_eq!(state::links(&world, Some(&path)), ["eth0"], "another pod's interface is gone");
    other.check(&other_conf, &other_result).done();
    assert!(!world.files("/var/lib/cni/networks").keys().any(|file| file.contains("10.90.1.2")));
    other.del(&other_conf, Some(&other_result)).done();
    world.sh("kill -9 $(cat /run/second)");
}

/// The same where the new namespace has the inode of the first as well. The kernel gives the lowest inode that is free, so
/// on a node with many pods that is no rare thing. Its cookie is another one (Linux 5.14).
#[test]
fn a_recycled_process_number_and_inode() {
    // What else makes namespaces at that moment may get the inode first.
    assert!((0..20).any(|_| a_recycled_inode()), "the inode was never given again");
}

/// Whether the second namespace got the inode of the first.
fn a_recycled_inode() -> bool {
    let world = World::new();
    let start = |before: Option<u32>| {
        let number = before.map_or_else(String::new, |before| {
            format!("echo {} >/proc/sys/kernel/ns_last_pid\n", before - 1)
        });
        let text = world.sh(&format!(
            "{number}unshare --net sleep 1000 >/dev/null 2>&1 & pid=$!\n\
             while [ $(readlink /proc/$pid/ns/net) = $(readlink /proc/self/ns/net) ]; do :; done\n\
             echo $pid $(stat -L -c %i /proc/$pid/ns/net)"
        ));
        let mut words = text.split_whitespace().map(|word| word.parse::<u32>().expect("a number"));
        (words.next().expect("its number"), words.next().expect("its inode"))
    };
    let end = |pid| world.sh(&format!("kill -9 {pid}; while [ -d /proc/{pid} ]; do sleep 0.01; done"));
    let first = start(None);
    let path = format!("/proc/{}/ns/net", first.0);
    let pod = Pod { netns: path.clone(), ..Pod::existing(&world, "pod") };
    let conf = conf::catena(json!([conf::ptp(1, Stack::V4)]));
    let result = pod.add(&conf).result();
    end(first.0);
    world.sh("mkdir /run/kept");
    let is_same = (0..50).any(|attempt| {
        let next = start(Some(first.0));
        assert_eq!(next.0, first.0, "the number was not given again");
        if next.1 != first.1 {
            // It keeps its inode, so that the next has another.
            world.sh(&format!("touch /run/kept/{attempt}; mount --bind {path} /run/kept/{attempt}"));
            end(first.0);
        }
        next.1 == first.1
    });
    if !is_same {
        pod.del(&conf, Some(&result)).done();
        return false;
    }
    let other = Pod { netns: path.clone(), id: "id-other".into(), ..pod.clone() };
    let mut other_conf = conf::catena(json!([conf::ptp(2, Stack::V4)]));
    other_conf["name"] = json!("others");
    let other_result = other.add(&other_conf).result();
    pod.del(&conf, Some(&result)).done();
    assert_eq!(state::links(&world, Some(&path)), ["eth0"], "another pod's interface is gone");
    other.check(&other_conf, &other_result).done();
    other.del(&other_conf, Some(&other_result)).done();
    end(first.0);
    true
}

#[test]
fn floods() {
    let world = ground::world();
    let pod = ground::pod(&world, "pod");
    let conf = ground::config();
    let before = Traces::of(&world, Some(&pod.netns));
    // An environment of one megabyte goes through to the delegates.
    let mut flooded = pod.clone();
    flooded.env = (0..1000).map(|index| (format!("FLOOD_{index}"), "x".repeat(1000))).collect();
    let result = flooded.add(&conf).result();
    flooded.del(&conf, Some(&result)).done();
    // One that leaves room for catena, and none for its delegates, which are told more.
    // Does the same with this many bytes of environment more.
    let crowded = |command: &str, size: usize| {
        let mut process = world.command("sh");
        process.args([
            "-c",
            "ulimit -Ss 8192; i=0; one=$(head -c 100000 /dev/zero | tr '\\0' x)\n\
             while [ $size -gt 100000 ]; do export F$i=$one; i=$((i+1)); size=$((size-100000)); done\n\
             export LAST=$(head -c $size /dev/zero | tr '\\0' x); unset one\n\
             exec /opt/cni/bin/catena",
        ]);
        pod.describe(&mut process, command);
        let what = format!("{command} with {size} bytes of environment");
        process.env("size", size.to_string());
        Reply { what, output: finish(process, conf.to_string().as_bytes()) }
    };
    let (mut starts, mut fails): (usize, usize) = (0, 8 << 20);
    while fails - starts > 1 {
        let size = starts.midpoint(fails);
        let reply = crowded("ADD", size);
        // 126 of sh(1): it could not start catena.
        if reply.output.exit == Some(126) {
            fails = size
        } else {
            starts = size
        }
        pod.del(&conf, None).done();
    }
    assert!((100_000..8_000_000).contains(&starts), "catena starts with {starts} bytes of environment");
    crowded("ADD", starts).fails_with(7, &["s0", "net0", "E2BIG"]);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after an environment without room");
    pod.add(&conf).result();
    crowded("DEL", starts).fails_with(7, &["s0", "s1", "s2", "E2BIG"]);
    assert_eq!(made(&world).len(), 3, "no delegate could be started");
    pod.del(&conf, None).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after floods of the environment");

    // A large request is served, a huge one is refused without being read to its end.
    let mut large = conf.clone();
    large["delegates"][0]["ballast"] = json!("x".repeat(1 << 20));
    let result = pod.add(&large).result();
    pod.del(&large, Some(&result)).done();
    for size in [5 << 20, 100 << 20] {
        let mut huge = conf.clone();
        huge["delegates"][0]["ballast"] = json!("x".repeat(size));
        for command in ["ADD", "DEL", "CHECK"] {
            pod.call("catena", command, &huge).fails_with(6, &["bytes"]);
        }
    }
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after floods of stdin");
}

#[test]
fn deep_documents() {
    let world = ground::world();
    let pod = ground::pod(&world, "pod");
    let conf = ground::config();
    let before = Traces::of(&world, Some(&pod.netns));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [1000, 300_000] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            for command in ["ADD", "CHECK", "DEL"] {
                pod.call_raw("catena", command, deep.as_bytes()).fails_with(6, &[]);
                for key in ["prevResult", "args", "pipeline", "ballast"] {
                    let text = conf.to_string().replacen('{', &format!("{{\"{key}\":{deep},"), 1);
                    pod.call_raw("catena", command, text.as_bytes()).fails_with(6, &[]);
                }
            }
            // From a delegate.
            let mut script = ground::script(1);
            script["ADD"]["sh"] = json!("cat /run/deep");
            script["ADD"]["result"] = Value::Null;
            world.write("/run/deep", &deep);
            scripted::change(&world, "net1", &script);
            pod.add(&conf).fails_with(110, &["s1", "net1"]);
            scripted::change(&world, "net1", &ground::script(1));
            // From its VERSION, for which a STATUS in the newest version asks.
            world.write("/run/scripted/versions.json", &deep);
            let mut newest = conf.clone();
            newest["cniVersion"] = json!("1.1.0");
            for delegate in newest["delegates"].as_array_mut().expect("a list") {
                delegate["cniVersion"] = json!("1.1.0");
            }
            // Who does not say that it knows the version is not asked.
            world.sh("rm -f /run/scripted/calls.jsonl /run/scripted/probes /run/catena/versions.json");
            pod.call("catena", "STATUS", &newest).done();
            assert_eq!(world.read("/run/scripted/probes"), "s0\ns1\ns2\n");
            assert_eq!(scripted::call_lines(&world), Vec::<String>::new());
            world.sh("rm /run/scripted/versions.json; rm -f /run/catena/versions.json");
        }
    }
    world.sh("rm /run/deep");
    assert_eq!(made(&world), Vec::<String>::new());
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after deep documents");
}
