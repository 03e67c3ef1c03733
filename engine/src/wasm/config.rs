/// The one engine configuration. Whatever it says is part of every compiled artifact: the build script, which
/// compiles the built-in stages, and the binaries include this very file.
pub fn engine_config() -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    config
        .wasm_component_model(true)
        // Fuel bounds the work of a stage with the same verdict on a loaded node as on an idle one.
        .consume_fuel(true)
        // An image to copy on write would be a file in memory, made anew for each module in each process, for the
        // sake of 20 KB that are copied once.
        .memory_init_cow(false)
        .wasm_simd(true)
        .relaxed_simd_deterministic(true)
        .wasm_memory64(false)
        // wit-component's adapters and other languages' runtimes use more than one memory.
        .wasm_multi_memory(true)
        .max_wasm_stack(512 << 10)
        // The host never unwinds through guest frames; 20 KB less per artifact.
        .native_unwind_info(false)
        .concurrency_support(false);
    config
}
