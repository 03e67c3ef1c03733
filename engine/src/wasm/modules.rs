use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::artifact;
use super::builtin::{BUILTINS, Builtin};
use super::engine::engine;
use super::error::ModuleError;
use super::module::{Facts, Module};
use crate::node::{
    At, Digest, Grants, Installed, ModuleLock, ModuleName, ModuleRule, NodeConfig, OwnedDir, Root,
};

/// All modules of the node, loaded when they are first asked for.
#[derive(Debug)]
pub struct Modules {
    rules: BTreeMap<ModuleName, ModuleRule>,
    /// The folder of installed modules, if there is one.
    installed: Option<(OwnedDir, ModuleLock)>,
    /// What [`Modules::provide`] was given, by name.
    provided: BTreeMap<String, Arc<Module>>,
    /// By name and digest.
    loaded: Mutex<BTreeMap<(String, String), Arc<Module>>>,
}

/// Where a module comes from.
#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Builtin(&'static Builtin),
    Installed(&'a OwnedDir, &'a Installed),
}

impl Source<'_> {
    fn digest(&self) -> &str {
        match self {
            Self::Builtin(builtin) => builtin.digest,
            Self::Installed(_, installed) => installed.digest.as_str(),
        }
    }
}

impl Modules {
    /// Reads what is installed.
    ///
    /// # Errors
    /// The lock file is damaged, or others may write to it.
    pub fn open(root: &Root, node: &NodeConfig) -> Result<Self, ModuleError> {
        let installed = match OwnedDir::open(&root.modules())? {
            Some(dir) => {
                let lock = ModuleLock::load(&dir)?;
                Some((dir, lock))
            }
            None => None,
        };
        Ok(Self {
            rules: node.modules.clone(),
            installed,
            provided: BTreeMap::new(),
            loaded: Mutex::default(),
        })
    }

    /// Lets a module have its name, whatever the node has under it: for tools that try one.
    pub fn provide(&mut self, module: Module) {
        self.provided.insert(module.name().to_owned(), Arc::new(module));
    }

    /// The module that the node has under that name: the one that node.json pins, else the installed one, else
    /// the built-in one.
    ///
    /// # Errors
    /// There is none, or it must not run.
    pub fn get(&self, name: &str) -> Result<Arc<Module>, ModuleError> {
        if let Some(module) = self.provided.get(name) {
            return Ok(Arc::clone(module));
        }
        let pin = self.rule(name).and_then(|rule| rule.digest.as_ref());
        self.load(name, pin)
    }

    /// The module of that name and digest, if the node still has it: an attachment is checked with the modules
    /// that made it.
    ///
    /// # Errors
    /// As [`Modules::get`]; node.json may pin another digest.
    pub fn get_digest(&self, name: &str, digest: &str) -> Result<Arc<Module>, ModuleError> {
        let wanted = Digest::parse(digest).filter(|digest| {
            self.rule(name).and_then(|rule| rule.digest.as_ref()).is_none_or(|pin| pin == digest)
        });
        match wanted {
            Some(digest) => self.load(name, Some(&digest)),
            None => Err(self.pin_error(name, digest)),
        }
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = BUILTINS.iter().map(|builtin| builtin.name.to_owned()).collect();
        names
            .extend(self.installed.iter().flat_map(|(_, lock)| lock.modules.keys().map(ToString::to_string)));
        names.sort();
        names.dedup();
        names
    }

    fn rule(&self, name: &str) -> Option<&ModuleRule> {
        self.rules.get(&ModuleName::parse(name)?)
    }

