use std::sync::Once;

use crate::Module;
use crate::bindings::log;

static HOOK: Once = Once::new();

/// A panic ends a module as a trap, which has no text. So file, line and message are logged before; the host
/// adds the last error line of a run to its report of a trap.
pub(crate) fn install<M: Module>() {
    if !M::LOG_PANICS {
        return;
    }
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let message = panic.payload_as_str().unwrap_or("no message");
            let text = match panic.location() {
                Some(at) => format!("panicked at {at}: {message}"),
                None => format!("panicked: {message}"),
            };
            log::write(log::Level::Error, &text);
        }));
    });
}
