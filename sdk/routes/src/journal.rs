use crate::{Family, LinkRef, Route};

/// What was really done to a namespace, in order, so that it can be undone: by the same process, or by a later
/// one from the JSON that the ledger keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    entries: Vec<Entry>,
}

/// A place in a journal: what came before it stays when something is undone to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Routes were changed.
    Route(RouteChange),
    /// A setting was changed.
    Sysctl(Sysctl),
}

/// One request's effect: routes that are gone (IPv6: legs) and routes that have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChange {
    /// The family of all its routes.
    pub family: Family,
    /// The table of all its routes.
    pub table: u32,
    /// As they were before.
    pub removed: Vec<Route>,
    /// As they are since.
    pub added: Vec<Route>,
    /// Where in its slot the first removed IPv4 route stood.
    pub position: usize,
    /// The links of these routes and of the scope, with the names that they had.
    pub links: Vec<LinkRef>,
}

/// A changed setting of `net.ipv6.conf.LINK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// The link, with the name that it had.
    pub link: LinkRef,
    /// The last part of its name, such as `accept_ra_defrtr`.
    pub key: String,
    /// The value that it had.
    pub before: String,
    /// The value that it was given.
    pub after: String,
}

impl Journal {
    /// A journal of nothing.
    pub fn new() -> Journal {
        Journal::default()
    }

    /// Whether nothing was done, or all is undone.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The place behind the last entry.
    pub fn mark(&self) -> Mark {
        Mark(self.entries.len())
    }

    /// The start of every journal.
    pub fn start() -> Mark {
        Mark(0)
    }

    /// Notes what was done last.
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Takes what came after the mark.
    pub fn take_from(&mut self, mark: Mark) -> Journal {
        Journal { entries: self.entries.split_off(mark.0.min(self.entries.len())) }
    }

    /// What came after the mark, in order.
    pub fn since(&self, mark: Mark) -> &[Entry] {
        self.entries.get(mark.0..).unwrap_or_default()
    }

    /// Puts what was done later behind this.
    pub fn append(&mut self, later: Journal) {
        self.entries.extend(later.entries);
    }

    /// One line for each entry, for people.
    pub fn describe(&self) -> Vec<String> {
        self.entries.iter().map(Entry::describe).collect()
    }
}

impl Entry {
    fn describe(&self) -> String {
        match self {
            Entry::Route(change) => change.describe(),
            Entry::Sysctl(s) => {
                format!("net.ipv6.conf.{}.{}: {} -> {}", s.link.name, s.key, s.before, s.after)
            }
        }
    }

    pub(crate) fn route(&self) -> Option<&RouteChange> {
        match self {
            Entry::Route(change) => Some(change),
            Entry::Sysctl(_) => None,
        }
    }

    pub(crate) fn sysctl(&self) -> Option<&Sysctl> {
        match self {
            Entry::Route(_) => None,
            Entry::Sysctl(sysctl) => Some(sysctl),
        }
    }
}

impl Sysctl {
    /// What is left where it could not be undone.
    pub(crate) fn left(&self) -> String {
        format!("net.ipv6.conf.{}.{} is {} instead of {}", self.link.name, self.key, self.after, self.before)
    }
}

impl RouteChange {
    pub(crate) fn routes(&self) -> impl Iterator<Item = &Route> {
        self.removed.iter().chain(&self.added)
    }

    pub(crate) fn describe(&self) -> String {
        let names = self.names();
        let texts = |sign: char, routes: &[Route]| -> Vec<String> {
            routes.iter().map(|route| format!("{sign} {}", route.text(&names))).collect()
        };
        [texts('-', &self.removed), texts('+', &self.added)].concat().join(", ")
    }

    pub(crate) fn names(&self) -> impl Fn(u32) -> String {
        |index| {
            self.links
                .iter()
                .find(|link| link.index == index)
                .map_or_else(|| format!("if{index}"), |link| link.name.clone())
        }
    }
}
