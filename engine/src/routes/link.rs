//! Network links.
//!
//! Of a link's message only what is needed is read: a full decoder fails on what newer kernels add, and a link that
//! cannot be decoded would be a lost answer.

pub use catena_routes::Link;

use super::attribute::{attributes, number, text};

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
            52 => link.alt_names.extend(attributes(value).filter(|(k, _)| *k == 53).map(|(_, v)| text(v))),
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

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            read(&bytes);
        }
    }
}
