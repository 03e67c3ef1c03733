//! The capability `links`: reading only.

use super::bindings::catena::stage::links as wit;
use super::host::State;
use super::routes::unchanged;
use crate::routes::error::RouteError;
use crate::routes::link::Link;

impl From<Link> for wit::Link {
    fn from(link: Link) -> Self {
        Self {
            name: link.name,
            alternative_names: link.alt_names,
            mac: link.mac,
            mtu: link.mtu,
            up: link.up,
            carrier: link.carrier,
            kind: link.kind,
        }
    }
}

impl State {
    fn find_link(&mut self, text: &str) -> Result<Option<Link>, RouteError> {
        let table = self.host.backend.table("links")?;
        let found = match table.link(text)? {
            // Perhaps it is a hardware address.
            None if text.contains(':') => table.find_link(text)?,
            found => found,
        };
        if let Some(link) = &found {
            self.host.links.retain(|other| other.index != link.index);
            self.host.links.push(link.clone());
        }
        Ok(found)
    }

    fn all_links(&mut self) -> Result<Vec<Link>, RouteError> {
        self.host.links = self.host.backend.table("links")?.links()?;
        Ok(self.host.links.clone())
    }

    /// Not knowing is never the same as knowing that there is none, so this fails a stage that does not tolerate it.
    fn link_failed<T>(&mut self, call: u32, error: RouteError) -> wasmtime::Result<Result<T, wit::Failure>> {
        let failure = wit::Failure {
            call,
            namespace: error.netns.clone(),
            errno: error.errno.map(|errno| errno.to_string()),
            kernel_message: error.kernel_message.clone(),
            message: error.to_string(),
        };
        self.failed(call, unchanged(error))?;
        Ok(Err(failure))
    }
}

impl wit::Host for State {
    fn find(&mut self, name: String) -> wasmtime::Result<Result<Option<wit::Link>, wit::Failure>> {
        let call = self.begin()?;
        match self.find_link(&name) {
            Ok(link) => Ok(Ok(link.map(Into::into))),
            Err(error) => self.link_failed(call, error),
        }
    }

    fn all(&mut self) -> wasmtime::Result<Result<Vec<wit::Link>, wit::Failure>> {
        let call = self.begin()?;
        match self.all_links() {
            Ok(links) => Ok(Ok(links.into_iter().map(Into::into).collect())),
            Err(error) => self.link_failed(call, error),
        }
    }
}
