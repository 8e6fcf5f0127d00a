//! The commands of this project: `cargo xtask COMMAND`.

fn main() {}
