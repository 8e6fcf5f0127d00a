//! What the command line tool and the project's other programs share: the C interface made safe, failures, tables of text.

pub mod backend;
pub mod failure;
pub mod table;
