use std::net::IpAddr;

use catena_sdk::route::Family;
use catena_sdk::{Action, Arrange, Call, Candidate, Error, Host, Intent, Mode};

use crate::DefaultGateway;
use crate::config::{Config, gateway_fault};

impl Arrange for DefaultGateway {
    fn arrange(call: &Call<Config>, attachments: &[Candidate], _: &Host) -> Result<Vec<Intent>, Error> {
        call.config.check()?;
        let mut intents: Vec<Intent> = attachments.iter().map(|a| a.intent.clone()).collect();
        for family in Family::ALL {
            let actions = match call.mode {
                Mode::Meta => {
                    meta(&call.config, call.context.filter_secondary_defaults, attachments, family)?
                }
                Mode::Chained => chained(&call.config, attachments, family),
            };
            for (intent, action) in intents.iter_mut().zip(actions) {
                *intent.family_mut(family) = action;
            }
        }
        Ok(intents)
    }
}

/// Nobody asks in chained mode: the config is the only source.
fn chained(config: &Config, attachments: &[Candidate], family: Family) -> Vec<Action> {
    let decided = |a: &Candidate| match a.intent.family(family) {
        Action::Leave => config.policy(family),
        action => action.clone(),
    };
    attachments.iter().map(decided).collect()
}

/// What each attachment gets in one family. A request decides; where there is none, what an arranger before this
/// one decided; where there is nothing, the config and the node's policy.
fn meta(
    config: &Config,
    filter_secondary: bool,
    attachments: &[Candidate],
    family: Family,
) -> Result<Vec<Action>, Error> {
    let mut owner: Option<(&Candidate, Action)> = None;
    for attachment in attachments {
        let Some(action) = asked(attachment, family)? else { continue };
        if let Some((other, _)) = owner {
            return Err(Error::InvalidConfig(format!(
                "{} and {} both ask for the {} default route; only one attachment can own it",
                other.subject(),
                attachment.subject(),
                name(family)
            )));
        }
        if config.filters(family) {
            return Err(Error::Denied(format!(
                "{} asks for the {} default route, and the config of default-gateway filters it",
                attachment.subject(),
                name(family)
            )));
        }
        owner = Some((attachment, action));
    }

    let policy = config.policy(family);
    if owner.is_none() && matches!(policy, Action::Override(_)) && attachments.len() > 1 {
        return Err(Error::InvalidConfig(format!(
            "config: override names {} gateways but not which of the {} attachments gets them; ask with \
             default-route on one attachment instead",
            name(family),
            attachments.len()
        )));
    }
    let decide = |attachment: &Candidate| {
        if let Some((owner, action)) = &owner {
            return if owner.position == attachment.position { action.clone() } else { Action::Filter };
        }
        if attachment.request.default_route_none {
            return Action::Filter;
        }
        match (attachment.intent.family(family), &policy) {
            (Action::Leave, Action::Leave)
                if filter_secondary && !attachment.primary && attachment.request.default_route.is_none() =>
            {
                Action::Filter
            }
            (Action::Leave, policy) => policy.clone(),
            (decided, _) => decided.clone(),
        }
    };
    Ok(attachments.iter().map(decide).collect())
}

/// What an attachment's own request says about one family. An empty list asks in both.
fn asked(attachment: &Candidate, family: Family) -> Result<Option<Action>, Error> {
    let Some(gateways) = &attachment.request.default_route else { return Ok(None) };
    if attachment.request.default_route_none {
        return Err(Error::InvalidConfig(format!(
            "{} asks for the default route and for none",
            attachment.subject()
        )));
    }
    if gateways.is_empty() {
        return Ok(Some(Action::Own));
    }
    let gateways: Vec<IpAddr> = gateways.iter().copied().filter(|g| Family::of(*g) == family).collect();
    for (i, gateway) in gateways.iter().enumerate() {
        let fault = gateway_fault(gateway).or(gateways[..i].contains(gateway).then_some("is there twice"));
        if let Some(fault) = fault {
            return Err(Error::InvalidConfig(format!(
                "{}: default-route: {gateway} {fault}",
                attachment.subject()
            )));
        }
    }
    Ok((!gateways.is_empty()).then_some(Action::Override(gateways)))
}

