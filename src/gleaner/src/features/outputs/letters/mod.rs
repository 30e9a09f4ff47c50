//! Outputs of the kind `email`: events as letters to people, at once or as digests.
//!
//! [`recipients`]: who is written to, and who has agreed to it; [`gather()`]: from the log into digests, and from digests into the
//! ledger; [`send()`]: a try of a letter; [`limit`]: how many letters an organization sends; [`pages`]: what links in letters
//! lead to; [`personal`]: what all of that holds on a person.
//!
//! - A delivery is one letter, to each recipient. Who has it is written down one by one, and its `Message-ID` is made of the
//!   delivery and the recipient: a box that is killed sends at most the same letter again, and to nobody else.
//! - What a letter is about is put down in the operation that moves the output's place in the log, so nothing is lost.
//! - Letters go over connections of their own, and of each organization over one at a time: neither another's nor the box's own
//!   messages (verification, new passwords) wait behind them.

mod gather;
mod limit;
pub(super) mod pages;
pub(super) mod personal;
mod recipients;
mod rows;
mod send;
mod view;

pub use gather::{News, due_at, end, forget, forget_all, forget_taken, gather};
pub use recipients::{Asking, addresses, list, remove};
pub use rows::{DIGESTS, HOURS, ITEMS, RECIPIENTS, TAKEN};
pub use send::{Sent, send, test};
pub use view::{EmailView, view};
