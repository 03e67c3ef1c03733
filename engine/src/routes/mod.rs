//! The routes capability on a real kernel: one namespace, one strict netlink connection, and on it the planner
//! of `catena-routes`.

mod attribute;
pub mod backend;
mod connection;
mod envelope;
pub mod error;
pub mod journal;
pub mod kernel;
pub mod link;
mod message;
pub mod netns;

#[cfg(test)]
mod tests;