/// The family as people write it.
pub(crate) fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_sdk::testing::{TestCall, TestHost};
    use serde_json::{Value, json};

    /// One attachment for each request; the first is the primary.
    fn attachments(requests: &[Value]) -> Value {
        let one = |(i, request): (usize, &Value)| {
            json!({"position": i, "network": format!("n{i}"), "ifname": format!("net{i}"), "primary": i == 0,
                   "request": request, "intent": {"ipv4": {"action": "leave"}, "ipv6": {"action": "leave"}}})
        };
        requests.iter().enumerate().map(one).collect()
    }

    fn arrange(call: TestCall, requests: &[Value]) -> Result<Vec<Intent>, Error> {
        TestHost::new(&[]).arrange::<DefaultGateway>(&call, &attachments(requests))
    }

    fn plain(requests: &[Value]) -> Result<Vec<Intent>, Error> {
        arrange(TestCall::new("eth0"), requests)
    }

    fn with_config(config: Value, requests: &[Value]) -> Result<Vec<Intent>, Error> {
        arrange(TestCall::new("eth0").config(config), requests)
    }

    /// `4` and `6` actions as short words.
    fn short(intents: Result<Vec<Intent>, Error>) -> Vec<String> {
        let word = |action: &Action| match action {
            Action::Leave => "leave".to_owned(),
            Action::Filter => "filter".to_owned(),
            Action::Own => "own".to_owned(),
            Action::Override(gateways) => {
                gateways.iter().map(IpAddr::to_string).collect::<Vec<_>>().join("+")
            }
        };
        intents.unwrap().iter().map(|i| format!("{} {}", word(&i.ipv4), word(&i.ipv6))).collect()
    }

    const NOTHING: fn() -> Value = || json!({});

    #[test]
    fn nothing_asked_leaves_all_alone() {
        assert_eq!(short(plain(&[NOTHING(), NOTHING()])), ["leave leave", "leave leave"]);
    }

    #[test]
    fn the_nodes_policy_filters_secondaries_where_nobody_asks() {
        let filter = || TestCall::new("eth0").with("secondaryDefaults", json!("filter"));
        assert_eq!(
            short(arrange(filter(), &[NOTHING(), NOTHING(), NOTHING()])),
            ["leave leave", "filter filter", "filter filter"]
        );
        // Asked in IPv4: IPv6 of the owner is left alone, as the table says.
        assert_eq!(
            short(arrange(filter(), &[NOTHING(), json!({"defaultRoute": ["10.0.0.1"]}), NOTHING()])),
            ["filter leave", "10.0.0.1 leave", "filter filter"]
        );
    }

    #[test]
    fn gateways_of_a_family_own_it_and_the_others_are_filtered_in_it() {
        let owner = json!({"defaultRoute": ["10.0.0.1", "10.0.0.2"]});
        assert_eq!(
            short(plain(&[NOTHING(), owner, NOTHING()])),
            ["filter leave", "10.0.0.1+10.0.0.2 leave", "filter leave"]
        );
        let both = json!({"defaultRoute": ["fd00::1", "10.0.0.1"]});
        assert_eq!(short(plain(&[both, NOTHING()])), ["10.0.0.1 fd00::1", "filter filter"]);
    }

    #[test]
    fn families_may_go_to_different_attachments() {
        let (v4, v6) = (json!({"defaultRoute": ["10.0.0.1"]}), json!({"defaultRoute": ["fd00::1"]}));
        assert_eq!(
            short(plain(&[NOTHING(), v4, v6])),
            ["filter filter", "10.0.0.1 filter", "filter fd00::1"]
        );
    }

    #[test]
    fn an_empty_list_owns_with_the_delegates_gateways() {
        let own = json!({"defaultRoute": []});
        assert_eq!(short(plain(&[NOTHING(), own])), ["filter filter", "own own"]);
    }

    #[test]
    fn two_owners_of_a_family_are_an_error_that_names_both() {
        let v4 = json!({"defaultRoute": ["10.0.0.1"]});
        for second in [json!({"defaultRoute": ["10.0.0.9"]}), json!({"defaultRoute": []})] {
            let error = plain(&[NOTHING(), v4.clone(), second]).unwrap_err();
            assert!(matches!(error, Error::InvalidConfig(_)));
            let text = error.to_string();
            assert!(
                text.contains("net1 (network \"n1\")") && text.contains("net2 (network \"n2\")"),
                "{text}"
            );
            assert!(text.contains("IPv4"), "{text}");
        }
    }

    #[test]
    fn asking_for_none_moves_nothing() {
        let none = json!({"defaultRouteNone": true});
        assert_eq!(short(plain(&[NOTHING(), none.clone()])), ["leave leave", "filter filter"]);
        assert_eq!(
            short(plain(&[none.clone(), json!({"defaultRoute": ["10.0.0.1"]})])),
            ["filter filter", "10.0.0.1 leave"]
        );
        let both = json!({"defaultRouteNone": true, "defaultRoute": []});
        assert!(plain(&[both]).unwrap_err().to_string().contains("and for none"));
    }

    #[test]
    fn bad_gateways_are_named() {
        for (gateways, word) in [
            (json!(["0.0.0.0"]), "0.0.0.0"),
            (json!(["ff02::1"]), "multicast"),
            (json!(["127.0.0.1"]), "loopback"),
            (json!(["10.0.0.1", "10.0.0.1"]), "twice"),
        ] {
            let text = plain(&[json!({"defaultRoute": gateways})]).unwrap_err().to_string();
            assert!(text.contains(word) && text.contains("net0"), "{text}");
        }
    }

    #[test]
    fn the_configs_filter_is_policy_where_nobody_asks_and_denies_who_asks() {
        let config = || json!({"filter": ["ipv4"]});
        assert_eq!(
            short(with_config(config(), &[NOTHING(), json!({"defaultRoute": ["fd00::1"]})])),
            ["filter filter", "filter fd00::1"]
        );
        for request in [json!({"defaultRoute": ["10.0.0.1"]}), json!({"defaultRoute": []})] {
            let error = with_config(config(), &[NOTHING(), request]).unwrap_err();
            assert!(matches!(&error, Error::Denied(text) if text.contains("net1")), "{error}");
        }
    }

    #[test]
    fn the_configs_override_needs_one_attachment() {
        let config = || json!({"override": ["10.0.0.1"]});
        assert_eq!(short(with_config(config(), &[NOTHING()])), ["10.0.0.1 leave"]);
        let error = with_config(config(), &[NOTHING(), NOTHING()]).unwrap_err();
        assert!(matches!(&error, Error::InvalidConfig(text) if text.contains("default-route")), "{error}");
        // A request is stronger than the config.
        assert_eq!(
            short(with_config(config(), &[NOTHING(), json!({"defaultRoute": ["10.0.0.9"]})])),
            ["filter leave", "10.0.0.9 leave"]
        );
    }

    #[test]
    fn a_bad_config_is_refused_before_anything_runs() {
        let error = with_config(json!({"filter": ["ipv4"], "override": ["10.0.0.1"]}), &[NOTHING()]);
        assert!(matches!(error, Err(Error::InvalidConfig(_))));
        assert!(matches!(with_config(json!({"filer": []}), &[NOTHING()]), Err(Error::InvalidConfig(_))));
    }

    #[test]
    fn what_an_arranger_before_decided_stands_where_nobody_asks() {
        let mut list = attachments(&[NOTHING(), NOTHING()]);
        list[1]["intent"] = json!({"ipv4": {"action": "override", "gateways": ["10.0.0.7"]}});
        let call = TestCall::new("eth0").config(json!({"filter": ["ipv4"]}));
        let intents = TestHost::new(&[]).arrange::<DefaultGateway>(&call, &list);
        assert_eq!(short(intents), ["filter leave", "10.0.0.7 leave"]);
    }

    #[test]
    fn in_chained_mode_the_config_is_the_only_source() {
        let call = |config| TestCall::new("eth0").chained().config(config);
        assert_eq!(short(arrange(call(json!({"filter": ["ipv6"]})), &[NOTHING()])), ["leave filter"]);
        assert_eq!(short(arrange(call(json!({"override": ["10.0.0.1"]})), &[NOTHING()])), ["10.0.0.1 leave"]);
        // Nothing but the config can ask here.
        let asked = json!({"defaultRoute": ["10.0.0.1"]});
        assert_eq!(short(arrange(call(json!({})), &[asked])), ["leave leave"]);
    }
}
