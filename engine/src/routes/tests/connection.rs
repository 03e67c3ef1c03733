//! The ways in which an error of the kernel becomes a success, closed one by one.

use std::time::{Duration, Instant};

use catena_routes::{Errno, Failure, Family, Hop, Mode, Request, Route, Wire};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_core::{
    NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::route::RouteAttribute;
use rtnetlink::sys::SocketAddr;

use super::pod::*;
use crate::routes::connection::{Connection, new_socket};
use crate::routes::envelope::Message;
use crate::routes::message;

fn dump_with(attribute: RouteAttribute) -> Message {
    let Message::GetRoute(mut dump) = message::dump(Family::V4, 0) else { panic!("not a dump") };
    dump.attributes.push(attribute);
    Message::GetRoute(dump)
}

fn connection() -> (Pod, Connection) {
    let pod = Pod::new();
    let connection = Connection::open(&pod.netns).unwrap();
    (pod, connection)
}

#[test]
fn a_refused_dump_is_no_empty_table() {
    let (_pod, mut connection) = connection();
    let vanished = connection.dump(dump_with(RouteAttribute::Oif(9999))).unwrap_err();
    assert_eq!(vanished.errno(), Some(Errno::ENODEV), "{vanished}");
    let odd = connection.dump(dump_with(RouteAttribute::Priority(4))).unwrap_err();
    assert_eq!(odd.errno(), Some(Errno::EINVAL), "{odd}");
    assert!(odd.to_string().contains("Unsupported attribute in dump request"), "{odd}");
}

#[test]
fn a_missing_table_is_a_fact_for_the_caller_and_an_error_on_the_wire() {
    let mut pod = Pod::new();
    let missing = pod.wire().dump(Family::V4, 9999).unwrap_err();
    assert_eq!(missing.errno(), Some(Errno::ENOENT), "{missing}");
    assert!(missing.to_string().contains("FIB table does not exist"), "{missing}");
    assert_eq!(pod.kernel.routes(Family::V4, 9999).unwrap(), []);
}

#[test]
fn a_dump_has_no_hidden_filter() {
    let (mut pod, mut connection) = connection();
    // The builder's defaults are static and universe: as filters they hide the kernel's own routes.
    let built = RouteMessageBuilder::<std::net::Ipv4Addr>::new().build();
    assert_eq!(connection.dump(Message::GetRoute(built)).unwrap().len(), 0);
    assert_eq!(pod.kernel.routes(Family::V4, 254).unwrap().len(), 2);
}

#[test]
fn a_request_that_was_not_sent_is_lost_and_the_next_one_goes_over_a_new_connection() {
    let (mut pod, mut connection) = connection();
    let route = Route::new(net("192.0.2.0/24"), vec![Hop::via(ip("10.0.0.1"), pod.eth0)]);
    let (small, flags) = message::request(&Request::add(&route, Mode::Exclusive));
    let Message::NewRoute(mut big) = small.clone() else { panic!("not a route") };
    // More than a socket's send buffer takes: EMSGSIZE.
    big.attributes.extend((0..60_000).map(|_| RouteAttribute::Priority(1)));
    let lost = connection.request(Message::NewRoute(big), flags).unwrap_err();
    assert!(matches!(lost, Failure::Lost(_)), "{lost}");
    // Nothing reads any more: not a success either.
    let dead = connection.request(small.clone(), flags).unwrap_err();
    assert!(matches!(dead, Failure::Lost(_)), "{dead}");
    assert_eq!(pod.kernel.routes(Family::V4, 254).unwrap().len(), 2);
    pod.wire().send(&Request::add(&route, Mode::Exclusive)).unwrap();
    assert_eq!(pod.kernel.routes(Family::V4, 254).unwrap().len(), 3);
}

#[test]
fn an_answer_that_does_not_come_ends_at_the_deadline() {
    let (pod, mut connection) = connection();
    connection.deadline = Duration::from_millis(50);
    let route = Route::new(net("192.0.2.0/24"), vec![Hop::via(ip("10.0.0.1"), pod.eth0)]);
    let (message, _) = message::request(&Request::add(&route, Mode::Exclusive));
    // Without NLM_F_ACK the kernel says nothing.
    let silent = connection.exchange(message, NLM_F_CREATE | NLM_F_EXCL).unwrap_err();
    assert_eq!(silent, Failure::Timeout(Duration::from_millis(50)));
}

#[test]
fn no_answer_is_waited_for_longer_than_the_call_may_take() {
    let (pod, mut connection) = connection();
    connection.until = Some(Instant::now() + Duration::from_millis(50));
    let route = Route::new(net("192.0.2.0/24"), vec![Hop::via(ip("10.0.0.1"), pod.eth0)]);
    let (message, _) = message::request(&Request::add(&route, Mode::Exclusive));
    let silent = connection.exchange(message, NLM_F_CREATE | NLM_F_EXCL).unwrap_err();
    let Failure::Timeout(waited) = silent else { panic!("{silent}") };
    assert!(waited <= Duration::from_millis(50), "{waited:?}");

    let mut connection = Connection::open(&pod.netns).unwrap();
    connection.until = Some(Instant::now());
    assert_eq!(connection.exchange(message::dump(Family::V4, 254), NLM_F_DUMP).unwrap_err(), Failure::Late);
    // Nothing was sent, so nothing was lost.
    connection.until = None;
    assert!(connection.exchange(message::dump(Family::V4, 254), NLM_F_DUMP).is_ok());
}

#[test]
fn the_kernels_own_words_come_through() {
    let mut pod = Pod::new();
    let route = Route::new(net("192.0.2.0/24"), vec![Hop::via(ip("10.77.0.1"), pod.eth0)]);
    let refused = pod.wire().send(&Request::add(&route, Mode::Exclusive)).unwrap_err();
    let Failure::Kernel { errno, message, .. } = refused else { panic!("{refused}") };
    assert_eq!((errno, message.as_deref()), (Errno::ENETUNREACH, Some("Nexthop has invalid gateway")));
}

/// The trap: a second dump before the first has been read is refused, and only an error message of its own says so.
#[test]
fn a_second_dump_meanwhile_is_refused_by_the_kernel_and_never_asked_for_by_us() {
    let (mut pod, mut connection) = connection();
    let many: String =
        (0..2000).map(|i| format!("route add 192.168.{}.{}/32 via 10.0.0.1\n", i / 256, i % 256)).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), many).unwrap();
    pod.sh(&format!("ip -batch {}", file.path().display()));
    let mut socket = pod.netns.run(new_socket).unwrap().unwrap();
    socket.bind_auto().unwrap();
    for sequence in [1, 2] {
        let mut request = NetlinkMessage::from(message::dump(Family::V4, 254));
        request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        request.header.sequence_number = sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).unwrap();
    }
    let refused = (0..1000).find_map(|_| {
        let (datagram, _) = socket.recv_from_full().unwrap();
        let message = NetlinkMessage::<Message>::deserialize(&datagram).unwrap();
        match message.payload {
            NetlinkPayload::Error(error) => Some((message.header.sequence_number, error.raw_code())),
            _ => None,
        }
    });
    const EBUSY: i32 = 16;
    assert_eq!(refused, Some((2, -EBUSY)));
    // One request is under way at a time, so both families come whole, one after the other.
    for family in [Family::V4, Family::V6, Family::V4] {
        let answer = connection.exchange(message::dump(family, 254), NLM_F_DUMP).unwrap();
        assert!(answer.messages.len() >= if family == Family::V4 { 2002 } else { 2 });
    }
    assert_eq!(pod.kernel.routes(Family::V4, 254).unwrap().len(), 2002);
}

#[test]
fn two_dumps_one_after_the_other() {
    let (_pod, mut connection) = connection();
    for family in [Family::V4, Family::V6, Family::V4] {
        assert!(connection.exchange(message::dump(family, 254), NLM_F_DUMP).is_ok());
    }
}
