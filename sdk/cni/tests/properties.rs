//! Properties of the parsers and of the conversion.

#[path = "support/targets.rs"]
mod targets;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_cni::json::{self, Map, Value};
use catena_cni::net::IpNet;
use catena_cni::result::{self, CniResult, Dns, Interface, IpConfig, Route};
use catena_cni::version::SpecVersion;
use proptest::prelude::*;

const TARGETS: [fn(&[u8]); 7] = [
    targets::json,
    targets::result,
    targets::prev_result,
    targets::error_object,
    targets::list,
    targets::version_reply,
    targets::texts,
];

// Generators.

/// A scalar that means something somewhere in a CNI document, or nearly does.
fn scalar() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec![
        "",
        "4",
        "6",
        "IPv4",
        "0.1.0",
        "0.2.0",
        "0.3.1",
        "0.4.0",
        "1.0.0",
        "1.1.0",
        "1.2.0",
        "1.1",
        "eth0",
        "bridge",
        "192.0.2.5/24",
        "192.0.2.5",
        "192.0.2.5/33",
        "2001:DB8::5/64",
        "::ffff:192.0.2.5/120",
        "::/0",
        "0.0.0.0/0",
        "true",
        "x",
        "é\u{0}\u{202e}",
    ]);
    prop_oneof![
        6 => text.prop_map(Value::from),
        2 => prop::sample::select(vec!["0", "-1", "1", "7", "1500", "1500.0", "15e2", "1E+400", "-0", "9223372036854775808"])
            .prop_map(|text| json::parse(text.as_bytes()).expect("a number")),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ]
}

/// A member name that means something somewhere, in any case, or none.
fn name() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "cniVersion",
        "cniVersions",
        "name",
        "type",
        "plugins",
        "interfaces",
        "ips",
        "ip4",
        "ip6",
        "routes",
        "dns",
        "version",
        "address",
        "gateway",
        "interface",
        "ip",
        "mac",
        "mtu",
        "sandbox",
        "dst",
        "gw",
        "table",
        "scope",
        "nameservers",
        "domain",
        "search",
        "options",
        "prevResult",
        "capabilities",
        "ipam",
        "code",
        "msg",
        "details",
        "supportedVersions",
        "disableCheck",
        "loadOnlyInlinedPlugins",
        "cni.dev/valid-attachments",
        "vendor",
        "$serde_json::private::Number",
        "$serde_json::private::RawValue",
    ]);
    (known, 0..12_u8).prop_map(|(name, case)| match case {
        0 => name.to_uppercase(),
        1 => name.to_lowercase(),
        2 => name.replace('s', "ſ"),
        _ => name.to_owned(),
    })
}

fn tree() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((name(), inner), 0..7).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// The JSON of a tree with something cut out, doubled or replaced.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (
        tree(),
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        prop::collection::vec(any::<u8>(), 0..3),
    )
        .prop_map(|(tree, from, to, with)| {
            let mut bytes = tree.to_string().into_bytes();
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            bytes.splice(from.min(to)..from.max(to), with);
            bytes
        })
}

fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|octets| IpAddr::from(Ipv4Addr::from(octets))),
        any::<[u8; 16]>().prop_map(|octets| IpAddr::from(Ipv6Addr::from(octets)).to_canonical()),
        prop::sample::select(vec!["::", "::1", "0.0.0.0", "::c000:201", "fe80::1"])
            .prop_map(|text| text.parse().expect("an address")),
    ]
}

fn net() -> impl Strategy<Value = IpNet> {
    (ip(), 0..=128_u8)
        .prop_map(|(ip, len)| IpNet::new(ip, if ip.is_ipv4() { len % 33 } else { len }).expect("fits"))
}

fn word() -> impl Strategy<Value = String> {
    "[a-zé/:.\"\\\\\n-]{1,6}"
}

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(word(), 0..3)
}

fn number() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(any::<i64>().prop_filter("0 is absent", |n| *n != 0))
}

/// Unknown members: none that any version knows.
fn extra() -> impl Strategy<Value = Map> {
    prop::collection::vec(("x-[a-z]{1,3}", scalar().prop_filter("null is absent", |v| !v.is_null())), 0..2)
        .prop_map(|members| members.into_iter().collect())
}

prop_compose! {
    fn interface()(
        name in word(), mac in prop::option::of(word()), mtu in number(), sandbox in prop::option::of(word()),
        socket_path in prop::option::of(word()), pci_id in prop::option::of(word()), extra in extra(),
    ) -> Interface {
        Interface { name, mac, mtu, sandbox, socket_path, pci_id, extra }
    }
}

