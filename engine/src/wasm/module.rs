use std::fmt;
use std::sync::{Arc, LazyLock};

use wasmtime::component::{Component, HasSelf, InstancePre, Linker};

use super::artifact;
use super::bindings::catena::stage::{links, log, routes};
use super::bindings::exports::catena::stage::{admit, arrange, settings, stage};
use super::bindings::{Role, role};
use super::builtin::Builtin;
use super::call::{Command, Export};
use super::engine::engine;
use super::error::ModuleError;
use super::grants::{is_wasi, required, speaks, unknown_export};
use super::host::{Host, State};
use super::spare::Spare;
use super::wasi::{self, Wasi};
use crate::node::{Grants, Limits};

/// A module that may run: its imports are granted, and are linked when it is first needed.
pub struct Module {
    pub(super) name: Arc<str>,
    digest: String,
    pub(super) grants: Arc<Grants>,
    pub(super) limits: Limits,
    /// Which of the built-in stages it is.
    pub(super) role: Option<Role>,
    /// The commands on which its `stage` is known to do something; of an installed module all are.
    commands: &'static [Command],
    /// See [`Builtin::waits_to_be_asked`].
    waits_to_be_asked: bool,
    exports: Vec<Export>,
    linked: LazyLock<Result<Linked, ModuleError>, Link>,
    pub(super) spare: Spare,
}

/// Makes a module ready.
type Link = Box<dyn FnOnce() -> Result<Linked, ModuleError> + Send>;

/// A module that is ready to run, and where the exports are that it has.
pub(super) struct Linked {
    pub(super) pre: InstancePre<State>,
    pub(super) wasi: bool,
    pub(super) arrange: Option<arrange::GuestIndices>,
    pub(super) admit: Option<admit::GuestIndices>,
    pub(super) stage: Option<stage::GuestIndices>,
    pub(super) settings: Option<settings::GuestIndices>,
}

/// What is known about a module before any of its code runs.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The name that pipelines use.
    pub name: &'a str,
    /// `sha256:…` of the component.
    pub digest: &'a str,
    /// The version of catena:stage that its exports are of.
    pub contract: &'a str,
    /// The interfaces of catena:stage that it exports, by their short names.
    pub exports: Vec<&'a str>,
    /// What it imports, with versions.
    pub imports: Vec<&'a str>,
    /// What it says it needs.
    pub wants: Grants,
    /// What the node allows it.
    pub grants: Grants,
}

impl Facts<'_> {
    fn contract_error(&self, cause: String) -> ModuleError {
        ModuleError::Contract { name: self.name.to_owned(), digest: self.digest.to_owned(), cause }
    }

    /// Checks that the module may run: right contract, known imports and exports, everything it needs granted.
    ///
    /// # Errors
    /// [`ModuleError::Contract`] or [`ModuleError::Ungranted`].
    pub fn check(&self) -> Result<(), ModuleError> {
        if !speaks(self.contract) {
            return Err(self.contract_error(format!(
                "it needs {} {}; this catena speaks {}",
                super::grants::PACKAGE,
                self.contract,
                super::grants::CONTRACT
            )));
        }
        if let Some(cause) = unknown_export(self.contract, &self.exports) {
            return Err(self.contract_error(cause));
        }
        let mut required = required(self.imports.iter().copied(), &self.wants)
            .map_err(|cause| self.contract_error(cause))?;
        // Which operations on which links a module needs that does not say so, nobody knows: any grant will do, and
        // each call is checked against it.
        if self.wants.routes.is_none() && self.grants.routes.is_some() {
            required.routes = None;
        }
        let missing = self.grants.missing(&required);
        if missing.is_empty() {
            return Ok(());
        }
        Err(ModuleError::Ungranted {
            name: self.name.to_owned(),
            digest: self.digest.to_owned(),
            missing: Box::new(missing),
        })
    }
}

impl Facts<'_> {
    /// Checks everything that can be checked without running the module: [`Facts::check`], and that every import
    /// and export has the contract's types.
    ///
    /// # Errors
    /// [`ModuleError::Contract`] or [`ModuleError::Ungranted`].
    pub fn verify(self, component: &Component) -> Result<(), ModuleError> {
        self.check()?;
        Linked::new(&self, component, false).map(drop)
    }
}

impl Module {
    /// A module that is not installed: for tools that try one.
    ///
    /// # Errors
    /// As [`Facts::verify`].
    pub fn of_component(
        facts: Facts<'_>,
        limits: Limits,
        component: &Component,
    ) -> Result<Self, ModuleError> {
        facts.check()?;
        Self::installed(facts, limits, component)
    }

