//! The capabilities of a module under test, on a simulated table.

use std::cell::RefCell;
use std::rc::Rc;

use catena_routes as model;
use catena_routes::{Table, Wire};

use super::Pod;
use crate::host::Level;
use crate::link::{Link, LinkError};
use crate::route::{
    Change, ErrorKind, Family, Hop, KernelRoutes, LinkReference, Report, Route, RouteError, RoutesError, Undo,
};

const NO_NAMESPACE: &str = "no namespace";
const GONE: &str = "this call has no network namespace";

#[derive(Debug)]
pub(crate) struct Calls {
    pod: Rc<RefCell<Pod>>,
    links: Vec<model::Link>,
}

impl Calls {
    pub(super) fn new(pod: Rc<RefCell<Pod>>, links: Vec<model::Link>) -> Calls {
        Calls { pod, links }
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        self.pod.borrow_mut().logs.push((level, message.to_owned()));
    }

    pub(crate) fn link(&self, name: &str) -> Result<Option<Link>, LinkError> {
        self.ask(|links| model::Link::named(links, name).first().copied().map(link))
    }

    pub(crate) fn links(&self) -> Result<Vec<Link>, LinkError> {
        self.ask(|links| links.iter().map(link).collect())
    }

    fn ask<T>(&self, look: impl FnOnce(&[model::Link]) -> T) -> Result<T, LinkError> {
        let pod = &mut *self.pod.borrow_mut();
        pod.calls += 1;
        if !pod.gone {
            return Ok(look(&self.links));
        }
        let error = LinkError {
            call: pod.calls,
            namespace: NO_NAMESPACE.to_owned(),
            errno: None,
            kernel_message: None,
            message: format!("links in {NO_NAMESPACE}: {GONE}"),
        };
        pod.failed.push((error.call, error.to_string()));
        Err(error)
    }

    pub(crate) fn routes(
        &self,
        family: Family,
        default_only: bool,
        table: u32,
    ) -> Result<Vec<Route>, RoutesError> {
        self.call("list", |pod| {
            let all = pod.table.routes(family, table).map_err(|e| failure(vec![e], None))?;
            let seen = all
                .iter()
                .filter(|route| pod.scope.touches(route) && route.can_be_named())
                .filter(|route| !default_only || route.dst.is_default());
            Ok(seen.map(|route| self.route(route)).collect())
        })
    }

    pub(crate) fn add(&self, route: &Route) -> Result<Report, RoutesError> {
        self.changes("add", &[Change::Add(route.clone())])
    }

    pub(crate) fn delete(&self, route: &Route) -> Result<Report, RoutesError> {
        self.changes("delete", &[Change::Delete(route.clone())])
    }

    pub(crate) fn apply(&self, changes: &[Change]) -> Result<Report, RoutesError> {
        self.changes("apply", changes)
    }

    fn changes(&self, operation: &str, changes: &[Change]) -> Result<Report, RoutesError> {
        self.change(operation, |pod| {
            let Pod { table, scope, journal, .. } = pod;
            let changes: Result<Vec<_>, _> =
                changes.iter().map(|change| self.change_of(scope, change)).collect();
            Ok(table.apply(scope, &changes?, journal))
        })
    }

    pub(crate) fn replace(
        &self,
        link: &str,
        family: Family,
        table: u32,
        wanted: &[Route],
        kernel: KernelRoutes,
    ) -> Result<Report, RoutesError> {
        self.change("replace", |pod| {
            let Pod { table: simulated, scope, journal, .. } = pod;
            let wanted: Result<Vec<_>, _> = wanted.iter().map(|route| self.spec(scope, route)).collect();
            let (link, keep) = (self.index(scope, link)?, kernel == KernelRoutes::Keep);
            Ok(simulated.replace(scope, link, family, table, &wanted?, keep, journal))
        })
    }

    fn change(
        &self,
        operation: &str,
        work: impl FnOnce(&mut Pod) -> Result<Result<model::Applied, model::ApplyFailure>, Refusal>,
    ) -> Result<Report, RoutesError> {
        self.call(operation, |pod| {
            if pod.read_only {
                let refusal = Refusal::new(ErrorKind::Denied, "only a stage's add may change routes");
                return Err(refusal.into_error(operation, pod.table.namespace()));
            }
            match work(pod).map_err(|refusal| refusal.into_error(operation, pod.table.namespace()))? {
                Ok(applied) => Ok(Report {
                    added: applied.added.iter().map(|route| self.route(route)).collect(),
                    deleted: applied.deleted.iter().map(|route| self.route(route)).collect(),
                    notes: applied.notes,
                }),
                Err(failed) => Err(failure(failed.errors, failed.changed.then_some(failed.undo))),
            }
        })
    }

    /// Numbers the call and remembers a failure.
    fn call<T>(
        &self,
        operation: &str,
        work: impl FnOnce(&mut Pod) -> Result<T, RoutesError>,
    ) -> Result<T, RoutesError> {
        let pod = &mut *self.pod.borrow_mut();
        pod.calls += 1;
        let done = match pod.gone {
            true => Err(Refusal::new(ErrorKind::Namespace, GONE).into_error(operation, NO_NAMESPACE)),
            false => work(pod),
        };
        let done = done.map_err(|error| RoutesError { call: pod.calls, ..error });
        if let Err(error) = &done {
            pod.failed.push((error.call, error.to_string()));
        }
        done
    }

    fn name(&self, index: u32) -> String {
        let link = self.links.iter().find(|link| link.index == index);
        link.map_or_else(|| format!("index {index}"), |link| link.name.clone())
    }

