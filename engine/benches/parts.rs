//! What the parts of a call cost inside a process: `make bench-parts`. Whole calls are in `tests/bench`.

use std::process::Command as Process;
use std::time::{Duration, Instant};

use catena::attach::entry::Intended;
use catena::attach::key::Key;
use catena::attach::ledger::Ledger;
use catena::cni::{Conf, PipelineRef};
use catena::node::{NodeConfig, Root};
use catena::pipeline::selection::Pipeline;
use catena::routes::backend::Backend;
use catena::routes::kernel::{Kernel, Scope};
use catena::routes::netns::Netns;
use catena::wasm::{Call, Command, Document, Host, Mode, Module, Modules};
use catena_cni::identifier::{ContainerId, IfName, NetworkName};
use catena_cni::json;
use catena_cni::result::{self, CniResult};
use catena_cni::version::SpecVersion;
use catena_routes::{
    Change, Draft, Family, Hop, Journal, Link, Prefix, Route, RouteSpec, SimulatedTable, Table,
};
use divan::Bencher;
use serde_json::{Value, json};

const KIB: [usize; 4] = [1, 16, 128, 1023];
const ETH0: u32 = 2;
const NET1: u32 = 3;

fn main() {
    divan::main();
}

/// A result of about so many bytes: routes after what an attachment needs.
fn document(kib: usize) -> Document {
    let mut value = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "net1", "mac": "02:00:00:00:00:03", "sandbox": "/run/netns/pod"}],
        "ips": [{"interface": 0, "address": "10.80.1.2/24", "gateway": "10.80.1.1"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.80.1.1"}],
    });
    let mut size = value.to_string().len();
    let mut routes = Vec::new();
    while size < kib << 10 {
        let i = routes.len();
        let route = json!({"dst": format!("172.{}.{}.{}/32", 16 + i / 65536, i / 256 % 256, i % 256), "gw": "10.80.1.1"});
        size += route.to_string().len() + 1;
        routes.push(route);
    }
    if let Some(list) = value["routes"].as_array_mut() {
        list.extend(routes);
    }
    Document { format: "cni/1.1.0".into(), text: value.to_string() }
}

/// The same as a plugin of that version answers it.
fn older(kib: usize, version: SpecVersion) -> Document {
    let old = result::convert(&value(kib), version).unwrap();
    Document { format: format!("cni/{version}"), text: old.to_string() }
}

fn value(kib: usize) -> Value {
    json::parse(document(kib).text.as_bytes()).unwrap()
}

/// A pod with two attachments and so many routes besides.
fn table(others: usize) -> SimulatedTable {
    let links = vec![Link::simulated(ETH0, "eth0"), Link::simulated(NET1, "net1")];
    let mut table = SimulatedTable::new("pod", links, Vec::<Route>::new());
    let mut changes = vec![add("10.80.0.0/24", Hop::dev(ETH0)), add("10.80.1.0/24", Hop::dev(NET1))];
    changes.extend((0..others).map(|i| {
        add(
            &format!("172.{}.{}.{}/32", 16 + i / 65536, i / 256 % 256, i % 256),
            Hop::via("10.80.0.1".parse().unwrap(), ETH0),
        )
    }));
    table.apply(&scope(), &changes, &mut Journal::new()).unwrap();
    table
}

fn scope() -> Scope {
    Scope { links: vec![ETH0, NET1], tables: vec![254] }
}

fn add(destination: &str, hop: Hop) -> Change {
    Change::Add(RouteSpec::new(destination.parse::<Prefix>().unwrap(), vec![hop]))
}

mod parse {
    use super::*;

    #[divan::bench]
    fn config(bencher: Bencher<'_, '_>) {
        let delegate = |i: usize| json!({"cniVersion": "1.1.0", "name": format!("n{i}"), "type": "bridge", "ipam": {"type": "host-local"}});
        let conf = json!({"cniVersion": "1.1.0", "name": "outer", "type": "catena", "delegates": [delegate(0), delegate(1)]});
        let text = conf.to_string();
        bencher.bench(|| Conf::parse(text.as_bytes(), catena::cni::Command::Add).unwrap());
    }

