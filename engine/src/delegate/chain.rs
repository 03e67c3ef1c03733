//! Running a network configuration list as libcni does, with fewer faults.
//!
//! Different on purpose: every plugin gets its request in a version that it lists where that is known, and the
//! result before it in that version; DEL goes on past a failure; CHECK leaves out what is older than CHECK; GC and
//! STATUS go only to plugins that list 1.1.0.

use std::sync::OnceLock;

use catena_cni::error::code;
use catena_cni::identifier::{ContainerId, IdentifierError, IfName, NetworkName};
use catena_cni::json::{self, Map};
use catena_cni::list::{self, NetworkList};
use catena_cni::result;
use catena_cni::version::{SpecVersion, VersionNumber};
use serde_json::{Value, json};

use super::command::Command;
use super::error::{DelegateError, Fault};
use super::exec::{self, Attachment, Call, Exec, Plugin};
use super::process::Escort;

/// A configuration list that can be run.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The list as it was sent.
    pub list: NetworkList,
    text: OnceLock<String>,
}

/// What a request holds beyond the plugin's own object.
#[derive(Clone, Copy)]
enum Extra<'a> {
    /// ADD: what the plugin before answered; CHECK and DEL: the attachment's result.
    Previous(Option<&'a Value>),
    /// GC: the attachments to keep.
    Valid(&'a Value),
    Nothing,
}

impl Chain {
    /// Of a list.
    pub fn new(list: NetworkList) -> Chain {
        Chain { list, text: OnceLock::new() }
    }

    /// The list's text, without white space.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| self.list.to_value().to_string())
    }

    /// Runs ADD on all plugins in order and stops at the first failure; the caller then runs [`Chain::del`].
    ///
    /// The answer is the last plugin's result in the version in which it came (with that version filled in), whether
    /// or not it can be decoded.
    pub fn add(
        &self,
        exec: &Exec<'_>,
        at: &Attachment<'_>,
        escort: &mut dyn Escort,
    ) -> Result<Value, DelegateError> {
        self.check_names(at)?;
        let mut previous: Option<Value> = None;
        for plugin in &self.list.plugins {
            let extra = Extra::Previous(previous.as_ref());
            let (stdout, version) = self.ask(exec, Some(at), Command::Add, plugin, extra, escort)?;
            let value = result::from_stdout(&stdout, &version).map_err(|error| {
                let fault = Fault::NoResult { cause: error.to_string(), quote: exec::quote(&stdout) };
                DelegateError::new(plugin.kind.as_str(), at.ifname, Command::Add, fault)
            })?;
            previous = Some(value);
        }
        Ok(previous.unwrap_or_else(|| json!({ "cniVersion": self.list.cni_version })))
    }

    /// Runs CHECK on all plugins in order and stops at the first failure. `prev` is the attachment's result in any
    /// version. Does nothing for a list with `disableCheck`, and leaves out what is older than CHECK (0.4.0).
    pub fn check(
        &self,
        exec: &Exec<'_>,
        at: &Attachment<'_>,
        prev: Option<&Value>,
        escort: &mut dyn Escort,
    ) -> Result<(), DelegateError> {
        if self.list.disable_check || !self.speaks(SpecVersion::V0_4_0) {
            return Ok(());
        }
        for plugin in &self.list.plugins {
            self.ask(exec, Some(at), Command::Check, plugin, Extra::Previous(prev), escort)?;
        }
        Ok(())
    }

    /// Runs DEL on all plugins in reverse, also past those that fail, and returns the failures.
    ///
    /// `prev`, the attachment's result in any version, is given to plugins that are asked in 0.4.0 or later, if it can
    /// be said in their version.
    pub fn del(
        &self,
        exec: &Exec<'_>,
        at: &Attachment<'_>,
        prev: Option<&Value>,
        escort: &mut dyn Escort,
    ) -> Vec<DelegateError> {
        let mut errors = Vec::new();
        for plugin in self.list.plugins.iter().rev() {
            let extra = Extra::Previous(prev);
            if let Err(error) = self.ask(exec, Some(at), Command::Del, plugin, extra, escort) {
                errors.push(error);
            }
        }
        errors
    }

    /// Asks the plugins that list 1.1.0 in order whether they can serve ADD; the first failure is returned.
    pub fn status(&self, exec: &Exec<'_>) -> Result<(), DelegateError> {
        if !self.speaks(SpecVersion::V1_1_0) {
            return Ok(());
        }
        for plugin in &self.list.plugins {
            if lists_1_1(exec, plugin, Command::Status)? {
                self.ask(exec, None, Command::Status, plugin, Extra::Nothing, &mut exec::unrecorded)?;
            }
        }
        Ok(())
    }

    /// Sends GC to the plugins that list 1.1.0, past failures, with the (container id, interface) pairs to keep.
    pub fn gc(&self, exec: &Exec<'_>, valid: &[(String, String)]) -> Vec<DelegateError> {
        if self.list.disable_gc || !self.speaks(SpecVersion::V1_1_0) {
            return Vec::new();
        }
        let valid: Value =
            valid.iter().map(|(id, ifname)| json!({ "containerID": id, "ifname": ifname })).collect();
        let mut errors = Vec::new();
        for plugin in &self.list.plugins {
            let extra = Extra::Valid(&valid);
            let done = lists_1_1(exec, plugin, Command::Gc).and_then(|lists| {
                if lists {
                    self.ask(exec, None, Command::Gc, plugin, extra, &mut exec::unrecorded)?;
                }
                Ok(())
            });
            errors.extend(done.err());
        }
        errors
    }

    /// What every plugin of the list answers to VERSION, in order.
    pub fn versions(&self, exec: &Exec<'_>) -> Vec<Result<Vec<String>, DelegateError>> {
        let ask = |plugin: &list::Plugin| exec.versions_of(&exec.find(&plugin.kind, Command::Version, "")?);
        self.list.plugins.iter().map(ask).collect()
    }

    /// Whether the list's version is at least `version`.
    fn speaks(&self, version: SpecVersion) -> bool {
        at_least(&self.list.cni_version, version)
    }

    /// libcni checks identifiers at ADD and nowhere else, so that DEL can clean up whatever there is.
    fn check_names(&self, at: &Attachment<'_>) -> Result<(), DelegateError> {
        let check = || -> Result<(), IdentifierError> {
            ContainerId::parse(at.container_id)?;
            NetworkName::parse(&self.list.name)?;
            IfName::parse(at.ifname)?;
            Ok(())
        };
        check().map_err(|error| {
            DelegateError::new(&self.list.name, at.ifname, Command::Add, Fault::Identifier(error))
        })
    }

    /// One call of one plugin: its stdout, and the version that it was asked in.
    ///
    /// The list's version is asked for unless the plugin is known not to list it. A plugin that says "incompatible
    /// version" (code 1; it has done nothing then) is asked for its versions, and once more in the best of them: so
    /// the usual call costs no second process.
    fn ask(
        &self,
        exec: &Exec<'_>,
        at: Option<&Attachment<'_>>,
        command: Command,
        plugin: &list::Plugin,
        extra: Extra<'_>,
        escort: &mut dyn Escort,
    ) -> Result<(Vec<u8>, String), DelegateError> {
        let ifname = at.map_or("", |at| at.ifname);
        let found = exec.find(&plugin.kind, command, ifname)?;
        let error = |fault| DelegateError::new(plugin.kind.as_str(), ifname, command, fault);
        let wanted = &self.list.cni_version;
        let choose = |listed: Vec<String>| {
            best(wanted, &listed).ok_or_else(|| error(Fault::Version { wanted: wanted.clone(), listed }))
        };
        let mut call = |version: &str| {
            if command == Command::Check && !at_least(version, SpecVersion::V0_4_0) {
                return Ok(Vec::new());
            }
            let request = self.request(plugin, version, command, at, extra).map_err(error)?.to_string();
            let call = Call { plugin: &found, command, at, request: request.as_bytes() };
            exec.call(&call, escort)
        };

        let version = match exec.versions.known(&found.path) {
            Some(listed) => choose(listed)?,
            None => wanted.clone(),
        };
        let refused = match call(&version) {
            Err(refused) if matches!(&refused.fault, Fault::Reported(object) if object.code == code::INCOMPATIBLE_VERSION) => {
                refused
            }
            other => return other.map(|stdout| (stdout, version)),
        };
        match exec.versions_of(&found) {
            Ok(listed) if !listed.contains(&version) => {
                let version = choose(listed)?;
                call(&version).map(|stdout| (stdout, version))
            }
            // Its own words say most.
            Ok(_) => Err(refused.with_note(format!("although it lists {version}"))),
            Err(unsaid) => Err(refused.with_note(unsaid.to_string())),
        }
    }

    /// The document for a plugin's stdin.
    fn request(
        &self,
        plugin: &list::Plugin,
        version: &str,
        command: Command,
        at: Option<&Attachment<'_>>,
        extra: Extra<'_>,
    ) -> Result<Value, Fault> {
        let mut request = plugin.raw.clone();
        set(&mut request, "name", Value::String(self.list.name.clone()));
        set(&mut request, "cniVersion", Value::String(version.to_owned()));
        if let Some(at) = at {
            let granted: Map = plugin
                .capabilities()
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), at.capability_args.get(name)?.clone())))
                .collect();
            if !granted.is_empty() {
                set(&mut request, "runtimeConfig", Value::Object(granted));
            }
        }
        match extra {
            Extra::Nothing | Extra::Previous(None) => {}
            // As in libcni, DEL has had a prevResult since there is CHECK.
            Extra::Previous(_) if command == Command::Del && !at_least(version, SpecVersion::V0_4_0) => {}
            Extra::Previous(Some(previous)) => match in_version(previous, version) {
                Ok(previous) => set(&mut request, "prevResult", previous),
                // DEL has to get on without.
                Err(_) if command == Command::Del => {}
                Err(cause) => {
                    return Err(Fault::PrevResult { version: version.to_owned(), cause });
                }
            },
            Extra::Valid(valid) => {
                // The second is the name that the specification's 1.1.0 used.
                set(&mut request, "cni.dev/valid-attachments", valid.clone());
                set(&mut request, "cni.dev/attachments", valid.clone());
            }
        }
        Ok(Value::Object(request))
    }
}

