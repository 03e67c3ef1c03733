//! The next instance of a built-in stage, made while there is something to wait for. To make one and to take it apart
//! costs as much as what it does.
//!
//! Each is used once, as if it were made when it is needed. That it is made before makes no difference: the start of
//! a built-in stage asks the host for nothing. What the start of an installed module does nobody knows, so there are
//! none of these.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use wasmtime::Store;
use wasmtime::component::Instance;

use super::host::{Host, State};
use super::limits;
use super::module::{Linked, Module};
use super::wasi::Wasi;
use crate::node::Limits;

/// Bytes of memory of a used store that is kept for a time; one starts with a little more than a mebibyte.
const KEPT: usize = 2 << 20;

/// What a module has ready, and what it has used.
#[derive(Default)]
pub(super) struct Spare(Mutex<Places>);

#[derive(Default)]
struct Places {
    next: Option<Made>,
    /// One that has run, and is taken apart later.
    last: Option<Store<State>>,
}

/// A store that nothing has run in yet, and perhaps the instance in it.
pub(super) struct Made {
    pub(super) store: Store<State>,
    pub(super) instance: Option<Instance>,
}

impl Module {
    /// Makes the instance of a built-in module's next run, and takes that of its last run apart. What goes wrong is told
    /// by that run, which then tries it itself.
    pub fn make_spare(&self) {
        let (Ok(linked), Some(_)) = (self.linked(), self.role) else { return };
        let mut places = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.last = None;
        if places.next.is_none() {
            let mut store =
                limits::store(linked.pre.engine(), self.state(Host::nowhere(), self.limits, None));
            // A panic here would be about a delegate that is waited for.
            let made = catch_unwind(AssertUnwindSafe(|| linked.pre.instantiate(&mut store).ok()));
            let instance = made.ok().flatten();
            places.next = instance.map(|instance| Made { store, instance: Some(instance) });
        }
    }

    /// A store for a run, with the instance if one is ready.
    pub(super) fn store(&self, linked: &Linked, host: Host, limits: Limits, wasi: Option<Wasi>) -> Made {
        let made = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner).next.take();
        let Some(mut made) = made else {
            let store = limits::store(linked.pre.engine(), self.state(host, limits, wasi));
            return Made { store, instance: None };
        };
        let used = self.limits.fuel.saturating_sub(made.store.get_fuel().unwrap_or_default());
        // It fails only in an engine that counts no fuel.
        let _ = made.store.set_fuel(limits.fuel.saturating_sub(used));
        let state = made.store.data_mut();
        state.host = host;
        state.meter.limits = limits;
        made
    }

    /// Keeps the store of a run that is over until there is time to take it apart, unless it holds much memory.
    pub(super) fn put_away(&self, store: Store<State>) {
        if self.role.is_some() && store.data().meter.peak <= KEPT {
            self.spare.0.lock().unwrap_or_else(PoisonError::into_inner).last = Some(store);
        }
    }
}
