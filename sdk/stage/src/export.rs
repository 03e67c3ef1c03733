use std::marker::PhantomData;

use crate::{Admit, Arrange, Settings, Stage};

/// Makes a component of a [`Module`](crate::Module): the listed interfaces become its exports.
///
/// ```text
/// export_stage!(Policy: admit, settings; wants = r#"{"annotations": ["example.com/tier"]}"#);
/// ```
///
/// * `arrange` needs [`Arrange`](crate::Arrange), `admit` [`Admit`](crate::Admit), `stage`
///   [`Stage`](crate::Stage) and `settings` [`Settings`](crate::Settings).
/// * `wants` are the grants that the module asks for, a JSON object in the form of the node's file. Grants for
///   imports (`log`, `links`, `routes`) need not be listed, unless less than all of it is wanted.
///
/// Outside wasm it only checks that the traits are there, so the module can be tested as an ordinary crate.
#[macro_export]
macro_rules! export_stage {
    ($module:ty: $($export:ident),+ $(,)? $(; wants = $wants:expr)? $(;)?) => {
        #[cfg(not(target_family = "wasm"))]
        const _: () = {
            $($crate::__check!($export, $module);)+
            $(const _: &str = $wants;)?
        };
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exports;
            $($crate::__export!($export, $module, Exports);)+
            $(
                // Names that no author's constant has: `$wants` may be one.
                const __CATENA_WANTS: &str = $wants;
                #[used]
                #[unsafe(link_section = "catena:wants")]
                static __CATENA_SECTION: [u8; __CATENA_WANTS.len()] = $crate::bytes(__CATENA_WANTS);
            )?
        };
    };
}

/// That the trait of an export of [`export_stage!`] is there.
#[doc(hidden)]
#[macro_export]
macro_rules! __check {
    (arrange, $module:ty) => {
        const _: $crate::Exports<$module> = $crate::Exports::arrange();
    };
    (admit, $module:ty) => {
        const _: $crate::Exports<$module> = $crate::Exports::admit();
    };
    (stage, $module:ty) => {
        const _: $crate::Exports<$module> = $crate::Exports::stage();
    };
    (settings, $module:ty) => {
        const _: $crate::Exports<$module> = $crate::Exports::settings();
    };
}

/// Exists for a module with the traits of its exports.
#[doc(hidden)]
#[derive(Debug)]
pub struct Exports<M>(PhantomData<M>);

impl<M> Exports<M> {
    pub const fn arrange() -> Exports<M>
    where
        M: Arrange,
    {
        Exports(PhantomData)
    }

    pub const fn admit() -> Exports<M>
    where
        M: Admit,
    {
        Exports(PhantomData)
    }

    pub const fn stage() -> Exports<M>
    where
        M: Stage,
    {
        Exports(PhantomData)
    }

    pub const fn settings() -> Exports<M>
    where
        M: Settings,
    {
        Exports(PhantomData)
    }
}

/// One export of [`export_stage!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    (arrange, $module:ty, $exports:ident) => {
        impl $crate::bindings::arranger::exports::catena::stage::arrange::Guest for $exports {
            fn arrange(
                call: $crate::bindings::types::Call,
                attachments: String,
            ) -> Result<String, $crate::bindings::types::Error> {
                $crate::glue::arrange::<$module>(call, attachments)
            }
        }
        $crate::bindings::arranger::export_arranger!($exports with_types_in $crate::bindings::arranger);
    };
    (admit, $module:ty, $exports:ident) => {
        impl $crate::bindings::admitter::exports::catena::stage::admit::Guest for $exports {
            fn admit(
                call: $crate::bindings::types::Call,
                config: String,
            ) -> Result<
                $crate::bindings::admitter::exports::catena::stage::admit::Verdict,
                $crate::bindings::types::Error,
            > {
                $crate::glue::admit::<$module>(call, config)
            }
        }
        $crate::bindings::admitter::export_admitter!($exports with_types_in $crate::bindings::admitter);
    };
    (stage, $module:ty, $exports:ident) => {
        impl $crate::bindings::runner::exports::catena::stage::stage::Guest for $exports {
            fn run(
                call: $crate::bindings::types::Call,
                result: $crate::bindings::types::Document,
            ) -> Result<
                $crate::bindings::runner::exports::catena::stage::stage::Outcome,
                $crate::bindings::types::Error,
            > {
                $crate::glue::run::<$module>(call, result)
            }
        }
        $crate::bindings::runner::export_runner!($exports with_types_in $crate::bindings::runner);
    };
    (settings, $module:ty, $exports:ident) => {
        impl $crate::bindings::configurable::exports::catena::stage::settings::Guest for $exports {
            fn validate(
                config: String,
            ) -> Result<(), Vec<$crate::bindings::configurable::exports::catena::stage::settings::Problem>> {
                $crate::glue::validate::<$module>(config)
            }
        }
        $crate::bindings::configurable::export_configurable!(
            $exports with_types_in $crate::bindings::configurable
        );
    };
}

/// The bytes of a text, in a constant.
#[doc(hidden)]
pub const fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let (bytes, mut copy, mut i) = (text.as_bytes(), [0; N], 0);
    while i < N {
        copy[i] = bytes[i];
        i += 1;
    }
    copy
}
