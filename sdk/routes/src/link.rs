use std::fmt;

/// A network link of the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number in the namespace (IFLA ifi_index, from 1).
    pub index: u32,
    /// Its name (IFLA_IFNAME).
    pub name: String,
    /// Its alternative names (IFLA_ALT_IFNAME).
    pub alt_names: Vec<String>,
    /// Hardware address as lower-case hexadecimal with colons.
    pub mac: Option<String>,
    /// Bytes (IFLA_MTU).
    pub mtu: u32,
    /// The administrative state (IFF_UP).
    pub up: bool,
    /// The carrier (IFF_LOWER_UP).
    pub carrier: bool,
    /// The kernel's kind (IFLA_INFO_KIND), such as `veth`.
    pub kind: Option<String>,
}

impl Link {
    /// A link for a simulated table: up, 1500 bytes, a veth, with the hardware address 02:00:00:00:00:NN of its
    /// index.
    pub fn simulated(index: u32, name: &str) -> Link {
        Link {
            index,
            name: name.to_owned(),
            alt_names: Vec::new(),
            mac: Some(format!("02:00:00:00:00:{index:02x}")),
            mtu: 1500,
            up: true,
            carrier: true,
            kind: Some("veth".to_owned()),
        }
    }

    /// The links that a text names, in their order: the one of that name or alternative name, else all of that
    /// hardware address.
    pub fn named<'a>(links: &'a [Link], text: &str) -> Vec<&'a Link> {
        let by_name = |link: &&Link| link.name == text || link.alt_names.iter().any(|name| name == text);
        match links.iter().find(by_name) {
            Some(link) => vec![link],
            None => links.iter().filter(|link| link.answers_to(text)).collect(),
        }
    }

    /// Whether the text is this link's name, alternative name or hardware address.
    pub fn answers_to(&self, text: &str) -> bool {
        self.name == text
            || self.alt_names.iter().any(|name| name == text)
            || self.mac.as_deref().is_some_and(|mac| mac.eq_ignore_ascii_case(text))
    }
}

/// A link as a journal remembers it and an error names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkRef {
    /// Its number in the namespace (IFLA ifi_index, from 1).
    pub index: u32,
    /// Its name (IFLA_IFNAME).
    pub name: String,
}

impl fmt::Display for LinkRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (index {})", self.name, self.index)
    }
}
