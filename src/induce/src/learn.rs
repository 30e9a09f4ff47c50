//! Expressions out of examples: candidates of all pages, tried on all pages, ranked, and the best independent ones kept.

use std::collections::{BTreeSet, HashMap};

use page::extract::{Attribute, AttributeType};
use page::xpath::{Fuel, NodeRef, XPath};

use crate::bounds::Bound;
use crate::candidates::Candidate;
use crate::forms::{Form, fold};
use crate::lesson::{Goal, Outcome, Wanted, answer_key, evaluate, judge, read, said, shown_at};
use crate::places::{Page, Places};
pub use make::is_constant;
pub use point::{Pointed, Pointing, point};
use rank::{Told, choose, coverage, f1, order};

/// Pages with values that are learned from.
pub const EXAMPLES_MAX: usize = 32;
/// Pages without values that are looked at.
pub const OTHERS_MAX: usize = 24;
/// Attributes of one lesson.
pub const ATTRIBUTES_MAX: usize = 64;

/// Expressions of one attribute that are tried on the examples.
const TRIED_MAX: usize = 240;
/// Expressions of one attribute that are tried on the other pages.
const COMPARED_MAX: usize = 10;
/// Different expressions that are made for one attribute.
const CANDIDATES_MAX: usize = 30_000;
/// What an expression must reach on the examples.
const F1_MIN: f64 = 0.5;
/// Costs above which an expression is no fallback: it hangs on positions.
const FALLBACK_COST_MAX: u32 = 60;
/// Expressions that read structured data, where they are learned apart.
const TRIED_MARKUP_MAX: usize = 60;
/// Pages with the right value that one page outweighs which shows another value, but not what it says of itself.
const UNSHOWN_WEIGHT: usize = 2;
/// The share of held-back pages on which what was learned from pages alone must be right.
const HELD_OUT_MIN: f64 = 0.5;
/// Pages that must show a value.
const LABELLED_MIN: usize = 2;
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
    /// JSONPaths that give it from what the pages carry of JSON, behind the expressions.
    pub json_paths: Vec<String>,
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
        let is_any = !self.paths.is_empty() || !self.json_paths.is_empty();
        is_any.then(|| Attribute {
            name: self.name.clone(),
            xpaths: self.paths.iter().map(|path| path.xpath.clone()).collect(),
            json_paths: (!self.json_paths.is_empty()).then(|| self.json_paths.clone()),
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
        Wanted { name: name.to_owned(), kind, form, is_told_list: false }
    }

    /// The same as a list: somebody has said that it is one, although each page has one member of it.
    pub fn listed(self) -> Wanted {
        let (kind, form) = match self.kind {
            AttributeType::Url | AttributeType::UrlList => (AttributeType::UrlList, Form::Link),
            _ => (AttributeType::TextList, Form::Text),
        };
        Wanted { kind, form, is_told_list: true, ..self }
    }
}

/// Digits, one point or comma and a sign of currency, and nothing else. A mere run of digits is a code as often as a number.
fn is_amount(text: &str) -> bool {
    let sign = |c: char| matches!(c, '$' | '€' | '£' | '¥' | '₹');
    let only = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | ' ' | '-') || sign(c));
    let marks = text.matches(['.', ',']).count();
    only && text.contains(|c: char| c.is_ascii_digit()) && (text.contains(sign) || marks == 1)
}

/// What a lesson came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Taught {
    /// In the order in which they were wanted.
    pub attributes: Vec<Learned>,
    /// Limits that were reached: there may be more to learn than was.
    pub bounds: Vec<Bound>,
}

/// Learns each attribute from pages with values as they are seen there. `others` are pages of the same kind without values.
///
/// No expression is kept that is wrong on an example. Ends when `fuel` is used up, with what was found until then.
pub fn learn(wanted: &[Wanted], examples: &[Example<'_>], others: &[Page<'_>], fuel: &mut Fuel) -> Taught {
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
    let attributes = wanted.iter().take(ATTRIBUTES_MAX).map(lesson).collect();
    Taught { attributes, bounds: class.bounds(fuel) }
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

/// What is asked of a class.
pub struct Question<'q> {
    pub wanted: &'q Wanted,
    /// What is told of the example of the same place.
    pub goals: &'q [Option<Goal>],
    /// Parts of names and labels that speak of the attribute, in lower case.
    pub hints: &'q [&'q str],
    /// Parts that speak of something else.
    pub contrary: &'q [&'q str],
}

/// The examples that show a value in structured data, and those that show it otherwise, a bit each.
#[derive(Clone, Copy, Default)]
struct Shown {
    in_markup: u32,
    in_text: u32,
}

