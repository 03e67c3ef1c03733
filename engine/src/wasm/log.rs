//! The capability `log`.

use super::bindings::catena::stage::log as wit;
use super::host::{Level, State};

impl wit::Host for State {
    fn write(&mut self, level: wit::Level, message: String) -> wasmtime::Result<()> {
        self.begin_log()?;
        let level = match level {
            wit::Level::Debug => Level::Debug,
            wit::Level::Info => Level::Info,
            wit::Level::Warn => Level::Warn,
            wit::Level::Error => Level::Error,
        };
        self.log(level, &message);
        Ok(())
    }
}
