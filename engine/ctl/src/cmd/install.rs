use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use catena::node::{At, Digest, Grants, Installed, ModuleName, NodeConfig, Root};
use catena::wasm::engine;
use catena::wasm::grants::required;
use catena::wasm::{Facts, ModuleError};
use serde_json::{Map, Value, json};

use super::check;
use crate::compile::compile;
use crate::component::{self, Description};
use crate::error::Error;
use crate::output::{Report, line};
use crate::problem::Problem;
use crate::store::{self, Store};

/// Compile a module and make it the one that pipelines get under a name
///
/// Nothing of the module runs before all is checked and recorded; then it judges the configs that node.json has for
/// it, and what it finds wrong is told. The modules that had the name before are kept: attachments that they made are
/// still checked with them, and installing one again brings it back.
#[derive(Debug, clap::Args)]
pub(crate) struct Install {
    /// The name in pipelines; that of a built-in stage replaces it
    name: String,
    /// The component (.wasm)
    file: PathBuf,
    /// Refuse any other file than the one with this digest
    #[arg(long, value_name = "sha256:HEX")]
    digest: Option<String>,
    /// Allow the module something, as in node.json: 'routes={"ops":["read"]}', log=true; may be repeated, each key once
    #[arg(long = "grant", value_name = "KEY=JSON")]
    grants: Vec<String>,
}

impl Install {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let name = store::name(&self.name)?;
        let given = parse_grants(&self.grants).map_err(Error::Usage)?;
        let refused =
            |why: String| Error::Refused(format!("{} is not installed: {why}", self.file.display()));

        let bytes = read(&self.file)?;
        let description = component::describe(&bytes).map_err(refused)?;
        if let Some(wanted) = &self.digest {
            check_pin(wanted, &description.digest, "--digest").map_err(refused)?;
        }
        let root = Root::from_env();
        let node = NodeConfig::load(&root)?;
        let rule = node.modules.get(&name);
        if let Some(pin) = rule.and_then(|rule| rule.digest.as_ref()) {
            check_pin(
                pin.as_str(),
                &description.digest,
                &format!("modules.{name}.digest in {}", root.node_file().display()),
            )
            .map_err(refused)?;
        }
        let grants = rule.map_or(&given, |rule| &rule.grants);
        let facts = description.facts(&name, grants);
        let explained = |error: ModuleError| refused(self.explain(error, rule.is_some(), &description));
        facts.check().map_err(explained)?;
        let compiled = compile(&bytes).map_err(refused)?;
        facts.verify(&compiled.component).map_err(explained)?;

        let installed = Installed {
            digest: description.digest.clone(),
            size: description.size,
            version: description.version.clone(),
            artifacts: BTreeMap::from([(engine::KEY.to_owned(), compiled.record)]),
            exports: description.exports.clone(),
            imports: description.imports.clone(),
            contract: description.contract.clone(),
            wants: description.wants.clone(),
            grants: given.clone(),
        };
        let replaced = record(&root, &name, &installed, &bytes, &compiled.artifact)?;
        let mut report = report(&name, &installed, grants, replaced.as_deref(), rule.is_some(), &root);
        // It is installed all the same: the node's file may be what is changed next.
        let problems = check::problems_of(&root, &node, &name);
        problems.iter().for_each(|problem| problem.write(&mut report.text));
        report.json["problems"] = problems.iter().map(Problem::to_value).collect();
        Ok(report)
    }

    /// A missing grant is told as the options that would give it.
    fn explain(&self, error: ModuleError, in_node_file: bool, description: &Description) -> String {
        let ModuleError::Ungranted { missing, .. } = error else { return error.to_string() };
        if in_node_file {
            return format!(
                "node.json names the module {} and so decides alone; add {missing} to modules.{}.grants there",
                self.name, self.name
            );
        }
        let needed = required(description.imports.iter().map(String::as_str), &description.wants);
        format!(
            "it wants {missing}, which is not granted; if that is right, run: catenactl install {} {}{}",
            self.name,
            self.file.display(),
            options(needed.as_ref().unwrap_or(&missing))
        )
    }
}

impl Description {
    /// What is known of the module under a name.
    pub(crate) fn facts<'a>(&'a self, name: &'a ModuleName, grants: &Grants) -> Facts<'a> {
        Facts {
            name: name.as_str(),
            digest: self.digest.as_str(),
            contract: &self.contract,
            exports: self.exports.iter().map(String::as_str).collect(),
            imports: self.imports.iter().map(String::as_str).collect(),
            wants: self.wants.clone(),
            grants: grants.clone(),
        }
    }
}

/// The `--grant` options that give exactly these grants.
pub(crate) fn options(grants: &Grants) -> String {
    let value = grants.to_value();
    let members = value.as_object().into_iter().flatten();
    members
        .map(|(key, value)| format!(" --grant '{key}={}'", value.to_string().replace('\'', "'\\''")))
        .collect()
}

/// Reads a module's file, up to the limit.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(component::LIMIT + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > component::LIMIT {
        let limit = component::LIMIT;
        return Err(Error::Refused(format!(
            "{} has more than {limit} bytes, the most a module may have; build it in release mode without debug \
             information, or leave out what it does not need",
            path.display()
        )));
    }
    Ok(bytes)
}

fn check_pin(wanted: &str, found: &Digest, source: &str) -> Result<(), String> {
    match Digest::parse(wanted) {
        None => Err(format!("{source} {wanted:?} is not sha256: and 64 lower-case hexadecimal digits")),
        Some(wanted) if wanted == *found => Ok(()),
        Some(wanted) => Err(format!(
            "{source} wants {wanted}, but the file's digest is {found}; get the right file, or correct {source}"
        )),
    }
}

