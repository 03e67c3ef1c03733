//! What the kernel sends, or something else in its place: no bytes make a reader panic or take more than linear time.

use catena_routes::{Family, Hop, Mode, Request, Route};
use rtnetlink::packet_core::{NetlinkDeserializable, NetlinkHeader, NetlinkSerializable};

use crate::fuzz_driver as driver;
use crate::routes::connection::Answer;
use crate::routes::envelope::Message;
use crate::routes::message;

/// The type of the message in two bytes (rtnetlink(7)), then its payload.
fn reply(bytes: &[u8]) {
    let Some((kind, payload)) = bytes.split_first_chunk::<2>() else { return };
    let mut header = NetlinkHeader::default();
    header.message_type = u16::from_le_bytes(*kind);
    let Ok(message) = Message::deserialize(&header, payload) else { return };
    for family in Family::ALL {
        if let Ok(routes) = message::routes(vec![message.clone()], family, 254) {
            assert!(routes.iter().all(|route| route.family == family && route.table == 254));
        }
    }
    let _: Result<_, _> = message::echoes(vec![message.clone()]);
    let _: usize = message::links(vec![message]).len();
}

fn corpus() -> Vec<Vec<u8>> {
    let via = |gateway: &str| Hop::via(gateway.parse().unwrap(), 3);
    let mut rich =
        Route::new("192.0.2.0/24".parse().unwrap(), vec![Hop { onlink: true, ..via("198.51.100.1") }]);
    (rich.mtu, rich.advmss, rich.table) = (Some(1400), Some(1360), 1000);
    rich.source = Some("198.51.100.2".parse().unwrap());
    let routes = [
        rich,
        Route::new("::/0".parse().unwrap(), vec![via("fe80::1"), Hop { weight: 7, ..via("fe80::2") }]),
        Route::new("192.0.2.0/24".parse().unwrap(), vec![via("fe80::1")]),
        Route::new("0.0.0.0/0".parse().unwrap(), vec![Hop::dev(2)]),
    ];
    let mut seeds: Vec<Vec<u8>> = routes
        .iter()
        .map(|route| {
            let (message, _) = message::request(&Request::add(route, Mode::Exclusive));
            let mut bytes = vec![0; message.buffer_len()];
            message.serialize(&mut bytes);
            [message.message_type().to_le_bytes().to_vec(), bytes].concat()
        })
        .collect();
    // struct ifinfomsg, and the attributes of a link.
    let attribute = |kind: u16, value: &[u8]| {
        let length = u16::try_from(value.len() + 4).unwrap().to_le_bytes();
        let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
        [&length[..], &kind.to_le_bytes(), value, &padding].concat()
    };
    let link = [
        vec![16, 0],
        vec![0, 0, 1, 0, 7, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0],
        attribute(3, b"eth0\0"),
        attribute(1, &[2, 0, 0, 0, 0, 1]),
        attribute(4, &1500_u32.to_le_bytes()),
        attribute(18, &attribute(1, b"veth\0")),
        attribute(52, &attribute(53, b"an-alternative-name\0")),
    ];
    seeds.push(link.concat());
    seeds
}

#[test]
fn no_reply_makes_a_reader_panic() {
    driver::drive("netlink-reply", reply, &corpus());
}

#[test]
fn replies_are_read_in_linear_time() {
    for seed in corpus() {
        let (header, attributes) = seed.split_at(seed.len().min(18));
        // The same attributes again and again, and the same bytes.
        driver::grows_linearly("netlink-reply", reply, &|size| {
            [header.to_vec(), attributes.repeat(size / attributes.len().max(1) + 1)].concat()
        });
    }
    for byte in [0, 4, 255] {
        driver::grows_linearly("netlink-reply", reply, &|size| [vec![16, 0], vec![byte; size]].concat());
        driver::grows_linearly("netlink-reply", reply, &|size| [vec![24, 0], vec![byte; size]].concat());
    }
}

/// A whole datagram, as it comes from the socket: any number of messages.
fn datagram(bytes: &[u8]) {
    let mut answer = Answer::default();
    let _: Result<bool, _> = answer.take_all(bytes, SEQUENCE);
    // Each has a header.
    assert!(answer.messages.len() * 16 <= bytes.len());
    let messages = answer.messages;
    for family in Family::ALL {
        let _: Result<_, _> = message::routes(messages.clone(), family, 254);
    }
    let _: Result<_, _> = message::echoes(messages.clone());
    let _: usize = message::links(messages).len();
}

/// The request that is answered.
const SEQUENCE: u32 = 7;

/// struct nlmsghdr before a payload.
fn framed(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + payload.len()).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(SEQUENCE.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Dumps, acknowledgements, and refusals with and without the kernel's words (netlink(7)).
fn datagrams() -> Vec<Vec<u8>> {
    const ERROR: u16 = 2;
    const DONE: u16 = 3;
    const MULTI: u16 = 2;
    const INTERRUPTED: u16 = 0x10;
    const CAPPED: u16 = 0x100;
    const TLVS: u16 = 0x200;
    let replies: Vec<Vec<u8>> = corpus()
        .iter()
        .map(|seed| framed(u16::from_le_bytes([seed[0], seed[1]]), MULTI, &seed[2..]))
        .collect();
    let done = framed(DONE, MULTI, &[0; 4]);
    let request = framed(24, 5, &replies[0][16..]);
    let refused = |errno: i32, rest: &[u8]| [&errno.to_ne_bytes(), rest].concat();
    let words = [&[12, 0, 1, 0][..], b"no hop\0\0", &[8, 0, 2, 0, 44, 0, 0, 0]].concat();
    vec![
        [replies.concat(), done.clone()].concat(),
        [framed(16, MULTI | INTERRUPTED, &replies[4][16..]), done].concat(),
        framed(DONE, MULTI | TLVS, &refused(-22, &words)),
        framed(ERROR, 0, &refused(0, &request[..16])),
        framed(ERROR, 0, &refused(-17, &request)),
        framed(ERROR, CAPPED | TLVS, &refused(-101, &[&request[..16], &words].concat())),
        framed(ERROR, TLVS, &refused(-101, &[request, words].concat())),
        // Nothing, and an overrun.
        [framed(1, 0, &[]), framed(4, 0, &[])].concat(),
    ]
}

#[test]
fn no_datagram_makes_a_reader_panic() {
    driver::drive("netlink-datagram", datagram, &datagrams());
}

#[test]
fn datagrams_are_read_in_linear_time() {
    for seed in datagrams() {
        driver::grows_linearly("netlink-datagram", datagram, &|size| seed.repeat(size / seed.len() + 1));
    }
    let reply = framed(24, 2, &corpus()[0][2..]);
    driver::grows_linearly("netlink-datagram", datagram, &|size| reply.repeat(size / reply.len() + 1));
    let other = framed(1, 0, &[]);
    driver::grows_linearly("netlink-datagram", datagram, &|size| other.repeat(size / other.len() + 1));
}
