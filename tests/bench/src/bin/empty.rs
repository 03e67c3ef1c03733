//! What any process costs: it starts and ends.

fn main() {}
