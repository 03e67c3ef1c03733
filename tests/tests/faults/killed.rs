//! SIGKILL at any system call of ADD and DEL, then a DEL as a runtime would send it.
//!
//! The tracer stops catena before each of its system calls, in all of its threads, and at the birth of each delegate.
//! Between two system calls catena changes nothing outside itself, so that is every state that others can meet. Out of
//! reach are kills of the child between clone(2) and execve(2) later than its birth.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use catena_tests::conf::{self, Stack, asking, gateway};
use catena_tests::runtime::Pod;
use catena_tests::sample::{self, Seed};
use catena_tests::state::Traces;
use catena_tests::trace::{Place, Stop, Tracee};
use catena_tests::world::World;
use nix::libc;
use serde_json::{Value, json};

/// Sites that CI tries; the table has some thousand.
const SAMPLE: usize = 48;

/// One in this many may be a place that this run did not come to: threads take turns as they like.
const STRAYS: usize = 10;

/// Where to kill.
#[derive(Debug, Clone)]
struct Site {
    command: &'static str,
    place: Place,
    /// How long a wait for a delegate goes on before.
    moment: Option<Duration>,
    /// Whether the DEL afterwards still has the namespace.
    netns: bool,
}

fn conf() -> Value {
    conf::catena(json!([
        conf::ptp(1, Stack::Dual),
        asking(
            &conf::bridge_with_default(2, Stack::Dual),
            &[&gateway(2, conf::Family::V4), &gateway(2, conf::Family::V6)]
        )
    ]))
}

/// A world in which one pod has lived, and what is known to stay after that.
struct Ground {
    world: World,
    conf: Value,
    pods: usize,
    after: Traces,
}

impl Ground {
    fn new(conf: Value) -> Ground {
        Ground::in_world(World::new(), conf)
    }

    fn in_world(world: World, conf: Value) -> Ground {
        let pod = Pod::new(&world, "pod");
        let result = pod.add(&conf).result();
        pod.del(&conf, Some(&result)).done();
        let after = Traces::of(&world, Some(&pod.netns));
        Ground { world, conf, pods: 0, after }
    }

    fn pod(&self) -> Pod<'_> {
        Pod::existing(&self.world, "pod")
    }

    /// What must be left after a DEL: no more than after an undisturbed life.
    fn clean(&self, pod: &Pod<'_>, when: &str) {
        let netns = Some(pod.netns.as_str()).filter(|netns| !netns.is_empty());
        Traces::of(&self.world, netns).nothing_more_than(&self.after, when);
    }

    /// DEL, the same again, and a new life of the same sandbox.
    fn recover(&mut self, with_netns: bool, when: &str) {
        let pod = self.pod();
        if with_netns {
            pod.del(&self.conf, None).done();
            self.clean(&pod, when);
        } else {
            pod.vanish();
            pod.without_netns().del(&self.conf, None).done();
            self.clean(&pod.without_netns(), when);
            Pod::new(&self.world, "pod");
        }
        pod.without_netns().del(&self.conf, None).done();
        let result = pod.add(&self.conf).result();
        pod.del(&self.conf, Some(&result)).done();
        self.clean(&pod, &format!("{when}, and a new life"));
        self.pods += 1;
    }

    fn start(&self, command: &str) -> (Tracee, Option<Value>) {
        let pod = self.pod();
        if command == "ADD" {
            return (pod.trace("catena", command, &self.conf), None);
        }
        let result = pod.add(&self.conf).result();
        (
            pod.trace("catena", command, &catena_tests::runtime::with_previous(&self.conf, Some(&result))),
            Some(result),
        )
    }

    /// All stops of an undisturbed call.
    fn stops(&mut self, command: &'static str) -> Vec<(Stop, Place)> {
        let (mut tracee, _) = self.start(command);
        let mut stops = Vec::new();
        while let Some(stop) = tracee.next() {
            stops.push((stop, tracee.place().expect("where it stands").clone()));
        }
        let output = tracee.finish();
        assert_eq!(output.exit, Some(0), "{command} under the tracer: {}{}", output.stdout, output.stderr);
        if command == "ADD" {
            self.pod().del(&self.conf, None).done();
        }
        stops
    }

    /// Kills at the site and looks what is left; whether the call came there.
    fn kill(&mut self, site: &Site) -> bool {
        let (mut tracee, _) = self.start(site.command);
        let reached = tracee.reach(&site.place);
        match site.moment {
            _ if !reached => tracee.finish(),
            Some(moment) => tracee.kill_after(moment),
            None => tracee.kill(),
        };
        self.recover(site.netns, &format!("killed at {site:?}"));
        reached
    }
}

