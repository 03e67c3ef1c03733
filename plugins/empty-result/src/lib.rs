//! The built-in stage `empty-result`.
