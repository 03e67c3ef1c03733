use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::Family;

/// A destination: an address and the number of its leading bits that count. The host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

/// What is wrong with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// More bits than an address has.
    #[error("prefix length {len} of {addr} is more than {most}")]
    Length {
        /// The address.
        addr: IpAddr,
        /// The bits that were asked for.
        len: u8,
        /// The bits that there are.
        most: u8,
    },
    /// It names a host, not a network.
    #[error("{addr}/{len} has bits set behind its prefix length; the network is {network}/{len}")]
    HostBits {
        /// The address.
        addr: IpAddr,
        /// The prefix length.
        len: u8,
        /// The address without its host bits.
        network: IpAddr,
    },
    /// Its text is not ADDRESS/LENGTH.
    #[error("this is no prefix such as 10.0.0.0/8 or fd00::/64")]
    Syntax,
}

impl Prefix {
    /// The kernel refuses IPv4 host bits and silently drops IPv6 ones; both are errors here.
    pub fn new(addr: IpAddr, len: u8) -> Result<Prefix, PrefixError> {
        let masked = Prefix::masked(addr, len)?;
        if masked.addr == addr {
            Ok(masked)
        } else {
            Err(PrefixError::HostBits { addr, len, network: masked.addr })
        }
    }

    /// As [`Prefix::new`], with the host bits cleared.
    pub fn masked(addr: IpAddr, len: u8) -> Result<Prefix, PrefixError> {
        let most = Family::of(addr).bits();
        if len > most {
            return Err(PrefixError::Length { addr, len, most });
        }
        let addr = match addr {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask))
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & mask))
            }
        };
        Ok(Prefix { addr, len })
    }

    /// 0.0.0.0/0 or ::/0.
    pub fn default_route(family: Family) -> Prefix {
        let addr = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Prefix { addr, len: 0 }
    }

    /// The prefix that holds exactly this address.
    pub fn host(addr: IpAddr) -> Prefix {
        Prefix { addr, len: Family::of(addr).bits() }
    }

    /// The address, host bits zero.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    // A prefix of length 0 is the default route, not an empty one.
    /// The number of bits, 0 to 32 or 128.
    #[allow(clippy::len_without_is_empty, reason = "a length in bits, not a number of items")]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// The address's family.
    pub fn family(&self) -> Family {
        Family::of(self.addr)
    }

    /// Whether it has no bits, and so is every address.
    pub fn is_default(&self) -> bool {
        self.len == 0
    }

    /// Whether the address begins with its bits.
    pub fn contains(&self, addr: IpAddr) -> bool {
        Prefix::masked(addr, self.len).is_ok_and(|p| p == *self)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (addr, len) = text.split_once('/').ok_or(PrefixError::Syntax)?;
        let addr = addr.parse().map_err(|_| PrefixError::Syntax)?;
        let len = len.parse().map_err(|_| PrefixError::Syntax)?;
        Prefix::new(addr, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_bits_and_lengths_are_judged() {
        assert_eq!("10.1.0.0/16".parse::<Prefix>().unwrap().to_string(), "10.1.0.0/16");
        assert!(matches!("10.1.0.1/16".parse::<Prefix>(), Err(PrefixError::HostBits { .. })));
        assert!(matches!("fd00::1/64".parse::<Prefix>(), Err(PrefixError::HostBits { .. })));
        assert!(matches!("10.1.0.0/33".parse::<Prefix>(), Err(PrefixError::Length { .. })));
        assert!(matches!("10.1.0.0".parse::<Prefix>(), Err(PrefixError::Syntax)));
        assert!("0.0.0.0/0".parse::<Prefix>().unwrap().is_default());
        assert!("::/0".parse::<Prefix>().unwrap().contains("fd00::1".parse().unwrap()));
        assert!(!"0.0.0.0/0".parse::<Prefix>().unwrap().contains("fd00::1".parse().unwrap()));
        assert!("fd00::/64".parse::<Prefix>().unwrap().contains("fd00::1".parse().unwrap()));
    }
}
