//! The order of expressions that were tried, and which of them are kept.

use super::{FALLBACK_COST_MAX, Tried};
use crate::lesson::Goal;

/// Expressions of an attribute that do not read structured data, and those that do.
const KEPT_MAX: usize = 3;
const KEPT_MARKUP_MAX: usize = 2;

/// What is told of the examples, and which of them show it, a bit each.
#[derive(Clone, Copy)]
pub struct Told<'g> {
    pub goals: &'g [Option<Goal>],
    pub shown: u32,
}

impl Told<'_> {
    fn says(self, at: usize) -> bool {
        self.goals[at].as_ref().is_some_and(|goal| !goal.members.is_empty())
    }

    /// Whether the example has a value and shows it.
    pub fn has_value(self, at: usize) -> bool {
        self.says(at) && self.shown & (1 << at) != 0
    }

    /// Whether the example is told to have a value that it does not show.
    pub fn is_unshown(self, at: usize) -> bool {
        self.says(at) && self.shown & (1 << at) == 0
    }
}

/// F1 over these examples: what was found of what is there, and what was found beside it.
pub fn f1(one: &Tried, told: Told<'_>, pages: &[usize]) -> f64 {
    let has_value = |at: &&usize| told.has_value(**at);
    let there = pages.iter().filter(has_value).count() as f64;
    let right: f64 = pages.iter().filter(has_value).map(|at| one.outcomes[*at].score).sum();
    let wrong =
        pages.iter().filter(|at| one.outcomes[**at].is_wrong && !told.is_unshown(**at)).count() as f64;
    let given = pages.iter().filter(has_value).filter(|at| one.outcomes[**at].score > 0.0).count() as f64;
    2.0 * right / (there + given + wrong).max(1.0)
}

/// The better first: F1 in steps of a fiftieth, then cost, then length.
pub fn order(a: &Tried, b: &Tried, told: Told<'_>, pages: &[usize]) -> std::cmp::Ordering {
    let key = |one: &Tried| {
        let lost = 50 - (f1(one, told, pages) * 50.0).round() as i64;
        (lost, one.rank, one.candidate.xpath.len())
    };
    key(a).cmp(&key(b)).then_with(|| a.candidate.xpath.cmp(&b.candidate.xpath))
}

/// The share of so many other pages on which it gave something.
pub fn coverage(one: &Tried, others: usize) -> f64 {
    let answers = &one.answers[..others.min(one.answers.len())];
    if answers.is_empty() {
        return 1.0;
    }
    answers.iter().flatten().count() as f64 / answers.len() as f64
}

/// The best, and behind it those that hang on something else and do not contradict it.
pub fn choose(tried: &[Tried]) -> Vec<&Tried> {
    let mut kept: Vec<&Tried> = Vec::new();
    for one in tried {
        let same_kind =
            kept.iter().filter(|known| known.candidate.is_markup == one.candidate.is_markup).count();
        let most = if one.candidate.is_markup { KEPT_MARKUP_MAX } else { KEPT_MAX };
        let shares = |known: &&Tried| {
            one.candidate.anchors.iter().any(|anchor| known.candidate.anchors.contains(anchor))
        };
        let is_weak =
            kept.first().is_some_and(|first| one.candidate.cost > FALLBACK_COST_MAX || !adds(first, one));
        if same_kind < most
            && !is_weak
            && !kept.iter().any(shares)
            && !kept.iter().any(|known| contradicts(known, one))
        {
            kept.push(one);
        }
    }
    kept
}

/// Whether an expression is as good as the best on the examples, or finds what that one misses.
pub fn adds(best: &Tried, one: &Tried) -> bool {
    let sum = |tried: &Tried| tried.outcomes.iter().map(|outcome| outcome.score).sum::<f64>();
    let mut both = best.outcomes.iter().zip(&one.outcomes);
    sum(one) >= 0.9 * sum(best) || both.any(|(best, one)| best.score == 0.0 && one.score > 0.0)
}

/// Whether two expressions give different values on more than a tenth of the pages of which nothing is told.
pub fn contradicts(a: &Tried, b: &Tried) -> bool {
    let both = a.answers.iter().zip(&b.answers).filter(|(a, b)| a.is_some() && b.is_some());
    let (mut asked, mut apart) = (0, 0);
    for (a, b) in both {
        asked += 1;
        apart += usize::from(a != b);
    }
    apart * 10 > asked
}
