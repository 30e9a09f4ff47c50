//! An attribute beside its own past: few numbers that forget.
//!
//! The newest [`RECENT`] results are compared with those before them. While an attribute is not well its past stands still, so a
//! drift that lasts does not become the measure.

use super::rows::{AttributeDriftV1, DriftState, DriftV1, Fetched, FetchesV1};
use base::clock::{Moment, Timestamp};

/// Results that are the present.
pub const RECENT: u8 = 10;
/// What is left of the past with each result more: it is some hundred results long.
const FORGETTING: f64 = 0.99;
/// Results of the past without which there is nothing to compare with, and the share that must have been found.
const PAST_MIN: f64 = 4.5;
const PAST_SHARE_MIN: f64 = 0.3;
/// Parts of the past's share under which an attribute drifts, and under which it is looked at.
const FALLING: f64 = 0.6;
const FALLEN: f64 = 0.25;
/// Attributes of one row.
const ATTRIBUTES_MAX: usize = 200;
/// Fetches that tell how a domain does, and how many of them must have failed.
const FETCHES: usize = 10;
const FETCHES_MIN: usize = 5;
const FAILED_SHARE: f64 = 0.8;

/// A result, as far as it tells how pages are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub schema: Option<crate::features::extraction::SchemaRefV1>,
    pub own_version: Option<u32>,
    /// Each attribute, and whether it has a valid value.
    pub attributes: Vec<(String, bool)>,
    pub at: Timestamp,
}

impl AttributeDriftV1 {
    fn new(name: &str) -> AttributeDriftV1 {
        AttributeDriftV1 {
            name: name.to_owned(),
            recent: 0,
            recent_count: 0,
            past_found: 0.0,
            past_count: 0.0,
            state: DriftState::Ok,
            since: None,
            is_tried: false,
        }
    }

    /// The share of the newest results that have it.
    pub fn recent_share(&self) -> Option<f64> {
        (self.recent_count > 0).then(|| f64::from(self.recent.count_ones()) / f64::from(self.recent_count))
    }

    /// The share of those before.
    pub fn past_share(&self) -> Option<f64> {
        (self.past_count > 0.0).then(|| self.past_found / self.past_count)
    }

    fn add(&mut self, is_found: bool) {
        if self.recent_count == RECENT {
            let oldest = self.recent >> (RECENT - 1) & 1;
            if matches!(self.state, DriftState::Ok | DriftState::Repaired) {
                self.past_found = self.past_found * FORGETTING + f64::from(oldest);
                self.past_count = self.past_count * FORGETTING + 1.0;
            }
        } else {
            self.recent_count += 1;
        }
        self.recent = (self.recent << 1 | u16::from(is_found)) & ((1 << RECENT) - 1);
    }

    /// The recent share beside that of the past; none where there is too little to say.
    fn beside_past(&self) -> Option<f64> {
        let past =
            self.past_share().filter(|share| *share >= PAST_SHARE_MIN && self.past_count >= PAST_MIN)?;
        (self.recent_count == RECENT).then_some(self.recent_share()? / past)
    }

    fn judge(&mut self, now: Timestamp) {
        let Some(part) = self.beside_past() else { return };
        let is_known = matches!(self.state, DriftState::Broken | DriftState::Absent | DriftState::Blocked);
        match part {
            _ if self.state == DriftState::Repairing => {}
            part if part > FALLING => {
                self.is_tried = false;
                self.enter(DriftState::Ok, now);
            }
            part if part <= FALLEN && is_known => {}
            _ => self.enter(DriftState::Drifting, now),
        }
    }

    pub fn enter(&mut self, state: DriftState, now: Timestamp) {
        if self.state != state {
            self.state = state;
            self.since = Some(now);
        }
    }

    /// Whether it is gone, and nobody has looked why.
    pub fn is_suspect(&self) -> bool {
        let is_gone = self.beside_past().is_some_and(|part| part <= FALLEN);
        self.state == DriftState::Repairing || is_gone && !self.is_tried
    }
}

impl DriftV1 {
    /// Takes in a result.
    pub fn add(&mut self, seen: &Seen, moment: Moment) {
        if (self.schema, self.own_version) != (seen.schema, seen.own_version) {
            // What was not found by something else says nothing of what holds now.
            (self.schema, self.own_version) = (seen.schema, seen.own_version);
            self.attributes.iter_mut().for_each(|attribute| {
                (attribute.recent, attribute.recent_count) = (0, 0);
            });
        }
        if self.not_before.is_some_and(|until| until <= moment) {
            self.not_before = None;
            self.attributes.iter_mut().for_each(|attribute| attribute.is_tried = false);
        }
        for (name, is_found) in &seen.attributes {
            let known = self.attributes.iter().position(|attribute| attribute.name == *name);
            let place = match known {
                Some(place) => place,
                None if self.attributes.len() < ATTRIBUTES_MAX => {
                    self.attributes.push(AttributeDriftV1::new(name));
                    self.attributes.len() - 1
                }
                None => continue,
            };
            self.attributes[place].add(*is_found);
            self.attributes[place].judge(seen.at);
        }
        if self.attributes.iter().all(|attribute| attribute.state == DriftState::Ok) {
            (self.is_told, self.refusals, self.not_before) = (false, 0, None);
        }
        let is_suspect = self.attributes.iter().any(AttributeDriftV1::is_suspect);
        self.is_due |= is_suspect && self.not_before.is_none();
    }
}

