//! Netlink attributes in raw bytes (netlink(7), "Netlink attributes").

/// Type, without its flags, and value of each attribute, up to the first that is cut off.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let ([l0, l1, k0, k1], _) = bytes.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([*l0, *l1]));
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        // NLA_F_NESTED and NLA_F_NET_BYTEORDER are no part of the type.
        Some((u16::from_ne_bytes([*k0, *k1]) & 0x3fff, value))
    })
}

/// A text that ends in a zero byte.
pub(super) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
}

pub(super) fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_the_last_may_be_cut_off() {
        let mut bytes = vec![6, 0, 3, 0x80, b'l', b'o', 0, 0, 8, 0, 4, 0];
        bytes.extend(1500u32.to_ne_bytes());
        assert_eq!(attributes(&bytes).collect::<Vec<_>>(), [(3, &b"lo"[..]), (4, &1500u32.to_ne_bytes())]);
        assert_eq!(attributes(&bytes[..11]).count(), 1);
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(text(b"eth0\0"), "eth0");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_run_on(bytes: Vec<u8>) {
            proptest::prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
        }
    }
}
