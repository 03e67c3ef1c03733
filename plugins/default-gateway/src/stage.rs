use catena_sdk::cni::result::CniResult;
use catena_sdk::route::{Change, Family, MAIN, Route};
use catena_sdk::{Action, Call, Document, Error, Host, Intent, Mode, Outcome, Stage};

use crate::DefaultGateway;
use crate::arrange::name;
use crate::config::Config;
use crate::links::Links;
use crate::{defaults, result};

impl Stage for DefaultGateway {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        call.config.check()?;
        let intent = intent(call);
        if intent == Intent::default() {
            return Ok(Outcome::unchanged());
        }
        let (mut result, links) = read(call, document, &intent, host)?;
        // Before the tables are read: a default route that is advertised after that would not be among what goes.
        ignore_advertisements(call, &intent, &links, host)?;
        let tables = Tables::read(&intent, host)?;
        tables.check_ownership(call, &intent, &links)?;

        let before = result.clone();
        let mut changes: Vec<Change> = Vec::new();
        for (family, table) in tables.each() {
            let action = intent.family(family);
            let plan = defaults::plan(action, family, table, &links, &call.config);
            result::rewrite(&mut result, family, action, &plan);
            changes.extend(plan.changes);
        }
        // One change for both families: a pod never has half of a decision.
        if !changes.is_empty() {
            host.apply(&changes)?;
        }
        if result == before {
            return Ok(Outcome::unchanged());
        }
        Ok(Outcome::changed(Document::from_result(&result)?))
    }

    fn check(call: &Call<Config>, document: &Document, host: &Host) -> Result<(), Error> {
        let intent = intent(call);
        if intent == Intent::default() {
            return Ok(());
        }
        let (result, links) = read(call, document, &intent, host)?;
        let tables = Tables::read(&intent, host)?;
        tables.check_ownership(call, &intent, &links)?;
        let mut faults: Vec<String> = Vec::new();
        for (family, table) in tables.each() {
            let action = intent.family(family);
            if let Some((expected, found)) = defaults::difference(action, family, table, &links, &call.config)
            {
                faults.push(format!(
                    "{} default routes of {}: expected {expected}, the kernel has {found}",
                    name(family),
                    call.subject()
                ));
            }
            if !matches!(action, Action::Leave | Action::Own) {
                faults.extend(missing_kept(&result, family, table, &links, &call.config));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(Error::failed(faults.join("; "))) }
    }
}

/// An IPv6 filter or override that comes back with the next router advertisement is none.
fn ignore_advertisements(
    call: &Call<Config>,
    intent: &Intent,
    links: &Links,
    host: &Host,
) -> Result<(), Error> {
    let decided = matches!(intent.family(Family::V6), Action::Filter | Action::Override(_));
    if !decided || call.config.allows_advertisements() || links.names().is_empty() {
        return Ok(());
    }
    let ignore = |link: &String| Change::IgnoreRouterAdvertisements(link.clone());
    let changes: Vec<Change> = links.names().iter().map(ignore).collect();
    host.apply(&changes)?;
    Ok(())
}

/// What was arranged. In chained mode the config is the only source, whether or not somebody arranged it.
fn intent(call: &Call<Config>) -> Intent {
    let mut intent = call.context.intent.clone();
    if call.mode == Mode::Chained {
        for family in Family::ALL {
            let action = intent.family_mut(family);
            if *action == Action::Leave {
                *action = call.config.policy(family);
            }
        }
    }
    intent
}

/// The result and the links that it is about, for a decision that needs both.
fn read(
    call: &Call<Config>,
    document: &Document,
    intent: &Intent,
    host: &Host,
) -> Result<(CniResult, Links), Error> {
    if !document.is_converted() {
        return Err(Error::InvalidResult(format!(
            "cannot set the default routes of {}: its delegate's result could not be converted (it is {})",
            call.subject(),
            document.format
        )));
    }
    let result = document.result()?;
    let routes_wanted =
        Family::ALL.iter().any(|family| matches!(intent.family(*family), Action::Override(_) | Action::Own));
    let links = Links::find(call, &result, host, routes_wanted)?;
    Ok((result, links))
}

