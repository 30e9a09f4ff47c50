//! Which events an output lets through: by what they are, and by the values of the result that they are of.

use super::payload::with_happened;
use super::rows::OutputV2;
use crate::features::events::{EventV1, kinds_named, sort_of};
use crate::features::extraction::{RESULTS, RESULTS_BY_ID, ResultV4};
use base::Result;
use base::ids::ResultId;
use base::permission::{Permission, Permissions};
use base::terms::PageType;
use outputs::message::{self, OfResult};
use outputs::{Answer, Condition, Facts};
use serde_json::Map;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use store::{OrgRead, readable};
use uuid::Uuid;

/// Results that are remembered while events are looked at.
const RESULTS_KEPT: usize = 200;

/// The filter of an output, ready to be asked.
pub(super) struct Selector {
    kinds: BTreeSet<&'static str>,
    tags: Vec<String>,
    domain: Option<String>,
    page_types: Vec<PageType>,
    condition: Option<Condition>,
}

/// What a filter says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It is of another kind, or of other pages.
    Other,
    Condition(Answer),
}

impl Said {
    pub fn lets_through(self) -> bool {
        self == Said::Condition(Answer::Yes)
    }
}

impl Selector {
    /// What was checked when the output was saved. A kind that this release does not know is left out; a condition that it
    /// does not understand lets nothing through.
    pub fn of(row: &OutputV2) -> Selector {
        Selector::new(
            &row.events,
            &row.tags,
            row.domain.as_deref(),
            &row.page_types,
            row.condition.as_deref(),
        )
    }

    /// The same of an output's terms, which were checked.
    pub fn new(
        events: &[String],
        tags: &[String],
        domain: Option<&str>,
        page_types: &[PageType],
        condition: Option<&str>,
    ) -> Selector {
        let all = Permissions::of(Permission::ALL.iter().copied());
        let known =
            |name: &String| kinds_named("events", std::slice::from_ref(name), all).unwrap_or_default();
        let kinds = events.iter().flat_map(known).collect::<BTreeSet<_>>();
        let condition = condition.map(Condition::parse).transpose();
        let kinds = if condition.is_err() { BTreeSet::new() } else { kinds };
        Selector {
            kinds,
            tags: tags.to_vec(),
            domain: domain.map(str::to_owned),
            page_types: page_types.to_vec(),
            condition: condition.unwrap_or_default(),
        }
    }

    /// What it says of an event, whose result is looked up where it is needed.
    pub fn ask(&self, tx: &OrgRead<'_>, results: &mut Results, event: &EventV1) -> Result<Said> {
        let is_meant = self.kinds.contains(event.kind.as_str())
            && self.domain.as_ref().is_none_or(|domain| event.domain.as_ref() == Some(domain))
            && self.tags.iter().all(|tag| event.tags.contains(tag));
        if !is_meant {
            return Ok(Said::Other);
        }
        if self.page_types.is_empty() && self.condition.is_none() {
            return Ok(Said::Condition(Answer::Yes));
        }
        let result = results.of(tx, event)?;
        if !self.page_types.is_empty() {
            let page_type = result.as_ref().and_then(|result| result.page_type);
            if page_type.is_none_or(|page_type| !self.page_types.contains(&page_type)) {
                return Ok(Said::Other);
            }
        }
        let Some(condition) = &self.condition else { return Ok(Said::Condition(Answer::Yes)) };
        let none = Map::new();
        let values = result.as_ref().and_then(|result| result.values.0.as_object()).unwrap_or(&none);
        let (of_event, changes) = with_happened(event, |happened| {
            with_result(result.as_deref(), |of| {
                (message::said_of(happened, of), message::changes(happened, of))
            })
        });
        let facts = Facts {
            values,
            event: &of_event,
            changes: &changes,
            has_previous: event.kind == "result.changed",
        };
        Ok(Said::Condition(condition.ask(&facts)))
    }
}

/// What a result says beside its values.
fn with_result<T>(result: Option<&ResultV4>, then: impl FnOnce(Option<OfResult<'_>>) -> T) -> T {
    let page_type = result.and_then(|result| result.page_type).map(|kind| kind.to_string());
    then(result.map(|result| OfResult {
        url: &result.url,
        page_type: page_type.as_deref(),
        changed: &result.changed,
    }))
}

/// The results that events are of, each read once.
#[derive(Default)]
pub(super) struct Results(HashMap<Uuid, Option<Arc<ResultV4>>>);

impl Results {
    pub fn of(&mut self, tx: &OrgRead<'_>, event: &EventV1) -> Result<Option<Arc<ResultV4>>> {
        let named = || event.data.0["resultId"].as_str().and_then(|id| Uuid::parse_str(id).ok());
        let id = if sort_of(&event.kind) == "result" { Some(event.subject) } else { named() };
        let Some(id) = id else { return Ok(None) };
        if let Some(known) = self.0.get(&id) {
            return Ok(known.clone());
        }
        let found = tx.lookup(&RESULTS, &RESULTS_BY_ID, ResultId(id));
        let found = readable("the result of an event", id, found)?.flatten().map(Arc::new);
        if self.0.len() >= RESULTS_KEPT {
            self.0.clear();
        }
        self.0.insert(id, found.clone());
        Ok(found)
    }
}
