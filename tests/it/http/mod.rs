//! The HTTP trunk through real sockets, with a small feature that has a route of every kind.

mod rules;
mod serving;
mod shop;
