//! Expressions out of examples: candidates of all pages, tried on all pages, ranked, and the best independent ones kept.

use std::collections::{BTreeSet, HashMap};

use page::extract::{Attribute, AttributeType};
use page::html::Document;
use page::xpath::{Fuel, NodeRef, XPath};

use crate::candidates::{Candidate, candidates};
use crate::forms::{Form, fold};
use crate::lesson::{Goal, Outcome, Wanted, answer_key, judge, read};
use crate::places::{Page, Places};

/// Pages with values that are learned from.
pub const EXAMPLES_MAX: usize = 32;
/// Pages without values that are looked at.
pub const OTHERS_MAX: usize = 24;
/// Attributes of one lesson.
pub const ATTRIBUTES_MAX: usize = 64;
/// Work of one lesson: about four seconds where pages are hostile, and a small part of it where they are not.
pub const LESSON_FUEL_MAX: u64 = 250_000_000;

/// Expressions of one attribute that are tried on the examples.
const TRIED_MAX: usize = 240;
/// Expressions of one attribute that are tried on the other pages.
const COMPARED_MAX: usize = 10;
/// Different expressions that are made for one attribute.
const CANDIDATES_MAX: usize = 30_000;
/// Places of a value on one page that expressions are made for.
const PLACES_MAX: usize = 16;
/// What is added to a cost at most for text beside the value.
const EXCESS_MAX: usize = 30;
/// Expressions of an attribute that do not read structured data, and those that do.
const KEPT_MAX: usize = 3;
const KEPT_MARKUP_MAX: usize = 2;
/// What an expression must reach on the examples.
const F1_MIN: f64 = 0.5;
/// Costs above which an expression is no fallback: it hangs on positions.
const FALLBACK_COST_MAX: u32 = 60;
/// What is added to the cost of an expression of which only the first node is right.
const COST_AMBIGUOUS: u32 = 15;

/// A page with values that somebody told.
#[derive(Clone, Debug)]
pub struct Example<'a> {
    pub page: Page<'a>,
    /// By attribute. An attribute that is left out is not known; one without texts is known not to be there. A single value with
    /// several texts is right as any of them.
    pub values: Vec<(String, Vec<String>)>,
}

/// An expression that was learned.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedPath {
    pub xpath: String,
    /// On the examples that have a value.
    pub f1: f64,
    /// The share of the other pages on which it gives something of the attribute's form; 1 without other pages.
    pub coverage: f64,
    /// Whether it reads the page's structured data itself (`itemprop`, `<meta>`).
    pub is_markup: bool,
}

/// What was learned of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    pub name: String,
    pub kind: AttributeType,
    /// In the order in which they are to be tried; none where nothing was found.
    pub paths: Vec<LearnedPath>,
    /// How many examples have a value.
    pub example_count: usize,
    /// How many of them were found by what the others alone would have taught.
    pub held_out_right: f64,
    /// Whether the values differ between the examples, and the first expression is right on all and hangs on no positions: it did not
    /// come about by chance.
    pub is_firm: bool,
    /// The share of right values to expect, from the held-out examples and from agreement on the other pages, by Laplace's rule of
    /// succession: few examples never give full confidence.
    pub confidence: f64,
}

impl Learned {
    /// The attribute as a schema has it; none where no expression was found.
    pub fn attribute(&self) -> Option<Attribute> {
        (!self.paths.is_empty()).then(|| Attribute {
            name: self.name.clone(),
            xpaths: self.paths.iter().map(|path| path.xpath.clone()).collect(),
            json_paths: None,
            kind: self.kind,
            description: None,
            anti_patterns: None,
            semantic_type: None,
            validation: None,
        })
    }
}

