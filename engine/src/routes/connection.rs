//! A strict netlink connection: success is what the kernel acknowledged, and nothing else.
//!
//! The helpers of the usual crates take the end of an answer for its success, so the kernel's refusal of a
//! dump, a lost connection and an answer that cannot be decoded all look like an empty, successful answer.
//! Here a request succeeds only after an explicit ACK, or a DONE whose code is not negative.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use catena_routes::{Errno, Failure};
use nix::errno::Errno as Code;
use nix::libc::{self, MSG_DONTWAIT, MSG_TRUNC};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::getsockopt;
use nix::{getsockopt_impl, sockopt_impl};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer,
    NetlinkMessage, NetlinkPayload,
};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};

use super::attribute::{attributes, number, text};
use super::envelope::Message;
use super::netns::Netns;

/// How long the kernel may take for one request. A dump of 100,000 routes took 0.2 s when measured, but on a busy
/// node others hold the lock of all network configuration (RTNL) for seconds.
const DEADLINE: Duration = Duration::from_secs(30);

/// How often a dump that changes interrupted is started again.
const DUMP_ATTEMPTS: u32 = 5;

/// ENOPROTOOPT: an older kernel lacks an option, and the checks in user space stand alone.
const ENOPROTOOPT: i32 = 92;

/// Bytes of the receive buffer: the kernel fills at most 32 KiB of a dump at a time.
const BUFFER: usize = 64 << 10;

/// One namespace's connection. One request is under way at a time, and the kernel answers while it is being sent, so
/// nothing is gained by a runtime that could do something else meanwhile.
#[derive(Debug)]
pub(super) struct Connection {
    /// None once something was lost: what comes later could be taken for the answer to something else.
    socket: Option<Socket>,
    sequence: u32,
    buffer: Vec<u8>,
    pub(super) deadline: Duration,
    /// When the whole call has to be over; no answer is waited for longer.
    pub(super) until: Option<Instant>,
}

impl Connection {
    /// A socket belongs for ever to the namespace in which it was made, wherever it is used.
    pub(super) fn open(netns: &Netns) -> Result<Connection, Failure> {
        let setup = |what: &str, error: io::Error| {
            Failure::Namespace(format!("a netlink connection to {}: {what}: {error}", netns.path().display()))
        };
        let socket = match netns.take_socket() {
            Some(socket) => socket,
            None => netns
                .run(new_socket)
                .map_err(|error| Failure::Namespace(error.to_string()))?
                .map_err(|error| setup("socket", error))?,
        };
        let socket = prepared(socket).map_err(|error| setup("socket", error))?;
        Ok(Connection {
            socket: Some(socket),
            sequence: 0,
            buffer: Vec::with_capacity(BUFFER),
            deadline: DEADLINE,
            until: None,
        })
    }

    /// A dump, once more when changes interrupted it.
    pub(super) fn dump(&mut self, message: Message) -> Result<Vec<Message>, Failure> {
        for _ in 0..DUMP_ATTEMPTS {
            match self.exchange(message.clone(), NLM_F_DUMP)? {
                Answer { interrupted: true, .. } => {}
                Answer { messages, .. } => return Ok(messages),
            }
        }
        Err(Failure::Interrupted(DUMP_ATTEMPTS))
    }

    /// An acknowledged request and what the kernel said before the acknowledgement.
    pub(super) fn request(&mut self, message: Message, flags: u16) -> Result<Vec<Message>, Failure> {
        self.exchange(message, flags | NLM_F_ACK).map(|answer| answer.messages)
    }

    pub(super) fn exchange(&mut self, message: Message, flags: u16) -> Result<Answer, Failure> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let patience = match left {
            Some(Duration::ZERO) => return Err(Failure::Late),
            Some(left) => left.min(self.deadline),
            None => self.deadline,
        };
        let socket =
            self.socket.take().ok_or_else(|| Failure::Lost("the connection has ended".to_owned()))?;
        self.sequence = self.sequence.wrapping_add(1);
        let answer = ask(&socket, &mut self.buffer, self.sequence, message, flags, patience);
        if !matches!(answer, Err(Failure::Lost(_) | Failure::Timeout(_))) {
            self.socket = Some(socket);
        }
        answer
    }
}

/// Sends one request and reads until it is acknowledged, done or refused.
fn ask(
    socket: &Socket,
    buffer: &mut Vec<u8>,
    sequence: u32,
    message: Message,
    flags: u16,
    deadline: Duration,
) -> Result<Answer, Failure> {
    let until = Instant::now() + deadline;
    let mut request = NetlinkMessage::from(message);
    request.header.flags = NLM_F_REQUEST | flags;
    request.header.sequence_number = sequence;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0).map_err(|error| Failure::Lost(format!("the request was not sent: {error}")))?;
    let mut answer = Answer::default();
    loop {
        receive(socket, buffer, until, deadline)?;
        if answer.take_all(buffer, sequence)? {
            return Ok(answer);
        }
    }
}

