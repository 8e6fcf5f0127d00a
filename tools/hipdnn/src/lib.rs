//! What the command line tool and the project's other programs share: failures, tables of text.

pub mod failure;
pub mod table;
