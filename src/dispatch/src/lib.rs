//! Which provider a job asks next: workflow graphs ([`dag`]) and what is learned of providers ([`rank`]).
//!
//! Both are pure: they are told what happened and say what is next.

pub mod dag;
pub mod rank;
