use std::fmt;
use std::sync::Arc;

use wasmtime::component::{Component, HasSelf, InstancePre, Linker};

use super::bindings::catena::stage::{links, log, routes};
use super::bindings::exports::catena::stage::{admit, arrange, settings, stage};
use super::call::Export;
use super::error::ModuleError;
use super::grants::{is_wasi, required, speaks};
use super::host::State;
use super::wasi;
use crate::node::{Grants, Limits};

/// A module that is ready to run: its imports are linked, as far as they are granted.
pub struct Module {
    pub(super) name: Arc<str>,
    digest: String,
    pub(super) grants: Arc<Grants>,
    pub(super) limits: Limits,
    pub(super) pre: InstancePre<State>,
    pub(super) exports: Exports,
    pub(super) wasi: bool,
}

/// Where the exports are that it has.
pub(super) struct Exports {
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

    /// Checks that the module may run: right contract, known imports, everything it needs granted.
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
        let required = required(self.imports.iter().copied(), &self.wants)
            .map_err(|cause| self.contract_error(cause))?;
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
        Module::link(self, Limits::default(), component).map(drop)
    }
}

impl Module {
    /// Links a module whose facts were checked.
    pub(super) fn link(facts: Facts<'_>, limits: Limits, component: &Component) -> Result<Self, ModuleError> {
        let wasi = facts.imports.iter().any(|import| is_wasi(import));
        let linker = linker(component, &facts.grants, wasi);
        let pre = linker.and_then(|linker| linker.instantiate_pre(component));
        let pre =
            pre.map_err(|error| facts.contract_error(format!("it does not fit this catena: {error:#}")))?;
        let export = |wanted: Export| facts.exports.contains(&wanted.as_str());
        let exports = (|| -> wasmtime::Result<Exports> {
            Ok(Exports {
                arrange: export(Export::Arrange).then(|| arrange::GuestIndices::new(&pre)).transpose()?,
                admit: export(Export::Admit).then(|| admit::GuestIndices::new(&pre)).transpose()?,
                stage: export(Export::Stage).then(|| stage::GuestIndices::new(&pre)).transpose()?,
                settings: export(Export::Settings).then(|| settings::GuestIndices::new(&pre)).transpose()?,
            })
        })();
        let exports = exports.map_err(|error| {
            facts.contract_error(format!("an export is not what the contract says: {error:#}"))
        })?;
        Ok(Self {
            name: facts.name.into(),
            digest: facts.digest.to_owned(),
            grants: Arc::new(facts.grants),
            limits,
            pre,
            exports,
            wasi,
        })
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

    /// Whether it has that export.
    pub fn has(&self, export: Export) -> bool {
        match export {
            Export::Arrange => self.exports.arrange.is_some(),
            Export::Admit => self.exports.admit.is_some(),
            Export::Stage => self.exports.stage.is_some(),
            Export::Settings => self.exports.settings.is_some(),
        }
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
