//! Integration tests: the real `catena` binary, a real kernel, Debian's CNI plugins. Each module shows one part of
//! what catena promises.

mod acceptance;
mod bad_input;
mod capabilities;
mod captures;
mod chained;
mod delegate_errors;
mod empty;
mod env_validation;
mod gc;
mod grants;
mod harness;
mod hostile;
mod large;
mod life;
mod look;
mod modules;
mod monitor;
mod old_results;
mod panics;
mod parallel;
mod plugin_results;
mod plugin_versions;
mod policy_team;
mod recording;
mod route_override;
mod schema;
mod stdio;
mod tenant;
mod told;
mod undo;
mod version_pairs;
