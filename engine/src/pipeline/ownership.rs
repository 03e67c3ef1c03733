//! Whether what was asked for is what the kernel has: the host's own check, whatever the pipeline was.

use std::collections::BTreeSet;
use std::net::IpAddr;

use catena_routes::{Family, Route};

use crate::pipeline::intent::{FamilyIntent, Request};

/// One attachment's request, and the links that are its own.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its network name.
    pub network: String,
    /// Its interface.
    pub ifname: String,
    /// What it asked for.
    pub request: Request,
    /// Indices of its links in the sandbox.
    pub links: Vec<u32>,
}

/// What of the requests in one family the main table does not carry out, in words.
pub fn unmet(family: Family, main: &[Route], claims: &[Claim]) -> Vec<String> {
    let owned = claims.iter().any(|claim| is_owner(&claim.request.family(family)));
    let mut unmet = Vec::new();
    unmet.extend(shared(family, main, claims));
    for claim in claims {
        let has = gateways(main, &claim.links);
        let name = format!("{}/{}", claim.network, claim.ifname);
        match claim.request.family(family) {
            FamilyIntent::Override(wanted) => {
                let wanted: BTreeSet<Option<IpAddr>> = wanted.into_iter().map(Some).collect();
                if has != wanted {
                    unmet.push(format!(
                        "{name} asked for the {family} default route via {}, and has {}",
                        list(&wanted),
                        list(&has)
                    ));
                }
            }
            // In one family or in both: see `unowned`.
            FamilyIntent::Own => {}
            FamilyIntent::Filter if !has.is_empty() => {
                unmet.push(format!("{name} asked for no {family} default route, and has {}", list(&has)));
            }
            FamilyIntent::Leave if owned && !has.is_empty() => unmet.push(format!(
                "{name} has a {family} default route via {}, which belongs to another attachment",
                list(&has)
            )),
            FamilyIntent::Filter | FamilyIntent::Leave => {}
        }
    }
    unmet
}

/// Where several attachments asked for a family's default route and several have one, each of them has just what it asked
/// for, and none owns it: the kernel may even have made one route of theirs.
fn shared(family: Family, main: &[Route], claims: &[Claim]) -> Option<String> {
    let owners: Vec<String> = claims
        .iter()
        .filter(|claim| is_owner(&claim.request.family(family)))
        .filter_map(|claim| {
            let has = gateways(main, &claim.links);
            (!has.is_empty()).then(|| format!("{}/{} (via {})", claim.network, claim.ifname, list(&has)))
        })
        .collect();
    let several = owners.len() > 1;
    several.then(|| {
        format!(
            "{} each asked for the {family} default route and each have one, but only one attachment can own it",
            owners.join(" and ")
        )
    })
}

/// The attachments that asked to own the default route with whatever gateways their delegates set, and have
/// none in either family. (A network of one family owns what there is.)
pub fn unowned(main: [&[Route]; 2], claims: &[Claim]) -> Vec<String> {
    claims
        .iter()
        .filter(|claim| claim.request == Request::DefaultRoute(Vec::new()))
        .filter(|claim| main.iter().all(|routes| gateways(routes, &claim.links).is_empty()))
        .map(|claim| {
            format!(
                "{}/{} asked to own the default route with its delegate's gateways, and has no default route",
                claim.network, claim.ifname
            )
        })
        .collect()
}

/// Whether any attachment asks for anything in this family.
pub fn is_asked(family: Family, claims: &[Claim]) -> bool {
    claims.iter().any(|claim| claim.request.family(family) != FamilyIntent::Leave)
}

/// The attachments that have default routes, where more than one has and nobody asked to own one: worth a warning.
pub fn rivals(family: Family, main: &[Route], claims: &[Claim]) -> Vec<String> {
    let owners: Vec<String> = claims
        .iter()
        .filter(|claim| !gateways(main, &claim.links).is_empty())
        .map(|claim| format!("{}/{}", claim.network, claim.ifname))
        .collect();
    let is_owned = claims.iter().any(|claim| is_owner(&claim.request.family(family)));
    if owners.len() > 1 && !is_owned { owners } else { Vec::new() }
}

fn is_owner(intent: &FamilyIntent) -> bool {
    matches!(intent, FamilyIntent::Override(_) | FamilyIntent::Own)
}

/// The gateways of the default routes with a hop on one of these links; none stands for a route without one.
fn gateways(main: &[Route], links: &[u32]) -> BTreeSet<Option<IpAddr>> {
    main.iter()
        .filter(|route| route.dst.is_default())
        .flat_map(|route| &route.hops)
        .filter(|hop| links.contains(&hop.link))
        .map(|hop| hop.gateway)
        .collect()
}

