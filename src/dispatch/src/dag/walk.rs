//! The way of one job through a graph.
//!
//! [`Walk::next`] says what is to be done and changes nothing; whoever does it tells [`Walk::advance`] what came of it.
//! Both are pure, so a walk that was stored between the two does the same thing again, and one that waits is a row and
//! nothing else. Nodes that only decide (start, condition, split) are passed within `advance`.
//!
//! - A page is *at hand* from the newest attempt that succeeded. A node further on may fail without taking it away: what
//!   an end that succeeds delivers is that page.
//! - A target's own final answer (404, 410 …) ends the walk where it came, whatever the drawing says: no other provider
//!   would be told anything else.
//! - A provider node tries again, up to its `retries`, what may pass by itself; a provider's own failure (a bad key) does
//!   not, and takes the edge at once.
//! - A race may begin with some of its providers and be [put down](Walk::put_down) before the others are asked.
//! - Where nobody is left to ask ([`Walk::goes_on`]) the caller may [`stay`](Walk::stay) and have the node's work done again.

use super::{Graph, JobFacts, NodeIndex, NodeKind, Overrides, SplitBy};
use base::ids::{OutputId, ProviderId};
use fetch::Outcome;
use ring::digest::{SHA256, digest};

/// Where a job stands. Numbers of attempts count from 1 over the whole job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    pub at: NodeIndex,
    /// Attempts that the present node has made.
    pub tries: u32,
    /// Attempts that the job has made.
    pub attempts: u32,
    /// What the target answered last.
    pub http_status: Option<u16>,
    /// The attempt whose page is at hand.
    pub page: Option<u32>,
    /// The attempt that brought the target's own final answer.
    pub answered: Option<u32>,
    /// The outputs that were passed, in their order.
    pub outputs: Vec<OutputId>,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'g> {
    /// One request through one provider; then [`StepEvent::Attempted`].
    Attempt { node: &'g str, provider: ProviderId, options: &'g Overrides },
    /// Requests through all of them at once, until one is final; then [`StepEvent::Raced`].
    Race { node: &'g str, providers: &'g [ProviderId], options: &'g Overrides },
    /// Nothing for so long; then [`StepEvent::Waited`].
    Wait { ms: u32 },
    /// The quality of the page at hand; then [`StepEvent::Judged`].
    Extract { min_quality: f64 },
    /// The job is to be delivered to this output when it ends; then [`StepEvent::Noted`].
    Output { output: OutputId },
    /// Nothing more.
    End(WalkEnd),
}

/// How a walk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// With the page of this attempt, which is charged.
    Delivered { attempt: u32 },
    /// With the target's own answer in this attempt, which is charged as far as it was an answer.
    Answered { attempt: u32 },
    /// At an end node that says so: nothing is delivered and nothing charged.
    Failed,
    /// The walk does not fit the graph, which only damage can bring about.
    Lost,
}

/// What came of an attempt, as far as the walk cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptSummary {
    pub outcome: Outcome,
    pub http_status: Option<u16>,
}

impl AttemptSummary {
    /// Whether no other provider can do better.
    pub fn is_final(&self) -> bool {
        self.outcome.is_final(self.http_status)
    }
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepEvent<'e> {
    Attempted(AttemptSummary),
    /// The attempts that were made: those that ended, in that order, and behind them those that were given up because one
    /// had a final answer, which is who has won.
    Raced(&'e [AttemptSummary]),
    Waited,
    /// The composite quality of the page at hand; none when there is no schema to judge it by, which is good enough.
    Judged(Option<f64>),
    Noted,
}

/// An event that does not belong to the step that was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongEvent;

impl std::fmt::Display for WrongEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the event does not belong to the walk's step")
    }
}

impl std::error::Error for WrongEvent {}

impl Walk {
    /// A walk at the first node that has something to do.
    pub fn begin(graph: &Graph, facts: &JobFacts<'_>) -> Walk {
        let mut walk = Walk {
            at: graph.start,
            tries: 0,
            attempts: 0,
            http_status: None,
            page: None,
            answered: None,
            outputs: Vec::new(),
        };
        walk.go(graph, facts, graph.start);
        walk
    }

