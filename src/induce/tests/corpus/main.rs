//! Real pages: what is learned from three labelled pages of a site, and from the structured data of some pages for others.
//!
//! The pages are no part of the project. `GLEANER_PAGES` names a folder like `../shared/data/pages`, `GLEANER_SWDE` one with SWDE's
//! `groundtruth` and, where it is there, `testset`, `GLEANER_SITES` more folders of sites, `GLEANER_PRODUCTS` one with labelled
//! products, `GLEANER_DRIFT` one with pages before and after their sites changed ([`drift`]); without them the tests say that they were
//! skipped. `GLEANER_HALF=report` takes the sites that nothing was tuned on, and `GLEANER_VERBOSE` prints what was learned.

mod drift;
mod products;
mod sites;
mod strip;
mod swde;
mod tally;
