//! Addresses as Go's `net` package reads and writes them.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::text::quoted;

/// An address with a prefix length, as `192.0.2.5/24`: an interface address (host bits kept) or a route destination.
/// The length fits the family, and an IPv4-mapped IPv6 address is an IPv4 one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpNet {
    addr: IpAddr,
    len: u8,
}

/// A text that is no address with a prefix length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an address with a prefix length, such as 192.0.2.5/24 or 2001:db8::5/64")]
pub struct NetError(String);

impl IpNet {
    /// `None` if `len` does not fit the family. A mapped address with a length below 96 becomes an IPv4 one with
    /// length 0, as for Go.
    pub fn new(addr: IpAddr, len: u8) -> Option<Self> {
        let fits = len <= if addr.is_ipv4() { 32 } else { 128 };
        let canonical = addr.to_canonical();
        let len = if canonical.is_ipv4() && addr.is_ipv6() { len.saturating_sub(96) } else { len };
        fits.then_some(Self { addr: canonical, len })
    }

    /// Reads as Go's `net.ParseCIDR`, host bits kept: no leading zeros in an octet, no zone, no space; leading zeros
    /// in the prefix length pass.
    pub fn parse(text: &str) -> Result<Self, NetError> {
        let read = || {
            let (addr, len) = text.split_once('/')?;
            let digits = !len.is_empty() && len.bytes().all(|b| b.is_ascii_digit());
            Self::new(
                addr.parse().ok()?,
                if digits {
                    len.parse().ok()?
                } else {
                    return None;
                },
            )
        };
        read().ok_or_else(|| NetError(quoted(text)))
    }

    /// Appends what `to_string` says.
    pub(crate) fn push_to(&self, out: &mut String) {
        push_ip(out, self.addr);
        out.push('/');
        push_decimal(out, self.len);
    }

    /// The address, host bits included.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The prefix length in bits, 0 to 32 or 128.
    pub fn prefix_len(&self) -> u8 {
        self.len
    }

    pub fn is_ipv4(&self) -> bool {
        self.addr.is_ipv4()
    }

    pub fn is_ipv6(&self) -> bool {
        self.addr.is_ipv6()
    }

    /// The network: host bits cleared.
    pub fn masked(&self) -> Self {
        let addr = match self.addr {
            IpAddr::V4(addr) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(addr.to_bits() & mask))
            }
            IpAddr::V6(addr) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.len)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(addr.to_bits() & mask))
            }
        };
        Self { addr, len: self.len }
    }

    /// Whether `addr` lies in the network; never for the other family.
    pub fn contains(&self, addr: IpAddr) -> bool {
        let addr = addr.to_canonical();
        addr.is_ipv4() == self.is_ipv4() && Self { addr, len: self.len }.masked() == self.masked()
    }

    /// As a route's destination it takes everything of its family.
    pub fn is_default(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Display for IpNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for IpNet {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, NetError> {
        Self::parse(text)
    }
}

/// Appends what `to_string` says. A document has thousands of addresses, most of them IPv4.
pub(crate) fn push_ip(out: &mut String, addr: IpAddr) {
    match addr {
        IpAddr::V4(addr) => {
            for (i, octet) in addr.octets().into_iter().enumerate() {
                if i > 0 {
                    out.push('.');
                }
                push_decimal(out, octet);
            }
        }
        // Writing to a String does not fail.
        IpAddr::V6(addr) => drop(write!(out, "{addr}")),
    }
}

fn push_decimal(out: &mut String, number: u8) {
    let digit = |value: u8| char::from(b'0' + value);
    if number >= 100 {
        out.push(digit(number / 100));
    }
    if number >= 10 {
        out.push(digit(number / 10 % 10));
    }
    out.push(digit(number % 10));
}

/// Reads as Go's `net.ParseIP`; an IPv4-mapped address is an IPv4 one.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|addr| addr.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().expect(text)
    }

    #[test]
    fn addresses_are_read_and_written_as_go_does() {
        for (text, canonical) in [
            ("192.0.2.5/024", "192.0.2.5/24"),
            ("2001:DB8:0:0::5/64", "2001:db8::5/64"),
            ("::192.0.2.1/128", "::c000:201/128"),
            ("::ffff:192.0.2.5/120", "192.0.2.5/24"),
            ("::ffff:192.0.2.5/64", "192.0.2.5/0"),
        ] {
            assert_eq!(net(text).to_string(), canonical);
        }
        for text in [
            "192.0.2.5",
            "192.0.2.5/",
            "192.0.2.5/33",
            "192.0.2.5/+8",
            "192.0.2.05/24",
            "::1/129",
            "fe80::1%a/64",
        ] {
            IpNet::parse(text).expect_err(text);
        }
        assert_eq!(parse_ip("::ffff:c000:205"), parse_ip("192.0.2.5"));
        assert_eq!(parse_ip("192.0.2.5/24"), None);
        assert_eq!(IpNet::new(Ipv4Addr::LOCALHOST.into(), 33), None);
    }

    #[test]
    fn networks_hold_their_addresses() {
        assert_eq!(net("192.0.2.77/26").masked(), net("192.0.2.64/26"));
        assert_eq!(net("192.0.2.77/0").masked(), net("0.0.0.0/0"));
        assert_eq!(net("2001:db8::ff/120").masked(), net("2001:db8::/120"));
        assert_eq!(net("2001:db8::ff/128").masked(), net("2001:db8::ff/128"));
        let holds = |net_text: &str, ip: &str| net(net_text).contains(parse_ip(ip).expect(ip));
        assert!(holds("192.0.2.5/24", "192.0.2.200") && holds("192.0.2.5/24", "::ffff:192.0.2.1"));
        assert!(
            !holds("192.0.2.5/24", "192.0.3.1") && !holds("0.0.0.0/0", "::1") && holds("::/0", "2001:db8::1")
        );
        assert!(net("10.0.0.0/0").is_default() && !net("0.0.0.0/1").is_default());
    }
}
