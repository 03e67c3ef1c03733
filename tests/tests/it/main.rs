//! Integration tests: the real `catena` binary, a real kernel, Debian's CNI plugins. Each module shows one part of
//! what catena promises.

mod bad_input;
mod chained;
mod delegate_errors;
mod empty;
mod grants;
mod harness;
mod hostile;
mod life;
mod modules;
mod old_results;
mod panics;
mod route_override;
mod tenant;
mod undo;
