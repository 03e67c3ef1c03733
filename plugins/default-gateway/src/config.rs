use std::net::IpAddr;

use catena_sdk::route::{Family, Prefix};
use catena_sdk::{Action, Error, Problem, Settings};
use serde::{Deserialize, Deserializer};

use crate::DefaultGateway;

/// The stage's own configuration: the policy of a network or node, which applies where nothing was asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Families in which the attachments have no default route; asking for one is denied.
    filter: Vec<FamilyName>,
    /// Gateways of the default routes.
    #[serde(rename = "override")]
    gateways_instead: Vec<IpAddr>,
    /// Destinations that go on by the old gateway when an attachment loses its default route.
    keep: Vec<Cidr>,
    /// What several gateways of one family become.
    gateways: Gateways,
    /// What becomes of default routes from router advertisements.
    ra: Advertisements,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FamilyName {
    Ipv4,
    Ipv6,
}

/// What several gateways of one family become.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Gateways {
    /// A route for each, with rising metrics in the order given.
    #[default]
    Metrics,
    /// One multipath route.
    Ecmp,
}

/// What becomes of default routes from router advertisements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Advertisements {
    /// The attachment's links take none any more where IPv6 is filtered or overridden.
    #[default]
    Suppress,
    /// They may come back.
    Allow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cidr(Prefix);

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cidr, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Cidr).map_err(|e| serde::de::Error::custom(format!("{text:?}: {e}")))
    }
}

impl Config {
    pub(crate) fn filters(&self, family: Family) -> bool {
        self.filter.contains(match family {
            Family::V4 => &FamilyName::Ipv4,
            Family::V6 => &FamilyName::Ipv6,
        })
    }

    /// The gateways of `override`, of one family.
    pub(crate) fn override_gateways(&self, family: Family) -> Vec<IpAddr> {
        self.gateways_instead.iter().copied().filter(|g| Family::of(*g) == family).collect()
    }

    pub(crate) fn keep(&self, family: Family) -> impl Iterator<Item = Prefix> + '_ {
        self.keep.iter().map(|cidr| cidr.0).filter(move |prefix| prefix.family() == family)
    }

    pub(crate) fn gateways(&self) -> Gateways {
        self.gateways
    }

    pub(crate) fn allows_advertisements(&self) -> bool {
        self.ra == Advertisements::Allow
    }

    /// What the config alone says about one family.
    pub(crate) fn policy(&self, family: Family) -> Action {
        let gateways = self.override_gateways(family);
        if self.filters(family) {
            Action::Filter
        } else if gateways.is_empty() {
            Action::Leave
        } else {
            Action::Override(gateways)
        }
    }

    /// Everything that is wrong with the config.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut problem = |path: String, message: String| problems.push(Problem { path, message });
        for family in Family::ALL {
            if self.filters(family) && !self.override_gateways(family).is_empty() {
                problem("/override".into(), format!("has gateways for {family}, which filter takes away"));
            }
        }
        for (i, gateway) in self.gateways_instead.iter().enumerate() {
            if let Some(fault) = gateway_fault(gateway) {
                problem(format!("/override/{i}"), format!("{gateway} {fault}"));
            } else if self.gateways_instead[..i].contains(gateway) {
                problem(format!("/override/{i}"), format!("{gateway} is there twice"));
            }
        }
        for (i, Cidr(prefix)) in self.keep.iter().enumerate() {
            if prefix.is_default() {
                problem(format!("/keep/{i}"), format!("{prefix} is the default route itself"));
            } else if self.keep[..i].contains(&Cidr(*prefix)) {
                problem(format!("/keep/{i}"), format!("{prefix} is there twice"));
            }
        }
        problems
    }

    /// An error that has all problems.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let problems = self.problems();
        if problems.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = problems.iter().map(|p| format!("{}: {}", p.path, p.message)).collect();
        Err(Error::InvalidConfig(format!("config: {}", texts.join("; "))))
    }
}

/// Why no route can go by this address.
pub(crate) fn gateway_fault(gateway: &IpAddr) -> Option<&'static str> {
    if gateway.is_unspecified() {
        Some("is no address of a gateway")
    } else if gateway.is_multicast() {
        Some("is a multicast address")
    } else if gateway.is_loopback() {
        Some("is a loopback address")
    } else {
        None
    }
}

impl Settings for DefaultGateway {
    fn validate(config: &Config) -> Vec<Problem> {
        config.problems()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn config(json: &str) -> Config {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn all_problems_are_told_with_their_place() {
        let bad = config(
            r#"{"filter": ["ipv4"], "override": ["192.0.2.1", "0.0.0.0", "fd00::1", "fd00::1"],
                "keep": ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/8"]}"#,
        );
        let paths: Vec<String> = DefaultGateway::validate(&bad).into_iter().map(|p| p.path).collect();
        assert_eq!(paths, ["/override", "/override/1", "/override/3", "/keep/0", "/keep/2"]);
        assert!(bad.check().unwrap_err().to_string().contains("which filter takes away"));
    }

    #[test]
    fn a_good_config_has_none() {
        let good = config(
            r#"{"filter": ["ipv4"], "override": ["fd00::1", "fd00::2"], "keep": ["10.0.0.0/8", "fd00::/8"],
                "gateways": "ecmp", "ra": "allow"}"#,
        );
        assert_eq!(good.problems(), []);
        assert_eq!(good.policy(Family::V4), Action::Filter);
        assert_eq!(good.override_gateways(Family::V6).len(), 2);
        assert_eq!(good.keep(Family::V6).count(), 1);
        assert_eq!(config("{}").policy(Family::V6), Action::Leave);
    }

    #[test]
    fn what_is_unknown_or_misspelt_is_named() {
        for (json, word) in [
            (r#"{"filters": []}"#, "filters"),
            (r#"{"filter": ["v4"]}"#, "v4"),
            (r#"{"override": ["10.0.0"]}"#, "IP address"),
            (r#"{"keep": ["10.0.0.1/8"]}"#, "10.0.0.1/8"),
            (r#"{"gateways": "both"}"#, "both"),
            (r#"{"ra": "off"}"#, "off"),
        ] {
            let error = serde_json::from_str::<Config>(json).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
