//! The stages inside the executable. The build script writes the table (see `engine/build.rs`).

use super::bindings::Role;
use super::call::Command;

/// A built-in stage: what its component says about itself, and the artifact that has it. That is one for all of them,
/// since most of their code is the same; an instance is told which stage it is, and is linked with what that stage was
/// granted.
#[derive(Debug)]
pub struct Builtin {
    pub name: &'static str,
    /// `sha256:…` of the stage's own component (not of the artifact).
    pub digest: &'static str,
    /// Size of the component in bytes.
    pub size: usize,
    /// The interfaces of catena:stage that it exports: `admit`, `arrange`, `settings`, `stage`.
    pub exports: &'static [&'static str],
    /// What it imports, as `catena:stage/routes@0.1.0`.
    pub imports: &'static [&'static str],
    /// The version of catena:stage that it was built for, as `0.1.0`.
    pub contract: &'static str,
    /// The grants that it needs, as JSON (custom section `catena:wants`).
    pub wants: &'static str,
    /// What an instance is told when it asks for its role.
    pub(crate) role: Role,
    /// The commands on which its `stage` does anything. On the others there is nothing that a call could change, so
    /// none is made.
    pub commands: &'static [Command],
    /// Whether it does nothing where nothing is asked for and its config is empty, so that no call is made then: its
    /// `arrange` leaves everything as it is where no attachment asks for default routes and the node filters none by
    /// itself, and its `stage` is for attachments for which something was arranged.
    pub waits_to_be_asked: bool,
    /// The compiled artifact of all built-in stages; starts on a page of its own, so that it can run where it is.
    pub artifact: &'static [u8],
}

/// Fills whole pages, so that making the code executable touches nothing else.
#[repr(C, align(4096))]
struct PageAligned<T>(T);

