//! What a component says about itself, read without running or compiling it.

use catena::node::{Digest, Grants};
use serde_json::{Map, Value};
use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload};

/// The contract's package, as names in a component begin.
const PACKAGE: &str = "catena:stage/";
/// The custom section with the grants that a module wants.
const WANTS: &str = "catena:wants";
/// Bytes of a module file. A Python stage has 18 MB.
pub(crate) const LIMIT: u64 = 64 << 20;

/// A component's own words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Description {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    /// The interfaces of catena:stage that it exports, by their short names, sorted.
    pub(crate) exports: Vec<String>,
    /// Everything that it imports, with versions, in the component's order.
    pub(crate) imports: Vec<String>,
    /// The version of catena:stage that its exports are of.
    pub(crate) contract: String,
    pub(crate) wants: Grants,
}

/// Reads names and custom sections. The text of an error says what to do.
pub(crate) fn describe(bytes: &[u8]) -> Result<Description, String> {
    let not_component = |error: wasmparser::BinaryReaderError| {
        format!(
            "it is not a WebAssembly component ({error}); build a stage with the SDK, or a component for the contract catena:stage"
        )
    };
    let mut found = Found::default();
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(not_component)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err("it is a core module, not a component; make one of it with `wasm-tools component new FILE -o COMPONENT`".into());
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    found.imports.push(import.map_err(not_component)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let export = export.map_err(not_component)?;
                    if export.kind == ComponentExternalKind::Instance {
                        found.export(export.name.name)?;
                    }
                }
            }
            Payload::CustomSection(section) if section.name() == WANTS => found.wants(section.data())?,
            _ => {}
        }
    }
    let Found { mut exports, imports, contract, wants } = found;
    let contract = contract.ok_or_else(|| {
        format!("it exports nothing of catena:stage; a stage exports one or more of arrange, admit, stage, settings (this catena speaks {})", catena::wasm::grants::CONTRACT)
    })?;
    exports.sort();
    let wants = Grants::parse(WANTS, &Value::Object(wants)).map_err(|problems| problems.join("; "))?;
    Ok(Description { digest: Digest::of(bytes), size: bytes.len() as u64, exports, imports, contract, wants })
}

#[derive(Default)]
struct Found {
    exports: Vec<String>,
    imports: Vec<String>,
    contract: Option<String>,
    wants: Map<String, Value>,
}

impl Found {
    /// Exports of other packages are none of our business: some toolchains add their own.
    fn export(&mut self, name: &str) -> Result<(), String> {
        let Some(name) = name.strip_prefix(PACKAGE) else { return Ok(()) };
        let (name, version) = name.split_once('@').unwrap_or((name, ""));
        if let Some(other) = self.contract.replace(version.to_owned())
            && other != version
        {
            return Err(format!(
                "it exports interfaces of catena:stage {other} and of {version}; build all of it with one SDK"
            ));
        }
        self.exports.push(name.to_owned());
        Ok(())
    }

    /// A linker puts sections of one name behind each other, so there may be several objects.
    fn wants(&mut self, section: &[u8]) -> Result<(), String> {
        for object in serde_json::Deserializer::from_slice(section).into_iter::<Value>() {
            match object {
                Ok(Value::Object(object)) => {
                    for (key, value) in object {
                        if self
                            .wants
                            .insert(key.clone(), value.clone())
                            .is_some_and(|earlier| earlier != value)
                        {
                            return Err(format!(
                                "its section {WANTS} says two things about {key}; say it once"
                            ));
                        }
                    }
                }
                Ok(_) => return Err(format!("its section {WANTS} is not a JSON object")),
                Err(error) => return Err(format!("its section {WANTS} is not JSON: {error}")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_component_is_named() {
        for (bytes, part) in [
            (&b""[..], "not a WebAssembly component"),
            (b"#!/bin/sh", "not a WebAssembly component"),
            (b"\0asm\x01\0\0\0", "core module"),
            (b"\0asm\x0d\0\x01\0", "exports nothing of catena:stage"),
            (b"\0asm\x0d\0\x01\0\xff", "not a WebAssembly component"),
        ] {
            let error = describe(bytes).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn sections_that_a_linker_joined() {
        let mut found = Found::default();
        found.wants(br#"{"clock":true}{"publish":["a"]}"#).unwrap();
        assert_eq!(Value::Object(found.wants.clone()).to_string(), r#"{"clock":true,"publish":["a"]}"#);
        assert!(found.wants(br#"{"publish":["b"]}"#).unwrap_err().contains("two things about publish"));
        assert!(found.wants(b"[]").is_err() && found.wants(b"{").is_err());
    }
}
