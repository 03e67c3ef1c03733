//! The compiler, with the configuration that the plugin's engine has.

use catena::node::{ArtifactRecord, Digest};
use catena::wasm::config::engine_config;
use catena::wasm::engine;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::key::engine_key;
use crate::output::{Progress, bytes as size};

/// A compiled module.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) artifact: Vec<u8>,
    pub(crate) record: ArtifactRecord,
    /// For checks.
    pub(crate) component: Component,
}

/// Compiles a component for the baseline of this architecture, as the built-in stages are: what is installed
/// here runs on any node of it.
pub(crate) fn compile(bytes: &[u8]) -> Result<Compiled, String> {
    let _progress = Progress::start(format!("compiling {}", size(bytes.len() as u64)));
    let engine = compiler()?;
    let component =
        Component::new(&engine, bytes).map_err(|error| format!("it does not compile: {error:#}"))?;
    let artifact = component.serialize().map_err(|error| format!("it cannot be written: {error:#}"))?;
    let record = ArtifactRecord { digest: Digest::of(&artifact), size: artifact.len() as u64 };
    Ok(Compiled { artifact, record, component })
}

fn compiler() -> Result<Engine, String> {
    let mut config = engine_config();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    config.target(&target).map_err(|error| format!("the compiler cannot compile for {target}: {error:#}"))?;
    let compiler = Engine::new(&config).map_err(|error| format!("the compiler does not start: {error:#}"))?;
    let key = engine_key(&compiler);
    if key != engine::KEY {
        return Err(format!(
            "the compiler is for engine {key}, but catena's is {}; build catenactl and catena from one source",
            engine::KEY
        ));
    }
    Ok(compiler)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_for_the_engine_of_catena() {
        assert_eq!(engine_key(&compiler().unwrap()), engine::KEY);
    }
}
