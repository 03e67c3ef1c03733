//! What identifies an entry of the ledger.

use std::fmt;

use catena_cni::identifier::{ContainerId, IfName, NetworkName};
use sha2::{Digest, Sha256};

use crate::wasm::Mode;

/// The identity of one call of catena for one sandbox. Nested calls differ in at least one member, so
/// nothing ever waits for itself, and podman's two calls for one container do not meet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The network name of catena's own config.
    pub network: NetworkName,
    /// CNI_CONTAINERID.
    pub container_id: ContainerId,
    /// CNI_IFNAME.
    pub ifname: IfName,
    /// Meta-plugin or chained plugin.
    pub mode: Mode,
}

/// The longest file name that Linux file systems take, less the longest suffix that a file of ours has.
const LONGEST_STEM: usize = 255 - ".children".len();

impl Key {
    /// The stem of the entry's file names. The first three fields cannot hold an `@` (CNI specification,
    /// section 2), so different keys have different stems; a stem that would be too long is a digest.
    pub fn stem(&self) -> String {
        let stem = format!(
            "{}@{}@{}@{}",
            self.container_id.as_str(),
            self.network.as_str(),
            self.mode_word(),
            self.ifname.as_str()
        );
        if stem.len() <= LONGEST_STEM {
            return stem;
        }
        let digest = Sha256::digest(stem.as_bytes());
        let mut short = String::from("@");
        for byte in digest.iter() {
            short.push_str(&format!("{byte:02x}"));
        }
        short
    }

    /// The key whose stem this is; a digest does not tell.
    pub fn of_stem(stem: &str) -> Option<Key> {
        // An interface's name may hold an `@`.
        let parts: Vec<&str> = stem.splitn(4, '@').collect();
        let [container_id, network, mode, ifname] = parts.as_slice() else { return None };
        Some(Key {
            network: NetworkName::parse(network).ok()?,
            container_id: ContainerId::parse(container_id).ok()?,
            ifname: IfName::parse(ifname).ok()?,
            mode: match *mode {
                "meta" => Mode::Meta,
                "chained" => Mode::Chained,
                _ => return None,
            },
        })
    }

    /// `meta` or `chained`, as it stands in files.
    pub fn mode_word(&self) -> &'static str {
        match self.mode {
            Mode::Meta => "meta",
            Mode::Chained => "chained",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "container {} interface {} of network {} ({})",
            self.container_id.as_str(),
            self.ifname.as_str(),
            self.network.as_str(),
            self.mode_word()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(container: &str, ifname: &str, network: &str, mode: Mode) -> Key {
        Key {
            network: NetworkName::parse(network).unwrap(),
            container_id: ContainerId::parse(container).unwrap(),
            ifname: IfName::parse(ifname).unwrap(),
            mode,
        }
    }

    #[test]
    fn a_stem_tells_its_key() {
        for key in [key("a_b", "b@c", "n.b", Mode::Chained), key("a", "c", "n", Mode::Meta)] {
            assert_eq!(Key::of_stem(&key.stem()), Some(key));
        }
        let long = key(&"a".repeat(200), "eth0", &"n".repeat(100), Mode::Meta).stem();
        for stem in [long.as_str(), "", "a@b", "a@n@other@eth0", "a/b@n@meta@eth0", "a@n@meta@"] {
            assert_eq!(Key::of_stem(stem), None, "{stem}");
        }
    }

    #[test]
    fn different_keys_have_different_stems() {
        let stems = [
            key("a_b", "c", "n", Mode::Meta),
            key("a", "b_c", "n", Mode::Meta),
            key("a", "b@c", "n", Mode::Meta),
            key("a", "b@c", "n", Mode::Chained),
            key("a", "c", "n.b", Mode::Meta),
        ]
        .map(|key| key.stem());
        for (index, stem) in stems.iter().enumerate() {
            assert!(!stems[index + 1..].contains(stem), "{stem}");
        }
    }

    #[test]
    fn a_long_id_becomes_a_digest_that_fits() {
        let long = "x".repeat(300);
        let stem = key(&long, "eth0", "n", Mode::Meta).stem();
        assert_eq!(stem.len(), 65);
        assert_ne!(stem, key(&long, "eth1", "n", Mode::Meta).stem());
    }
}