impl Wanted {
    /// What an attribute is, by the texts that its examples have: a web address is a link, several texts on one page are a list,
    /// and a text that is digits around a point or comma, or beside a sign of currency, is a number.
    pub fn guess(name: &str, examples: &[Example<'_>]) -> Wanted {
        let told = examples.iter().flat_map(|example| &example.values).filter(|(known, _)| known == name);
        let told: Vec<&Vec<String>> =
            told.map(|(_, texts)| texts).filter(|texts| !texts.is_empty()).collect();
        let values =
            |texts: &Vec<String>| texts.iter().filter_map(|text| fold(text)).collect::<BTreeSet<_>>().len();
        let is_list = told.iter().any(|texts| values(texts) > 1);
        let all = |test: fn(&str) -> bool| {
            !told.is_empty() && told.iter().all(|texts| texts.iter().all(|text| test(text.trim())))
        };
        let is_link = |text: &str| {
            ["http://", "https://", "//", "/"].iter().any(|front| text.starts_with(front))
                && !text.contains(' ')
        };
        let (kind, form) = match is_list {
            true if all(is_link) => (AttributeType::UrlList, Form::Link),
            true => (AttributeType::TextList, Form::Text),
            false if all(is_link) => (AttributeType::Url, Form::Link),
            false if all(is_amount) => (AttributeType::Number, Form::Number),
            false => (AttributeType::Text, Form::Text),
        };
        Wanted { name: name.to_owned(), kind, form }
    }
}

/// Digits, one point or comma and a sign of currency, and nothing else. A mere run of digits is a code as often as a number.
fn is_amount(text: &str) -> bool {
    let sign = |c: char| matches!(c, '$' | '€' | '£' | '¥' | '₹');
    let only = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | ' ' | '-') || sign(c));
    let marks = text.matches(['.', ',']).count();
    only && text.contains(|c: char| c.is_ascii_digit()) && (text.contains(sign) || marks == 1)
}