    /// Everything of that name, the one in use first.
    fn sources(&self, name: &str) -> Vec<Source<'_>> {
        let builtin = BUILTINS.iter().filter(|builtin| builtin.name == name).map(Source::Builtin);
        let (Some((dir, lock)), Some(key)) = (&self.installed, ModuleName::parse(name)) else {
            return builtin.collect();
        };
        let Some(entry) = lock.modules.get(&key) else { return builtin.collect() };
        let installed = |installed| Source::Installed(dir, installed);
        let current = entry.current.iter().map(installed);
        current.chain(builtin).chain(entry.previous.iter().map(installed)).collect()
    }

    fn pin_error(&self, name: &str, wanted: &str) -> ModuleError {
        let found: Vec<String> = self.sources(name).iter().map(|source| source.digest().to_owned()).collect();
        ModuleError::Pin { name: name.to_owned(), wanted: wanted.to_owned(), found: found.join(", ") }
    }

    fn load(&self, name: &str, digest: Option<&Digest>) -> Result<Arc<Module>, ModuleError> {
        let sources = self.sources(name);
        let source = match (sources.first(), digest) {
            (None, _) => {
                return Err(ModuleError::Unknown { name: name.to_owned(), known: self.names().join(", ") });
            }
            (Some(first), None) => *first,
            (_, Some(digest)) => match sources.iter().find(|source| source.digest() == digest.as_str()) {
                Some(source) => *source,
                None => return Err(self.pin_error(name, digest.as_str())),
            },
        };
        // A panic while it was held leaves the map as it was.
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), source.digest().to_owned());
        if let Some(module) = loaded.get(&key) {
            return Ok(Arc::clone(module));
        }
        let module = Arc::new(self.link(name, source)?);
        // It is needed until the process ends, and taking it apart before would cost half as much as loading it did.
        std::mem::forget(Arc::clone(&module));
        loaded.insert(key, Arc::clone(&module));
        Ok(module)
    }

    /// Everything that can be checked is checked before the artifact is even opened.
    fn link(&self, name: &str, source: Source<'_>) -> Result<Module, ModuleError> {
        let granted = self.rule(name).map(|rule| rule.grants.clone());
        let limits = self.rule(name).map(|rule| rule.limits).unwrap_or_default();
        match source {
            Source::Builtin(builtin) => {
                let facts = builtin_facts(builtin, granted)?;
                facts.check()?;
                // Whether there can be modules at all has to be known before anything is done.
                engine()?;
                Ok(Module::builtin(facts, limits, builtin))
            }
            Source::Installed(dir, installed) => {
                let facts = installed_facts(name, installed, granted);
                facts.check()?;
                let component = artifact::installed(engine()?, dir, name, installed)?;
                Module::installed(facts, limits, &component)
            }
        }
    }
}

fn builtin_facts(builtin: &'static Builtin, granted: Option<Grants>) -> Result<Facts<'static>, ModuleError> {
    let wants = builtin_wants(builtin)?;
    Ok(Facts {
        name: builtin.name,
        digest: builtin.digest,
        contract: builtin.contract,
        exports: builtin.exports.to_vec(),
        imports: builtin.imports.to_vec(),
        grants: granted.unwrap_or_else(|| wants.clone()),
        wants,
    })
}

fn installed_facts<'a>(name: &'a str, installed: &'a Installed, granted: Option<Grants>) -> Facts<'a> {
    Facts {
        name,
        digest: installed.digest.as_str(),
        contract: &installed.contract,
        exports: installed.exports.iter().map(String::as_str).collect(),
        imports: installed.imports.iter().map(String::as_str).collect(),
        wants: installed.wants.clone(),
        grants: granted.unwrap_or_else(|| installed.grants.clone()),
    }
}

/// What a built-in says it needs is what it is granted.
fn builtin_wants(builtin: &Builtin) -> Result<Grants, ModuleError> {
    let bad = |cause: String| ModuleError::Contract {
        name: builtin.name.to_owned(),
        digest: builtin.digest.to_owned(),
        cause: format!("what it wants cannot be read: {cause}"),
    };
    let value = serde_json::from_str(builtin.wants).map_err(|error| bad(error.to_string()))?;
    Grants::parse(At::Document.member("wants"), &value).map_err(|refused| bad(refused.to_string()))
}