    /// Of several links with one address the only one in the scope, as in catena.
    fn index(&self, scope: &model::Scope, name: &str) -> Result<u32, Refusal> {
        let found = model::Link::named(&self.links, name);
        let mut covered = found.iter().filter(|link| scope.has_link(link.index));
        match (covered.next(), covered.next(), found.as_slice()) {
            (Some(link), None, _) | (None, None, [link]) => Ok(link.index),
            (_, _, []) => Err(Refusal::new(ErrorKind::NoDevice, &format!("there is no link {name:?}"))),
            (_, _, several) => {
                let names: Vec<&str> = several.iter().map(|link| link.name.as_str()).collect();
                let text = format!("several links have the address {name:?}: {}", names.join(", "));
                Err(Refusal::new(ErrorKind::Invalid, &text))
            }
        }
    }

    fn route(&self, route: &model::Route) -> Route {
        Route {
            destination: route.dst,
            source_prefix: route.from,
            kind: route.kind,
            hops: route
                .hops
                .iter()
                .map(|hop| Hop {
                    link: self.name(hop.link),
                    gateway: hop.gateway,
                    weight: u16::from(hop.weight) + 1,
                    onlink: hop.onlink,
                })
                .collect(),
            metric: Some(route.metric),
            table: route.table,
            tos: route.tos,
            protocol: Some(route.protocol),
            scope: Some(route.scope),
            source: route.source,
            mtu: route.mtu,
            advmss: route.advmss,
        }
    }

    fn spec(&self, scope: &model::Scope, route: &Route) -> Result<model::RouteSpec, Refusal> {
        let hop = |hop: &Hop| {
            let weight = hop.weight.checked_sub(1).and_then(|weight| u8::try_from(weight).ok());
            let weight = weight.ok_or_else(|| Refusal::new(ErrorKind::Invalid, "a weight is 1 to 256"));
            Ok(model::Hop {
                gateway: hop.gateway,
                link: self.index(scope, &hop.link).map_err(|refusal| refusal.about(route))?,
                weight: weight.map_err(|refusal| refusal.about(route))?,
                onlink: hop.onlink,
            })
        };
        Ok(model::RouteSpec {
            dst: route.destination,
            from: route.source_prefix,
            kind: route.kind,
            hops: route.hops.iter().map(hop).collect::<Result<_, _>>()?,
            metric: route.metric,
            table: route.table,
            tos: route.tos,
            protocol: route.protocol,
            scope: route.scope,
            source: route.source,
            mtu: route.mtu,
            advmss: route.advmss,
        })
    }

    fn change_of(&self, scope: &model::Scope, change: &Change) -> Result<model::Change, Refusal> {
        Ok(match change {
            Change::Add(route) => model::Change::Add(self.spec(scope, route)?),
            Change::Delete(route) => model::Change::Delete(self.spec(scope, route)?),
            Change::IgnoreRouterAdvertisements(link) => {
                model::Change::IgnoreRouterAdvertisements(self.index(scope, link)?)
            }
        })
    }
}

fn link(link: &model::Link) -> Link {
    Link {
        name: link.name.clone(),
        alternative_names: link.alt_names.clone(),
        mac: link.mac.clone(),
        mtu: link.mtu,
        up: link.up,
        carrier: link.carrier,
        kind: link.kind.clone(),
    }
}

/// What the host says before it asks the table.
struct Refusal {
    kind: ErrorKind,
    reason: String,
    route: Option<(Family, String)>,
}

impl Refusal {
    fn new(kind: ErrorKind, reason: &str) -> Refusal {
        Refusal { kind, reason: reason.to_owned(), route: None }
    }

    fn about(self, route: &Route) -> Refusal {
        Refusal { route: Some((route.family(), route.to_string())), ..self }
    }

    fn into_error(self, operation: &str, namespace: &str) -> RoutesError {
        let (family, route) = self.route.unzip();
        let about = route.as_ref().map(|route| format!(" route {route:?}")).unwrap_or_default();
        let error = RouteError {
            kind: self.kind,
            operation: operation.to_owned(),
            family,
            message: format!("{operation}{about} in {namespace}: {}", self.reason),
            route,
            links: Vec::new(),
            namespace: namespace.to_owned(),
            errno: None,
            kernel_message: None,
            offset: None,
            reason: Some(self.reason),
        };
        RoutesError { call: 0, errors: vec![error], undo: Undo::NotNeeded, leftover: Vec::new() }
    }
}

fn failure(errors: Vec<model::RouteError>, undo: Option<model::Undo>) -> RoutesError {
    let error = |e: model::RouteError| RouteError {
        kind: e.kind,
        operation: e.operation.to_owned(),
        family: e.family,
        route: e.route.clone(),
        links: e
            .links
            .iter()
            .map(|link| LinkReference { name: link.name.clone(), index: link.index })
            .collect(),
        namespace: e.netns.clone(),
        errno: e.errno.map(|errno| errno.to_string()),
        kernel_message: e.kernel_message.clone(),
        offset: e.offset,
        reason: e.reason.clone(),
        message: e.to_string(),
    };
    RoutesError {
        call: 0,
        errors: errors.into_iter().map(error).collect(),
        undo: match &undo {
            None => Undo::NotNeeded,
            Some(undo) if undo.exact => Undo::Exact,
            Some(_) => Undo::Incomplete,
        },
        leftover: undo.map(|undo| undo.leftover).unwrap_or_default(),
    }
}
