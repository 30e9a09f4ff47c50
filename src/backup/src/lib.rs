//! Backups of a box: what they are made of and how they are made, checked, restored and given up.
//!
//! A **repository** is a place (a folder, a bucket: [`Target`]) with two kinds of things:
//! - `objects/ab/abcd…`: bytes named by their SHA-256. Rows of the store, packs of pages, lists of what lies where in which
//!   pack, files. Backups share them: what is there already is not written again.
//! - `backups/ID.json`: one manifest a backup. It names every object of it, directly or through the lists, and is written
//!   last, whole or not at all. So a backup that was cut off has none and is never taken for a whole one.
//!
//! Every byte of a backup is covered: an object by its name, a manifest by the digest in its last line. Whoever reads checks,
//! so a changed bit or a missing end is an error that names the object, and never other data.
//!
//! Nothing here knows the store or the pages' folder: rows come through a closure, pages and files as a folder.

mod check;
mod files;
mod folder;
mod keep;
mod make;
mod manifest;
mod object;
mod pages;
mod part;
mod repository;
mod restore;
mod rows;
mod seal;
mod target;
#[cfg(test)]
mod tests;

pub use check::{Checked, check};
pub use folder::FolderTarget;
pub use keep::{Keep, Removed, clear, remove_old};
pub use make::{Made, Plan, Progress, make};
pub use manifest::{BackupId, Manifest, Summary};
pub use object::ObjectId;
pub use part::{PagesOf, PartFile, Parts};
pub use repository::{Listing, Repository};
pub use restore::{Destination, Restored, Store, restore};
pub use rows::{Row, RowsOf};
pub use seal::Passphrase;
pub use target::{Held, Listed, Target};
