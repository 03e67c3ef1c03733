//! The author's way, as the documentation tells it: every command of the tutorial is run, in three languages, from
//! `catenactl new` to a real ADD; and the examples are built and do what they say.
//!
//! Needs the registries of Python and JavaScript packages, so `make examples` runs it and `make test` does not.

mod document;
mod examples;
mod next_version;
mod tutorial;
