//! The messages of a connection: those about routes, and the dump of links. The crate's type for all of rtnetlink's
//! messages would bring along the code for reading and writing every one of them, a tenth of the executable.

use rtnetlink::packet_core::{
    DecodeError, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkPayload, NetlinkSerializable,
    Parseable,
};
use rtnetlink::packet_route::route::RouteMessage;

use super::link::{self, Link, LinkName};

/// The types of rtnetlink(7).
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ROUTE: u16 = 24;
const DEL_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;

/// What is sent, and what is read of an answer.
#[derive(Clone, Debug)]
pub(super) enum Message {
    NewRoute(RouteMessage),
    DelRoute(RouteMessage),
    GetRoute(RouteMessage),
    /// Asks for all links.
    GetLinks,
    /// Asks for the link of a name.
    GetLink(LinkName),
    Link(Link),
    /// Something that nobody asked for.
    Other(u16),
}

impl Message {
    fn route(&self) -> Option<&RouteMessage> {
        match self {
            Message::NewRoute(route) | Message::DelRoute(route) | Message::GetRoute(route) => Some(route),
            Message::GetLinks | Message::GetLink(_) | Message::Link(_) | Message::Other(_) => None,
        }
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        match self {
            Message::NewRoute(_) => NEW_ROUTE,
            Message::DelRoute(_) => DEL_ROUTE,
            Message::GetRoute(_) => GET_ROUTE,
            Message::GetLinks | Message::GetLink(_) => GET_LINK,
            Message::Link(_) => NEW_LINK,
            Message::Other(kind) => *kind,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Message::GetLinks => link::REQUEST.len(),
            Message::GetLink(name) => link::REQUEST.len() + name.attribute().len(),
            other => other.route().map_or(0, Emitable::buffer_len),
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        match self {
            Message::GetLinks => buffer.copy_from_slice(&link::REQUEST),
            Message::GetLink(name) => {
                let (request, attribute) = buffer.split_at_mut(link::REQUEST.len());
                request.copy_from_slice(&link::REQUEST);
                attribute.copy_from_slice(name.attribute());
            }
            other => {
                if let Some(route) = other.route() {
                    route.emit(buffer);
                }
            }
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Message, DecodeError> {
        match header.message_type {
            NEW_LINK => link::read(payload)
                .map(Message::Link)
                .ok_or_else(|| DecodeError::from("a link's message is cut off".to_owned())),
            NEW_ROUTE => RouteMessage::parse(payload).map(Message::NewRoute),
            DEL_ROUTE => RouteMessage::parse(payload).map(Message::DelRoute),
            kind => Ok(Message::Other(kind)),
        }
    }
}

impl From<Message> for NetlinkPayload<Message> {
    fn from(message: Message) -> NetlinkPayload<Message> {
        NetlinkPayload::InnerMessage(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, kind in 16u16..27) {
            let mut header = NetlinkHeader::default();
            header.message_type = kind;
            // What cannot be read is an error.
            let _ = Message::deserialize(&header, &bytes);
        }
    }
}
