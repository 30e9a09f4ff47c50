//! Where pages are, which half of the sites counts, and how values are compared.

use std::path::{Path, PathBuf};

use induce::{Form, Reading};
use serde_json::Value as Json;

/// The folder with pages, if there is one.
pub fn pages_folder() -> Option<PathBuf> {
    let given = std::env::var_os("GLEANER_PAGES").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/pages");
    Some(given.unwrap_or_else(beside)).filter(|folder| folder.join("by-domain").exists())
}

/// SWDE's labels and pages.
pub fn swde_folder() -> Option<PathBuf> {
    std::env::var_os("GLEANER_SWDE").map(PathBuf::from).filter(|folder| folder.join("groundtruth").exists())
}

/// Sites by their place in the sorted list: the even ones were tuned on.
pub fn is_in_half(place: usize) -> bool {
    let wants_report = std::env::var("GLEANER_HALF").is_ok_and(|half| half == "report");
    (place % 2 == 1) == wants_report
}

/// The folders of sites of the half that counts: those of `GLEANER_PAGES` and of each folder in `GLEANER_SITES`, with colons between.
pub fn site_folders() -> Vec<PathBuf> {
    let more = std::env::var_os("GLEANER_SITES");
    let more = more.iter().flat_map(std::env::split_paths);
    let mut found = Vec::new();
    for folder in pages_folder().into_iter().chain(more) {
        let entries = std::fs::read_dir(folder.join("by-domain")).expect("domains");
        let mut sites: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        sites.sort();
        let sites = sites.into_iter().enumerate().filter(|(place, _)| is_in_half(*place));
        found.extend(sites.map(|(_, site)| site));
    }
    found
}

pub fn says_much() -> bool {
    std::env::var_os("GLEANER_VERBOSE").is_some()
}

/// Right, wrong and missed values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub right: f64,
    pub given: f64,
    pub there: f64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.right += other.right;
        self.given += other.given;
        self.there += other.there;
    }

    pub fn precision(self) -> f64 {
        self.right / self.given.max(1.0)
    }

    pub fn recall(self) -> f64 {
        self.right / self.there.max(1.0)
    }

    pub fn f1(self) -> f64 {
        2.0 * self.right / (self.given + self.there).max(1.0)
    }
}

/// Compares what extraction gave with the values of a page.
pub fn tally(
    form: Form,
    given: Option<&Json>,
    truth: &[String],
    reading: Reading<'_>,
    structured: bool,
) -> Tally {
    let text = |json: &Json| json.as_str().map_or_else(|| json.to_string(), str::to_owned);
    let keys =
        |text: &str| if structured { form.label_keys(text, reading) } else { form.keys(text, reading) };
    let truth: Vec<Vec<String>> = truth.iter().map(|text| keys(text)).collect();
    let is_right = |text: &str, is_number: bool| {
        let own = if is_number { form.label_keys(text, reading) } else { form.keys(text, reading) };
        own.iter().any(|key| truth.iter().any(|truth| truth.contains(key)))
    };
    match given {
        Some(Json::Array(members)) => {
            let right = members.iter().filter(|member| is_right(&text(member), false)).count() as f64;
            let (given, there) = (members.len().max(1) as f64, truth.len().max(1) as f64);
            // A page weighs as one value, however long its list is.
            let score = 2.0 * right.min(there) / (given + there);
            Tally { right: score, given: 1.0, there: f64::from(u8::from(!truth.is_empty())) }
        }
        Some(value) => Tally {
            right: f64::from(u8::from(is_right(&text(value), value.is_number()))),
            given: 1.0,
            there: f64::from(u8::from(!truth.is_empty())),
        },
        None => Tally { there: f64::from(u8::from(!truth.is_empty())), ..Tally::default() },
    }
}