    #[divan::bench(args = KIB)]
    fn json_value(bencher: Bencher<'_, '_>, kib: usize) {
        let document = document(kib);
        bencher.bench(|| json::parse(document.text.as_bytes()).unwrap());
    }

    #[divan::bench(args = KIB)]
    fn result(bencher: Bencher<'_, '_>, kib: usize) {
        let document = document(kib);
        bencher.bench(|| CniResult::parse(document.text.as_bytes()).unwrap());
    }
}

mod conversion {
    use super::*;

    #[divan::bench(args = KIB)]
    fn to_0_4_0(bencher: Bencher<'_, '_>, kib: usize) {
        let value = value(kib);
        bencher.bench(|| result::convert(&value, SpecVersion::V0_4_0).unwrap());
    }

    #[divan::bench(args = KIB)]
    fn from_0_2_0(bencher: Bencher<'_, '_>, kib: usize) {
        let old = result::convert(&value(kib), SpecVersion::V0_2_0).unwrap();
        bencher.bench(|| result::convert(&old, SpecVersion::NEWEST).unwrap());
    }

    #[divan::bench(args = KIB)]
    fn write(bencher: Bencher<'_, '_>, kib: usize) {
        let (result, _) = CniResult::parse(document(kib).text.as_bytes()).unwrap();
        bencher.bench(|| result.to_text(SpecVersion::NEWEST).unwrap());
    }
}

mod modules {
    use super::*;

    fn nowhere() -> Root {
        Root::from_value(Some("/nonexistent".as_ref()))
    }

    fn modules() -> Modules {
        Modules::open(&nowhere(), &NodeConfig::default()).unwrap()
    }

    fn call(command: Command, context: &Value) -> Call {
        Call {
            command,
            mode: Mode::Meta,
            container_id: "c1".into(),
            network: "blue".into(),
            ifname: "net1".into(),
            position: 1,
            config: "{}".into(),
            context: context.to_string(),
        }
    }

    fn host() -> Host {
        let mut host = Host::new("c1", scope(), false);
        host.backend = Backend::Recorded(Box::new(table(0)));
        host
    }

    /// Finding and checking, without making ready.
    #[divan::bench]
    fn select(bencher: Bencher<'_, '_>) {
        let node = NodeConfig::default();
        bencher.bench(|| Pipeline::select(&PipelineRef::Default, &node, &modules()).unwrap());
    }

    /// The first time in this process; wasmtime takes an artifact in place once.
    #[divan::bench(sample_count = 1, sample_size = 1)]
    fn artifact_load() {
        modules().get("empty-result").unwrap().prepare();
    }

    /// Imports and exports of a module whose artifact is loaded.
    #[divan::bench]
    fn link(bencher: Bencher<'_, '_>) {
        modules().get("empty-result").unwrap().prepare();
        bencher
            .with_inputs(|| modules().get("default-gateway").unwrap())
            .bench_refs(|module| module.prepare());
    }

    fn validate(module: &Module, config: &str) {
        let problems = module.validate(config, Host::new("c1", Scope::default(), true)).0.unwrap();
        assert_eq!(problems, []);
    }

    /// The least call: an instance, and an empty config that is judged.
    #[divan::bench]
    fn instance_and_call(bencher: Bencher<'_, '_>) {
        let module = modules().get("empty-result").unwrap();
        bencher.bench(|| validate(&module, "{}"));
    }

    /// Its first part: the next instance, and the last one taken apart.
    #[divan::bench]
    fn instance(bencher: Bencher<'_, '_>) {
        let module = modules().get("empty-result").unwrap();
        bencher.with_inputs(|| validate(&module, "{}")).bench_local_values(|()| module.make_spare());
    }

