//! The built-in stage `default-gateway`.
