use std::fmt;

/// What becomes of a packet that a route matches (RTN_* in rtnetlink(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    Unicast = 1,
    Local = 2,
    Broadcast = 3,
    Anycast = 4,
    Multicast = 5,
    Blackhole = 6,
    Unreachable = 7,
    Prohibit = 8,
    Throw = 9,
}

impl Kind {
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

    pub fn from_raw(raw: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.raw() == raw)
    }

    pub fn raw(self) -> u8 {
        self as u8
    }

    /// A route of this kind leads nowhere, so it has no next hop.
    pub fn rejects(self) -> bool {
        matches!(self, Kind::Blackhole | Kind::Unreachable | Kind::Prohibit | Kind::Throw)
    }

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

    pub fn from_text(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