/// Learns each attribute from pages with values as they are seen there. `others` are pages of the same kind without values.
///
/// No expression is kept that is wrong on an example. Ends when `fuel` is used up, with what was found until then.
pub fn learn(
    wanted: &[Wanted],
    examples: &[Example<'_>],
    others: &[Page<'_>],
    fuel: &mut Fuel,
) -> Vec<Learned> {
    let forms: Vec<Form> = wanted.iter().map(|wanted| wanted.form).collect();
    let texts = examples.iter().flat_map(|example| &example.values).flat_map(|(_, texts)| texts);
    let text_bytes_max = texts.map(String::len).max().unwrap_or(0);
    let examples = &examples[..examples.len().min(EXAMPLES_MAX)];
    let places: Vec<_> =
        examples.iter().map(|example| Places::new(example.page, &forms, text_bytes_max)).collect();
    let class = Class::new(places, others, 0);
    let lesson = |wanted: &Wanted| {
        let goals = examples.iter().zip(&class.examples).map(|(example, places)| {
            let told = example.values.iter().find(|(name, _)| *name == wanted.name);
            told.map(|(_, texts)| Goal::seen(wanted.form, texts, places.reading()))
        });
        class.learn(wanted, &goals.collect::<Vec<_>>(), fuel)
    };
    wanted.iter().take(ATTRIBUTES_MAX).map(lesson).collect()
}

/// The pages of a lesson.
pub struct Class<'a> {
    pub examples: Vec<Places<'a>>,
    others: Vec<Places<'a>>,
    /// On how many pages each short text stands.
    labels: HashMap<String, usize>,
    /// Of so many examples one may be wrong, because what is told of it may be; 0 where all is true.
    examples_per_error: usize,
}

/// A candidate and what it came to on each example.
struct Tried {
    candidate: Candidate,
    xpath: XPath,
    /// The examples for which it was made, a bit each.
    origins: u32,
    outcomes: Vec<Outcome>,
    /// What it gave on each of the other pages.
    answers: Vec<Option<String>>,
    /// Cost with what the other pages say.
    rank: u32,
}

impl<'a> Class<'a> {
    pub fn new(examples: Vec<Places<'a>>, others: &[Page<'a>], examples_per_error: usize) -> Class<'a> {
        let others: Vec<_> = others.iter().take(OTHERS_MAX).map(|page| Places::new(*page, &[], 0)).collect();
        let mut labels: HashMap<String, usize> = HashMap::new();
        for places in examples.iter().chain(&others) {
            let mut own: Vec<String> = places.label_texts().collect();
            own.sort_unstable();
            own.dedup();
            for text in own {
                *labels.entry(text).or_default() += 1;
            }
        }
        Class { examples, others, labels, examples_per_error }
    }

    /// The examples, and behind them the others.
    pub fn pages(&self) -> impl Iterator<Item = &Places<'a>> {
        self.examples.iter().chain(&self.others)
    }

    /// Learns one attribute. A goal is what is told of the example of the same place.
    pub fn learn(&self, wanted: &Wanted, goals: &[Option<Goal>], fuel: &mut Fuel) -> Learned {
        let example_count = goals.iter().flatten().filter(|goal| !goal.members.is_empty()).count();
        let mut tried = self.try_all(wanted, goals, fuel);
        let all: Vec<usize> = (0..goals.len()).filter(|at| goals[*at].is_some()).collect();
        let held_out_right = self.hold_out(&tried, goals, &all);
        tried.retain(|one| self.is_fit(one, goals, &all));
        tried.sort_by(|a, b| order(a, b, goals, &all));
        // Equal expressions but for their costs come in crowds, and the first of each anchor speaks for it.
        let mut seen: Vec<Vec<String>> = Vec::new();
        tried.retain(|one| {
            let is_new = seen.iter().filter(|anchors| **anchors == one.candidate.anchors).count() < 2;
            seen.push(one.candidate.anchors.clone());
            is_new
        });
        tried.truncate(COMPARED_MAX * 3);
        self.compare(wanted, &mut tried, fuel);
        tried.sort_by(|a, b| order(a, b, goals, &all));
        let kept = choose(&tried);
        let paths = kept.iter().map(|one| LearnedPath {
            xpath: one.candidate.xpath.clone(),
            f1: f1(one, goals, &all),
            coverage: coverage(one),
            is_markup: one.candidate.is_markup,
        });
        let paths: Vec<_> = paths.collect();
        let agreed = kept.first().map_or(0.0, |first| coverage(first) * self.others.len() as f64 / 4.0);
        let asked = self.others.len() as f64 / 4.0;
        let confidence = match paths.is_empty() {
            true => 0.0,
            false => {
                let evidence = if is_constant(goals) { 0.5 } else { 1.0 };
                (evidence * held_out_right + agreed + 1.0) / (example_count as f64 + asked + 2.0)
            }
        };
        let is_firm = kept.first().is_some_and(|first| first.candidate.cost <= FALLBACK_COST_MAX)
            && paths.first().is_some_and(|path| path.f1 > 0.99)
            && example_count > 1
            && !is_constant(goals);
        let (name, kind) = (wanted.name.clone(), wanted.kind);
        Learned { name, kind, paths, example_count, held_out_right, is_firm, confidence }
    }

    /// Makes candidates of every example and tries the most promising on all.
    fn try_all(&self, wanted: &Wanted, goals: &[Option<Goal>], fuel: &mut Fuel) -> Vec<Tried> {
        let is_constant = is_constant(goals);
        let mut made: HashMap<String, (Candidate, u32)> = HashMap::new();
        for (at, (places, goal)) in self.examples.iter().zip(goals).enumerate() {
            let Some(goal) = goal.as_ref().filter(|goal| !goal.members.is_empty()) else { continue };
            for candidate in self.made_for(wanted, goal, places, is_constant) {
                if made.len() == CANDIDATES_MAX && !made.contains_key(&candidate.xpath) {
                    continue;
                }
                let known = made.entry(candidate.xpath.clone()).or_insert_with(|| (candidate.clone(), 0));
                known.1 |= 1 << at;
                known.0.cost = known.0.cost.min(candidate.cost);
            }
        }
        let mut ordered: Vec<(Candidate, u32)> = made.into_values().collect();
        // What was made for many examples is right on them, and wrong only by what it finds before.
        ordered.sort_by(|(a, of_a), (b, of_b)| {
            let key = |candidate: &Candidate, origins: u32| {
                (u32::MAX - origins.count_ones(), candidate.cost, candidate.xpath.len())
            };
            key(a, *of_a).cmp(&key(b, *of_b)).then_with(|| a.xpath.cmp(&b.xpath))
        });
        ordered.truncate(TRIED_MAX);
        let try_one = |(candidate, origins): (Candidate, u32)| {
            let xpath = XPath::compile(&candidate.xpath).ok()?;
            let outcomes = self.outcomes(wanted, &xpath, goals, fuel)?;
            let ambiguous = outcomes.iter().any(|outcome| outcome.is_ambiguous);
            let rank = candidate.cost + if ambiguous { COST_AMBIGUOUS } else { 0 };
            Some(Tried { candidate, xpath, origins, outcomes, answers: Vec::new(), rank })
        };
        ordered.into_iter().filter_map(try_one).collect()
    }

    fn made_for(
        &self,
        wanted: &Wanted,
        goal: &Goal,
        places: &Places<'_>,
        is_constant: bool,
    ) -> Vec<Candidate> {
        let pages = self.examples.len() + self.others.len();
        let is_label = |text: &str| pages < 2 || self.labels.get(text).is_some_and(|count| *count > 1);
        let last = goal.members.len() - 1;
        let mut members = match wanted.kind.is_list() {
            true => vec![0, 1.min(last), last / 2, last],
            false => (0..=last.min(3)).collect(),
        };
        members.dedup();
        let mut found = Vec::new();
        let mut all_places = Vec::new();
        // Of a single value that is written in several ways the longest says most; "8" stands everywhere.
        if !wanted.kind.is_list() {
            members.sort_by_key(|member| std::cmp::Reverse(goal.texts[*member].len()));
        }
        for member in members {
            if !wanted.kind.is_list() && !all_places.is_empty() {
                break;
            }
            let there = places.of_keys(&goal.members[member]).into_iter();
            let there = there.filter(|place| !is_constant || is_read(places.page.document, *place));
            let there: Vec<NodeRef> = there.take(PLACES_MAX).collect();
            let length = |place: &NodeRef| place.string_value(places.page.document).trim().len();
            let shortest = there.iter().map(length).min().unwrap_or(0);
            for place in there {
                if !all_places.contains(&place) {
                    all_places.push(place);
                    // "12.90" in a box of its own rather than in the box around it, whose first number it is.
                    let excess = (length(&place) - shortest).min(EXCESS_MAX) as u32;
                    let made = candidates(places, place, &is_label).into_iter();
                    found.extend(made.map(|one| Candidate { cost: one.cost + excess, ..one }));
                }
            }
        }
        if all_places.is_empty() && wanted.form == Form::Text && !wanted.kind.is_list() {
            for (place, beginning) in places.behind_a_beginning(&goal.texts[0]) {
                let whole = candidates(places, place, &is_label);
                found.extend(
                    whole.into_iter().filter_map(|candidate| without_beginning(candidate, &beginning)),
                );
            }
        }
        found
    }

    /// What an expression comes to on each example that something is told of. None when it ran dry, or was wrong so often that it
    /// can neither be kept nor speak against others.
    fn outcomes(
        &self,
        wanted: &Wanted,
        xpath: &XPath,
        goals: &[Option<Goal>],
        fuel: &mut Fuel,
    ) -> Option<Vec<Outcome>> {
        let mut wrong = 0;
        let mut outcomes = Vec::with_capacity(goals.len());
        for (places, goal) in self.examples.iter().zip(goals) {
            let outcome = match goal {
                Some(goal) => {
                    judge(wanted, goal, &read(xpath, places, fuel)?, self.precision_min(), places.reading())
                }
                None => Outcome::default(),
            };
            wrong += usize::from(outcome.is_wrong);
            if wrong > self.errors_max(goals.len()) + 1 {
                return None;
            }
            outcomes.push(outcome);
        }
        Some(outcomes)
    }

    /// The share of a list's members that must be right. Structured data often says members in other words than the page.
    fn precision_min(&self) -> f64 {
        if self.examples_per_error == 0 { 0.9 } else { 0.6 }
    }

    fn errors_max(&self, examples: usize) -> usize {
        examples.checked_div(self.examples_per_error).unwrap_or(0)
    }

    /// Whether an expression may be kept, by these examples.
    fn is_fit(&self, one: &Tried, goals: &[Option<Goal>], pages: &[usize]) -> bool {
        let wrong = pages.iter().filter(|at| one.outcomes[**at].is_wrong).count();
        wrong <= self.errors_max(pages.len()) && f1(one, goals, pages) >= F1_MIN
    }

    /// Learns as often as there are examples with a value, each time without one, and asks for that one.
    fn hold_out(&self, tried: &[Tried], goals: &[Option<Goal>], all: &[usize]) -> f64 {
        let has_value = |at: &usize| goals[*at].as_ref().is_some_and(|goal| !goal.members.is_empty());
        let held = all.iter().filter(|at| has_value(at));
        held.map(|held| {
            let rest: Vec<usize> = all.iter().copied().filter(|at| at != held).collect();
            let known = tried.iter().filter(|one| one.origins & !(1 << held) != 0);
            let best =
                known.filter(|one| self.is_fit(one, goals, &rest)).min_by(|a, b| order(a, b, goals, &rest));
            best.map_or(0.0, |best| best.outcomes[*held].score)
        })
        .sum()
    }

    /// Asks the other pages, and ranks down what is found on few of them or what most others contradict.
    fn compare(&self, wanted: &Wanted, tried: &mut [Tried], fuel: &mut Fuel) {
        for places in &self.others {
            let mut votes: HashMap<String, usize> = HashMap::new();
            for one in tried.iter_mut().take(COMPARED_MAX) {
                let texts = read(&one.xpath, places, fuel).unwrap_or_default();
                let answer = answer_key(wanted, &texts, places.reading());
                if let Some(answer) = &answer {
                    *votes.entry(answer.clone()).or_default() += 1;
                }
                one.answers.push(answer);
            }
            let most = votes.values().copied().max().unwrap_or(0);
            let penalty = 60 / self.others.len().max(1) as u32;
            for one in tried.iter_mut().take(COMPARED_MAX) {
                one.rank += match one.answers.last().and_then(Option::as_ref) {
                    Some(answer) if votes.get(answer) == Some(&most) => 0,
                    Some(_) => penalty,
                    None if most > 0 => penalty / 2,
                    None => 0,
                };
            }
        }
    }
}

