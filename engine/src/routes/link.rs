//! Network links.
//!
//! Of a link's message only what is needed is read: a full decoder fails on what newer kernels add, and a link that
//! cannot be decoded would be a lost answer.

pub use catena_routes::Link;

use super::attribute::{attributes, number, text};

/// IFLA_ALT_IFNAME of linux/if_link.h.
const ALT_IFNAME: u16 = 53;

/// IFF_UP and IFF_LOWER_UP of netdevice(7).
const UP: u32 = 1;
const LOWER_UP: u32 = 1 << 16;

/// Asks for all links without their counters: struct ifinfomsg without any choice, and IFLA_EXT_MASK with
/// RTEXT_FILTER_SKIP_STATS.
pub(super) const REQUEST: [u8; 24] = {
    let mut request = [0; 24];
    let attribute: [[u8; 2]; 2] = [8u16.to_ne_bytes(), 29u16.to_ne_bytes()];
    let mask = 8u32.to_ne_bytes();
    (request[16], request[17]) = (attribute[0][0], attribute[0][1]);
    (request[18], request[19]) = (attribute[1][0], attribute[1][1]);
    (request[20], request[21], request[22], request[23]) = (mask[0], mask[1], mask[2], mask[3]);
    request
};

/// A name that a link can have, as an attribute with its padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkName(Vec<u8>);

impl LinkName {
    /// None for what no link is called: IFLA_IFNAME has less than IFNAMSIZ bytes (netdevice(7)), IFLA_ALT_IFNAME less
    /// than ALTIFNAMSIZ.
    pub(super) fn new(name: &str) -> Option<Self> {
        let kind: u16 = match name.len() {
            1..16 => 3,
            16..128 => ALT_IFNAME,
            _ => return None,
        };
        if name.contains('\0') {
            return None;
        }
        let length = u16::try_from(4 + name.len() + 1).ok()?;
        let mut attribute = length.to_ne_bytes().to_vec();
        attribute.extend(kind.to_ne_bytes());
        attribute.extend(name.as_bytes());
        attribute.resize(usize::from(length).next_multiple_of(4), 0);
        Some(Self(attribute))
    }

    pub(super) fn attribute(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is too long for anything else.
    pub(super) fn is_alternative(&self) -> bool {
        attributes(&self.0).any(|(kind, _)| kind == ALT_IFNAME)
    }
}

/// Reads an RTM_NEWLINK (rtnetlink(7)): struct ifinfomsg and its attributes.
pub(super) fn read(payload: &[u8]) -> Option<Link> {
    let (header, rest) = payload.split_first_chunk::<16>()?;
    let flags = number(header.get(8..)?)?;
    let mut link = Link {
        index: number(header.get(4..)?)?,
        name: String::new(),
        alt_names: Vec::new(),
        mac: None,
        mtu: 0,
        up: flags & UP != 0,
        carrier: flags & LOWER_UP != 0,
        kind: None,
    };
    for (kind, value) in attributes(rest) {
        match kind {
            // IFLA_ADDRESS
            1 if !value.is_empty() => {
                let bytes: Vec<String> = value.iter().map(|byte| format!("{byte:02x}")).collect();
                link.mac = Some(bytes.join(":"));
            }
            // IFLA_IFNAME
            3 => link.name = text(value),
            // IFLA_MTU
            4 => link.mtu = number(value)?,
            // IFLA_LINKINFO, and in it IFLA_INFO_KIND
            18 => link.kind = attributes(value).find(|(kind, _)| *kind == 1).map(|(_, value)| text(value)),
            // IFLA_PROP_LIST, and in it IFLA_ALT_IFNAME
            52 => link.alt_names.extend(
                attributes(value).filter(|(kind, _)| *kind == ALT_IFNAME).map(|(_, value)| text(value)),
            ),
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_one_attribute() {
        let attributes: Vec<_> = attributes(&REQUEST[16..]).collect();
        assert_eq!(attributes, [(29, &8u32.to_ne_bytes()[..])]);
    }

    #[test]
    fn a_name_is_an_attribute_if_a_link_can_have_it() {
        let long = "n".repeat(127);
        for (name, kind) in
            [("e", 3), ("eth0", 3), ("fifteen-bytes-x", 3), ("sixteen-bytes-xx", 53), (&long, 53)]
        {
            let attribute = LinkName::new(name).unwrap();
            assert_eq!(attribute.attribute().len() % 4, 0);
            let read: Vec<_> = attributes(attribute.attribute()).collect();
            assert_eq!(read, [(kind, format!("{name}\0").as_bytes())]);
        }
        for none in ["", "a\0b", &"n".repeat(128)] {
            assert_eq!(LinkName::new(none), None, "{none}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, name: String) {
            read(&bytes);
            LinkName::new(&name);
        }
    }
}
