//! Members of a list that were reworded: "3 tomatoes, cut in half" beside "3 large tomatoes (cut in half)".

use std::collections::{BTreeMap, BTreeSet};

use page::html::NodeId;

use crate::candidates::carrier;
use crate::forms::{Form, fold};
use crate::lesson::Goal;
use crate::places::Places;

/// Members beside known ones that are looked at.
const BESIDE_MAX: usize = 200;
/// Elements around a member that may be what stands beside others: a `div` in an `li`.
const LEVELS: usize = 3;
/// The share of the words of both that a reworded member has in common with the known one.
const SHARED_MIN: f64 = 0.5;

/// Adds to the members that do not stand among the others the keys of those that stand there in their place: of the elements beside
/// the others the one that shares most words.
pub fn add(goal: &mut Goal, places: &Places<'_>) {
    let beside: Vec<(String, BTreeSet<String>)> = beside(goal, places)
        .into_iter()
        .filter_map(|text| Some((Form::Text.keys(text, places.reading()).into_iter().next()?, words(text))))
        .collect();
    let is_there = |keys: &Vec<String>| beside.iter().any(|(key, _)| keys.contains(key));
    let missing: Vec<usize> = (0..goal.members.len()).filter(|at| !is_there(&goal.members[*at])).collect();
    let known: BTreeSet<String> = goal.members.iter().flatten().cloned().collect();
    for at in missing {
        let own = words(&goal.texts[at]);
        // "1. Stir" is "Stir" with a number before it, and that stands by itself somewhere.
        let is_numbered = |key: &String| goal.members[at].iter().any(|own| key.ends_with(&own[2..]));
        let others = beside.iter().filter(|(key, _)| !known.contains(key) && !is_numbered(key));
        let alike = others.map(|(key, words)| (shared(&own, words), key));
        let best = alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(share, _)| *share >= SHARED_MIN);
        goal.members[at].extend(best.map(|(_, key)| key.clone()));
    }
}

/// The texts of the elements that stand beside several known members under the same name.
fn beside<'a>(goal: &Goal, places: &Places<'a>) -> Vec<&'a str> {
    let document = places.page.document;
    let mut parents: BTreeMap<(NodeId, &str), BTreeSet<usize>> = BTreeMap::new();
    for (member, keys) in goal.members.iter().enumerate() {
        for place in places.of_keys(keys) {
            let mut element = carrier(document, place);
            for _ in 0..LEVELS {
                let Some(parent) = document.parent(element) else { break };
                parents.entry((parent, document.name(element))).or_default().insert(member);
                element = parent;
            }
        }
    }
    let several = parents.into_iter().filter(|(_, members)| members.len() > 1);
    let children = several.flat_map(|((parent, name), _)| {
        let children = document.children(parent).take(BESIDE_MAX);
        children.filter(move |node| document.is_element(*node) && document.name(*node) == name)
    });
    children.take(BESIDE_MAX).map(|node| document.string_value(node)).collect()
}

fn words(text: &str) -> BTreeSet<String> {
    let text = text.get(..2_000).unwrap_or(text);
    text.split(|c: char| !c.is_alphanumeric()).filter_map(fold).collect()
}

fn shared(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    a.intersection(b).count() as f64 / a.union(b).count().max(1) as f64
}