    /// Its second part: an instance that is ready is called.
    #[divan::bench]
    fn call_of_instance(bencher: Bencher<'_, '_>) {
        let module = modules().get("empty-result").unwrap();
        bencher.with_inputs(|| module.make_spare()).bench_local_values(|()| validate(&module, "{}"));
    }

    /// A config that has every key.
    #[divan::bench]
    fn validate_full(bencher: Bencher<'_, '_>) {
        let module = modules().get("default-gateway").unwrap();
        let config = json!({
            "filter": ["ipv6"], "override": ["10.80.1.1", "10.80.1.2"],
            "keep": ["10.96.0.0/12", "172.16.0.0/16"], "gateways": "ecmp", "ra": "allow",
        });
        let config = config.to_string();
        bencher.bench(|| validate(&module, &config));
    }

    #[divan::bench]
    fn arrange(bencher: Bencher<'_, '_>) {
        let module = modules().get("default-gateway").unwrap();
        let call = call(Command::Add, &json!({}));
        let list = json!([{"position": 0, "network": "a", "ifname": "eth0", "primary": true},
                          {"position": 1, "network": "b", "ifname": "net1", "request": {"defaultRoute": ["10.80.1.1"]}}]);
        let list = list.to_string();
        bencher.bench(|| module.arrange(&call, &list, Host::new("c1", Scope::default(), true)).0.unwrap());
    }

    #[divan::bench(args = ["result-conversion", "empty-result", "default-gateway", "network-status"])]
    fn stage(bencher: Bencher<'_, '_>, name: &str) {
        run(bencher, name, &document(1), &json!({"sandbox": "/run/netns/pod", "name": "b"}));
    }

    /// result-conversion where there is nothing to convert, and where there is.
    #[divan::bench(args = ["1.1.0", "0.4.0", "0.2.0"])]
    fn conversion_from(bencher: Bencher<'_, '_>, version: &str) {
        let document = older(1, version.parse().unwrap());
        let context = json!({"sandbox": "/run/netns/pod", "name": "b"});
        run(bencher, "result-conversion", &document, &context);
    }

    #[divan::bench(args = KIB)]
    fn default_route_moved(bencher: Bencher<'_, '_>, kib: usize) {
        let intent = json!({"ipv4": {"action": "override", "gateways": ["10.80.1.1"]}});
        run(
            bencher,
            "default-gateway",
            &document(kib),
            &json!({"sandbox": "/run/netns/pod", "intent": intent}),
        );
    }

    fn run(bencher: Bencher<'_, '_>, name: &str, document: &Document, context: &Value) {
        let module = modules().get(name).unwrap();
        let call = call(Command::Add, context);
        bencher.with_inputs(host).bench_values(|host| module.run(&call, document, host).0.unwrap());
    }
}

mod routes {
    use super::*;

    fn via(gateway: &str, link: u32) -> RouteSpec {
        RouteSpec::new(Prefix::default_route(Family::V4), vec![Hop::via(gateway.parse().unwrap(), link)])
    }

    /// The default route from one link to the other.
    fn swap(from: u32, to: u32) -> [Change; 2] {
        let of = |link| via(if link == NET1 { "10.80.1.1" } else { "10.80.0.1" }, link);
        [Change::Delete(of(from)), Change::Add(of(to))]
    }

    fn with_default(others: usize) -> SimulatedTable {
        let mut table = table(others);
        table.apply(&scope(), &[Change::Add(via("10.80.0.1", ETH0))], &mut Journal::new()).unwrap();
        table
    }

    /// Validating and planning on tables that are read already.
    #[divan::bench(args = [10, 100, 1_000, 10_000])]
    fn plan_beside(bencher: Bencher<'_, '_>, others: usize) {
        let changes = swap(ETH0, NET1);
        let draft = Draft::read(&mut with_default(others), &changes).unwrap();
        bencher.bench(|| draft.requests(&scope(), &changes).unwrap());
    }

