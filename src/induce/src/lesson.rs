//! What is to be found on each page, and how near an expression comes to it.

use page::extract::{AttributeType, root_context};
use page::html::{Document, NodeId};
use page::xpath::{Fuel, NodeRef, Value, XPath, number_to_text};

use crate::forms::{Form, Reading, fold};
use crate::places::Places;

/// Units that one expression may take on one page: one that needs more is no short, robust one.
const EXPRESSION_UNITS_MAX: u64 = 4_000_000;
/// Nodes of one answer that are looked at.
const NODES_MAX: usize = 400;
/// Nodes behind the first of a single value that are asked whether they say the same.
const OTHERS_MAX: usize = 8;

/// An attribute that is to be found.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub name: String,
    pub kind: AttributeType,
    pub form: Form,
    /// Somebody said that it is a list: where a page has one member of it, what is around that is none.
    pub is_told_list: bool,
}

/// The values of an attribute on a page, by the keys of each.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    pub members: Vec<Vec<String>>,
    pub texts: Vec<String>,
}

impl Goal {
    /// Of texts as they are seen on the page.
    pub fn seen(form: Form, texts: &[String], reading: Reading<'_>) -> Goal {
        let mut goal = Goal { members: Vec::new(), texts: texts.to_vec() };
        for text in texts {
            let mut keys = form.keys(text, reading);
            if keys.is_empty() {
                keys = form.label_keys(text, reading);
            }
            goal.members.push(keys);
        }
        goal
    }

    /// Of values as structured data writes them. What cannot be of the form is left out.
    pub fn labelled(form: Form, texts: &[String], reading: Reading<'_>) -> Goal {
        let mut goal = Goal::default();
        for text in texts {
            let keys = form.label_keys(text, reading);
            if !keys.is_empty() {
                goal.members.push(keys);
                goal.texts.push(text.clone());
            }
        }
        goal
    }

    fn has(&self, keys: &[String]) -> bool {
        self.members.iter().any(|member| keys.iter().any(|key| member.contains(key)))
    }
}

/// What an expression came to on a page with a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// 1 where everything was found and nothing else; of lists, the harmonic mean of precision and recall.
    pub score: f64,
    /// It gave something that is not the value.
    pub is_wrong: bool,
    /// The first is right and others, which are not read, are not.
    pub is_ambiguous: bool,
}

/// What an expression comes to on a page; none when it takes too much.
pub fn evaluate(xpath: &XPath, places: &Places<'_>, fuel: &mut Fuel) -> Option<Value> {
    let document = places.page.document;
    let lent = fuel.left().min(EXPRESSION_UNITS_MAX);
    let mut own = Fuel::new(lent);
    let value = xpath.evaluate(document, root_context(document), &mut own);
    // What was lent is there, so this cannot fail.
    let _ = fuel.spend(lent - own.left());
    value.ok()
}

/// The texts that extraction would read by an expression, blank ones left out; none when it takes too much.
pub fn read(xpath: &XPath, places: &Places<'_>, fuel: &mut Fuel) -> Option<Vec<String>> {
    Some(said(evaluate(xpath, places, fuel)?, places.page.document))
}

/// The texts of what an expression gave.
pub fn said(value: Value, document: &Document) -> Vec<String> {
    match value {
        Value::Nodes(nodes) => {
            let texts = nodes.iter().map(|node| node.string_value(document).trim());
            texts.filter(|text| !text.is_empty()).take(NODES_MAX).map(str::to_owned).collect()
        }
        Value::Texts(texts) => texts,
        Value::Number(number) if number.is_finite() => vec![number_to_text(number)],
        Value::Text(text) => {
            Some(text.trim().to_owned()).filter(|text| !text.is_empty()).into_iter().collect()
        }
        Value::Number(_) | Value::Bool(_) => Vec::new(),
    }
}

/// Where a page shows what an expression gives first there: a text, whichever of the elements around it was meant, or an attribute.
pub fn shown_at(value: &Value, document: &Document) -> Option<NodeRef> {
    let Value::Nodes(nodes) = value else { return None };
    let first = nodes.iter().find(|node| !node.string_value(document).trim().is_empty())?;
    if first.attribute().is_some() {
        return Some(*first);
    }
    let node = first.node();
    let mut within = (node.0..document.subtree_end(node).0).map(NodeId);
    within.find(|node| document.is_text(*node) && !document.text(*node).trim().is_empty()).map(NodeRef::of)
}

/// Compares what was read with what is there.
///
/// A list of which a smaller share than `precision_min` is right is wrong.
pub fn judge(
    wanted: &Wanted,
    goal: &Goal,
    texts: &[String],
    precision_min: f64,
    reading: Reading<'_>,
) -> Outcome {
    let nothing = Outcome::default();
    if texts.is_empty() {
        return Outcome { score: if goal.members.is_empty() { 1.0 } else { 0.0 }, ..nothing };
    }
    if goal.members.is_empty() {
        return Outcome { is_wrong: true, ..nothing };
    }
    if !wanted.kind.is_list() {
        let is_right = |text: &String| goal.has(&wanted.form.keys(text, reading));
        if !is_right(&texts[0]) {
            return Outcome { is_wrong: true, ..nothing };
        }
        let is_ambiguous = !texts[1..].iter().take(OTHERS_MAX).all(is_right);
        return Outcome { score: 1.0, is_ambiguous, ..nothing };
    }
    // A member that is given twice is right twice only where it stands twice in the list.
    let mut hit = vec![false; goal.members.len()];
    for text in texts {
        let keys = wanted.form.keys(text, reading);
        let is_it = |at: &usize| !hit[*at] && keys.iter().any(|key| goal.members[*at].contains(key));
        if let Some(member) = (0..hit.len()).find(is_it) {
            hit[member] = true;
        }
    }
    let right = hit.iter().filter(|hit| **hit).count() as f64;
    let (precision, recall) = (right / texts.len() as f64, right / hit.len() as f64);
    if precision < precision_min {
        return Outcome { is_wrong: true, ..nothing };
    }
    Outcome { score: 2.0 * precision * recall / (precision + recall).max(1e-9), ..nothing }
}

/// What two answers on a page are compared by where nobody knows the right one; none where the answer is of another form.
pub fn answer_key(wanted: &Wanted, texts: &[String], reading: Reading<'_>) -> Option<String> {
    if wanted.kind.is_list() {
        let all: Vec<String> = texts.iter().filter_map(|text| fold(text)).collect();
        return (!all.is_empty()).then(|| all.join("\n"));
    }
    wanted.form.keys(texts.first()?, reading).into_iter().next()
}