/// `KEY=JSON` of each option, as one grant object. Two options of one key are an error: whether the second was meant to
/// add to the first or to replace it is not known.
fn parse_grants(options: &[String]) -> Result<Grants, String> {
    let (mut object, mut problems) = (Map::new(), Vec::new());
    for option in options {
        let Some((key, text)) = option.split_once('=') else {
            let keys = Grants::KEYS.join(", ");
            problems.push(format!("--grant {option:?} is not KEY=JSON; keys are {keys}"));
            continue;
        };
        if object.contains_key(key) {
            problems.push(format!("--grant {key} is there twice; say all of {key} in one"));
            continue;
        }
        match crate::trial::json(text) {
            Ok(value) => drop(object.insert(key.to_owned(), value)),
            Err(why) => problems.push(format!("--grant {key}: {text:?}: {why}")),
        }
    }
    let grants = Grants::parse(At::Document.member("--grant"), &Value::Object(object));
    match grants {
        Ok(grants) if problems.is_empty() => Ok(grants),
        grants => {
            problems.extend(grants.err().map(|refused| refused.to_string()));
            Err(problems.join("; "))
        }
    }
}

/// Writes module and artifact, then the record that makes them count. Returns the digest that had the name.
fn record(
    root: &Root,
    name: &ModuleName,
    installed: &Installed,
    module: &[u8],
    artifact: &[u8],
) -> Result<Option<String>, Error> {
    let mut store = Store::open(root)?;
    store.dir.write(&installed.module_file(), module, 0o600)?;
    store.dir.write(&installed.artifact_file(engine::KEY), artifact, 0o600)?;
    let replaced = store.lock.modules.get(name).and_then(|entry| entry.current.as_ref());
    let replaced = replaced.map(|current| current.digest.to_string());
    let mut installed = installed.clone();
    // What other engines have of this very module stays.
    if let Some(earlier) = store.lock.modules.get(name).and_then(|entry| entry.find(&installed.digest)) {
        for (engine, artifact) in &earlier.artifacts {
            installed.artifacts.entry(engine.clone()).or_insert_with(|| artifact.clone());
        }
    }
    store.lock.install(name.clone(), installed);
    store.commit()?;
    Ok(replaced)
}

fn report(
    name: &ModuleName,
    installed: &Installed,
    grants: &Grants,
    replaced: Option<&str>,
    in_node_file: bool,
    root: &Root,
) -> Report {
    let before = replaced.or(store::builtin(name.as_str()).map(|builtin| builtin.digest));
    let mut text = String::new();
    line(&mut text, "installed", name.as_str());
    line(&mut text, "digest", installed.digest.as_str());
    if let Some(version) = &installed.version {
        line(&mut text, "version", version);
    }
    line(&mut text, "exports", &installed.exports.join(", "));
    line(&mut text, "grants", &grants.to_string());
    match before {
        Some(before) if replaced.is_none() => line(&mut text, "replaces", &format!("the built-in {before}")),
        Some(before) => {
            line(&mut text, "replaces", &format!("{before}, which is kept for catenactl rollback"))
        }
        None => {}
    }
    if in_node_file {
        line(
            &mut text,
            "note",
            &format!(
                "{} names this module; its grants there hold, not those given here",
                root.node_file().display()
            ),
        );
    }
    let json = json!({
        "name": name.as_str(),
        "digest": installed.digest.as_str(),
        "size": installed.size,
        "version": installed.version,
        "artifact": artifact_value(installed),
        "contract": installed.contract,
        "exports": installed.exports,
        "imports": installed.imports,
        "wants": installed.wants.to_value(),
        "grants": grants.to_value(),
        "replaces": before,
        "decidedByNodeFile": in_node_file,
    });
    Report::new(text, json)
}

/// The artifact for this catena; null where there is none.
pub(crate) fn artifact_value(installed: &Installed) -> Value {
    let artifact = installed.artifacts.get(engine::KEY);
    artifact.map_or(Value::Null, |artifact| {
        json!({ "digest": artifact.digest.as_str(), "size": artifact.size, "engine": engine::KEY })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_from_options() {
        let parse =
            |options: &[&str]| parse_grants(&options.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>());
        let grants = parse(&[r#"routes={"ops":["read"]}"#, "log=true"]).unwrap();
        assert!(grants.log && grants.routes.is_some());
        assert_eq!(parse(&[]).unwrap(), Grants::default());
        for (bad, part) in [
            (&["log"][..], "not KEY=JSON"),
            (&["log=yes"], "not JSON"),
            (&["log=true", "log=true"], "twice"),
            (&[r#"publish=["a"]"#, r#"publish=["b"]"#], "say all of publish in one"),
            (&[r#"routes={"ops":["read"],"ops":["add"]}"#], "ops is there more than once"),
            (&["log", "fly=true"], "not KEY=JSON"),
            (&["log", "fly=true"], "--grant.fly"),
            (&["fly=true"], "--grant.fly"),
            (&[r#"routes={"op":[]}"#], "--grant.routes.op"),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn options_give_what_they_say() {
        let grants = parse_grants(&[
            r#"routes={"ops":["add"]}"#.into(),
            "links=true".into(),
            r#"publish=["it's"]"#.into(),
        ]);
        let text = options(&grants.unwrap());
        assert_eq!(
            text,
            r#" --grant 'routes={"links":["@attachment"],"ops":["add"],"tables":[254]}' --grant 'links=true' --grant 'publish=["it'\''s"]'"#
        );
    }
}