/// The routes of the main table that a decision has to look at.
struct Tables {
    ipv4: Vec<Route>,
    ipv6: Vec<Route>,
}

impl Tables {
    fn read(intent: &Intent, host: &Host) -> Result<Tables, Error> {
        let table = |family| -> Result<Vec<Route>, Error> {
            Ok(match intent.family(family) {
                Action::Leave => Vec::new(),
                Action::Own => host.default_routes(family)?,
                Action::Filter | Action::Override(_) => host.routes(family, MAIN)?,
            })
        };
        Ok(Tables { ipv4: table(Family::V4)?, ipv6: table(Family::V6)? })
    }

    fn each(&self) -> [(Family, &[Route]); 2] {
        [(Family::V4, &self.ipv4), (Family::V6, &self.ipv6)]
    }

    /// Ownership with the delegate's own gateways: it must have set one, in whichever of the families.
    fn check_ownership(&self, call: &Call<Config>, intent: &Intent, links: &Links) -> Result<(), Error> {
        let owned = || self.each().into_iter().filter(|(f, _)| *intent.family(*f) == Action::Own);
        let families: Vec<&str> = owned().map(|(family, _)| name(family)).collect();
        let has_one = owned().any(|(_, table)| !defaults::defaults(table, links).is_empty());
        if families.is_empty() || has_one {
            return Ok(());
        }
        Err(Error::failed(format!(
            "{} asks to own the default route with its own gateways, but there is no {} default route on {}",
            call.subject(),
            families.join(" or "),
            links.names().join(", ")
        )))
    }
}

