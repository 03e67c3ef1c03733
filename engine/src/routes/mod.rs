//! The routes capability on a real kernel: one namespace, one strict netlink connection, and on it the planner
//! of `catena-routes`.

pub mod error;
pub mod journal;
pub mod kernel;
pub mod link;
pub mod netns;