    /// Validating, planning, applying and reading back, on a simulated table.
    #[divan::bench(args = [10, 100, 1_000, 10_000])]
    fn swap_beside(bencher: Bencher<'_, '_>, others: usize) {
        let (table, changes) = (with_default(others), swap(ETH0, NET1));
        bencher
            .with_inputs(|| table.clone())
            .bench_refs(|table| table.apply(&scope(), &changes, &mut Journal::new()).unwrap());
    }

    /// The same on the kernel, to and fro.
    #[divan::bench(args = [10, 100, 1_000])]
    fn kernel_swap_beside(bencher: Bencher<'_, '_>, others: usize) {
        let mut kernel = Kernel::of(&pod(others));
        for (name, index) in [("eth0", ETH0), ("net1", NET1)] {
            assert_eq!(kernel.find_link(name).unwrap().map(|link| link.index), Some(index), "{name}");
        }
        let (mut from, mut to) = (ETH0, NET1);
        bencher.bench_local(|| {
            kernel.apply(&scope(), &swap(from, to), &mut Journal::new()).unwrap();
            std::mem::swap(&mut from, &mut to);
        });
    }

    /// A namespace like [`table`], with the default route over eth0.
    fn pod(others: usize) -> Netns {
        let script = format!(
            "ip link set lo up
            ip link add eth0 index {ETH0} type veth peer name peer0 index 12
            ip link add net1 index {NET1} type veth peer name peer1 index 13
            for link in peer0 peer1 eth0 net1; do ip link set $link up; done
            ip addr add 10.80.0.2/24 dev eth0
            ip addr add 10.80.1.2/24 dev net1
            ip route add default via 10.80.0.1
            i=0; while [ $i -lt {others} ]; do
                echo route add 172.16.$((i / 256)).$((i % 256))/32 via 10.80.0.1; i=$((i + 1))
            done | ip -batch -"
        );
        let make = move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect(
                "this makes a network namespace: be root, use `unshare -Urn`, or leave it out with --skip kernel",
            );
            let output = Process::new("sh").arg("-ec").arg(script).output().expect("there is a shell");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Netns::current().unwrap()
        };
        std::thread::spawn(make).join().expect("a namespace with two links; see the message above")
    }
}

mod ledger {
    use super::*;

    fn key() -> Key {
        Key {
            network: NetworkName::parse("outer").unwrap(),
            container_id: ContainerId::parse("c1").unwrap(),
            ifname: IfName::parse("eth0").unwrap(),
            mode: Mode::Meta,
        }
    }

    fn intended() -> Intended {
        serde_json::from_value(json!({
            "schema": catena::attach::entry::SCHEMA, "network": "outer", "containerId": "c1", "ifname": "eth0",
            "mode": "meta", "bootId": "b", "netns": "/run/netns/pod", "netnsId": [4, 1], "args": "", "binDir": null,
            "cacheDir": "/var/lib/cni/catena", "time": 0, "pipeline": [], "attachments": []
        }))
        .unwrap()
    }

    /// Lock, a synced intent, and all of it removed again; beside other entries.
    #[divan::bench(args = [0, 1_000, 10_000], sample_count = 20, sample_size = 1)]
    fn begin_and_remove(bencher: Bencher<'_, '_>, others: usize) {
        // Syncs cost nothing on a tmpfs, which the system's own folder may be.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for i in 0..others {
            std::fs::write(folder.path().join(format!("other{i}@outer@meta@eth0.json")), "{}").unwrap();
        }
        let ledger = Ledger::open(folder.path()).unwrap();
        let intended = intended();
        bencher.bench_local(|| {
            let mut slot = ledger.lock(&key(), Instant::now() + Duration::from_secs(5)).unwrap();
            slot.begin(&intended, &[]).unwrap();
            slot.read().unwrap();
            slot.remove().unwrap();
        });
    }
}
