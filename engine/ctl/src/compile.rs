//! The compiler, with the configuration that the plugin's engine has.

use catena::wasm::config::engine_config;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Compiles a component for the baseline of this architecture, as the built-in stages are: what is installed
/// here runs on any node of it. Returns the artifact, and the component for checks.
pub(crate) fn compile(bytes: &[u8]) -> Result<(Vec<u8>, Component), String> {
    let mut config = engine_config();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    config.target(&target).map_err(|error| format!("the compiler cannot compile for {target}: {error:#}"))?;
    let engine = Engine::new(&config).map_err(|error| format!("the compiler does not start: {error:#}"))?;
    let component =
        Component::new(&engine, bytes).map_err(|error| format!("it does not compile: {error:#}"))?;
    let artifact = component.serialize().map_err(|error| format!("it cannot be written: {error:#}"))?;
    Ok((artifact, component))
}
