//! From a core module to a component, and what a component says about itself.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use wasmparser::{ComponentExternalKind, Parser, Payload};
use wit_component::ComponentEncoder;

use super::Result;

const PACKAGE: &str = "catena:stage/";
/// Custom section with the grants that a module wants, as JSON; the SDK's export macro writes it.
const WANTS: &str = "catena:wants";

/// What a component says about itself, read without running it.
#[derive(Debug)]
pub(crate) struct Description {
    /// `sha256:…` of the component.
    pub(crate) digest: String,
    /// The interfaces of catena:stage that it exports, by their short names, sorted.
    pub(crate) exports: Vec<String>,
    /// Everything that it imports, with versions, in the component's order.
    pub(crate) imports: Vec<String>,
    /// The version of catena:stage that its exports are of.
    pub(crate) contract: String,
    /// The grants that it asks for; `{}` where it says nothing.
    pub(crate) wants: Value,
}

/// Wraps the core module, which carries the types of its worlds in custom sections. The component imports
/// what the module really uses, and nothing else.
pub(crate) fn encode(core: &[u8]) -> Result<Vec<u8>> {
    ComponentEncoder::default()
        .module(core)
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(|e| format!("cannot make a component: {e:#}"))
}

/// Reads names and custom sections.
pub(crate) fn describe(component: &[u8]) -> Result<Description> {
    let (mut exports, mut imports, mut wants) = (Vec::new(), Vec::new(), Map::new());
    let mut contract: Option<String> = None;
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(|e| format!("not a component: {e}"))? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import.map_err(|e| e.to_string())?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let export = export.map_err(|e| e.to_string())?;
                    let Some(name) = export.name.name.strip_prefix(PACKAGE) else { continue };
                    if export.kind != ComponentExternalKind::Instance {
                        continue;
                    }
                    let (name, version) = name.split_once('@').unwrap_or((name, ""));
                    match &contract {
                        Some(other) if other != version => {
                            return Err(format!(
                                "exports of catena:stage {other} and {version} in one component"
                            ));
                        }
                        _ => contract = Some(version.to_owned()),
                    }
                    exports.push(name.to_owned());
                }
            }
            Payload::CustomSection(section) if section.name() == WANTS => {
                match serde_json::from_slice(section.data()) {
                    Ok(Value::Object(object)) => wants.extend(object),
                    Ok(_) => return Err(format!("custom section {WANTS} is not a JSON object")),
                    Err(e) => return Err(format!("custom section {WANTS} is not JSON: {e}")),
                }
            }
            _ => {}
        }
    }
    exports.sort();
    Ok(Description {
        digest: digest(component),
        exports,
        imports,
        contract: contract.ok_or("exports nothing of catena:stage")?,
        wants: Value::Object(wants),
    })
}

/// `sha256:` and the hexadecimal digest.
pub(crate) fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(bytes) {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