/// Routes of `keep` that the record has and the kernel has not. One that is recorded without a gateway may go by any.
fn missing_kept(
    result: &CniResult,
    family: Family,
    table: &[Route],
    links: &Links,
    config: &Config,
) -> Vec<String> {
    let mut missing = Vec::new();
    for prefix in config.keep(family) {
        for route in result.routes.iter().filter(|route| result::tells(route, prefix)) {
            let by = |gateway| route.gw.is_none() || gateway == route.gw;
            let there = table.iter().any(|other| {
                other.destination == prefix
                    && other.hops.iter().any(|hop| by(hop.gateway) && links.has(&hop.link))
            });
            if !there {
                let via = route.gw.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
                missing.push(format!("the kept route {prefix}{via} is missing"));
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_sdk::testing::{TestCall, TestHost, document};
    use serde_json::{Value, json};

    /// A bridge attachment with both families, as Debian's plugin leaves it.
    fn bridge() -> TestHost {
        TestHost::new(&["net1"])
            .link("eth0")
            .route("10.1.0.0/24 dev net1 proto kernel scope link src 10.1.0.5")
            .route("default via 10.1.0.1 dev net1")
            .route("fd01::/64 dev net1 proto kernel metric 256")
            .route("default via fd01::1 dev net1")
    }

    /// A ptp attachment: the subnet itself goes by the gateway.
    fn ptp() -> TestHost {
        TestHost::new(&["net1"])
            .route("10.1.0.1 dev net1 scope link src 10.1.0.5")
            .route("10.1.0.0/24 via 10.1.0.1 dev net1 src 10.1.0.5")
            .route("default via 10.1.0.1 dev net1")
    }

    fn result() -> Value {
        json!({
            "cniVersion": "1.1.0",
            "interfaces": [
                {"name": "br0"},
                {"name": "net1", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/test", "vendor": 1}
            ],
            "ips": [
                {"address": "10.1.0.5/24", "gateway": "10.1.0.1", "interface": 1},
                {"address": "fd01::5/64", "gateway": "fd01::1", "interface": 1}
            ],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}, {"dst": "10.9.0.0/16", "gw": "10.1.0.1"}],
            "vendor": {"n": 9007199254740993u64}
        })
    }

    fn call(ipv4: Action, ipv6: Action) -> TestCall {
        TestCall::new("net1").secondary(1).intent(&Intent { ipv4, ipv6 })
    }

    fn gateways(list: &[&str]) -> Action {
        Action::Override(list.iter().map(|g| g.parse().unwrap()).collect())
    }

    fn defaults_of(host: &TestHost) -> Vec<String> {
        host.routes().into_iter().filter(|route| route.starts_with("default")).collect()
    }

    fn changed(outcome: Outcome) -> Value {
        outcome.result.unwrap().value().unwrap()
    }

    #[test]
    fn nothing_decided_changes_nothing_and_asks_for_nothing() {
        let host = bridge();
        let outcome = host.add::<DefaultGateway>(&call(Action::Leave, Action::Leave), &result()).unwrap();
        assert_eq!(outcome, Outcome::unchanged());
        assert_eq!(defaults_of(&host).len(), 2);
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn a_filter_touches_its_family_only() {
        let host = bridge();
        let outcome = host.add::<DefaultGateway>(&call(Action::Filter, Action::Leave), &result()).unwrap();
        assert_eq!(defaults_of(&host), ["default via fd01::1 dev net1"]);
        assert_eq!(host.sysctl("net1", "accept_ra_defrtr").as_deref(), Some("1"));
        let changed = changed(outcome);
        assert_eq!(changed["routes"], json!([{"dst": "::/0"}, {"dst": "10.9.0.0/16", "gw": "10.1.0.1"}]));
        assert_eq!(changed["ips"][0], json!({"interface": 1, "address": "10.1.0.5/24"}));
        assert_eq!(changed["ips"][1]["gateway"], "fd01::1");
        assert_eq!(changed["vendor"], result()["vendor"]);
        assert_eq!(changed["interfaces"][1]["vendor"], 1);
    }

    #[test]
    fn an_ipv6_filter_also_stops_router_advertisements() {
        let host = bridge().route("default via fe80::1 dev net1 proto ra metric 100");
        let call6 = || call(Action::Leave, Action::Filter);
        host.add::<DefaultGateway>(&call6(), &result()).unwrap();
        assert_eq!(defaults_of(&host), ["default via 10.1.0.1 dev net1"]);
        assert_eq!(host.sysctl("net1", "accept_ra_defrtr").as_deref(), Some("0"));

        let allowed = bridge();
        allowed.add::<DefaultGateway>(&call6().config(json!({"ra": "allow"})), &result()).unwrap();
        assert_eq!(allowed.sysctl("net1", "accept_ra_defrtr").as_deref(), Some("1"));
    }

    #[test]
    fn advertisements_are_ignored_before_the_table_is_read() {
        let host = bridge();
        host.add::<DefaultGateway>(&call(Action::Leave, Action::Filter), &result()).unwrap();
        // Beside the links: the setting, the look at the table, the change. What is advertised before the setting is
        // seen, and what comes behind it is ignored.
        assert_eq!(host.calls(), 4);
        assert_eq!(
            host.changes(),
            [
                "net.ipv6.conf.net1.accept_ra_defrtr: 1 -> 0",
                "- default via fd01::1 dev net1 proto boot metric 1024"
            ]
        );
        let allowed = bridge();
        let call = call(Action::Leave, Action::Filter).config(json!({"ra": "allow"}));
        allowed.add::<DefaultGateway>(&call, &result()).unwrap();
        assert_eq!(allowed.calls(), 3);
    }

    #[test]
    fn every_default_goes_at_any_metric_and_no_other_route() {
        let host = bridge()
            .route("default via 10.1.0.2 dev net1 metric 50")
            .route("default dev net1 scope link metric 70")
            .route("0.0.0.0/1 via 10.1.0.1 dev net1")
            .route("default via 10.2.0.1 dev eth0 metric 300");
        // eth0's gateway need not be reachable for the simulated table to hold its route.
        host.add::<DefaultGateway>(&call(Action::Filter, Action::Leave), &result()).unwrap();
        assert_eq!(
            defaults_of(&host),
            ["default via 10.2.0.1 dev eth0 metric 300", "default via fd01::1 dev net1"]
        );
        assert!(host.routes().contains(&"0.0.0.0/1 via 10.1.0.1 dev net1".to_owned()));
    }

    #[test]
    fn of_a_multipath_default_only_our_leg_goes() {
        let host = TestHost::new(&["net1"])
            .link("eth0")
            .route("fd01::/64 dev net1 proto kernel metric 256")
            .route("fd02::/64 dev eth0 proto kernel metric 256")
            .route("default nexthop via fd02::1 dev eth0 nexthop via fd01::1 dev net1");
        let mut no4 = result();
        no4["ips"].as_array_mut().unwrap().remove(0);
        host.add::<DefaultGateway>(&call(Action::Leave, Action::Filter), &no4).unwrap();
        assert_eq!(defaults_of(&host), ["default via fd02::1 dev eth0"]);
    }

    #[test]
    fn an_override_sets_exactly_the_gateways() {
        let host = bridge();
        let outcome =
            host.add::<DefaultGateway>(&call(gateways(&["10.1.0.9"]), Action::Leave), &result()).unwrap();
        assert_eq!(defaults_of(&host), ["default via 10.1.0.9 dev net1", "default via fd01::1 dev net1"]);
        let changed = changed(outcome);
        assert_eq!(
            changed["routes"],
            json!([{"dst": "::/0"}, {"dst": "10.9.0.0/16", "gw": "10.1.0.1"},
                   {"dst": "0.0.0.0/0", "gw": "10.1.0.9"}])
        );
        assert_eq!(changed["ips"][0]["gateway"], "10.1.0.9");
    }

    #[test]
    fn an_override_in_a_family_without_a_default_adds_one() {
        let host = TestHost::new(&["net1"]).route("10.1.0.0/24 dev net1 proto kernel scope link");
        host.add::<DefaultGateway>(&call(gateways(&["10.1.0.1"]), Action::Leave), &result()).unwrap();
        assert_eq!(defaults_of(&host), ["default via 10.1.0.1 dev net1"]);
    }

    #[test]
    fn what_is_as_wanted_stays() {
        let host = bridge();
        let outcome = host
            .add::<DefaultGateway>(&call(gateways(&["10.1.0.1"]), gateways(&["fd01::1"])), &result())
            .unwrap();
        assert_eq!(defaults_of(&host), ["default via 10.1.0.1 dev net1", "default via fd01::1 dev net1"]);
        assert_eq!(changed(outcome)["routes"][1], json!({"dst": "0.0.0.0/0", "gw": "10.1.0.1"}));
    }

    #[test]
    fn several_gateways_get_rising_metrics() {
        let host = bridge();
        let outcome = host
            .add::<DefaultGateway>(
                &call(gateways(&["10.1.0.2", "10.1.0.3"]), gateways(&["fd01::2", "fd01::3"])),
                &result(),
            )
            .unwrap();
        assert_eq!(
            defaults_of(&host),
            [
                "default via 10.1.0.2 dev net1",
                "default via 10.1.0.3 dev net1 metric 1",
                "default via fd01::2 dev net1",
                "default via fd01::3 dev net1 metric 1025"
            ]
        );
        let changed = changed(outcome);
        let told: Vec<String> =
            changed["routes"].as_array().unwrap().iter().skip(1).map(Value::to_string).collect();
        assert_eq!(
            told,
            [
                r#"{"dst":"0.0.0.0/0","gw":"10.1.0.2"}"#,
                r#"{"dst":"0.0.0.0/0","gw":"10.1.0.3","priority":1}"#,
                r#"{"dst":"::/0","gw":"fd01::2"}"#,
                r#"{"dst":"::/0","gw":"fd01::3","priority":1025}"#
            ]
        );
    }

    #[test]
    fn several_gateways_may_share_one_route() {
        let host = bridge();
        let ecmp = call(gateways(&["10.1.0.2", "10.1.0.3"]), gateways(&["fd01::2", "fd01::3"]))
            .config(json!({"gateways": "ecmp"}));
        host.add::<DefaultGateway>(&ecmp, &result()).unwrap();
        assert_eq!(
            defaults_of(&host),
            [
                "default nexthop via 10.1.0.2 dev net1 weight 1 nexthop via 10.1.0.3 dev net1 weight 1",
                "default nexthop via fd01::2 dev net1 weight 1 nexthop via fd01::3 dev net1 weight 1"
            ]
        );
        host.check::<DefaultGateway>(&ecmp, &result()).unwrap();
    }

    #[test]
    fn kept_destinations_go_on_by_the_old_gateway() {
        let keep = |intent: TestCall| intent.config(json!({"keep": ["10.96.0.0/12", "fd99::/64"]}));
        let host = bridge();
        let filter = keep(call(Action::Filter, Action::Leave));
        let outcome = host.add::<DefaultGateway>(&filter, &result()).unwrap();
        assert!(host.routes().contains(&"10.96.0.0/12 via 10.1.0.1 dev net1".to_owned()));
        assert!(!host.routes().iter().any(|route| route.starts_with("fd99")));
        let changed = changed(outcome);
        let told = json!({"dst": "10.96.0.0/12", "gw": "10.1.0.1"});
        assert!(changed["routes"].as_array().unwrap().contains(&told));
        host.check::<DefaultGateway>(&filter, &changed).unwrap();

        // An override takes the default from the old gateway as well.
        let host = bridge();
        host.add::<DefaultGateway>(&keep(call(Action::Leave, gateways(&["fd01::9"]))), &result()).unwrap();
        assert!(host.routes().contains(&"fd99::/64 via fd01::1 dev net1".to_owned()));

        // Without a default there is no old gateway.
        let host = TestHost::new(&["net1"]).route("10.1.0.0/24 dev net1 proto kernel scope link");
        host.add::<DefaultGateway>(&filter, &result()).unwrap();
        assert_eq!(host.routes().len(), 1);
    }

    #[test]
    fn a_kept_route_that_the_delegate_told_without_gateway_gets_one() {
        let keep = call(Action::Filter, Action::Leave).config(json!({"keep": ["10.96.0.0/12"]}));
        let mut told = result();
        told["routes"] = json!([
            {"dst": "0.0.0.0/0"}, {"dst": "10.96.0.0/12", "table": 100}, {"dst": "10.96.0.0/12", "mtu": 1400}
        ]);
        let host = || bridge().route("10.96.0.0/12 via 10.1.0.1 dev net1");
        let pod = host();
        let recorded = changed(pod.add::<DefaultGateway>(&keep, &told).unwrap());
        assert_eq!(
            recorded["routes"],
            json!([
                {"dst": "10.96.0.0/12", "table": 100},
                {"dst": "10.96.0.0/12", "gw": "10.1.0.1", "mtu": 1400}
            ])
        );
        pod.check::<DefaultGateway>(&keep, &recorded).unwrap();
        // With its gateway it is told already.
        told["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "10.96.0.0/12", "gw": "10.1.0.1"}]);
        let recorded = changed(host().add::<DefaultGateway>(&keep, &told).unwrap());
        assert_eq!(recorded["routes"], json!([{"dst": "10.96.0.0/12", "gw": "10.1.0.1"}]));

        // Where nobody put a gateway in, any on our links will do; none is a fault all the same.
        let bare = json!({"cniVersion": "1.1.0", "routes": [{"dst": "10.96.0.0/12"}]});
        pod.check::<DefaultGateway>(&keep, &bare).unwrap();
        let without = TestHost::new(&["net1"]).route("10.1.0.0/24 dev net1 proto kernel scope link");
        let error = without.check::<DefaultGateway>(&keep, &bare).unwrap_err().to_string();
        assert!(error.contains("10.96.0.0/12 is missing"), "{error}");
    }

    #[test]
    fn check_misses_a_kept_route() {
        let keep = call(Action::Filter, Action::Leave).config(json!({"keep": ["10.96.0.0/12"]}));
        let recorded = changed(bridge().add::<DefaultGateway>(&keep, &result()).unwrap());
        let without = TestHost::new(&["net1"]).route("10.1.0.0/24 dev net1 proto kernel scope link");
        let error = without.check::<DefaultGateway>(&keep, &recorded).unwrap_err().to_string();
        assert!(error.contains("10.96.0.0/12 via 10.1.0.1 is missing"), "{error}");
    }

    #[test]
    fn on_ptp_a_neighbour_in_the_subnet_gets_a_route_of_its_own() {
        let host = ptp();
        let outcome =
            host.add::<DefaultGateway>(&call(gateways(&["10.1.0.9"]), Action::Leave), &result()).unwrap();
        assert!(host.routes().contains(&"10.1.0.9 dev net1 scope link".to_owned()));
        assert_eq!(defaults_of(&host), ["default via 10.1.0.9 dev net1"]);
        let told = changed(outcome)["routes"].to_string();
        assert!(!told.contains("10.1.0.9/32"), "{told}");

        // Its own gateway is a neighbour already.
        let host = ptp();
        host.add::<DefaultGateway>(&call(gateways(&["10.1.0.1"]), Action::Leave), &result()).unwrap();
        assert_eq!(host.routes(), ptp().routes());
    }

    #[test]
    fn a_gateway_out_of_reach_is_the_kernels_error_and_both_families_stay() {
        let host = bridge();
        let before = host.routes();
        let error = host
            .add::<DefaultGateway>(&call(gateways(&["192.0.2.1"]), gateways(&["fd01::9"])), &result())
            .unwrap_err()
            .to_string();
        assert!(error.contains("192.0.2.1") && error.contains("net1"), "{error}");
        assert_eq!(host.routes(), before);
        assert_eq!(host.sysctl("net1", "accept_ra_defrtr").as_deref(), Some("1"));

        // One of two refused: neither is there.
        host.add::<DefaultGateway>(&call(gateways(&["10.1.0.2", "192.0.2.1"]), Action::Leave), &result())
            .unwrap_err();
        assert_eq!(host.routes(), before);
    }

    #[test]
    fn ownership_needs_a_default_of_its_own_in_some_family() {
        let own = || call(Action::Own, Action::Own);
        let host = bridge();
        let outcome = host.add::<DefaultGateway>(&own(), &result()).unwrap();
        assert_eq!(host.routes(), bridge().routes());
        // The result now tells the gateways that the plugin left out.
        let changed = changed(outcome);
        assert_eq!(changed["routes"][0], json!({"dst": "0.0.0.0/0", "gw": "10.1.0.1"}));
        assert_eq!(changed["routes"][1], json!({"dst": "::/0", "gw": "fd01::1"}));
        assert_eq!(changed["ips"], result()["ips"]);
        assert_eq!(host.add::<DefaultGateway>(&own(), &changed).unwrap(), Outcome::unchanged());
        host.check::<DefaultGateway>(&own(), &result()).unwrap();
        ptp().add::<DefaultGateway>(&own(), &result()).unwrap();

        let bare = TestHost::new(&["net1"]).route("10.1.0.0/24 dev net1 proto kernel scope link");
        let error = bare.add::<DefaultGateway>(&own(), &result()).unwrap_err().to_string();
        assert!(error.contains("IPv4 or IPv6 default route on net1"), "{error}");
        assert!(bare.check::<DefaultGateway>(&own(), &result()).is_err());
    }

    #[test]
    fn a_reported_link_that_does_not_exist_is_an_error_where_a_change_is_asked_for() {
        let host = TestHost::new(&["eth7"]).route("default dev eth7 scope link");
        for action in [Action::Filter, Action::Own, gateways(&["10.1.0.1"])] {
            let error = host.add::<DefaultGateway>(&call(action, Action::Leave), &result()).unwrap_err();
            assert!(error.to_string().contains("\"net1\""), "{error}");
        }
        assert_eq!(host.routes().len(), 1);
        host.add::<DefaultGateway>(&call(Action::Leave, Action::Leave), &result()).unwrap();
    }

    #[test]
    fn a_device_that_is_no_kernel_link_has_nothing_to_filter() {
        let host = TestHost::new(&[]).link("eth0");
        for member in ["pciID", "socketPath"] {
            let mut result = result();
            result["interfaces"][1][member] = json!("x");
            host.add::<DefaultGateway>(&call(Action::Filter, Action::Filter), &result).unwrap();
            assert!(
                host.add::<DefaultGateway>(&call(gateways(&["10.1.0.1"]), Action::Leave), &result).is_err()
            );
        }
    }

    #[test]
    fn a_result_without_interfaces_means_the_link_of_the_attachment() {
        let bare = json!({"cniVersion": "1.1.0"});
        let host = bridge();
        host.add::<DefaultGateway>(&call(Action::Filter, Action::Filter), &bare).unwrap();
        assert_eq!(defaults_of(&host), [""; 0]);
        let elsewhere = TestHost::new(&["other"]);
        assert!(
            elsewhere.add::<DefaultGateway>(&call(Action::Filter, Action::Leave), &bare).is_err(),
            "a missing link must not count as filtered"
        );
    }

    #[test]
    fn an_unconverted_result_is_left_alone_unless_a_change_is_asked_for() {
        let host = bridge();
        for raw in [json!({"cniVersion": "2.0.0"}), json!({"cniVersion": "1.0.0"})] {
            host.add_document::<DefaultGateway>(&call(Action::Leave, Action::Leave), &document(&raw))
                .unwrap();
            let filter = call(Action::Filter, Action::Leave);
            let error = host.add_document::<DefaultGateway>(&filter, &document(&raw)).unwrap_err();
            assert!(matches!(error, Error::InvalidResult(_)), "{error}");
        }
        assert_eq!(host.routes(), bridge().routes());
    }

    #[test]
    fn check_names_the_difference() {
        let wanted = call(gateways(&["10.1.0.9"]), Action::Filter);
        let host = bridge();
        host.add::<DefaultGateway>(&wanted, &result()).unwrap();
        host.check::<DefaultGateway>(&wanted, &result()).unwrap();

        let text = bridge().check::<DefaultGateway>(&wanted, &result()).unwrap_err().to_string();
        assert!(text.contains("expected default via 10.1.0.9 dev net1, the kernel has default via 10.1.0.1"));
        assert!(text.contains("IPv6 default routes of net1"), "{text}");
        assert!(text.contains("expected none, the kernel has default via fd01::1 dev net1"), "{text}");

        let gone = TestHost::new(&["net1"]);
        let text = gone.check::<DefaultGateway>(&wanted, &result()).unwrap_err().to_string();
        assert!(text.contains("the kernel has none"), "{text}");
        let elsewhere = TestHost::new(&["net9"]);
        assert!(elsewhere.check::<DefaultGateway>(&wanted, &result()).is_err());
    }

    #[test]
    fn check_tolerates_advertised_routes_only_where_they_are_allowed() {
        let host = TestHost::new(&["net1"]).route("default via fe80::1 dev net1 proto ra");
        let filter = || call(Action::Leave, Action::Filter);
        assert!(host.check::<DefaultGateway>(&filter(), &result()).is_err());
        host.check::<DefaultGateway>(&filter().config(json!({"ra": "allow"})), &result()).unwrap();
    }

    #[test]
    fn an_advertised_gateway_is_replaced_by_a_lasting_one() {
        let host = TestHost::new(&["net1"]).route("default via fe80::1 dev net1 proto ra");
        host.add::<DefaultGateway>(&call(Action::Leave, gateways(&["fe80::1"])), &result()).unwrap();
        assert_eq!(defaults_of(&host), ["default via fe80::1 dev net1"]);
    }

    #[test]
    fn in_chained_mode_the_config_decides() {
        let host = bridge();
        let chained = TestCall::new("net1").chained().config(json!({"filter": ["ipv4"]}));
        let outcome = host.add::<DefaultGateway>(&chained, &result()).unwrap();
        assert_eq!(defaults_of(&host), ["default via fd01::1 dev net1"]);
        host.check::<DefaultGateway>(&chained, &changed(outcome)).unwrap();
    }
}
