//! Whether an attribute is broken: its old expressions asked on new pages of URLs whose values are known.

use std::collections::BTreeSet;

use page::extract::root_context;
use page::xpath::{Fuel, NodeRef, Value, XPath};

use super::Visit;
use super::context::Context;
use super::evidence::bits;
use super::known::Known;
use crate::forms::{Form, fold};
use crate::json_places::{PageData, goal_of};
use crate::lesson::Goal;
use crate::places::{Page, Places, shows};

/// What a value must say at least to count for what a page is about.
const STRONG_BITS: f64 = 12.0;
/// Work that asking one expression may take.
const EXPRESSION_UNITS_MAX: u64 = 4_000_000;

/// What the new pages say of an attribute's old expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// They give what is there.
    Right,
    /// The pages still show the values, and the expressions do not find them.
    Broken,
    /// The pages do not show the values any more, or none are known.
    Absent,
    /// The pages are something else: a notice, a block, a list.
    OtherPage,
}

/// What one page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Right,
    /// Something of the attribute's form that is not what is known.
    Changed,
    Broken,
    Absent,
    Unknown,
}

/// The nodes that an expression selects on a page; none where it gives anything else.
pub fn nodes(xpath: &XPath, places: &Places<'_>, fuel: &mut Fuel) -> BTreeSet<NodeRef> {
    let document = places.page.document;
    let lent = fuel.left().min(EXPRESSION_UNITS_MAX);
    let mut own = Fuel::new(lent);
    let value = xpath.evaluate(document, root_context(document), &mut own);
    let _ = fuel.spend(lent - own.left());
    match value {
        Ok(Value::Nodes(nodes)) => nodes.iter().take(400).copied().collect(),
        _ => BTreeSet::new(),
    }
}

/// One verdict for each attribute, and on which visits' pages its old expressions are right still: those of a site that is made anew
/// page by page.
pub fn verdicts(
    known: &[Known],
    visits: &[Visit<'_>],
    data: &[(Page<'_>, PageData)],
    fuel: &mut Fuel,
) -> (Vec<Verdict>, Vec<Vec<bool>>) {
    let sights: Vec<Vec<Sight>> = visits
        .iter()
        .zip(data)
        .enumerate()
        .map(|(at, (visit, (_, data)))| {
            known.iter().map(|known| sight(known, visit, data, at, fuel)).collect()
        })
        .collect();
    // A page that shows nothing of what its URL is known for is another page, and says nothing of the template.
    let is_same = |at: &usize| {
        let strong = |(known, _): &(&Known, &Sight)| {
            known.values[*at].iter().map(|text| bits(known.wanted.form, text)).sum::<f64>() >= STRONG_BITS
        };
        let told: Vec<Sight> =
            known.iter().zip(&sights[*at]).filter(strong).map(|(_, sight)| *sight).collect();
        told.is_empty() || told.iter().any(|sight| matches!(sight, Sight::Right | Sight::Broken))
    };
    let same: Vec<usize> = (0..visits.len()).filter(is_same).collect();
    let verdict = |place: usize| {
        let count = |wanted: Sight| same.iter().filter(|at| sights[**at][place] == wanted).count();
        let (right, broken) = (count(Sight::Right) + count(Sight::Changed), count(Sight::Broken));
        match (same.is_empty(), broken > right, right > 0) {
            (true, ..) => Verdict::OtherPage,
            (_, true, _) => Verdict::Broken,
            (_, _, true) => Verdict::Right,
            _ => Verdict::Absent,
        }
    };
    let is_right = |place: usize| sights.iter().map(|sights| sights[place] == Sight::Right).collect();
    ((0..known.len()).map(verdict).collect(), (0..known.len()).map(is_right).collect())
}

/// What the page of one visit says of one attribute.
fn sight(known: &Known, visit: &Visit<'_>, data: &PageData, at: usize, fuel: &mut Fuel) -> Sight {
    let texts = &known.values[at];
    match (known.still_says(visit, at, fuel), texts.is_empty()) {
        (Some(Some(true)), _) => return Sight::Right,
        // Nothing tells what the page would say, but it was read there before.
        (Some(None), true) => return Sight::Broken,
        (Some(Some(false)), true) => return Sight::Changed,
        (None, true) => return Sight::Unknown,
        _ => {}
    }
    let given = known.read(visit.page, fuel);
    let reading = crate::forms::Reading { base: visit.page.base, mark: visit.page.mark() };
    let form = known.wanted.form;
    let goal = Goal::labelled(form, texts, reading);
    let said = Goal::labelled(form, &given, reading);
    let is_known =
        |keys: &&Vec<String>| goal.members.iter().any(|member| member.iter().any(|key| keys.contains(key)));
    let right = said.members.iter().filter(is_known).count();
    if right > 0 && 2 * right >= said.members.len().max(goal.members.len()) {
        return Sight::Right;
    }
    let is_in_data = || data.shows(known.wanted.kind, &goal_of(form, texts, reading));
    let is_shown =
        shows(visit.page, known.wanted.kind, form, texts) || !known.json_paths().is_empty() && is_in_data();
    if given.is_empty() {
        return if is_shown { Sight::Broken } else { Sight::Absent };
    }
    // Something is found, and it is not what is known: another value, or another place.
    if !known.profile.fits(&given, reading) {
        return Sight::Broken;
    }
    let is_strong = texts.iter().map(|text| bits(form, text)).sum::<f64>() >= STRONG_BITS;
    let is_elsewhere = is_strong
        && match form {
            Form::Text => !shares_words(texts, &given),
            Form::Image => true,
            _ => false,
        };
    match is_shown && (is_elsewhere || !stands_as_before(known, visit, &goal, fuel)) {
        true => Sight::Broken,
        false => Sight::Changed,
    }
}

/// Whether a value was changed rather than exchanged: half of the words of the shorter one are in the other.
fn shares_words(texts: &[String], given: &[String]) -> bool {
    let words = |texts: &[String]| -> BTreeSet<String> {
        texts.iter().flat_map(|text| text.split_whitespace()).filter_map(fold).collect()
    };
    let (known, given) = (words(texts), words(given));
    2 * known.intersection(&given).count() >= known.len().min(given.len())
}

/// Whether what surrounds the place that the old expressions find is as much like what was around it before as what surrounds the
/// known values is.
fn stands_as_before(known: &Known, visit: &Visit<'_>, goal: &Goal, fuel: &mut Fuel) -> bool {
    let Some(before) = visit.before else { return true };
    let longest = known.values.iter().flatten().map(String::len).max().unwrap_or(0);
    let before = Places::new(before, &[], 0);
    let now = Places::new(visit.page, &[known.wanted.form], longest);
    let first = |places: &Places<'_>, fuel: &mut Fuel| {
        known.xpaths.iter().find_map(|xpath| nodes(xpath, places, fuel).first().copied())
    };
    let (was, is) = (first(&before, fuel), first(&now, fuel));
    // What is read from JSON stands nowhere on the page.
    if is.is_none() && !known.json_paths().is_empty() {
        return true;
    }
    let (Some(was), Some(is)) = (was, is) else { return false };
    let old = Context::of(&before, was);
    let found = Context::of(&now, is).likeness(&old);
    let elsewhere = goal.members.iter().take(1).flat_map(|keys| now.of_keys(keys));
    elsewhere.map(|place| Context::of(&now, place).likeness(&old)).fold(0.0, f64::max) <= found
}
