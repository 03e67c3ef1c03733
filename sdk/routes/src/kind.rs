use std::fmt;

/// What becomes of a packet that a route matches (RTN_* in rtnetlink(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// To its next hops (RTN_UNICAST).
    Unicast = 1,
    /// To the host itself (RTN_LOCAL).
    Local = 2,
    /// As a link-layer broadcast (RTN_BROADCAST).
    Broadcast = 3,
    /// As a broadcast on output, as unicast on input (RTN_ANYCAST).
    Anycast = 4,
    /// To a multicast group (RTN_MULTICAST).
    Multicast = 5,
    /// Dropped (RTN_BLACKHOLE).
    Blackhole = 6,
    /// Dropped with EHOSTUNREACH (RTN_UNREACHABLE).
    Unreachable = 7,
    /// Dropped with EACCES (RTN_PROHIBIT).
    Prohibit = 8,
    /// Looked up in the next table (RTN_THROW).
    Throw = 9,
}

impl Kind {
    /// All that there are.
    pub const ALL: [Kind; 9] = [
        Kind::Unicast,
        Kind::Local,
        Kind::Broadcast,
        Kind::Anycast,
        Kind::Multicast,
        Kind::Blackhole,
        Kind::Unreachable,
        Kind::Prohibit,
        Kind::Throw,
    ];

    /// The kind of an rtm_type.
    pub fn from_raw(raw: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.raw() == raw)
    }

    /// Its rtm_type.
    pub fn raw(self) -> u8 {
        self as u8
    }

    /// A route of this kind leads nowhere, so it has no next hop.
    pub fn rejects(self) -> bool {
        matches!(self, Kind::Blackhole | Kind::Unreachable | Kind::Prohibit | Kind::Throw)
    }

    /// The name that ip-route(8) has for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Unicast => "unicast",
            Kind::Local => "local",
            Kind::Broadcast => "broadcast",
            Kind::Anycast => "anycast",
            Kind::Multicast => "multicast",
            Kind::Blackhole => "blackhole",
            Kind::Unreachable => "unreachable",
            Kind::Prohibit => "prohibit",
            Kind::Throw => "throw",
        }
    }

    /// The kind of that name.
    pub fn from_text(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
