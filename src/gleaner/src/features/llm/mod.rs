//! A language model on the premises, over the protocol that OpenAI's API has made common: one endpoint of the box, which other slices
//! ask for JSON of a schema. What it says is a stranger's text: whoever asks checks it, and holds nothing for true because of it.
//!
//! [`protocol`] has the bodies of both ways to get JSON out of it (`response_format`, else one tool) and reads answers of either kind.
//! Which way an endpoint goes is tried when the box starts, and learned anew when it refuses. Organizations take turns: one has at
//! most half of the places, and one place more is kept for those that have none.

mod config;
mod protocol;

pub use config::LlmConfig;
pub use protocol::{Shape, message, object};

use crate::config::SectionSpec;
use crate::features::Feature;
use crate::features::wiring::Wiring;
use base::Result;
use base::ids::OrgId;
use base::line::{FairPermit, FairSemaphore, FairnessRules, OrganizationLimit};
use base::web::WebUrl;
use fetch::{Direct, FetchError, JsonPost};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use protocol::{Said, Way, request};
use serde_json::{Value, json};
use server::task::{TaskContext, TaskSpec};
use server::{Need, on_own_task};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Bytes of one answer.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// How often an endpoint is tried that has not shown yet how it answers.
const PROBE_EVERY: Duration = Duration::from_secs(300);
/// How long somebody who waits for an answer waits for a place, and how long work that nobody waits for does.
const PLACE_WAIT: Duration = Duration::from_secs(5);
const PLACE_WAIT_BEHIND: Duration = Duration::from_secs(120);
/// Until the place that is kept for organizations without one is theirs.
const KEPT_AFTER: Duration = Duration::from_millis(250);
/// Questions of an organization that may wait for a place, and of all.
const OWN_WAITING_MAX: usize = 8;
const WAITING_MAX: usize = 64;
/// Answers in a row that did not come in time, until nobody waits for one any more; and for how long then.
const LATE_MAX: u32 = 3;
const REST: Duration = Duration::from_secs(60);
/// Tokens of the answer to a probe.
const PROBE_TOKENS: u32 = 64;

pub static FEATURE: Feature = Feature {
    name: "llm",
    sections: &[SectionSpec::of::<LlmConfig>()],
    open: Some(open),
    tasks: &[TaskSpec::new("llm.probe", PROBE_EVERY, |context| Box::pin(probe(context)))],
    needs: &[Need::of::<LanguageModel>()],
    uses: &["providers"],
    ..Feature::NONE
};

fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let model = LanguageModel::new(wiring.config.section::<LlmConfig>(), wiring.part::<Direct>())?;
        wiring.hang::<LanguageModel>(model);
        Ok(())
    })
}

/// Tries how the endpoint answers, until that is known.
async fn probe(context: TaskContext) -> Result<()> {
    let model = context.service::<LanguageModel>();
    tokio::select! {
        () = model.probe() => {}
        () = context.stopped() => {}
    }
    Ok(())
}

/// The endpoint of this box, if it has one.
pub struct LanguageModel(Option<Model>);

struct Model {
    direct: Arc<Direct>,
    url: WebUrl,
    name: String,
    key: String,
    timeout: Duration,
    /// How it is made to answer with JSON; none until it has.
    way: Mutex<Option<Way>>,
    pace: Mutex<Pace>,
    line: Arc<FairSemaphore<OrgId>>,
    /// Places that one organization may have.
    own_places: usize,
}

/// How it keeps its time: where it hangs, not each question waits all of it.
#[derive(Default)]
struct Pace {
    /// Answers in a row that did not come in time.
    late: u32,
    rests_until: Option<Instant>,
}

impl Pace {
    fn note(&mut self, is_late: bool, now: Instant) {
        self.late = if is_late { self.late.saturating_add(1) } else { 0 };
        // Behind the rest one more shows it to hang still.
        self.rests_until = (self.late >= LATE_MAX).then(|| now + REST);
    }

    fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Somebody, so it is now or not at all.
    Somebody,
    /// Work behind.
    Nobody,
}

/// What a model is asked.
pub struct Question<'q> {
    /// Everything that was said, the task first.
    pub messages: &'q [Value],
    /// What its answer has to be.
    pub shape: &'q Shape,
    pub tokens_max: u32,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Others are asking.
    Busy,
    /// It did not answer in time.
    Late,
    /// It cannot be reached, refuses, or says too much.
    Away,
}

/// A place at the model, with the time until it has to have answered.
pub struct Turn<'m> {
    model: &'m Model,
    until: Instant,
    _place: FairPermit<OrgId>,
}

impl LanguageModel {
    pub fn new(config: &LlmConfig, direct: Arc<Direct>) -> Result<LanguageModel> {
        let places = config.concurrency as usize;
        let rules = FairnessRules { places, kept: 1, kept_after: KEPT_AFTER, waiting_max: WAITING_MAX };
        Ok(LanguageModel(config.endpoint()?.map(|url| Model {
            direct,
            url,
            name: config.model.clone(),
            key: config.key.0.clone(),
            timeout: Duration::from_secs(config.timeout_sec),
            way: Mutex::new(None),
            pace: Mutex::default(),
            line: FairSemaphore::new(rules),
            own_places: (places / 2).max(1),
        })))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Waits for a place of the organization; whatever is asked in it has to be answered within the endpoint's time, and `within`
    /// where that is shorter. None where there is no endpoint.
    pub async fn turn(
        &self,
        org: OrgId,
        waits: Waits,
        within: Duration,
    ) -> Option<std::result::Result<Turn<'_>, Silence>> {
        let model = self.0.as_ref()?;
        Some(model.turn(org, waits, within).await)
    }