/// A candidate and what it came to on each example.
struct Tried {
    candidate: Candidate,
    xpath: XPath,
    /// The examples for which it was made, a bit each.
    origins: u32,
    outcomes: Vec<Outcome>,
    /// What it gave on each of the other pages, and behind them on each example of which nothing is told.
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

    /// The limits that were reached, of work and of an example that was not looked at to its end.
    pub fn bounds(&self, fuel: &Fuel) -> Vec<Bound> {
        let of_page = self.examples.iter().any(|places| places.is_cut).then_some(Bound::Page);
        Bound::of_work(fuel).into_iter().chain(of_page).collect()
    }

    /// The examples, and behind them the others.
    pub fn pages(&self) -> impl Iterator<Item = &Places<'a>> {
        self.examples.iter().chain(&self.others)
    }

    /// Learns one attribute of which all that is told is true. A goal is what is told of the example of the same place.
    pub fn learn(&self, wanted: &Wanted, goals: &[Option<Goal>], fuel: &mut Fuel) -> Learned {
        let question = Question { wanted, goals, hints: &[], contrary: &[] };
        let (tried, _) = self.try_all(&question, true, fuel);
        let settled = self.settle(&question, u32::MAX, tried, fuel);
        settled.learned(wanted)
    }

    /// Learns one attribute from what pages say of themselves. What reads structured data is right about it by nature, so
    /// that and what readers see are learned apart, and only of pages that show the value; what does not hold is left out.
    pub fn learn_said(&self, question: &Question<'_>, fuel: &mut Fuel) -> Learned {
        let (tried, shown) = self.try_all(question, false, fuel);
        let (markup, seen): (Vec<Tried>, Vec<Tried>) =
            tried.into_iter().partition(|one| one.candidate.is_markup);
        let mut settled = self.settle(question, shown.in_markup, markup, fuel);
        let seen = self.settle(question, shown.in_text, seen, fuel);
        if !settled.holds() {
            settled = Settled::default();
        }
        if seen.holds() {
            settled = settled.followed_by(seen);
        }
        settled.learned(question.wanted)
    }

    /// Chooses among expressions that were tried.
    fn settle(&self, question: &Question<'_>, shown: u32, mut tried: Vec<Tried>, fuel: &mut Fuel) -> Settled {
        let told = Told { goals: question.goals, shown };
        let example_count = (0..told.goals.len()).filter(|at| told.has_value(*at)).count();
        let all: Vec<usize> = (0..told.goals.len()).filter(|at| told.goals[*at].is_some()).collect();
        let held_out_right = self.hold_out(&tried, told, &all);
        let errors_max = self.errors_max(told, &all);
        tried.retain(|one| self.is_fit(one, told, &all, errors_max));
        let is_chance = is_constant(told.goals, question.wanted.kind.is_list()) || example_count < 2;
        // What one page alone says is taken from what is called by the attribute's name, if that is as good.
        let best = tried.iter().map(|one| f1(one, told, &all)).fold(0.0, f64::max);
        let is_as_good = |one: &Tried| one.candidate.is_hinted && f1(one, told, &all) >= best;
        if is_chance && tried.iter().any(is_as_good) {
            tried.retain(is_as_good);
        }
        tried.sort_by(|a, b| order(a, b, told, &all));
        // Equal expressions but for their costs come in crowds, and the first of each anchor speaks for it.
        let mut seen: Vec<Vec<String>> = Vec::new();
        tried.retain(|one| {
            let is_new = seen.iter().filter(|anchors| **anchors == one.candidate.anchors).count() < 2;
            seen.push(one.candidate.anchors.clone());
            is_new
        });
        tried.truncate(COMPARED_MAX * 3);
        let untold = self.examples.iter().zip(question.goals).filter(|(_, goal)| goal.is_none());
        let untold: Vec<&Places<'_>> = untold.map(|(places, _)| places).collect();
        self.compare(question.wanted, &untold, &mut tried, fuel);
        tried.sort_by(|a, b| order(a, b, told, &all));
        let kept = choose(&tried);
        let paths = kept.iter().map(|one| LearnedPath {
            xpath: one.candidate.xpath.clone(),
            f1: f1(one, told, &all),
            coverage: coverage(one, self.others.len()),
            is_markup: one.candidate.is_markup,
        });
        let paths: Vec<_> = paths.collect();
        let agreed = kept
            .first()
            .map_or(0.0, |first| coverage(first, self.others.len()) * self.others.len() as f64 / 4.0);
        let asked = self.others.len() as f64 / 4.0;
        let told_count = told.goals.iter().flatten().filter(|goal| !goal.members.is_empty()).count();
        let is_constant = is_constant(told.goals, question.wanted.kind.is_list());
        let confidence = match paths.is_empty() {
            true => 0.0,
            false => {
                let evidence = if is_constant { 0.5 } else { 1.0 };
                (evidence * held_out_right + agreed + 1.0) / (told_count as f64 + asked + 2.0)
            }
        };
        let is_firm = kept.first().is_some_and(|first| {
            first.candidate.cost <= FALLBACK_COST_MAX && (!is_chance || first.candidate.is_hinted)
        }) && paths.first().is_some_and(|path| path.f1 > 0.99);
        Settled { paths, example_count, held_out_right, is_firm, confidence }
    }

    /// Makes candidates of every example and tries the most promising on all. `is_true` is whether all values are seen where they
    /// are told.
    fn try_all(&self, question: &Question<'_>, is_true: bool, fuel: &mut Fuel) -> (Vec<Tried>, Shown) {
        let is_constant = is_constant(question.goals, question.wanted.kind.is_list());
        let mut made: HashMap<String, (Candidate, u32)> = HashMap::new();
        let mut shown = Shown::default();
        for (at, (places, goal)) in self.examples.iter().zip(question.goals).enumerate() {
            let Some(goal) = goal.as_ref().filter(|goal| !goal.members.is_empty()) else { continue };
            for candidate in self.made_for(question, goal, places, is_constant) {
                match candidate.is_markup {
                    true => shown.in_markup |= 1 << at,
                    false => shown.in_text |= 1 << at,
                }
                if made.len() == CANDIDATES_MAX && !made.contains_key(&candidate.xpath) {
                    continue;
                }
                let known = made.entry(candidate.xpath.clone()).or_insert_with(|| (candidate.clone(), 0));
                known.1 |= 1 << at;
                known.0.cost = known.0.cost.min(candidate.cost);
            }
        }
        if is_true {
            shown = Shown { in_markup: u32::MAX, in_text: u32::MAX };
        }
        let mut ordered: Vec<(Candidate, u32)> = made.into_values().collect();
        // What was made for many examples is right on them, and wrong only by what it finds before.
        ordered.sort_by(|(a, of_a), (b, of_b)| {
            let key = |candidate: &Candidate, origins: u32| {
                (u32::MAX - origins.count_ones(), candidate.cost, candidate.xpath.len())
            };
            key(a, *of_a).cmp(&key(b, *of_b)).then_with(|| a.xpath.cmp(&b.xpath))
        });
        let mut room = [TRIED_MAX, if is_true { TRIED_MAX } else { TRIED_MARKUP_MAX }];
        let mut tried = Vec::new();
        for (candidate, origins) in ordered {
            let room = &mut room[usize::from(candidate.is_markup && !is_true)];
            if *room == 0 {
                continue;
            }
            *room -= 1;
            let shown = if candidate.is_markup { shown.in_markup } else { shown.in_text };
            let Ok(xpath) = XPath::compile(&candidate.xpath) else { continue };
            let told = Told { goals: question.goals, shown };
            let Some(outcomes) = self.outcomes(question.wanted, &xpath, told, fuel) else { continue };
            let ambiguous = outcomes.iter().any(|outcome| outcome.is_ambiguous);
            let rank = candidate.cost + if ambiguous { COST_AMBIGUOUS } else { 0 };
            tried.push(Tried { candidate, xpath, origins, outcomes, answers: Vec::new(), rank });
        }
        (tried, shown)
    }

    /// What an expression comes to on each example that something is told of. None when it ran dry, or was wrong so often that it
    /// can neither be kept nor speak against others.
    fn outcomes(
        &self,
        wanted: &Wanted,
        xpath: &XPath,
        told: Told<'_>,
        fuel: &mut Fuel,
    ) -> Option<Vec<Outcome>> {
        let mut wrong = 0;
        let mut outcomes = Vec::with_capacity(told.goals.len());
        for (at, (places, goal)) in self.examples.iter().zip(told.goals).enumerate() {
            let outcome = match goal {
                Some(goal) => {
                    judge(wanted, goal, &read(xpath, places, fuel)?, self.precision_min(), places.reading())
                }
                None => Outcome::default(),
            };
            wrong += usize::from(outcome.is_wrong && !told.is_unshown(at));
            if wrong > self.errors_of(told.goals.len()) + 1 {
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

    fn errors_of(&self, examples: usize) -> usize {
        examples.checked_div(self.examples_per_error).unwrap_or(0)
    }

    /// How many of the examples that show a value may be told wrongly.
    fn errors_max(&self, told: Told<'_>, pages: &[usize]) -> usize {
        self.errors_of(pages.iter().filter(|at| !told.is_unshown(**at)).count())
    }

    /// Whether an expression may be kept, by these examples. Where a page does not show what it says, another value there speaks
    /// less against an expression.
    fn is_fit(&self, one: &Tried, told: Told<'_>, pages: &[usize], errors_max: usize) -> bool {
        let wrong = |unshown: bool| {
            let of_them = pages.iter().filter(|at| told.is_unshown(**at) == unshown);
            of_them.filter(|at| one.outcomes[**at].is_wrong).count()
        };
        let shown = pages.iter().filter(|at| !told.is_unshown(**at));
        let right = shown.filter(|at| told.has_value(**at) && one.outcomes[**at].score > 0.0);
        wrong(false) <= errors_max
            && UNSHOWN_WEIGHT * wrong(true) <= right.count()
            && f1(one, told, pages) >= F1_MIN
    }

    /// Learns as often as there are examples with a value, each time without one, and asks for that one.
    fn hold_out(&self, tried: &[Tried], told: Told<'_>, all: &[usize]) -> f64 {
        let held = all.iter().filter(|at| told.has_value(**at));
        // One that is told wrongly is so whichever other is held back.
        let errors_max = self.errors_max(told, all);
        held.map(|held| {
            let rest: Vec<usize> = all.iter().copied().filter(|at| at != held).collect();
            let known = tried.iter().filter(|one| one.origins & !(1 << held) != 0);
            let best = known
                .filter(|one| self.is_fit(one, told, &rest, errors_max))
                .min_by(|a, b| order(a, b, told, &rest));
            best.map_or(0.0, |best| best.outcomes[*held].score)
        })
        .sum()
    }

    /// Lets the expressions vote on the other pages and on the examples of which nothing is told, and ranks down what most others
    /// contradict. What is found on few of the other pages is ranked down as well; an example of which nothing is told may have none.
    fn compare(&self, wanted: &Wanted, untold: &[&Places<'_>], tried: &mut [Tried], fuel: &mut Fuel) {
        let penalty = 60 / (self.others.len() + untold.len()).max(1) as u32;
        let voted = tried.len().min(COMPARED_MAX);
        for places in &self.others {
            vote(wanted, &mut tried[..voted], places, (penalty, penalty / 2), fuel);
        }
        for places in untold {
            vote(wanted, &mut tried[..voted], places, (penalty, 0), fuel);
        }
    }
}

/// Asks expressions on a page. A place of it has one vote, however many of them lead there; only where that leaves it open do they
/// count. Those that most contradict are ranked down by the first penalty, those that find nothing where others find something by the
/// second.
fn vote(
    wanted: &Wanted,
    tried: &mut [Tried],
    places: &Places<'_>,
    (contradicted, silent): (u32, u32),
    fuel: &mut Fuel,
) {
    let document = places.page.document;
    let mut votes: HashMap<String, (BTreeSet<NodeRef>, usize)> = HashMap::new();
    for one in tried.iter_mut() {
        let value = evaluate(&one.xpath, places, fuel);
        let place = value.as_ref().and_then(|value| shown_at(value, document));
        let texts = value.map(|value| said(value, document)).unwrap_or_default();
        let answer = answer_key(wanted, &texts, places.reading());
        if let Some(answer) = &answer {
            let (of_places, of_expressions) = votes.entry(answer.clone()).or_default();
            of_places.extend(place);
            *of_expressions += 1;
        }
        one.answers.push(answer);
    }
    let count = |(of_places, of_expressions): &(BTreeSet<NodeRef>, usize)| (of_places.len(), *of_expressions);
    let most = votes.values().map(count).max();
    for one in tried {
        one.rank += match one.answers.last().and_then(Option::as_ref) {
            Some(answer) if votes.get(answer).map(count) == most => 0,
            Some(_) => contradicted,
            None if most.is_some() => silent,
            None => 0,
        };
    }
}

/// What came of trying: the chosen expressions and what speaks for them.
#[derive(Default)]
struct Settled {
    paths: Vec<LearnedPath>,
    example_count: usize,
    held_out_right: f64,
    is_firm: bool,
    confidence: f64,
}

impl Settled {
    /// Whether it may be kept where nobody told the values.
    fn holds(&self) -> bool {
        let is_right = self.held_out_right >= HELD_OUT_MIN * self.example_count as f64;
        !self.paths.is_empty() && (self.is_firm || is_right && self.example_count >= LABELLED_MIN)
    }

    /// These expressions, and behind them the others; what speaks for them is what speaks for the first.
    fn followed_by(mut self, behind: Settled) -> Settled {
        if self.paths.is_empty() {
            return behind;
        }
        self.paths.extend(behind.paths);
        self
    }

    fn learned(self, wanted: &Wanted) -> Learned {
        Learned {
            name: wanted.name.clone(),
            kind: wanted.kind,
            paths: self.paths,
            json_paths: Vec::new(),
            example_count: self.example_count,
            held_out_right: self.held_out_right,
            is_firm: self.is_firm,
            confidence: self.confidence,
        }
    }
}

mod make;
mod point;
mod rank;
#[cfg(test)]
mod tests;