/// Whether all examples have the same value, so that anything which is the same on all pages may be taken for it.
fn is_constant(goals: &[Option<Goal>]) -> bool {
    let mut told = goals.iter().flatten().filter(|goal| !goal.members.is_empty());
    let Some(first) = told.next() else { return false };
    let mut rest = told.peekable();
    rest.peek().is_some()
        && rest.all(|goal| {
            goal.members.iter().flatten().any(|key| first.members.iter().flatten().any(|own| own == key))
        })
}

/// Whether a place is a text, or an attribute that is about the page or leads somewhere.
fn is_read(document: &Document, place: NodeRef) -> bool {
    let name = place.attribute().map(|attribute| document.attr_name(attribute));
    name.is_none_or(|name| matches!(name, "content" | "href" | "src" | "datetime"))
}

/// An expression that takes off what stands before a value in the same text.
fn without_beginning(candidate: Candidate, beginning: &str) -> Option<Candidate> {
    if beginning.contains(['\'', '"']) || beginning.contains(char::is_control) {
        return None;
    }
    let xpath = format!("substring-after(normalize-space({}), '{beginning}')", candidate.xpath);
    let mut anchors = candidate.anchors;
    anchors.push(format!("\"{beginning}\""));
    Some(Candidate { xpath, cost: candidate.cost + 8, anchors, is_markup: candidate.is_markup })
}

