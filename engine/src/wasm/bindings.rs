//! What wasmtime's macro makes of the contract: types, one trait per import, one typed handle per export.
//!
//! The exports are used one interface at a time, because a module has any of them.

#![allow(unsafe_code, missing_debug_implementations, unreachable_pub, reason = "generated")]
#![allow(clippy::all, reason = "generated")]

wasmtime::component::bindgen!({
    inline: "
        package catena:host;
        world host {
            import catena:stage/log@0.1.0;
            import catena:stage/links@0.1.0;
            import catena:stage/routes@0.1.0;
            export catena:stage/arrange@0.1.0;
            export catena:stage/admit@0.1.0;
            export catena:stage/stage@0.1.0;
            export catena:stage/settings@0.1.0;
        }
    ",
    path: "../wit/0.1.0",
    world: "catena:host/host",
    imports: { default: trappable },
});

/// What the module of the built-in stages asks besides.
pub mod builtins {
    wasmtime::component::bindgen!({ path: "builtins/wit", world: "builtins", imports: { default: trappable } });
}

pub use builtins::catena::builtins::role::{self, Stage as Role};