    async fn probe(&self) {
        let Some(model) = &self.0 else { return };
        if model.way.lock().is_some() {
            return;
        }
        let shape = Shape {
            name: "ready",
            about: "Says that you are there.",
            schema: object(json!({ "ready": { "type": "boolean" } })),
        };
        let messages = [message("user", "Answer with JSON: ready is true.")];
        let until = Instant::now() + model.timeout;
        for way in [Way::Format, Way::Tool] {
            let question = Question { messages: &messages, shape: &shape, tokens_max: PROBE_TOKENS };
            match model.request(way, &question, until).await {
                Ok(said) if said.way == Some(way) => {
                    tracing::info!(way = way.name(), "the language model answers");
                    *model.way.lock() = Some(way);
                    return;
                }
                Err(Failure::Silent(silence)) => {
                    tracing::warn!(?silence, "the language model is not there");
                    return;
                }
                Ok(_) | Err(Failure::NotThisWay) => {}
            }
        }
        tracing::warn!("the language model answers, but not with JSON of a schema");
    }
}

/// Why one request brought nothing.
enum Failure {
    /// It does not take requests of this kind.
    NotThisWay,
    Silent(Silence),
}

impl Turn<'_> {
    /// The JSON of an answer, as text. It may be anything.
    pub async fn ask(&self, question: &Question<'_>) -> std::result::Result<String, Silence> {
        let model = self.model;
        let known = *model.way.lock();
        let first = known.unwrap_or(Way::Format);
        let said = match model.request(first, question, self.until).await {
            Ok(said) if said.way.is_some() || known.is_some() => {
                if known.is_none() {
                    *model.way.lock() = said.way;
                }
                return Ok(said.text);
            }
            Ok(said) => Some(said),
            Err(Failure::NotThisWay) => None,
            Err(Failure::Silent(silence)) => return Err(silence),
        };
        // It does not take the format, or talks all the same.
        match (model.request(first.other(), question, self.until).await, said) {
            (Ok(other), _) if other.way.is_some() => {
                *model.way.lock() = other.way;
                Ok(other.text)
            }
            (_, Some(said)) => Ok(said.text),
            (Ok(other), None) => Ok(other.text),
            (Err(Failure::Silent(silence)), None) => Err(silence),
            (Err(Failure::NotThisWay), None) => Err(Silence::Away),
        }
    }
}

impl Model {
    async fn turn(
        &self,
        org: OrgId,
        waits: Waits,
        within: Duration,
    ) -> std::result::Result<Turn<'_>, Silence> {
        // Work behind goes on asking, and so finds out when it is there again.
        if waits == Waits::Somebody && self.pace.lock().rests(Instant::now()) {
            return Err(Silence::Late);
        }
        let (running, patience) = match waits {
            Waits::Somebody => (self.own_places, PLACE_WAIT),
            // What nobody waits for leaves the organization's other places to those who do.
            Waits::Nobody => (1, PLACE_WAIT_BEHIND),
        };
        let limit = OrganizationLimit { running, waiting: OWN_WAITING_MAX };
        let ticket = self.line.join(org, Some(limit)).map_err(|_| Silence::Busy)?;
        let patient = Instant::now() + patience;
        let place = on_own_task(async move {
            Ok(timeout_at(patient, ticket.turn()).await.ok().and_then(std::result::Result::ok))
        });
        let place = place.await.ok().flatten().ok_or(Silence::Busy)?;
        Ok(Turn { model: self, until: Instant::now() + self.timeout.min(within), _place: place })
    }

    async fn request(
        &self,
        way: Way,
        question: &Question<'_>,
        until: Instant,
    ) -> std::result::Result<Said, Failure> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::Silent(Silence::Late));
        }
        let post = JsonPost {
            url: &self.url,
            key: &self.key,
            body: request(way, &self.name, question).to_string().into(),
            timeout: left,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let answered = self.direct.post_json(post).await;
        let is_late =
            matches!(answered, Err(FetchError::TimedOut { .. } | FetchError::ConnectTimeout { .. }));
        self.pace.lock().note(is_late, Instant::now());
        match answered {
            Ok(answer) if answer.status == 200 => {
                protocol::said(&answer.body).ok_or(Failure::Silent(Silence::Away))
            }
            // What it does not know, or cannot do: the other way may be known to it.
            Ok(answer) if matches!(answer.status, 400 | 405 | 415 | 422 | 501) => {
                tracing::info!(status = answer.status, way = way.name(), "the language model refuses");
                Err(Failure::NotThisWay)
            }
            Ok(answer) => {
                tracing::warn!(status = answer.status, "the language model refuses");
                Err(Failure::Silent(Silence::Away))
            }
            Err(error @ (FetchError::TimedOut { .. } | FetchError::ConnectTimeout { .. })) => {
                tracing::warn!(%error, "the language model does not answer");
                Err(Failure::Silent(Silence::Late))
            }
            Err(error) => {
                tracing::warn!(%error, "the language model does not answer");
                Err(Failure::Silent(Silence::Away))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_some_late_answers_in_a_row_nobody_waits_for_a_while() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for is_late in [true, true, false, true, true] {
            pace.note(is_late, now);
            assert!(!pace.rests(now));
        }
        pace.note(true, now);
        assert!(pace.rests(now) && !pace.rests(now + REST));
        // One more shows that it hangs still; one that comes ends it.
        pace.note(true, now + REST);
        assert!(pace.rests(now + REST));
        pace.note(false, now + REST);
        assert!(!pace.rests(now + REST));
    }
}
