//! Network links.

pub use catena_routes::Link;
