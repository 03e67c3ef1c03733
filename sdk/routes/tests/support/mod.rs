//! What the tests on the simulated table and those on the kernel share: random routes and changes, faults, and
//! what an operation promises.

mod faulty;
mod legs;
mod pod;
mod random;
mod rounds;

#[allow(unused_imports, reason = "each of the two test crates needs only some")]
pub(crate) use faulty::{Fault, Faulty, IN_REQUESTS};
pub(crate) use pod::{PodNet, ip, net, show, tables};
pub(crate) use random::{Random, rounds, seed};
pub(crate) use rounds::Rounds;
