//! Code shared by the command line tool and the project's other programs: failures, tables of text.

pub mod failure;
pub mod table;