fn list(gateways: &BTreeSet<Option<IpAddr>>) -> String {
    if gateways.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<String> = gateways
        .iter()
        .map(|gateway| gateway.map_or_else(|| "the link itself".to_owned(), |gateway| gateway.to_string()))
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_routes::{Hop, Prefix};

    fn default_via(gateway: &str, link: u32) -> Route {
        let gateway: IpAddr = gateway.parse().unwrap();
        let anywhere = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let hop = Hop { gateway: Some(gateway), link, weight: 0, onlink: false };
        Route::new(anywhere.parse::<Prefix>().unwrap(), vec![hop])
    }

    fn claim(ifname: &str, link: u32, request: Request) -> Claim {
        Claim { network: "n".into(), ifname: ifname.into(), request, links: vec![link] }
    }

    fn asks(gateways: &[&str]) -> Request {
        Request::DefaultRoute(gateways.iter().map(|gateway| gateway.parse().unwrap()).collect())
    }

    #[test]
    fn an_override_needs_exactly_its_gateways_and_nobody_else() {
        let claims = [claim("eth0", 2, Request::Absent), claim("net1", 3, asks(&["10.1.0.1"]))];
        let carried_out = [default_via("10.1.0.1", 3)];
        assert_eq!(unmet(Family::V4, &carried_out, &claims), [""; 0]);
        assert_eq!(unmet(Family::V6, &[default_via("2001:db8::1", 2)], &claims), [""; 0]);

        let other_gateway = unmet(Family::V4, &[default_via("10.1.0.9", 3)], &claims);
        assert!(other_gateway[0].contains("n/net1 asked for") && other_gateway[0].contains("10.1.0.9"));
        let both = [default_via("10.1.0.1", 3), default_via("10.0.0.1", 2)];
        assert!(unmet(Family::V4, &both, &claims)[0].contains("n/eth0 has a"));
        assert!(unmet(Family::V4, &[], &claims)[0].contains("has none"));
    }

    #[test]
    fn ownership_with_the_delegates_gateways_needs_one_in_either_family() {
        let claims = [claim("eth0", 2, asks(&[]))];
        assert_eq!(unowned([&[], &[]], &claims).len(), 1);
        assert_eq!(unowned([&[], &[default_via("2001:db8::1", 2)]], &claims), [""; 0]);
        assert_eq!(unowned([&[default_via("10.0.0.1", 3)], &[]], &claims).len(), 1);
    }

    #[test]
    fn a_family_has_one_owner() {
        let two = |one: Request, other: Request| [claim("eth0", 2, one), claim("net1", 3, other)];
        // What the kernel makes of two IPv6 defaults of one metric.
        let mut merged = default_via("fd00::1", 2);
        merged.hops.extend(default_via("fd01::1", 3).hops);
        for claims in [
            two(asks(&["fd00::1"]), asks(&["fd01::1"])),
            two(asks(&[]), asks(&[])),
            two(asks(&[]), asks(&["fd01::1"])),
        ] {
            let unmet = unmet(Family::V6, std::slice::from_ref(&merged), &claims);
            assert_eq!(unmet.len(), 1, "{unmet:?}");
            assert!(
                unmet[0].contains("n/eth0 (via fd00::1) and n/net1 (via fd01::1) each asked for the ipv6"),
                "{unmet:?}"
            );
        }
        // One network of each family.
        let claims = two(asks(&[]), asks(&[]));
        assert_eq!(unmet(Family::V6, &[default_via("fd00::1", 2)], &claims), [""; 0]);
        assert_eq!(unmet(Family::V4, &[default_via("10.1.0.1", 3)], &claims), [""; 0]);
    }

    #[test]
    fn rivals_are_named_where_nobody_asks_to_own() {
        let claims = [claim("eth0", 2, Request::Absent), claim("net1", 3, Request::Absent)];
        let both = [default_via("10.1.0.1", 3), default_via("10.0.0.1", 2)];
        assert_eq!(rivals(Family::V4, &both, &claims), ["n/eth0", "n/net1"]);
        assert_eq!(rivals(Family::V4, &both[..1], &claims), [""; 0]);
        let [one, two] = claims;
        let with_none = [one.clone(), two.clone(), claim("net2", 4, Request::None)];
        assert_eq!(rivals(Family::V4, &both, &with_none), ["n/eth0", "n/net1"]);
        let owned = [one, two, claim("net2", 4, Request::DefaultRoute(Vec::new()))];
        assert_eq!(rivals(Family::V4, &both, &owned), [""; 0]);
    }

    #[test]
    fn a_request_for_none_is_checked() {
        let claims = [claim("net1", 3, Request::None)];
        assert!(unmet(Family::V4, &[default_via("10.1.0.1", 3)], &claims)[0].contains("asked for no"));
        assert_eq!(unmet(Family::V4, &[default_via("10.1.0.1", 2)], &claims), [""; 0]);
    }
}
