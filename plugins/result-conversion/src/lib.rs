//! The built-in stage `result-conversion`.
