//! XPaths out of pages: taught by examples ([`learn()`]), or by the structured data that pages carry about themselves
//! ([`discover()`]).
//!
//! Work on parsed pages in memory: no runtime, no store, no network, no model. What it makes are XPaths of [`page::xpath`], and
//! what it tries them with is the evaluator that extraction uses, so an expression gives on a page what it gave here.
//!
//! # What it is founded on
//! - **Labels first, expressions second.** A value that is known of a page (told by somebody, or said by JSON-LD, microdata,
//!   RDFa or OpenGraph: the page's own answer key) is looked for in the tree, by [`Form`]: a price, a day or a length of time is the same
//!   however it is written.
//! - **Candidates by anchor.** For each place where the value stands, expressions are made that hang on an attribute for machines, an id,
//!   a label text that stands on other pages as well ("ISBN:" beside the value), a class, a link's path; on the element itself
//!   or on an ancestor with the way down. Positions come last.
//! - **Agreement across pages instead of guessing.** An expression that is right about the site is made anew from each of its pages.
//!   So those made for most examples are tried on all of them, with the evaluator, and what is wrong on an example goes.
//! - **Rank**: F1 on the examples, then a robustness prior (`candidates`), with penalties for what other pages contradict. The
//!   best three that share no anchor are kept, so that one change of a site does not break them all; and two that read
//!   the structured data itself.
//! - **Lists** ([`lists_of()`]): what a page repeats are records, and what stands in the same slot of most is one of their fields.
//! - **Pointing** ([`point()`]): where somebody shows the element itself, the same candidates of that one place, tried on it and on
//!   the other pages.
//! - **JSONPaths** beside them for what pages say in their JSON (`data`).
//! - **Repair** ([`repair()`]): where a site has changed, the values that it last gave are the labels.
//! - **Confidence** is held-out: what the other examples alone would have taught, asked on the one left out.
//!
//! What others found: labels constant across pages and noise-tolerant induction over short XPaths (Dalvi, Kumar and Soliman,
//! "Automatic wrappers for large scale web extraction", VLDB 2011); robustness as a prior over expressions (Dalvi, Bohannon and Sha,
//! SIGMOD 2009).
//!
//! # What holds
//! - Deterministic: the same pages in the same order give the same expressions. Nothing depends on hashing order.
//! - Bounded: every list has a limit with a name, evaluation is paid from the caller's [`Fuel`](page::xpath::Fuel), and no
//!   recursion depends on the page.
//! - An attribute for which nothing held on a held-back page is left out, never guessed.

mod anchors;
mod annotate;
mod answers;
mod bounds;
mod candidates;
mod cuts;
mod data;
mod discover;
mod forms;
mod json_places;
mod learn;
mod lesson;
mod places;
mod records;
mod repair;
mod scripts;
mod times;

pub use annotate::{Observation, annotate, kind_of, observe};
pub use answers::{Answers, Kind, Label, Term, answers, is_linked_data};
pub use bounds::{Bound, LESSON_FUEL_MAX};
pub use discover::{Discovery, discover};
pub use forms::{Form, Reading, texts_of};
pub use learn::{
    ATTRIBUTES_MAX, EXAMPLES_MAX, Example, Learned, LearnedPath, OTHERS_MAX, Pointed, Pointing, Taught,
    learn, point,
};
pub use lesson::Wanted;
pub use places::{Page, shows};
pub use records::{List, ListShape, RECORDS_MAX, Record, Wish, list_answers, list_kind_of, lists_of};
pub use repair::{Refusal, Repair, Verdict, Visit, repair};
pub use scripts::SCRIPT_BYTES_MAX;
