//! The logic is in the modules: replace one, and exactly that changes.
