//! Where route calls go: to the namespace's kernel, to a recorded table, or to a copy of either.

use std::time::Instant;

use catena_routes::{SimulatedTable, Snapshot, Table};

use super::error::{ErrorKind, RouteError};
use super::kernel::Kernel;
#[cfg(test)]
use super::netns::Netns;

/// What the calls of the capabilities `routes` and `links` act on. All of them have the same operations, errors
/// and journal (see [`Table`]), so a stage cannot tell them apart.
#[derive(Debug, Default)]
pub enum Backend {
    /// Nothing: the sandbox has no namespace, and every call fails.
    #[default]
    Nowhere,
    /// The namespace's kernel.
    Kernel(Box<Kernel>),
    /// A table that was recorded or made up. Nothing outside of it is read or changed.
    Recorded(Box<SimulatedTable>),
    /// A dry run: a copy of another backend, taken at the first call. The other one is only read.
    Copy {
        /// What it is a copy of.
        of: Box<Backend>,
        /// The copy, once there is one.
        table: Option<Box<SimulatedTable>>,
    },
}

impl Backend {
    /// The kernel of a namespace; nothing is sent before the first call.
    #[cfg(test)]
    pub fn kernel(netns: &Netns) -> Backend {
        Backend::Kernel(Box::new(Kernel::of(netns)))
    }

    /// A namespace as it was recorded.
    pub fn recorded(snapshot: Snapshot) -> Backend {
        Backend::Recorded(Box::new(snapshot.into()))
    }

    /// A dry run on a copy of this. [`Backend::original`] gives it back.
    pub fn dry_run(self) -> Backend {
        Backend::Copy { of: Box::new(self), table: None }
    }

    /// What a dry run was a copy of; anything else is itself.
    pub fn original(self) -> Backend {
        match self {
            Backend::Copy { of, .. } => *of,
            other => other,
        }
    }

    /// When what is waited for has to be there; a kernel may still take longer to undo.
    pub fn set_until(&mut self, until: Option<Instant>) {
        match self {
            Backend::Nowhere | Backend::Recorded(_) => {}
            Backend::Kernel(kernel) => kernel.set_until(until),
            Backend::Copy { of, .. } => of.set_until(until),
        }
    }

    /// Whether it stands for the pod itself, not for a copy or a recording of it.
    pub fn is_real(&self) -> bool {
        matches!(self, Backend::Nowhere | Backend::Kernel(_))
    }

    /// Whether changes stay in a copy.
    pub fn is_dry_run(&self) -> bool {
        matches!(self, Backend::Copy { .. })
    }

    /// The operations. Without a namespace, or if a copy cannot be made, the error is that of `operation`.
    pub fn table(&mut self, operation: &'static str) -> Result<&mut dyn Table, RouteError> {
        match self {
            Backend::Nowhere => Err(nowhere(operation)),
            Backend::Kernel(kernel) => Ok(&mut **kernel),
            Backend::Recorded(table) => Ok(&mut **table),
            Backend::Copy { table: Some(table), .. } => Ok(&mut **table),
            Backend::Copy { of, table } => {
                let copy = match &mut **of {
                    Backend::Recorded(table) => table.clone(),
                    other => Box::new(other.snapshot(operation)?.into()),
                };
                Ok(&mut **table.insert(copy))
            }
        }
    }

    /// All links, routes and settings as they are now, to be recorded. A dry run's are those of its copy.
    pub fn snapshot(&mut self, operation: &'static str) -> Result<Snapshot, RouteError> {
        match self {
            Backend::Nowhere => Err(nowhere(operation)),
            Backend::Kernel(kernel) => Snapshot::take(&mut **kernel),
            Backend::Recorded(table) => Snapshot::take(&mut **table),
            Backend::Copy { table: Some(table), .. } => Snapshot::take(&mut **table),
            Backend::Copy { of, table: None } => of.snapshot(operation),
        }
    }

    /// The namespace's path, for messages.
    pub fn namespace(&self) -> &str {
        match self {
            Backend::Nowhere => NO_NAMESPACE,
            Backend::Kernel(kernel) => catena_routes::Wire::namespace(&**kernel),
            Backend::Recorded(table) => catena_routes::Wire::namespace(&**table),
            Backend::Copy { of, .. } => of.namespace(),
        }
    }
}

const NO_NAMESPACE: &str = "no namespace";

fn nowhere(operation: &'static str) -> RouteError {
    RouteError::new(ErrorKind::Namespace, operation, NO_NAMESPACE)
        .reason("this call has no network namespace")
}
