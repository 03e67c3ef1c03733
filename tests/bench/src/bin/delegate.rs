//! A delegate that costs next to nothing, so that what a meta-plugin adds is seen. It prints a canned result: the file
//! `result-CNI_IFNAME` beside the program. Under the name `linked` it also makes what the result says: a link
//! with an address and a default route in each family.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};

const VERSIONS: &str = r#"{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}"#;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!(r#"{{"cniVersion":"1.1.0","code":999,"msg":"bench delegate: {error}"}}"#);
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let command = variable("CNI_COMMAND");
    if command.as_bytes() == b"VERSION" {
        println!("{VERSIONS}");
        return Ok(());
    }
    io::stdin().read_to_end(&mut Vec::new())?;
    let program = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let linked = program.file_name().is_some_and(|name| name == "linked");
    let ifname = variable("CNI_IFNAME");
    match command.as_bytes() {
        b"ADD" => {
            if linked {
                make(&ifname.to_string_lossy())?;
            }
            let mut name = OsString::from("result-");
            name.push(&ifname);
            let result = fs::read(program.parent().unwrap_or(Path::new("/")).join(name))?;
            io::stdout().write_all(&result)
        }
        b"DEL" if linked => remove(&ifname.to_string_lossy()),
        _ => Ok(()),
    }
}

fn variable(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_default()
}

/// The network of an interface: 0 for `eth0`, N for `netN`.
fn number(ifname: &str) -> u8 {
    ifname.strip_prefix("net").and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn enter() -> io::Result<()> {
    let namespace = File::open(variable("CNI_NETNS"))?;
    Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
}

fn make(ifname: &str) -> io::Result<()> {
    enter()?;
    let mut socket = connect()?;
    let named = |name: &str| {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.to_owned()));
        link
    };
    let peer = format!("p-{ifname}");
    let mut pair = named(ifname);
    let other = InfoData::Veth(InfoVeth::Peer(named(&peer)));
    pair.attributes
        .push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(other)]));
    ask(&mut socket, RouteNetlinkMessage::NewLink(pair), NLM_F_CREATE | NLM_F_EXCL)?;
    for name in [ifname, &peer] {
        let mut up = named(name);
        up.header.flags = LinkFlags::Up;
        up.header.change_mask = LinkFlags::Up;
        ask(&mut socket, RouteNetlinkMessage::SetLink(up), 0)?;
    }
    let index = if_nametoindex(ifname)?;
    let n = number(ifname);
    let addresses: [(IpAddr, IpAddr); 2] = [
        (Ipv4Addr::new(10, 80, n, 2).into(), Ipv4Addr::new(10, 80, n, 1).into()),
        (
            Ipv6Addr::new(0xfd00, 80, n.into(), 0, 0, 0, 0, 2).into(),
            Ipv6Addr::new(0xfd00, 80, n.into(), 0, 0, 0, 0, 1).into(),
        ),
    ];
    for (address, gateway) in addresses {
        let (family, length) = match address {
            IpAddr::V4(_) => (AddressFamily::Inet, 24),
            IpAddr::V6(_) => (AddressFamily::Inet6, 64),
        };
        let mut message = AddressMessage::default();
        message.header.family = family;
        message.header.prefix_len = length;
        message.header.index = index;
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes.push(AddressAttribute::Local(address));
        message.attributes.push(AddressAttribute::Address(address));
        ask(&mut socket, RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)?;

        let mut route = RouteMessage::default();
        route.header.address_family = family;
        route.header.table = 254;
        route.header.protocol = RouteProtocol::Static;
        route.header.scope = RouteScope::Universe;
        route.header.kind = RouteType::Unicast;
        let gateway: RouteAddress = gateway.into();
        route.attributes.push(RouteAttribute::Gateway(gateway));
        route.attributes.push(RouteAttribute::Oif(index));
        // With several networks each has a default route of its own, as with several real delegates.
        route.attributes.push(RouteAttribute::Priority(u32::from(n) * 10 + 10));
        ask(&mut socket, RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_EXCL)?;
    }
    Ok(())
}

fn remove(ifname: &str) -> io::Result<()> {
    if variable("CNI_NETNS").is_empty() {
        return Ok(());
    }
    enter()?;
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(ifname.to_owned()));
    ask(&mut connect()?, RouteNetlinkMessage::DelLink(link), 0)
}

fn connect() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

fn ask(socket: &mut Socket, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|error| io::Error::other(error.to_string()))?;
    match answer.payload {
        NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        other => Err(io::Error::other(format!("an answer that is no acknowledgement: {other:?}"))),
    }
}