/// F1 over these examples: what was found of what is there, and what was found beside it.
fn f1(one: &Tried, goals: &[Option<Goal>], pages: &[usize]) -> f64 {
    let has_value = |at: &&usize| goals[**at].as_ref().is_some_and(|goal| !goal.members.is_empty());
    let there = pages.iter().filter(has_value).count() as f64;
    let right: f64 = pages.iter().filter(has_value).map(|at| one.outcomes[*at].score).sum();
    let wrong = pages.iter().filter(|at| one.outcomes[**at].is_wrong).count() as f64;
    let given = pages.iter().filter(has_value).filter(|at| one.outcomes[**at].score > 0.0).count() as f64;
    2.0 * right / (there + given + wrong).max(1.0)
}

/// The better first: F1 in steps of a fiftieth, then cost, then length.
fn order(a: &Tried, b: &Tried, goals: &[Option<Goal>], pages: &[usize]) -> std::cmp::Ordering {
    let key = |one: &Tried| {
        let lost = 50 - (f1(one, goals, pages) * 50.0).round() as i64;
        (lost, one.rank, one.candidate.xpath.len())
    };
    key(a).cmp(&key(b)).then_with(|| a.candidate.xpath.cmp(&b.candidate.xpath))
}

/// The share of the other pages on which it gave something.
fn coverage(one: &Tried) -> f64 {
    if one.answers.is_empty() {
        return 1.0;
    }
    one.answers.iter().flatten().count() as f64 / one.answers.len() as f64
}

/// The best, and behind it those that hang on something else and do not contradict it.
fn choose(tried: &[Tried]) -> Vec<&Tried> {
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
fn adds(best: &Tried, one: &Tried) -> bool {
    let sum = |tried: &Tried| tried.outcomes.iter().map(|outcome| outcome.score).sum::<f64>();
    let mut both = best.outcomes.iter().zip(&one.outcomes);
    sum(one) >= 0.9 * sum(best) || both.any(|(best, one)| best.score == 0.0 && one.score > 0.0)
}

/// Whether two expressions give different values on more than a tenth of the other pages.
fn contradicts(a: &Tried, b: &Tried) -> bool {
    let both = a.answers.iter().zip(&b.answers).filter(|(a, b)| a.is_some() && b.is_some());
    let (mut asked, mut apart) = (0, 0);
    for (a, b) in both {
        asked += 1;
        apart += usize::from(a != b);
    }
    apart * 10 > asked
}

#[cfg(test)]
mod tests;