    /// An installed module whose facts were checked, linked at once: what is wrong with its artifact has to be known
    /// before a pod has had any side effects.
    pub(super) fn installed(
        facts: Facts<'_>,
        limits: Limits,
        component: &Component,
    ) -> Result<Self, ModuleError> {
        let linked = Linked::new(&facts, component, false)?;
        Ok(Self::new(&facts, limits, Box::new(|| Ok(linked))))
    }

    /// A built-in module whose facts were checked. Its artifact is part of this executable, so it fits, and is read
    /// when the module is first needed.
    pub(super) fn builtin(facts: Facts<'static>, limits: Limits, builtin: &'static Builtin) -> Self {
        let copy = facts.clone();
        let link = move || Linked::new(&copy, &artifact::builtin(engine()?, builtin)?, true);
        Self {
            role: Some(builtin.role),
            commands: builtin.commands,
            waits_to_be_asked: builtin.waits_to_be_asked,
            ..Self::new(&facts, limits, Box::new(link))
        }
    }

    fn new(facts: &Facts<'_>, limits: Limits, link: Link) -> Self {
        let exports = Export::ALL.into_iter().filter(|export| facts.exports.contains(&export.as_str()));
        Self {
            name: facts.name.into(),
            digest: facts.digest.to_owned(),
            grants: Arc::new(facts.grants.clone()),
            limits,
            role: None,
            commands: &[Command::Add, Command::Check, Command::Del],
            waits_to_be_asked: false,
            exports: exports.collect(),
            linked: LazyLock::new(link),
            spare: Spare::default(),
        }
    }

    /// Makes the module ready to run, unless it is.
    pub(super) fn linked(&self) -> Result<&Linked, &ModuleError> {
        self.linked.as_ref()
    }

    /// Makes the module ready to run while there is something to wait for. What goes wrong is told when it is run.
    pub fn prepare(&self) {
        let _ = self.linked();
    }

    /// What a run has in its store.
    pub(super) fn state(&self, host: Host, limits: Limits, wasi: Option<Wasi>) -> State {
        let mut state = State::new(host, Arc::clone(&self.name), Arc::clone(&self.grants), limits, wasi);
        state.role = self.role;
        state
    }

    /// The name that pipelines use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `sha256:…` of the component.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What the node allows it.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Whether its `stage` may do anything on that command.
    pub fn acts_on(&self, command: Command) -> bool {
        self.commands.contains(&command)
    }

    /// Whether it is known to do nothing where nothing is asked for ([`Builtin::waits_to_be_asked`]).
    pub fn waits_to_be_asked(&self) -> bool {
        self.waits_to_be_asked
    }

    /// Whether it has that export.
    pub fn has(&self, export: Export) -> bool {
        self.exports.contains(&export)
    }
}

impl Linked {
    fn new(facts: &Facts<'_>, component: &Component, is_builtin: bool) -> Result<Self, ModuleError> {
        let wasi = facts.imports.iter().any(|import| is_wasi(import));
        let linker = linker(component, &facts.grants, wasi).and_then(|mut linker| {
            if is_builtin {
                role::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
                // The component imports what any of the stages needs. What this one was not granted is not there.
                linker.define_unknown_imports_as_traps(component)?;
            }
            Ok(linker)
        });
        let pre = linker.and_then(|linker| linker.instantiate_pre(component));
        let pre =
            pre.map_err(|error| facts.contract_error(format!("it does not fit this catena: {error:#}")))?;
        let export = |wanted: Export| facts.exports.contains(&wanted.as_str());
        let linked = (|| -> wasmtime::Result<Self> {
            Ok(Self {
                arrange: export(Export::Arrange).then(|| arrange::GuestIndices::new(&pre)).transpose()?,
                admit: export(Export::Admit).then(|| admit::GuestIndices::new(&pre)).transpose()?,
                stage: export(Export::Stage).then(|| stage::GuestIndices::new(&pre)).transpose()?,
                settings: export(Export::Settings).then(|| settings::GuestIndices::new(&pre)).transpose()?,
                pre,
                wasi,
            })
        })();
        linked.map_err(|error| {
            facts.contract_error(format!("an export is not what the contract says: {error:#}"))
        })
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("name", &self.name)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// A linker that has what is granted, and nothing else.
fn linker(component: &Component, grants: &Grants, wasi: bool) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(component.engine());
    if grants.log {
        log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    }
    if grants.links {
        links::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    }
    if grants.routes.is_some() {
        routes::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    }
    if wasi {
        wasi::link(&mut linker)?;
    }
    Ok(linker)
}
