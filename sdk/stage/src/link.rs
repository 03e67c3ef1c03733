use thiserror::Error;

/// A network link of the attachment's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The kernel's name.
    pub name: String,
    /// Alternative names (`ip link property`).
    pub alternative_names: Vec<String>,
    /// Hardware address in lower-case hexadecimal with colons.
    pub mac: Option<String>,
    /// Bytes.
    pub mtu: u32,
    /// The administrative state (IFF_UP).
    pub up: bool,
    /// The carrier (IFF_LOWER_UP).
    pub carrier: bool,
    /// The kernel's kind, such as `veth` or `macvlan`.
    pub kind: Option<String>,
}

/// Why the host could not answer a question about links. That there is no such link is not an error.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct LinkError {
    /// The number of the call, for [`Outcome::tolerate`](crate::Outcome::tolerate).
    pub call: u32,
    /// The network namespace's path, as the runtime gave it.
    pub namespace: String,
    /// The kernel's error by name, such as `EPERM`.
    pub errno: Option<String>,
    /// The kernel's own words (NLMSGERR_ATTR_MSG).
    pub kernel_message: Option<String>,
    /// The whole error as a person reads it.
    pub message: String,
}
