//! Generated from `wit/`: one world for what a module may import and one for each interface that it may export,
//! so that a component has exactly the exports that its author listed.
#![allow(
    unsafe_code,
    missing_debug_implementations,
    unreachable_pub,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]

pub mod imports {
    wit_bindgen::generate!({ path: "../../wit/0.1.0", world: "imports", generate_all });
}

pub use imports::catena::stage::{links, log, routes, types};

macro_rules! export_world {
    ($module:ident, $world:literal, $macro:literal) => {
        pub mod $module {
            wit_bindgen::generate!({
                path: "../../wit/0.1.0",
                world: $world,
                with: {
                    "catena:stage/types@0.1.0": crate::bindings::types,
                    "catena:stage/log@0.1.0": crate::bindings::log,
                    "catena:stage/links@0.1.0": crate::bindings::links,
                    "catena:stage/routes@0.1.0": crate::bindings::routes,
                },
                pub_export_macro: true,
                export_macro_name: $macro,
            });
        }
    };
}

export_world!(arranger, "arranger", "export_arranger");
export_world!(admitter, "admitter", "export_admitter");
export_world!(runner, "runner", "export_runner");
export_world!(configurable, "configurable", "export_configurable");
