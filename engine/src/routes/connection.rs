//! A strict netlink connection: success is what the kernel acknowledged, and nothing else.
//!
//! The helpers of the usual crates take the end of an answer for its success, so the kernel's refusal of a
//! dump, a lost connection and an answer that cannot be decoded all look like an empty, successful answer.
//! Here a request succeeds only after an explicit ACK, or a DONE whose code is not negative.

use std::io;
use std::time::Duration;

use catena_routes::{Errno, Failure};
use futures_util::StreamExt;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer,
    NetlinkDeserializable, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::proto::sys::protocols::NETLINK_ROUTE;
use rtnetlink::proto::sys::{AsyncSocket, SocketAddr, TokioSocket};
use rtnetlink::proto::{ConnectionHandle, NetlinkCodec, NetlinkMessageCodec, from_socket_with_codec};
use tokio::runtime::Runtime;

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

/// One namespace's connection with the runtime that drives it. One request is under way at a time.
#[derive(Debug)]
pub(super) struct Connection {
    runtime: Runtime,
    handle: ConnectionHandle<Message>,
    pub(super) deadline: Duration,
}

impl Connection {
    /// A socket belongs for ever to the namespace of the thread that made it, so a helper thread makes it and
    /// the caller's thread stays where it is.
    pub(super) fn open(netns: &Netns) -> Result<Connection, Failure> {
        let setup = |what: &str, error: io::Error| {
            Failure::Namespace(format!("a netlink connection to {}: {what}: {error}", netns.path().display()))
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| setup("runtime", error))?;
        let driver = runtime.handle().clone();
        let socket = netns
            .run(move || {
                let _entered = driver.enter();
                open_socket()
            })
            .map_err(|error| Failure::Namespace(error.to_string()))?
            .map_err(|error| setup("socket", error))?;
        let _entered = runtime.enter();
        let (mut connection, handle, _unsolicited) =
            from_socket_with_codec::<Message, TokioSocket, Strict>(socket);
        connection.set_forward_ack(true);
        connection.set_forward_done(true);
        runtime.spawn(connection);
        drop(_entered);
        Ok(Connection { runtime, handle, deadline: DEADLINE })
    }

    /// A dump, once more when changes interrupted it.
    pub(super) fn dump(&mut self, message: RouteNetlinkMessage) -> Result<Vec<Message>, Failure> {
        for _ in 0..DUMP_ATTEMPTS {
            match self.exchange(message.clone(), NLM_F_DUMP)? {
                Answer { interrupted: true, .. } => {}
                Answer { messages, .. } => return Ok(messages),
            }
        }
        Err(Failure::Interrupted(DUMP_ATTEMPTS))
    }

    /// An acknowledged request and what the kernel said before the acknowledgement.
    pub(super) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<Message>, Failure> {
        self.exchange(message, flags | NLM_F_ACK).map(|answer| answer.messages)
    }

    pub(super) fn exchange(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<Answer, Failure> {
        let mut request = NetlinkMessage::from(Message::Route(message));
        request.header.flags = NLM_F_REQUEST | flags;
        let sent = self
            .handle
            .request(request, SocketAddr::new(0, 0))
            .map_err(|error| Failure::Lost(format!("the connection has ended: {error}")));
        let mut replies = sent?;
        let answer = async {
            let mut answer = Answer::default();
            while let Some(reply) = replies.next().await {
                answer.interrupted |= reply.header.flags & NLM_F_DUMP_INTR != 0;
                match reply.payload {
                    NetlinkPayload::InnerMessage(message) => answer.messages.push(message),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answer),
                    NetlinkPayload::Error(error) => {
                        let said = said_in_error(reply.header.flags, &error.header);
                        return Err(said.failure(error.raw_code()));
                    }
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(said_in(&done.extended_ack).failure(done.code));
                    }
                    NetlinkPayload::Done(_) => return Ok(answer),
                    NetlinkPayload::Overrun(_) => {
                        return Err(Failure::Lost("the socket's buffer overflowed (ENOBUFS)".to_owned()));
                    }
                    _ => {}
                }
            }
            Err(Failure::Lost(
                "the connection ended before the acknowledgement, or an answer could not be decoded"
                    .to_owned(),
            ))
        };
        let deadline = self.deadline;
        self.runtime.block_on(async {
            match tokio::time::timeout(deadline, answer).await {
                Ok(answer) => answer,
                Err(_) => Err(Failure::Timeout(deadline)),
            }
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) messages: Vec<Message>,
    interrupted: bool,
}

fn open_socket() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    let plain = socket.socket_mut();
    plain.bind_auto()?;
    plain.connect(&SocketAddr::new(0, 0))?;
    for option in [plain.set_netlink_get_strict_chk(true), plain.set_ext_ack(true), plain.set_cap_ack(true)] {
        match option {
            Err(error) if error.raw_os_error() != Some(ENOPROTOOPT) => return Err(error),
            _ => {}
        }
    }
    Ok(socket)
}

/// Decodes messages; what cannot be decoded ends the connection, so that a dump is never silently short.
struct Strict;

impl NetlinkMessageCodec for Strict {
    fn decode<T>(source: &mut bytes::BytesMut) -> io::Result<Option<NetlinkMessage<T>>>
    where
        T: NetlinkDeserializable + std::fmt::Debug,
    {
        if source.is_empty() {
            return Ok(None);
        }
        let undecodable = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        let length = NetlinkBuffer::new_checked(source.as_ref())
            .map_err(|error| undecodable(error.to_string()))?
            .length() as usize;
        // Messages are padded to four bytes; the last one's padding may be missing.
        let message = source.split_to(length.next_multiple_of(4).min(source.len()));
        let message = message.get(..length).ok_or_else(|| undecodable("a message is cut off".to_owned()))?;
        NetlinkMessage::<T>::deserialize(message).map(Some).map_err(|error| undecodable(error.to_string()))
    }

    fn encode<T>(message: NetlinkMessage<T>, buffer: &mut bytes::BytesMut) -> io::Result<()>
    where
        T: NetlinkSerializable + std::fmt::Debug,
    {
        NetlinkCodec::encode(message, buffer)
    }
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
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(4 + value.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
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
