//! From a path to its handler: the table, the gate that lets a caller in, inputs, outputs, and what each of them says of
//! itself in the reference.

pub(crate) mod body;
pub(crate) mod file;
pub mod gate;
pub mod input;
pub(crate) mod operation;
pub(crate) mod output;
pub(crate) mod page;
pub(crate) mod router;
pub(crate) mod stream;
pub(crate) mod table;