/// One datagram, which may hold several messages.
fn receive(socket: &Socket, buffer: &mut Vec<u8>, until: Instant, deadline: Duration) -> Result<(), Failure> {
    loop {
        buffer.clear();
        match socket.recv(buffer, MSG_DONTWAIT | MSG_TRUNC) {
            Ok(length) if length > buffer.len() => {
                return Err(Failure::Lost(format!("an answer of {length} bytes was cut off")));
            }
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(Failure::Timeout(deadline));
                }
                // Rounded up, so that the loop does not spin through the last millisecond.
                let millis = u16::try_from(left.as_millis()).unwrap_or(u16::MAX).saturating_add(1);
                let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                match poll(&mut fds, PollTimeout::from(millis)) {
                    Ok(_) | Err(Code::EINTR) => {}
                    Err(errno) => return Err(Failure::Lost(format!("waiting for an answer: {errno}"))),
                }
            }
            Err(error) => {
                let what = match error.raw_os_error().map(Code::from_raw) {
                    Some(Code::ENOBUFS) => "the socket's buffer overflowed (ENOBUFS)".to_owned(),
                    _ => format!("the answer could not be read: {error}"),
                };
                return Err(Failure::Lost(what));
            }
        }
    }
}

/// The next message; one that cannot be decoded ends the connection, so that a dump is never silently short.
fn decode(rest: &mut &[u8]) -> Result<NetlinkMessage<Message>, Failure> {
    let undecodable = |cause: String| Failure::Lost(format!("an answer could not be decoded: {cause}"));
    let length = NetlinkBuffer::new_checked(*rest).map_err(|error| undecodable(error.to_string()))?.length();
    let length = length as usize;
    let message = rest.get(..length).ok_or_else(|| undecodable("a message is cut off".to_owned()))?;
    // Messages are padded to four bytes; the last one's padding may be missing.
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    NetlinkMessage::deserialize(message).map_err(|error| undecodable(error.to_string()))
}

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) messages: Vec<Message>,
    interrupted: bool,
}