impl FetchesV1 {
    pub fn add(&mut self, fetched: Fetched, at: Timestamp) {
        let before = self.trouble();
        self.newest.push(fetched);
        let more = self.newest.len().saturating_sub(FETCHES);
        self.newest.drain(..more);
        if self.trouble() != before {
            self.since = Some(at);
        }
    }

    /// What keeps pages from coming; none while most come.
    pub fn trouble(&self) -> Option<DriftState> {
        let count = |wanted: Fetched| self.newest.iter().filter(|fetched| **fetched == wanted).count();
        let (failed, blocked) = (count(Fetched::Failed), count(Fetched::Blocked));
        let is_trouble = self.newest.len() >= FETCHES_MIN
            && (failed + blocked) as f64 >= FAILED_SHARE * self.newest.len() as f64;
        is_trouble.then_some(if blocked > failed { DriftState::Blocked } else { DriftState::Outage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ids::SchemaId;
    use base::terms::PageType;

    fn row() -> DriftV1 {
        DriftV1 {
            id: SchemaId::new(),
            domain: "shop.example".to_owned(),
            page_type: PageType::Product,
            schema: None,
            own_version: None,
            attributes: Vec::new(),
            is_due: false,
            runs: 0,
            refusals: 0,
            not_before: None,
            is_told: false,
            last: None,
            rereading: None,
        }
    }

    fn see(row: &mut DriftV1, found: bool, count: usize) {
        for at in 0..count {
            let attributes = vec![("name".to_owned(), true), ("price".to_owned(), found)];
            let seen = Seen { schema: None, own_version: Some(1), attributes, at: Timestamp(at as i64) };
            row.add(&seen, Moment(0));
        }
    }

    fn price(row: &DriftV1) -> &AttributeDriftV1 {
        row.attributes.iter().find(|attribute| attribute.name == "price").unwrap()
    }

    #[test]
    fn an_attribute_that_is_gone_is_looked_at_and_one_without_a_past_is_not() {
        let mut new = row();
        see(&mut new, false, 60);
        assert_eq!((new.is_due, price(&new).state), (false, DriftState::Ok));
        let mut old = row();
        see(&mut old, true, 15);
        see(&mut old, false, 7);
        assert_eq!((old.is_due, price(&old).state), (false, DriftState::Drifting));
        see(&mut old, false, 1);
        assert!(old.is_due && price(&old).is_suspect());
        assert_eq!(price(&old).recent_share(), Some(0.2));
        // What lasts does not become the measure.
        see(&mut old, false, 500);
        assert_eq!(price(&old).past_share(), Some(1.0));
        see(&mut old, true, 7);
        assert_eq!(price(&old).state, DriftState::Ok);
    }

    #[test]
    fn what_is_on_some_pages_only_drifts_and_is_left_alone() {
        let mut row = row();
        see(&mut row, true, 20);
        for _ in 0..10 {
            see(&mut row, true, 1);
            see(&mut row, false, 1);
        }
        assert_eq!((row.is_due, price(&row).state), (false, DriftState::Drifting));
        let mut half = super::tests::row();
        for _ in 0..40 {
            see(&mut half, true, 1);
            see(&mut half, false, 1);
        }
        assert_eq!((half.is_due, price(&half).state), (false, DriftState::Ok));
    }

    #[test]
    fn what_was_tried_is_tried_again_only_when_it_is_time() {
        let mut row = row();
        see(&mut row, true, 20);
        see(&mut row, false, 10);
        row.is_due = false;
        row.not_before = Some(Moment(5));
        row.attributes.iter_mut().for_each(|attribute| attribute.is_tried = true);
        see(&mut row, false, 10);
        assert!(!row.is_due);
        row.not_before = Some(Moment(0));
        see(&mut row, false, 1);
        assert!(row.is_due);
    }

    #[test]
    fn a_domain_that_fails_is_told_from_one_that_turns_visitors_away() {
        let mut fetches = FetchesV1::default();
        for _ in 0..4 {
            fetches.add(Fetched::Failed, Timestamp(1));
        }
        assert_eq!(fetches.trouble(), None);
        fetches.add(Fetched::Failed, Timestamp(2));
        assert_eq!((fetches.trouble(), fetches.since), (Some(DriftState::Outage), Some(Timestamp(2))));
        for _ in 0..8 {
            fetches.add(Fetched::Blocked, Timestamp(3));
        }
        assert_eq!(fetches.trouble(), Some(DriftState::Blocked));
        for _ in 0..3 {
            fetches.add(Fetched::Page, Timestamp(4));
        }
        assert_eq!((fetches.trouble(), fetches.newest.len()), (None, FETCHES));
    }
}
