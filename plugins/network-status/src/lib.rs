//! The built-in stage `network-status`.
