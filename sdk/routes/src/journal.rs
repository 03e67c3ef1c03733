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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Route(RouteChange),
    Sysctl(Sysctl),
}

/// One request's effect: routes that are gone (IPv6: legs) and routes that have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChange {
    pub family: Family,
    pub table: u32,
    pub removed: Vec<Route>,
    pub added: Vec<Route>,
    /// Where in its slot the first removed IPv4 route stood.
    pub position: usize,
    /// The links of these routes and of the scope, with the names that they had.
    pub links: Vec<LinkRef>,
}

/// A changed setting of `net.ipv6.conf.LINK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    pub link: LinkRef,
    pub key: String,
    pub before: String,
    pub after: String,
}

/// A journal in JSON that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("route journal: {path}: {problem}")]
pub struct JournalError {
    /// Where in the document, as a JSON pointer.
    pub path: String,
    pub problem: String,
}

impl Journal {
    pub fn new() -> Journal {
        Journal::default()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn mark(&self) -> Mark {
        Mark(self.entries.len())
    }

    /// The start of every journal.
    pub fn start() -> Mark {
        Mark(0)
    }

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