fn is_wait(stop: &Stop) -> bool {
    matches!(stop, Stop::Entry { number, .. } if *number == libc::SYS_poll)
}

#[test]
fn at_any_system_call() {
    let mut seed = Seed::of_test("killed");
    let mut ground = Ground::new(conf());
    let mut sites = Vec::new();
    let mut total = 0;
    for command in ["ADD", "DEL"] {
        let stops = ground.stops(command);
        total += stops.len();
        for (stop, place) in stops {
            for netns in [true, false] {
                sites.push(Site { command, place: place.clone(), moment: None, netns });
                if is_wait(&stop) {
                    for millis in [1, 4, 10, 25, 60] {
                        let moment = Some(Duration::from_millis(millis));
                        sites.push(Site { command, place: place.clone(), moment, netns });
                    }
                }
            }
        }
    }
    let all = sites.len();
    let sites = seed.choose(sites, SAMPLE);
    let count = sites.len();
    let queue = Mutex::new(sites.into_iter());
    let names = Mutex::new(BTreeMap::<String, usize>::new());
    let strays = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let work = |mut ground: Ground| {
            loop {
                let Some(site) = queue.lock().expect("the sites left").next() else { break };
                if ground.kill(&site) {
                    let name = site.place.call.split('/').next().unwrap_or_default().trim_end().to_owned();
                    *names.lock().expect("the names").entry(name).or_default() += 1;
                } else {
                    strays.lock().expect("the places not reached").push(site);
                }
            }
        };
        scope.spawn(move || work(ground));
        scope.spawn(move || work(Ground::new(conf())));
    });
    let (names, strays) =
        (names.into_inner().expect("the names"), strays.into_inner().expect("the places not reached"));
    sample::tell(&format!(
        "killed: {} of {all} sites at {total} system calls of ADD and DEL, {} more not reached: {names:?}",
        count - strays.len(),
        strays.len()
    ));
    assert!(strays.len() * STRAYS <= count, "too many places were not reached: {strays:#?}");
}

/// host-local behind a pause of the seconds that the file `hold` has, once.
const SLOW: &str = "#!/bin/sh\n\
    if seconds=$(cat /run/scripted/hold 2>/dev/null); then\n\
        mv /run/scripted/hold /run/scripted/held; sleep $seconds\n\
    fi\n\
    exec /opt/cni/plugins/host-local\n";

/// Killed while the IPAM plugin of a delegate is at work: the delegate dies with catena, and that child does not. The
/// DEL comes at once.
#[test]
fn while_an_ipam_child_lives() {
    let conf = |slow: usize| {
        let mut delegates = [conf::ptp(1, Stack::V4), conf::bridge_with_default(2, Stack::V4)];
        delegates[slow]["ipam"]["type"] = json!("slow-local");
        let [first, second] = delegates;
        conf::catena(json!([first, asking(&second, &[&gateway(2, conf::Family::V4)])]))
    };
    for slow in [0, 1] {
        let world = World::new();
        world.write("/opt/cni/bin/slow-local", SLOW);
        world.sh("chmod 755 /opt/cni/bin/slow-local");
        let mut ground = Ground::in_world(world, conf(slow));
        for (command, netns, seconds) in [
            ("ADD", true, 1),
            ("ADD", false, 1),
            ("DEL", true, 1),
            ("DEL", false, 1),
            // For ever: after ten seconds DEL ends it.
            ("ADD", true, 1000),
        ] {
            if seconds > 1 && slow == 0 {
                continue;
            }
            let result = (command == "DEL").then(|| ground.pod().add(&ground.conf).result());
            ground.world.write("/run/scripted/hold", seconds.to_string());
            let stdin = catena_tests::runtime::with_previous(&ground.conf, result.as_ref());
            std::thread::scope(|scope| {
                let pod = ground.pod();
                let call = scope.spawn(move || pod.call("catena", command, &stdin));
                while !ground.world.path("/run/scripted/held").exists() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                ground.world.sh("kill -9 $(pidof catena)");
                assert_eq!(call.join().expect("the call that was killed").output.exit, None);
            });
            let orphan = ground.world.processes().iter().any(|line| line.contains("slow-local"));
            assert!(orphan, "the child has gone already");
            ground.world.sh("rm /run/scripted/held");
            let when =
                format!("{command} killed while the IPAM child of delegate {slow} runs for {seconds} s");
            ground.recover(netns, &when);
        }
    }
}
