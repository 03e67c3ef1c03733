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
    fn look_at_links(&mut self) -> Result<(), RouteError> {
        self.links = self.host.backend.table("links")?.links()?;
        Ok(())
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
        match self.look_at_links() {
            Ok(()) => Ok(Ok(Link::named(&self.links, &name).first().map(|link| (*link).clone().into()))),
            Err(error) => self.link_failed(call, error),
        }
    }

    fn all(&mut self) -> wasmtime::Result<Result<Vec<wit::Link>, wit::Failure>> {
        let call = self.begin()?;
        match self.look_at_links() {
            Ok(()) => Ok(Ok(self.links.iter().cloned().map(Into::into).collect())),
            Err(error) => self.link_failed(call, error),
        }
    }
}