include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::{Value, json};

    use super::*;
    use crate::node::{At, Grants, Limits};
    use crate::pipeline::intent::Intent;
    use crate::routes::kernel::Scope;
    use crate::wasm::{Call, Document, Facts, Host, Mode, Module, Outcome, StageError};

    fn builtin(name: &str) -> &'static Builtin {
        BUILTINS.iter().find(|builtin| builtin.name == name).unwrap()
    }

    fn module(builtin: &'static Builtin, grants: Cow<'_, str>) -> Module {
        module_within(builtin, grants, Limits::default())
    }

    fn module_within(builtin: &'static Builtin, grants: Cow<'_, str>, limits: Limits) -> Module {
        let facts = Facts {
            name: builtin.name,
            digest: builtin.digest,
            contract: builtin.contract,
            exports: builtin.exports.to_vec(),
            imports: builtin.imports.to_vec(),
            wants: Grants::default(),
            grants: Grants::parse(At::Document, &serde_json::from_str(&grants).unwrap()).unwrap(),
        };
        Module::builtin(facts, limits, builtin)
    }

    fn call(command: Command, mode: Mode, context: &str) -> Call {
        Call {
            command,
            mode,
            container_id: "c1".into(),
            network: "n".into(),
            ifname: "net1".into(),
            position: 1,
            config: "{}".into(),
            context: context.into(),
        }
    }

    fn result() -> Document {
        let text = r#"{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/n"}]}"#;
        Document { format: "cni/1.1.0".into(), text: text.into() }
    }

    /// A host that would remember any call, since none could succeed.
    fn host() -> Host {
        Host::new("c1", Scope::default(), true)
    }

    #[test]
    fn nothing_happens_on_the_commands_that_are_not_listed() {
        let context = r#"{"intent":{"ipv4":{"action":"filter"}},"tags":["empty"]}"#;
        let raw = Document { format: "raw".into(), text: "[7]".into() };
        let mut idle = 0;
        for builtin in &BUILTINS {
            let module = module(builtin, builtin.wants.into());
            assert!(module.acts_on(Command::Add));
            for command in [Command::Check, Command::Del] {
                for mode in [Mode::Meta, Mode::Chained] {
                    for document in [&result(), &raw] {
                        let (answer, host, _) = module.run(&call(command, mode, context), document, host());
                        let is_idle = answer.is_ok_and(|outcome| outcome == Outcome::default())
                            && host.failed_calls.is_empty()
                            && host.logs.is_empty();
                        assert_eq!(is_idle, !module.acts_on(command), "{} {command:?}", builtin.name);
                        idle += usize::from(is_idle);
                    }
                }
            }
        }
        assert_eq!(idle, 7 * 4);
    }

    #[test]
    fn who_waits_to_be_asked_leaves_all_as_it_is_before() {
        let intents = [
            json!({}),
            json!({"ipv4": {"action": "filter"}, "ipv6": {"action": "own"}}),
            json!({"ipv4": {"action": "leave"}, "ipv6": {"action": "override", "gateways": ["fd00::1"]}}),
            json!({"ipv4": {"action": "override", "gateways": ["192.0.2.1"]}}),
        ];
        let attachment = |(position, intent): (usize, &Value)| {
            json!({"position": position, "network": "n", "ifname": format!("net{position}"), "primary": position == 0,
                   "request": {"ips": ["192.0.2.9/24"], "mac": "02:00:00:00:00:01"}, "intent": intent})
        };
        let mut asked = 0;
        for builtin in BUILTINS.iter().filter(|builtin| builtin.waits_to_be_asked) {
            let module = module(builtin, builtin.wants.into());
            for count in 0..=intents.len() {
                for mode in [Mode::Meta, Mode::Chained] {
                    for defaults in ["keep", "filter"] {
                        let is_said = defaults == "filter" && mode == Mode::Meta && count > 1;
                        let context = json!({"secondaryDefaults": defaults}).to_string();
                        let attachments: Value =
                            intents[..count].iter().enumerate().map(attachment).collect();
                        let call = call(Command::Add, mode, &context);
                        let (answer, host, _) = module.arrange(&call, &attachments.to_string(), host());
                        let before = intents[..count].iter().enumerate();
                        let before: Vec<Intent> = before
                            .map(|(place, intent)| Intent::from_value(intent, place).unwrap())
                            .collect();
                        let after = Intent::read_all(&answer.unwrap(), count).unwrap();
                        assert!(host.logs.is_empty() && host.failed_calls.is_empty());
                        assert!(after == before || is_said, "{after:?}");
                        asked += usize::from(!is_said);
                    }
                }
            }
        }
        assert_eq!(asked, 17);
    }

    #[test]
    fn who_waits_to_be_asked_does_nothing_where_nothing_was_arranged() {
        let raw = Document { format: "raw".into(), text: "[7]".into() };
        let intent = json!({"ipv4": {"action": "leave"}, "ipv6": {"action": "leave"}});
        for builtin in BUILTINS.iter().filter(|builtin| builtin.waits_to_be_asked) {
            let module = module(builtin, builtin.wants.into());
            for command in [Command::Add, Command::Check, Command::Del] {
                for mode in [Mode::Meta, Mode::Chained] {
                    for primary in [false, true] {
                        for document in [&result(), &raw] {
                            let context = json!({"primary": primary, "attachments": 2, "intent": intent, "tags": ["opaque"]});
                            let call = call(command, mode, &context.to_string());
                            let (answer, host, _) = module.run(&call, document, host());
                            assert_eq!(answer.unwrap(), Outcome::default(), "{command:?} {mode:?}");
                            assert!(host.logs.is_empty() && host.failed_calls.is_empty());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_instance_that_was_made_before_it_was_needed_makes_no_difference() {
        let old = r#"{"cniVersion":"0.2.0","ip4":{"ip":"192.0.2.5/24"}}"#;
        let old = Document { format: "cni/0.2.0".into(), text: old.into() };
        for builtin in &BUILTINS {
            let module = module(builtin, builtin.wants.into());
            let run = || {
                let (answer, host, usage) =
                    module.run(&call(Command::Add, Mode::Chained, "{}"), &old, host());
                (answer.unwrap(), host.logs, host.failed_calls.len(), usage.fuel, usage.memory)
            };
            let plain = run();
            assert!(plain.3 > 0 && plain.4 > 0);
            for _ in 0..3 {
                module.make_spare();
                module.make_spare();
                assert_eq!(run(), plain, "{}", builtin.name);
                assert_eq!(run(), plain, "{}", builtin.name);
            }
        }
    }

    #[test]
    fn an_instance_that_was_made_before_has_the_limits_of_its_run() {
        let gateway = builtin("default-gateway");
        let fuel = Limits { fuel: 1000, ..Limits::default() };
        // Less than the memory that the instance begins with.
        let memory = Limits { memory: 1 << 20, ..Limits::default() };
        for limits in [fuel, memory] {
            let module = module_within(gateway, gateway.wants.into(), limits);
            let run = || {
                let (answer, ..) = module.run(&call(Command::Add, Mode::Chained, "{}"), &result(), host());
                answer.unwrap_err().to_string()
            };
            let plain = run();
            module.make_spare();
            assert_eq!(run(), plain);
        }
    }

    #[test]
    fn an_instance_has_only_what_its_stage_was_granted() {
        let gateway = builtin("default-gateway");
        let context = r#"{"intent":{"ipv4":{"action":"filter"}}}"#;
        let run = |grants: &str| {
            let call = call(Command::Add, Mode::Meta, context);
            module(gateway, grants.to_owned().into()).run(&call, &result(), host())
        };
        let (answer, host, _) = run(gateway.wants);
        assert!(matches!(answer, Err(StageError::Failed { .. })), "{answer:?}");
        assert_eq!(host.failed_calls.len(), 1, "it may ask, but this host has no kernel");
        let (answer, host, _) = run(r#"{"log": true}"#);
        let Err(StageError::Trap { message, .. }) = answer else { panic!("{answer:?}") };
        assert!(message.contains("unknown import"), "{message}");
        assert_eq!(host.failed_calls.len(), 0);
    }

    #[test]
    fn each_is_the_stage_that_it_says() {
        let empty = Document { text: r#"{"cniVersion":"1.1.0"}"#.into(), ..result() };
        let old = r#"{"cniVersion":"0.2.0","ip4":{"ip":"192.0.2.5/24"}}"#;
        let old = Document { format: "cni/0.2.0".into(), text: old.into() };
        let run = |name: &str, document: &Document| {
            let builtin = builtin(name);
            let call = call(Command::Add, Mode::Chained, "{}");
            module(builtin, builtin.wants.into()).run(&call, document, host()).0
        };
        let converted = run("result-conversion", &old).unwrap().result.unwrap();
        assert_eq!(converted.text, r#"{"cniVersion":"1.1.0","ips":[{"address":"192.0.2.5/24"}]}"#);
        assert!(run("empty-result", &empty).is_err(), "it asks for a link");
        assert_eq!(run("empty-result", &old).unwrap(), Outcome::default());
        assert_eq!(run("network-status", &old).unwrap(), Outcome::default());
        assert_eq!(run("default-gateway", &old).unwrap(), Outcome::default());
    }
}