prop_compose! {
    fn route()(
        dst in net(), gw in prop::option::of(ip()), mtu in number(), advmss in number(), priority in number(),
        table in prop::option::of(any::<i64>()), scope in prop::option::of(0..=255_i64), extra in extra(),
    ) -> Route {
        Route { dst, gw, mtu, advmss, priority, table, scope, extra }
    }
}

prop_compose! {
    fn dns()(
        nameservers in words(), domain in prop::option::of(word()), search in words(), options in words(),
        extra in extra(),
    ) -> Dns {
        Dns { nameservers, domain, search, options, extra }
    }
}

prop_compose! {
    fn model()(
        interfaces in prop::collection::vec(interface(), 0..4),
        ips in prop::collection::vec(
            (net(), prop::option::of(ip()), prop::option::of(any::<prop::sample::Index>()), extra()), 0..5),
        routes in prop::collection::vec(route(), 0..5), dns in dns(), extra in extra(),
    ) -> CniResult {
        let count = interfaces.len();
        let ips = ips.into_iter().map(|(address, gateway, index, extra)| {
            let interface = index.filter(|_| count > 0).map(|index| index.index(count));
            IpConfig { address, gateway, interface, extra }
        });
        CniResult { ips: ips.collect(), interfaces, routes, dns, extra }
    }
}

/// What a version can say of a result; `None` if it cannot say it at all.
fn sayable(mut result: CniResult, version: SpecVersion) -> Option<CniResult> {
    if version < SpecVersion::V1_0_0 {
        for interface in &mut result.interfaces {
            (interface.mtu, interface.socket_path, interface.pci_id) = (None, None, None);
        }
    }
    if version < SpecVersion::V0_3_0 {
        let first = |v4: bool| result.ips.iter().find(|ip| ip.address.is_ipv4() == v4).cloned();
        let (v4, v6) = (first(true), first(false));
        let of_family = |v4: bool| {
            let routes = result.routes.iter().filter(move |route| route.dst.is_ipv4() == v4);
            routes.map(|route| Route { extra: route.extra.clone(), ..Route::new(route.dst, route.gw) })
        };
        let mut routes = Vec::new();
        routes.extend(v4.iter().flat_map(|_| of_family(true)));
        routes.extend(v6.iter().flat_map(|_| of_family(false)));
        result.interfaces.clear();
        result.routes = routes;
        result.ips = v4.into_iter().chain(v6).map(|ip| IpConfig { interface: None, ..ip }).collect();
        if result.ips.is_empty() {
            return None;
        }
    }
    Some(result)
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        TARGETS.iter().for_each(|target| target(&bytes));
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,40}|[0-9a-f:./%=;-]{0,20}|[{}\\[\\]\",:0-9eE+.\\\\ud-]{0,40}") {
        TARGETS.iter().for_each(|target| target(text.as_bytes()));
    }

    #[test]
    fn no_document_makes_a_parser_panic(tree in tree()) {
        let text = tree.to_string();
        // serde_json takes objects with its own magic names for numbers and raw texts; no others do.
        let magic = text.contains("$serde_json");
        TARGETS.iter().skip(usize::from(magic)).for_each(|target| target(text.as_bytes()));
        prop_assert_eq!(json::parse(text.as_bytes()), Ok(tree));
    }

    #[test]
    fn no_damaged_document_makes_a_parser_panic(bytes in damaged()) {
        let magic = bytes.windows(11).any(|window| window == b"$serde_json");
        TARGETS.iter().skip(usize::from(magic)).for_each(|target| target(&bytes));
    }

    #[test]
    fn what_is_written_reads_back(result in model()) {
        for version in SpecVersion::ALL {
            let sayable = sayable(result.clone(), version);
            match (result.to_value(version), sayable) {
                (Ok(doc), Some(sayable)) => {
                    targets::assert_clean(&doc);
                    prop_assert_eq!(CniResult::read(&doc), Ok((sayable.clone(), version)));
                    let text = doc.to_string();
                    prop_assert_eq!(json::parse(text.as_bytes()), Ok(doc.clone()));
                    // Up and down again loses nothing.
                    let newest = result::convert(&doc, SpecVersion::NEWEST).expect("1.1.0 can say everything");
                    prop_assert_eq!(result::convert(&newest, version), Ok(doc));
                }
                (Err(_), None) => {}
                (written, sayable) => prop_assert!(false, "{}: {:?} {:?}", version, written, sayable),
            }
        }
    }

    #[test]
    fn all_pairs_of_versions_agree_with_the_way_through_the_model(result in model()) {
        for from in SpecVersion::ALL {
            let Ok(doc) = result.to_value(from) else { continue };
            let (model, _) = CniResult::read(&doc).expect("it was written");
            for to in SpecVersion::ALL {
                prop_assert_eq!(result::convert(&doc, to), model.to_value(to), "{} to {}", from, to);
            }
        }
    }
}