/// The result as a plugin that is asked in `version` reads it. One that already is in this version stays as it is even
/// if it cannot be decoded: that is the plugin's to judge.
fn in_version(previous: &Value, version: &str) -> Result<Value, String> {
    let target = SpecVersion::from_text(version).ok_or_else(|| format!("CNI {version:?} is not known"));
    match target.and_then(|target| result::convert(previous, target).map_err(|error| error.to_string())) {
        Ok(converted) => Ok(converted),
        Err(_) if result::version_text(previous) == Some(version) => Ok(previous.clone()),
        Err(cause) => Err(cause),
    }
}

/// The newest of `listed` that is not newer than `wanted`: exact text where it is there, as plugins compare it.
fn best(wanted: &str, listed: &[String]) -> Option<String> {
    if listed.iter().any(|text| text == wanted) {
        return Some(wanted.to_owned());
    }
    let limit: VersionNumber = wanted.parse().ok()?;
    listed
        .iter()
        .filter_map(|text| SpecVersion::from_text(text))
        .filter(|version| VersionNumber::from(*version) <= limit)
        .max()
        .map(|version| version.as_str().to_owned())
}

fn at_least(version: &str, limit: SpecVersion) -> bool {
    version.parse().is_ok_and(|number: VersionNumber| VersionNumber::from(limit) <= number)
}

/// Whether GC and STATUS mean anything to the plugin. One whose answer to VERSION cannot be read lists nothing; one
/// that cannot be run at all is an error, since ADD would fail as well.
fn lists_1_1(exec: &Exec<'_>, plugin: &list::Plugin, command: Command) -> Result<bool, DelegateError> {
    let found: Plugin<'_> = exec.find(&plugin.kind, command, "")?;
    match exec.versions_of(&found) {
        Ok(listed) => Ok(listed.iter().any(|version| version == SpecVersion::V1_1_0.as_str())),
        Err(error)
            if matches!(error.fault, Fault::Versions(_) | Fault::Reported(_) | Fault::NoError { .. }) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Plugins read member names without regard to case and take the last, so no other spelling may remain.
fn set(request: &mut Map, key: &str, value: Value) {
    request.retain(|other, _| !json::same_name(other, key) || other == key);
    request.insert(key.to_owned(), value);
}