impl Answer {
    /// Takes the messages of a datagram that answer this request; true if the last was among them.
    pub(super) fn take_all(&mut self, datagram: &[u8], sequence: u32) -> Result<bool, Failure> {
        let mut rest = datagram;
        while !rest.is_empty() {
            let reply = decode(&mut rest)?;
            if reply.header.sequence_number == sequence && self.take(reply)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the next message of an answer; true if it was the last.
    fn take(&mut self, reply: NetlinkMessage<Message>) -> Result<bool, Failure> {
        self.interrupted |= reply.header.flags & NLM_F_DUMP_INTR != 0;
        match reply.payload {
            NetlinkPayload::InnerMessage(message) => self.messages.push(message),
            NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
            NetlinkPayload::Error(error) => {
                let said = said_in_error(reply.header.flags, &error.header);
                return Err(said.failure(error.raw_code()));
            }
            NetlinkPayload::Done(done) if done.code < 0 => {
                return Err(said_in(&done.extended_ack).failure(done.code));
            }
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Overrun(_) => {
                return Err(Failure::Lost("the socket's buffer overflowed".to_owned()));
            }
            _ => {}
        }
        Ok(false)
    }
}

/// A socket in the namespace of the calling thread.
pub(super) fn new_socket() -> io::Result<Socket> {
    Socket::new(NETLINK_ROUTE)
}

/// The cookie of a socket's namespace.
pub(super) fn cookie(socket: &Socket) -> Option<u64> {
    getsockopt(socket, NetnsCookie).ok()
}

/// Of asm-generic/socket.h.
const SO_NETNS_COOKIE: i32 = 71;
sockopt_impl!(NetnsCookie, GetOnly, libc::SOL_SOCKET, SO_NETNS_COOKIE, u64);

fn prepared(mut socket: Socket) -> io::Result<Socket> {
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    for option in
        [socket.set_netlink_get_strict_chk(true), socket.set_ext_ack(true), socket.set_cap_ack(true)]
    {
        match option {
            Err(error) if error.raw_os_error() != Some(ENOPROTOOPT) => return Err(error),
            _ => {}
        }
    }
    Ok(socket)
}

/// What the kernel says beside the number (extended acknowledgement, netlink(7)).
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    message: Option<String>,
    offset: Option<u32>,
}

impl Said {
    /// `code` is negative.
    fn failure(self, code: i32) -> Failure {
        Failure::Kernel { errno: Errno(code.saturating_neg()), message: self.message, offset: self.offset }
    }
}

/// NLMSG_ERROR carries the request's header, whole or capped, and then the attributes.
fn said_in_error(flags: u16, rest: &[u8]) -> Said {
    /// struct nlmsghdr.
    const HEADER: usize = 16;
    if flags & NLM_F_ACK_TLVS == 0 {
        return Said::default();
    }
    let request = match (flags & NLM_F_CAPPED != 0, rest.first_chunk::<4>()) {
        (true, _) => HEADER,
        (false, Some(length)) => (u32::from_ne_bytes(*length) as usize).next_multiple_of(4),
        (false, None) => return Said::default(),
    };
    rest.get(request..).map(said_in).unwrap_or_default()
}

/// Reads NLMSGERR_ATTR_MSG (1) and NLMSGERR_ATTR_OFFS (2).
fn said_in(rest: &[u8]) -> Said {
    let mut said = Said::default();
    for (kind, value) in attributes(rest) {
        match kind {
            1 => said.message = Some(text(value)),
            2 => said.offset = number(value),
            _ => {}
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_core::{DoneMessage, NetlinkHeader};
    use rtnetlink::sys::protocols::NETLINK_USERSOCK;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(4 + value.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A connection to somebody else than the kernel, who answers each request with these datagrams (made from the
    /// request's number) and hangs up after the last.
    fn to_somebody(
        answers: Vec<Box<dyn Fn(u32) -> Vec<u8> + Send>>,
    ) -> (Connection, std::thread::JoinHandle<()>) {
        let [mut ours, mut theirs] = [(); 2].map(|()| Socket::new(NETLINK_USERSOCK).unwrap());
        let [our_address, their_address] = [&mut ours, &mut theirs].map(|socket| socket.bind_auto().unwrap());
        ours.connect(&their_address).unwrap();
        theirs.connect(&our_address).unwrap();
        let somebody = std::thread::spawn(move || {
            for answer in answers {
                let request = theirs.recv_from_full().unwrap().0;
                let sequence = NetlinkBuffer::new(&request[..]).sequence_number();
                theirs.send(&answer(sequence), 0).unwrap();
            }
        });
        let deadline = Duration::from_millis(300);
        (
            Connection {
                socket: Some(ours),
                sequence: 6,
                buffer: Vec::with_capacity(BUFFER),
                deadline,
                until: None,
            },
            somebody,
        )
    }

    fn done(sequence: u32, flags: u16) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        (header.sequence_number, header.flags) = (sequence, flags);
        let payload = NetlinkPayload::<Message>::Done(DoneMessage::default());
        let mut message = NetlinkMessage::new(header, payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    /// A header of this type (netlink(7)) before some bytes.
    fn message_of(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = done(sequence, 0);
        bytes.truncate(16);
        bytes.extend(payload);
        let length = u32::try_from(bytes.len()).unwrap();
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_dump_that_was_interrupted_is_done_again_and_not_for_ever() {
        for (times, wanted) in [(4, Ok(0)), (5, Err(Failure::Interrupted(5)))] {
            let mut answers: Vec<Box<dyn Fn(u32) -> Vec<u8> + Send>> = Vec::new();
            for n in 0..5 {
                let flags = if n < times { NLM_F_DUMP_INTR } else { 0 };
                answers.push(Box::new(move |sequence| done(sequence, flags)));
            }
            let (mut connection, somebody) = to_somebody(answers);
            assert_eq!(connection.dump(Message::GetLinks).map(|found| found.len()), wanted);
            somebody.join().unwrap();
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_lost_and_the_connection_with_it() {
        const OVERRUN: u16 = 4;
        const NEW_ROUTE: u16 = 24;
        for (what, answer) in [
            ("decoded", message_of(NEW_ROUTE, 7, &[2, 0, 0])),
            ("decoded", message_of(NEW_ROUTE, 7, &[2; 40])),
            ("decoded", vec![1; 15]),
            ("overflowed", message_of(OVERRUN, 7, &[])),
            ("cut off", message_of(NEW_ROUTE, 7, &[0; BUFFER])),
        ] {
            let (mut connection, somebody) = to_somebody(vec![Box::new(move |_| answer.clone())]);
            let lost = connection.dump(Message::GetLinks).unwrap_err();
            assert!(matches!(&lost, Failure::Lost(text) if text.contains(what)), "{what}: {lost}");
            somebody.join().unwrap();
            let ended = connection.dump(Message::GetLinks).unwrap_err();
            assert!(ended.to_string().contains("has ended"), "{ended}");
        }
    }

    #[test]
    fn the_answer_to_another_request_is_none() {
        let (mut connection, somebody) = to_somebody(vec![Box::new(|sequence| done(sequence - 1, 0))]);
        let late = connection.dump(Message::GetLinks).unwrap_err();
        assert!(matches!(late, Failure::Timeout(_)), "{late}");
        somebody.join().unwrap();
    }

    #[test]
    fn the_kernels_words_are_read() {
        let mut bytes = attribute(1, b"Nexthop has invalid gateway\0");
        bytes.extend(attribute(2, &44u32.to_ne_bytes()));
        let said = Said { message: Some("Nexthop has invalid gateway".to_owned()), offset: Some(44) };
        assert_eq!(said_in(&bytes), said);
        let mut error = vec![0; 16];
        error.extend(&bytes);
        assert_eq!(said_in_error(NLM_F_ACK_TLVS | NLM_F_CAPPED, &error), said);
        assert_eq!(said_in_error(0, &error), Said::default());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, flags: u16) {
            said_in(&bytes);
            said_in_error(flags, &bytes);
        }
    }
}