    /// What is to be done.
    pub fn next<'g>(&self, graph: &'g Graph) -> Step<'g> {
        if let Some(attempt) = self.answered {
            return Step::End(WalkEnd::Answered { attempt });
        }
        let Some(node) = graph.nodes.get(self.at) else { return Step::End(WalkEnd::Lost) };
        match &node.work {
            NodeKind::Provider { provider, options, .. } => {
                Step::Attempt { node: &node.id, provider: *provider, options }
            }
            NodeKind::Race { providers, options, .. } => Step::Race { node: &node.id, providers, options },
            NodeKind::Wait { ms, .. } => Step::Wait { ms: *ms },
            NodeKind::Extract { min_quality, .. } => Step::Extract { min_quality: *min_quality },
            NodeKind::Output { output, .. } => Step::Output { output: *output },
            NodeKind::End { succeeded: false } => Step::End(WalkEnd::Failed),
            NodeKind::End { succeeded: true } => match self.page {
                Some(attempt) => Step::End(WalkEnd::Delivered { attempt }),
                None => Step::End(WalkEnd::Lost),
            },
            NodeKind::Start { .. } | NodeKind::Condition { .. } | NodeKind::Split { .. } => {
                Step::End(WalkEnd::Lost)
            }
        }
    }

    /// Takes in what came of the step that [`Walk::next`] gave.
    pub fn advance(
        &mut self,
        graph: &Graph,
        facts: &JobFacts<'_>,
        event: StepEvent<'_>,
    ) -> Result<(), WrongEvent> {
        let node = graph.nodes.get(self.at).filter(|_| self.answered.is_none()).ok_or(WrongEvent)?;
        let next = match (&node.work, event) {
            (NodeKind::Provider { retries, edges, .. }, StepEvent::Attempted(seen)) => {
                self.see(seen);
                match seen.outcome {
                    Outcome::Success => edges.success,
                    // The walk ends here: see `next`.
                    _ if seen.is_final() => return Ok(()),
                    _ if seen.outcome.passes_by(seen.http_status) && self.tries <= *retries => return Ok(()),
                    Outcome::Blocked => edges.blocked.unwrap_or(edges.failure),
                    Outcome::Timeout => edges.timeout.unwrap_or(edges.failure),
                    _ => edges.failure,
                }
            }
            (NodeKind::Race { success, failure, .. }, StepEvent::Raced(seen)) => {
                seen.iter().for_each(|seen| self.see(*seen));
                match seen.iter().find(|seen| seen.is_final()).map(|seen| seen.outcome) {
                    Some(Outcome::Success) => *success,
                    Some(_) => return Ok(()),
                    None => *failure,
                }
            }
            (NodeKind::Wait { next, .. }, StepEvent::Waited) => *next,
            (NodeKind::Extract { min_quality, success, low_quality }, StepEvent::Judged(quality)) => {
                if quality.is_none_or(|quality| quality >= *min_quality) {
                    *success
                } else {
                    *low_quality
                }
            }
            (NodeKind::Output { output, next }, StepEvent::Noted) => {
                if !self.outputs.contains(output) {
                    self.outputs.push(*output);
                }
                *next
            }
            _ => return Err(WrongEvent),
        };
        self.go(graph, facts, next);
        Ok(())
    }

    /// Takes in attempts of the present node that told nothing of the target, and stays there: its work is done again.
    /// They count as attempts of the job and not as the node's tries.
    pub fn stay(&mut self, seen: &[AttemptSummary]) {
        for seen in seen {
            self.attempts += 1;
            self.http_status = seen.http_status.or(self.http_status);
        }
    }

    /// Takes in attempts of a race of which others have yet to begin, none of them final, and stays there: its further
    /// attempts are behind these.
    pub fn put_down(&mut self, seen: &[AttemptSummary]) {
        seen.iter().for_each(|seen| self.see(*seen));
    }

    /// Whether the drawing knows what to do when the present node's providers fail by themselves: behind that stands
    /// somebody who can be asked, a pause, a look at the page at hand, or an end that delivers it.
    pub fn goes_on(
        &self,
        graph: &Graph,
        facts: &JobFacts<'_>,
        can_ask: impl Fn(ProviderId, &Overrides) -> bool,
    ) -> bool {
        const FAILED: AttemptSummary = AttemptSummary { outcome: Outcome::ProviderError, http_status: None };
        let mut ahead = self.clone();
        let mut is_ahead = false;
        // There is no cycle, so this ends; the count holds for a graph that is damaged in memory, too.
        for _ in 0..=graph.nodes.len() {
            let failed = match ahead.next(graph) {
                Step::Attempt { provider, options, .. } => {
                    if is_ahead && can_ask(provider, options) {
                        return true;
                    }
                    ahead.advance(graph, facts, StepEvent::Attempted(FAILED))
                }
                Step::Race { providers, options, .. } => {
                    if is_ahead && providers.iter().any(|provider| can_ask(*provider, options)) {
                        return true;
                    }
                    ahead.advance(graph, facts, StepEvent::Raced(&vec![FAILED; providers.len()]))
                }
                Step::Wait { .. } | Step::Extract { .. } => return true,
                Step::Output { .. } => ahead.advance(graph, facts, StepEvent::Noted),
                Step::End(ending) => {
                    return matches!(ending, WalkEnd::Delivered { .. } | WalkEnd::Answered { .. });
                }
            };
            if failed.is_err() {
                return false;
            }
            is_ahead = true;
        }
        false
    }

    fn see(&mut self, seen: AttemptSummary) {
        self.attempts += 1;
        self.tries += 1;
        self.http_status = seen.http_status.or(self.http_status);
        match seen.outcome {
            Outcome::Success => self.page = Some(self.attempts),
            _ if seen.is_final() => self.answered = Some(self.attempts),
            _ => {}
        }
    }

    /// Goes to `place` and on from there to the first node with something to do.
    fn go(&mut self, graph: &Graph, facts: &JobFacts<'_>, place: NodeIndex) {
        self.at = place;
        self.tries = 0;
        // There is no cycle, so this ends; the count holds for a graph that is damaged in memory, too.
        for _ in 0..graph.nodes.len() {
            let Some(node) = graph.nodes.get(self.at) else { return };
            self.at = match &node.work {
                NodeKind::Start { next } => *next,
                NodeKind::Condition { test, on_true, on_false } => {
                    if test.holds(facts, self.attempts, self.http_status) { *on_true } else { *on_false }
                }
                NodeKind::Split { branches, by } => choose(&node.id, branches, *by, facts),
                _ => return,
            };
        }
    }
}

/// The branch that a job takes: the hash of the node's id and of what the choice hangs on falls into the branch's share.
/// The rule is kept for ever, or URLs would change sides with an upgrade.
fn choose(node: &str, branches: &[(NodeIndex, u32)], by: SplitBy, facts: &JobFacts<'_>) -> NodeIndex {
    let key = match by {
        SplitBy::Url => facts.url.as_bytes(),
        SplitBy::Job => &facts.job,
    };
    let hash = digest(&SHA256, &[node.as_bytes(), &[0], key].concat());
    let mut head = [0; 8];
    head.copy_from_slice(&hash.as_ref()[..8]);
    let total: u64 = branches.iter().map(|(_, weight)| u64::from(*weight)).sum();
    // The high half of the product is evenly spread over 0..total.
    let mut left = ((u128::from(u64::from_be_bytes(head)) * u128::from(total)) >> 64) as u64;
    for (place, weight) in branches {
        match left.checked_sub(u64::from(*weight)) {
            None => return *place,
            Some(rest) => left = rest,
        }
    }
    // Weights that are all zero are refused when the graph is read.
    branches.first().map_or(0, |(place, _)| *place)
}
