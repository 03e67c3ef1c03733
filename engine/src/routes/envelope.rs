//! The messages of a connection.

use rtnetlink::packet_core::{
    DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkPayload, NetlinkSerializable,
};
use rtnetlink::packet_route::RouteNetlinkMessage;

use super::link::{Link, read};

/// RTM_NEWLINK, and RTM_NEWROUTE and RTM_DELROUTE, of rtnetlink(7).
const NEW_LINK: u16 = 16;
const ROUTES: [u16; 2] = [24, 25];

/// What is sent, and what is read of an answer.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A request, or a route.
    Route(RouteNetlinkMessage),
    Link(Link),
    /// Something that nobody asked for.
    Other(u16),
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        match self {
            Message::Route(message) => message.message_type(),
            Message::Link(_) => NEW_LINK,
            Message::Other(kind) => *kind,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Message::Route(message) => NetlinkSerializable::buffer_len(message),
            Message::Link(_) | Message::Other(_) => 0,
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        if let Message::Route(message) = self {
            message.serialize(buffer);
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Message, DecodeError> {
        match header.message_type {
            NEW_LINK => read(payload)
                .map(Message::Link)
                .ok_or_else(|| DecodeError::from("a link's message is cut off".to_owned())),
            kind if ROUTES.contains(&kind) => {
                RouteNetlinkMessage::deserialize(header, payload).map(Message::Route)
            }
            kind => Ok(Message::Other(kind)),
        }
    }
}

impl From<Message> for NetlinkPayload<Message> {
    fn from(message: Message) -> NetlinkPayload<Message> {
        NetlinkPayload::InnerMessage(message)
    }
}
