//! What can go wrong with routes.

pub use catena_routes::{Errno, ErrorKind, RouteError};
