//! A thread that makes modules ready while a call still reads, decides and waits.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::artifact;
use super::builtin::BUILTINS;
use super::engine::engine;
use super::module::Module;
use crate::timeline;

/// Stack of the thread.
const STACK: usize = 512 << 10;

/// What the thread is told, once it has been started.
static ORDERS: Mutex<Option<Sender<Arc<Module>>>> = Mutex::new(None);

/// Starts the thread with the artifact of the built-in stages, which nearly every pipeline needs: before it is known
/// which one it is. What goes wrong is told when a module is run.
pub fn start() {
    let (sender, orders) = channel::<Arc<Module>>();
    let work = move || {
        if let (Ok(engine), Some(builtin)) = (engine(), BUILTINS.first()) {
            drop(artifact::builtin(engine, builtin));
            timeline::mark("the artifact of the built-in stages is read");
        }
        for module in orders {
            module.prepare();
            timeline::mark("a module is linked");
        }
    };
    if thread::Builder::new().name("modules".into()).stack_size(STACK).spawn(work).is_ok() {
        *ORDERS.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    }
}

/// Has a module made ready meanwhile. Without the thread it is when it is first run.
pub fn prepare(module: &Arc<Module>) {
    if let Some(orders) = &*ORDERS.lock().unwrap_or_else(PoisonError::into_inner) {
        // The thread ends with the process.
        drop(orders.send(Arc::clone(module)));
    }
}
