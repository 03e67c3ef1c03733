//! A journal and a snapshot are the same after they were JSON, whatever is in them, and no JSON makes reading panic.

use std::net::IpAddr;

use catena_routes::{
    Attribute, Entry, Expiry, Family, Hop, Journal, Kind, Link, LinkRef, Prefix, Route, RouteChange,
    Snapshot, Sysctl,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::Value;

fn address(family: Family) -> BoxedStrategy<IpAddr> {
    match family {
        Family::V4 => any::<[u8; 4]>().prop_map(IpAddr::from).boxed(),
        Family::V6 => any::<[u8; 16]>().prop_map(IpAddr::from).boxed(),
    }
}

fn prefix(family: Family) -> impl Strategy<Value = Prefix> {
    (address(family), 0..=family.bits()).prop_map(|(addr, len)| Prefix::masked(addr, len).unwrap())
}

fn hop(family: Family) -> impl Strategy<Value = Hop> {
    (of(address(family)), any::<u32>(), any::<u8>(), any::<bool>())
        .prop_map(|(gateway, link, weight, onlink)| Hop { gateway, link, weight, onlink })
}

fn attribute() -> impl Strategy<Value = Attribute> {
    (any::<u16>(), any::<bool>(), vec(any::<u8>(), 0..9)).prop_map(|(kind, nested, value)| Attribute {
        kind,
        nested,
        value,
    })
}

fn route(family: Family, table: u32) -> impl Strategy<Value = Route> {
    let numbers = (any::<u8>(), any::<u32>(), any::<u8>(), any::<u8>());
    let values =
        (of(address(family)), of(any::<u32>()), of(any::<u32>()), of(any::<u32>()), of(any::<u32>()));
    let lists = (vec(hop(family), 0..4), vec(attribute(), 0..3), vec(attribute(), 0..3));
    let rest = (prefix(family), of(prefix(family)), proptest::sample::select(&Kind::ALL), of(".*"));
    (numbers, values, lists, rest).prop_map(move |(numbers, values, lists, rest)| Route {
        family,
        table,
        dst: rest.0,
        tos: numbers.0,
        metric: numbers.1,
        kind: rest.2,
        scope: numbers.2,
        protocol: numbers.3,
        source: values.0,
        mtu: values.1,
        advmss: values.2,
        hops: lists.0,
        from: rest.1,
        object: values.3,
        metrics: lists.1,
        extra: lists.2,
        unknown_kind: values.1.and_then(|number| u8::try_from(number % 512).ok()),
        fixed: rest.3,
        expires: Expiry(values.4),
    })
}

fn link() -> impl Strategy<Value = LinkRef> {
    (any::<u32>(), ".*").prop_map(|(index, name)| LinkRef { index, name })
}

fn entry() -> impl Strategy<Value = Entry> {
    let change =
        (proptest::sample::select(&Family::ALL[..]), any::<u32>()).prop_flat_map(|(family, table)| {
            let routes = || vec(route(family, table), 0..3);
            (routes(), routes(), any::<u16>(), vec(link(), 0..3)).prop_map(
                move |(removed, added, position, links)| {
                    Entry::Route(RouteChange {
                        family,
                        table,
                        removed,
                        added,
                        position: position.into(),
                        links,
                    })
                },
            )
        });
    let sysctl = (link(), ".*", ".*", ".*")
        .prop_map(|(link, key, before, after)| Entry::Sysctl(Sysctl { link, key, before, after }));
    prop_oneof![3 => change, 1 => sysctl]
}

fn journal() -> impl Strategy<Value = Journal> {
    vec(entry(), 0..5).prop_map(|entries| {
        let mut journal = Journal::new();
        entries.into_iter().for_each(|entry| journal.push(entry));
        journal
    })
}

fn whole_link() -> impl Strategy<Value = Link> {
    (link(), vec(".*", 0..3), of(".*"), any::<u32>(), any::<(bool, bool)>(), of(".*")).prop_map(
        |(link, alt_names, mac, mtu, (up, carrier), kind)| Link {
            index: link.index,
            name: link.name,
            alt_names,
            mac,
            mtu,
            up,
            carrier,
            kind,
        },
    )
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let any_route = (proptest::sample::select(&Family::ALL[..]), any::<u32>())
        .prop_flat_map(|(family, table)| route(family, table));
    let sysctls = proptest::collection::btree_map((".*", ".*"), ".*", 0..3);
    (".*", vec(whole_link(), 0..3), vec(any_route, 0..4), sysctls)
        .prop_map(|(namespace, links, routes, sysctls)| Snapshot { namespace, links, routes, sysctls })
}

/// JSON with one member or item taken away or made something else.
fn damaged(value: &Value, at: &mut usize, by: &Value) -> Value {
    if *at == 0 {
        *at = usize::MAX;
        return by.clone();
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter().map(|item| damaged(item, at, by)).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (key.clone(), damaged(value, at, by))).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn it_is_the_same_after_it_was_text(journal in journal()) {
        let text = serde_json::to_string(&journal.to_json()).unwrap();
        let read = Journal::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
        // Equality of expiries is only that of their being there.
        prop_assert_eq!(&read.to_json(), &journal.to_json());
        prop_assert_eq!(read, journal);
    }

    #[test]
    fn a_snapshot_is_the_same_after_it_was_text(snapshot in snapshot()) {
        let text = serde_json::to_string(&snapshot.to_json()).unwrap();
        let read = Snapshot::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
        prop_assert_eq!(&read.to_json(), &snapshot.to_json());
        prop_assert_eq!(read, snapshot);
    }

    #[test]
    fn damage_is_named_or_harmless(
        journal in journal(),
        snapshot in snapshot(),
        at in 0usize..60,
        by in 0usize..5,
    ) {
        let by = [Value::Null, Value::from(-1), Value::from("+1"), Value::from(vec![1]), Value::from(1.5)][by].clone();
        if let Err(error) = Journal::from_json(&damaged(&journal.to_json(), &mut at.clone(), &by)) {
            prop_assert!(error.to_string().starts_with("route journal: /"), "{}", error);
        }
        if let Err(error) = Snapshot::from_json(&damaged(&snapshot.to_json(), &mut at.clone(), &by)) {
            prop_assert!(error.to_string().starts_with("route snapshot: /"), "{}", error);
        }
    }
}

#[test]
fn parts_are_taken_and_put_back() {
    let entry = |key: &str| {
        let link = LinkRef { index: 1, name: "lo".to_owned() };
        Entry::Sysctl(Sysctl { link, key: key.to_owned(), before: "1".to_owned(), after: "0".to_owned() })
    };
    let mut journal = Journal::new();
    journal.push(entry("a"));
    let mark = journal.mark();
    journal.push(entry("b"));
    assert_eq!(journal.since(mark), [entry("b")]);
    let part = journal.take_from(mark);
    assert_eq!((journal.entries().len(), part.entries().len()), (1, 1));
    journal.append(part);
    assert_eq!(journal.entries(), [entry("a"), entry("b")]);
    assert_eq!(journal.take_from(Journal::start()).entries().len(), 2);
    assert!(journal.is_empty());
    // A mark of a longer journal takes nothing.
    assert!(journal.take_from(mark).is_empty());
    assert_eq!(journal.since(mark), []);
}
