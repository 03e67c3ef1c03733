//! From a core module to a component, and what a component says about itself.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload};
use wit_component::ComponentEncoder;

use super::Result;

/// The contract's package, as names in a component begin.
const PACKAGE: &str = "catena:stage/";
/// Custom section with the grants that a module wants, as JSON; the SDK's export macro writes it.
pub(crate) const WANTS: &str = "catena:wants";
/// Custom section with the module's own version, as other tools for components write and read it.
pub(crate) const VERSION: &str = "version";

/// What a component says about itself, read without running or compiling it.
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
    /// Its own version, where it says one.
    pub(crate) version: Option<String>,
}

/// Wraps the core module, which carries the types of its worlds in custom sections. The component imports
/// what the module really uses, and nothing else.
pub(crate) fn encode(core: &[u8]) -> Result<Vec<u8>> {
    ComponentEncoder::default()
        .module(core)
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(|e| format!("cannot make a component: {e:#}"))
}

/// The component with one more custom section at its end.
pub(crate) fn with_section(mut component: Vec<u8>, name: &str, content: &[u8]) -> Vec<u8> {
    let mut section = leb128(name.len());
    section.extend(name.bytes());
    section.extend(content);
    component.push(0);
    component.extend(leb128(section.len()));
    component.extend(section);
    component
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Reads names and custom sections. The text of an error says what to do.
pub(crate) fn describe(component: &[u8]) -> Result<Description> {
    let not_component = |error: wasmparser::BinaryReaderError| {
        format!(
            "it is not a WebAssembly component ({error}); build a stage with the SDK, or a component for the \
             contract catena:stage"
        )
    };
    let mut found = Found::default();
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(not_component)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(
                    "it is a core module, not a component; make one of it with `wasm-tools component new \
                            FILE -o COMPONENT`"
                        .into(),
                );
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
            // A linker puts the module's own sections inside; those of tools for components are outside.
            Payload::CustomSection(section) if section.name() == WANTS => found.wants(section.data())?,
            Payload::CustomSection(section) if section.name() == VERSION && depth == 0 => {
                found.version = std::str::from_utf8(section.data()).ok().map(str::to_owned);
            }
            _ => {}
        }
    }
    let Found { mut exports, imports, contract, wants, version } = found;
    let contract = contract.ok_or(
        "it exports nothing of catena:stage; a stage exports one or more of arrange, admit, stage, settings",
    )?;
    exports.sort();
    Ok(Description {
        digest: digest(component),
        exports,
        imports,
        contract,
        wants: Value::Object(wants),
        version,
    })
}

#[derive(Default)]
struct Found {
    exports: Vec<String>,
    imports: Vec<String>,
    contract: Option<String>,
    wants: Map<String, Value>,
    version: Option<String>,
}

impl Found {
    /// Exports of other packages are none of our business: some toolchains add their own.
    fn export(&mut self, name: &str) -> Result<()> {
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
    fn wants(&mut self, section: &[u8]) -> Result<()> {
        for object in serde_json::Deserializer::from_slice(section).into_iter::<Value>() {
            match object {
                Ok(Value::Object(object)) => {
                    for (key, value) in object {
                        let earlier = self.wants.insert(key.clone(), value.clone());
                        if earlier.is_some_and(|earlier| earlier != value) {
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

    #[test]
    fn a_section_of_any_length_can_be_added() {
        for length in [0, 1, 127, 128, 20_000] {
            let content = vec![b'x'; length];
            let bytes = with_section(b"\0asm\x0d\0\x01\0".to_vec(), VERSION, &content);
            let sections: Vec<_> = Parser::new(0)
                .parse_all(&bytes)
                .filter_map(|payload| match payload.unwrap() {
                    Payload::CustomSection(section) => {
                        Some((section.name().to_owned(), section.data().len()))
                    }
                    _ => None,
                })
                .collect();
            assert_eq!(sections, [(VERSION.to_owned(), length)]);
        }
    }
}
