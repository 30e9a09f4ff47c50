//! What was looked at, and what was found: in words for a person, as JSON for a program.

use crate::features::bi::RetainedOf;
use base::ids::AccountExportId;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// What becomes of something that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// It is made of something that is there, or can be put right by itself: `gleaner doctor --repair`.
    Repair,
    /// It is made of nothing else: only a backup has it.
    Restore,
    /// Somebody has to do something, which the finding says.
    Operator,
    /// A crash has left it, and nobody reads it. It is no fault; `--repair` removes it.
    Leftover,
}

/// What puts a finding right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mend {
    /// Nothing does.
    Nothing,
    /// Entries of indexes and counts, made anew from the rows.
    Derived,
    /// The store's file, written anew without what is damaged.
    Salvage,
    /// A file or folder goes; what is made of the store is then made anew by the next start.
    Remove(PathBuf),
    /// A file or folder gets this mode.
    Mode(PathBuf, u32),
    /// A file or folder gets this owner and group.
    Owner(PathBuf, u32, u32),
    /// A row is told that its file is gone.
    GiveUp(Lost),
}

/// Whose file is gone or damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Statement(PathBuf, RetainedOf),
    Personal(PathBuf, AccountExportId),
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The part of the box: `store`, `pages`.
    pub part: &'static str,
    pub what: String,
    pub remedy: Remedy,
    /// Whether it was put right.
    pub is_mended: bool,
    /// Why it could not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_mended: Option<String>,
    #[serde(skip)]
    pub(super) mend: Mend,
}

impl Finding {
    pub(super) fn new(part: &'static str, remedy: Remedy, what: impl Into<String>) -> Finding {
        let what = what.into();
        Finding { part, what, remedy, is_mended: false, not_mended: None, mend: Mend::Nothing }
    }

    pub(super) fn lost(part: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(part, Remedy::Restore, what)
    }

    pub(super) fn derived(part: &'static str, what: impl Into<String>, mend: Mend) -> Finding {
        Finding { mend, ..Finding::new(part, Remedy::Repair, what) }
    }

    /// Whether it says that the box is not in order.
    pub fn is_fault(&self) -> bool {
        self.remedy != Remedy::Leftover && !self.is_mended
    }
}

/// One part that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Looked {
    pub part: &'static str,
    pub about: String,
}

/// What was looked at, and what was found wrong.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// One for each part.
    pub looked_at: Vec<Looked>,
    pub findings: Vec<Finding>,
    /// Whether the box runs: what a running one cannot be asked was not looked at.
    pub is_running: bool,
}

impl Diagnosis {
    /// Whether something is wrong that was not put right.
    pub fn has_faults(&self) -> bool {
        self.findings.iter().any(Finding::is_fault)
    }

    fn count(&self, of: impl Fn(&Finding) -> bool) -> usize {
        self.findings.iter().filter(|finding| of(finding)).count()
    }

    /// As one object of JSON.
    pub fn json(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["isSound"] = serde_json::Value::Bool(!self.has_faults());
        value
    }

    /// As an operator reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        for Looked { part, about } in &self.looked_at {
            let _ = writeln!(text, "{part:<8} {about}");
        }
        for finding in &self.findings {
            let word = match finding.remedy {
                _ if finding.is_mended => "MENDED ",
                Remedy::Leftover => "LEFT   ",
                Remedy::Repair | Remedy::Restore | Remedy::Operator => "DAMAGED",
            };
            let _ = writeln!(text, "{word}  {}: {}", finding.part, finding.what);
            if let Some(why) = &finding.not_mended {
                let _ = writeln!(text, "         could not be mended: {why}");
            }
        }
        self.close(&mut text);
        text
    }

    /// What there is to be done.
    fn close(&self, text: &mut String) {
        let mended = self.count(|finding| finding.is_mended);
        if mended > 0 {
            let _ = writeln!(text, "{mended} mended");
        }
        let of = |remedy| self.count(|finding| finding.remedy == remedy && finding.is_fault());
        let (repair, restore, operator) = (of(Remedy::Repair), of(Remedy::Restore), of(Remedy::Operator));
        match repair + restore + operator {
            0 => text.push_str("nothing is wrong\n"),
            1 => text.push_str("1 finding\n"),
            n => {
                let _ = writeln!(text, "{n} findings");
            }
        }
        if restore > 0 {
            let _ = writeln!(
                text,
                "{restore} cannot be mended. Keep a copy of the data folder as it is before you restore a backup."
            );
        }
        if repair > 0 {
            let when = if self.is_running { ", when the box is off" } else { "" };
            let _ = writeln!(text, "{repair} can be mended: gleaner doctor --repair{when}");
        }
        if operator > 0 {
            let _ = writeln!(text, "{operator} ask you to do what they say.");
        }
    }
}

/// What is wrong with a part: the first few in words, the rest as a number.
pub(super) struct Findings {
    part: &'static str,
    told: Vec<Finding>,
    hidden: u64,
}

/// Findings of a part that are told.
const TOLD_MAX: usize = 20;

impl Findings {
    pub(super) fn of(part: &'static str) -> Findings {
        Findings { part, told: Vec::new(), hidden: 0 }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        // What can be put right is kept, however much there is: each is put right by itself.
        let alike = self.told.iter().filter(|told| told.remedy == finding.remedy).count();
        if alike < TOLD_MAX || finding.mend != Mend::Nothing {
            self.told.push(finding);
        } else {
            self.hidden += 1;
        }
    }

    pub(super) fn take(mut self) -> Vec<Finding> {
        if self.hidden > 0 {
            self.told.push(Finding::lost(self.part, format!("and {} more", self.hidden)));
        }
        self.told
    }
}
