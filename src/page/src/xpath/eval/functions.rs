//! The function library (section 4), parsel's additions and EXSLT's `set:`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::super::EvalError;
use super::super::pattern::{self, Pattern};
use super::super::plan::*;
use super::super::value::{NodeRef, text_to_number};
use super::path::sort_unique;
use super::{Context, Evaluator, MADE_BYTES_MAX, Outcome, text};
use crate::html::{NodeId, NodeKind};

/// Fuel for compiling a regular expression that was computed: about what it takes in node visits.
const PATTERN_FUEL: u64 = 5_000;

/// Fuel for each group that a match captures: finding groups is far slower than finding matches.
const GROUP_FUEL: u64 = 16;

/// Computed regular expressions kept in one run.
const PATTERNS_MAX: usize = 64;

impl<'a> Evaluator<'a> {
    pub(super) fn call_boolean(
        &mut self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Outcome<bool> {
        match function {
            Function::Boolean => self.boolean(&arguments[0], context),
            Function::Not => Ok(!self.boolean(&arguments[0], context)?),
            Function::True => Ok(true),
            Function::Contains => {
                let (whole, part) = self.two_texts(arguments, context)?;
                Ok(memchr::memmem::find(whole.as_bytes(), part.as_bytes()).is_some())
            }
            Function::StartsWith => {
                if let Expr::Call(Function::NormalizeSpace, inner) = &arguments[0] {
                    let whole = self.text(&inner[0], context)?;
                    let part = self.text(&arguments[1], context)?;
                    self.work(whole.len())?;
                    return Ok(text::normalized_matches(&whole, &part, false));
                }
                let whole = self.text(&arguments[0], context)?;
                let part = self.text(&arguments[1], context)?;
                self.work(part.len())?;
                Ok(whole.starts_with(&*part))
            }
            Function::Lang => {
                let wanted = self.text(&arguments[0], context)?;
                self.language(&wanted, context.node)
            }
            Function::ReTest => {
                let subject = self.text(&arguments[0], context)?;
                let regex = self.regex(arguments, context)?;
                self.spend(regex.cost(subject.len()))?;
                Ok(regex.is_match(&subject))
            }
            Function::HasClass => {
                for argument in arguments {
                    let class = self.text(argument, context)?.into_owned();
                    let list = self.document.attribute_named(context.node.node(), "class").unwrap_or("");
                    self.work(list.len())?;
                    if class.is_empty() || !text::has_token(list, &class, true) {
                        return Ok(false);
                    }
                }
                Ok(!context.node.is_attribute())
            }
            Function::SetHasSameNode => {
                let (left, right) = self.two_sets(arguments, context)?;
                Ok(left.iter().any(|node| right.binary_search(node).is_ok()))
            }
            // `false()`; no other function is a boolean.
            _ => Ok(false),
        }
    }

    pub(super) fn call_number(
        &mut self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Outcome<f64> {
        match function {
            Function::Last => Ok(context.size as f64),
            Function::Position => Ok(context.position as f64),
            Function::Count => self.count(&arguments[0], context).map(|count| count as f64),
            Function::Number => self.number(&arguments[0], context),
            Function::StringLength => {
                // The commonest question, "is there a paragraph of text", needs no normalized copy.
                if let Expr::Call(Function::NormalizeSpace, inner) = &arguments[0] {
                    let text = self.text(&inner[0], context)?;
                    self.work(text.len())?;
                    return Ok(text::normalized_length(&text) as f64);
                }
                let text = self.text(&arguments[0], context)?;
                self.work(text.len())?;
                Ok(text.chars().count() as f64)
            }
            Function::Sum => {
                let mut sum = 0.0;
                for node in self.nodes(&arguments[0], context, usize::MAX)? {
                    let text = self.node_text(node);
                    self.work(text.len())?;
                    sum += text_to_number(&text);
                }
                Ok(sum)
            }
            Function::Floor => Ok(self.number(&arguments[0], context)?.floor()),
            Function::Ceiling => Ok(self.number(&arguments[0], context)?.ceil()),
            Function::Round => Ok(text::round(self.number(&arguments[0], context)?)),
            _ => Ok(f64::NAN),
        }
    }

    fn count(&mut self, expr: &'a Expr, context: Context) -> Outcome<usize> {
        match expr {
            Expr::Once(slot, inner) => match self.keep(*slot, inner, context)? {
                super::CachedValue::Nodes(nodes) => Ok(nodes.len()),
                _ => Ok(0),
            },
            Expr::Path(path) if path.walkable => {
                let mut count = 0;
                self.any_node(expr, context, &mut |_, _| {
                    count += 1;
                    Ok(false)
                })?;
                Ok(count)
            }
            _ => Ok(self.nodes(expr, context, usize::MAX)?.len()),
        }
    }

    pub(super) fn call_text(
        &mut self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Outcome<Cow<'a, str>> {
        match function {
            Function::String => self.text(&arguments[0], context),
            Function::LocalName | Function::Name => self.name_of(function, &arguments[0], context),
            Function::Concat => {
                let mut whole = String::new();
                for argument in arguments {
                    let part = self.text(argument, context)?;
                    self.make(whole.len(), part.len())?;
                    whole.push_str(&part);
                }
                Ok(Cow::Owned(whole))
            }
            Function::SubstringBefore | Function::SubstringAfter => {
                let (whole, part) = self.two_texts(arguments, context)?;
                let Some(at) = memchr::memmem::find(whole.as_bytes(), part.as_bytes()) else {
                    return Ok(Cow::Borrowed(""));
                };
                let range = match function {
                    Function::SubstringBefore => 0..at,
                    _ => at + part.len()..whole.len(),
                };
                Ok(slice(whole, |text| &text[range.clone()]))
            }
            Function::Substring => {
                let whole = self.text(&arguments[0], context)?;
                let start = self.number(&arguments[1], context)?;
                let length = match arguments.get(2) {
                    Some(length) => Some(self.number(length, context)?),
                    None => None,
                };
                self.work(whole.len())?;
                Ok(slice(whole, |text| text::substring(text, start, length)))
            }
            Function::NormalizeSpace => {
                let whole = self.text(&arguments[0], context)?;
                self.work(whole.len())?;
                Ok(text::normalize_space(whole))
            }
            Function::Translate => {
                let whole = self.text(&arguments[0], context)?;
                let from = self.text(&arguments[1], context)?;
                let to = self.text(&arguments[2], context)?;
                self.make(0, whole.len() * 2 + from.len() + to.len())?;
                Ok(Cow::Owned(text::translate(&whole, &from, &to)))
            }
            Function::ReReplace => self.replace(arguments, context),
            // HTML has no namespaces to show; as in lxml, SVG and MathML elements have none either.
            _ => Ok(Cow::Borrowed("")),
        }
    }

    pub(super) fn call_nodes(
        &mut self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Outcome<Vec<NodeRef>> {
        match function {
            Function::Id => self.by_id(&arguments[0], context),
            Function::ReMatch => self.matches(arguments, context),
            Function::SetDistinct => {
                let mut seen = HashSet::new();
                let mut out = Vec::new();
                for node in self.nodes(&arguments[0], context, usize::MAX)? {
                    let text = self.node_text(node);
                    self.work(text.len())?;
                    if seen.insert(text) {
                        out.push(node);
                    }
                }
                Ok(out)
            }
            _ => {
                let (mut left, right) = self.two_sets(arguments, context)?;
                let first = right.first().copied();
                let place = first.map(|first| left.binary_search(&first));
                match function {
                    Function::SetDifference => left.retain(|node| right.binary_search(node).is_err()),
                    Function::SetIntersection => left.retain(|node| right.binary_search(node).is_ok()),
                    // Without a border all are on the near side; with one that is no member, none.
                    Function::SetLeading => match place {
                        None => {}
                        Some(Ok(at)) => left.truncate(at),
                        Some(Err(_)) => left.clear(),
                    },
                    _ => match place {
                        None => {}
                        Some(Ok(at)) => drop(left.drain(..=at)),
                        Some(Err(_)) => left.clear(),
                    },
                }
                Ok(left)
            }
        }
    }

    fn two_sets(&mut self, arguments: &'a [Expr], context: Context) -> Outcome<(Vec<NodeRef>, Vec<NodeRef>)> {
        let left = self.nodes(&arguments[0], context, usize::MAX)?;
        let right = self.nodes(&arguments[1], context, usize::MAX)?;
        self.spend((left.len() + right.len()) as u64)?;
        Ok((left, right))
    }

    /// The first two arguments, paid for as a search of one in the other.
    fn two_texts(
        &mut self,
        arguments: &'a [Expr],
        context: Context,
    ) -> Outcome<(Cow<'a, str>, Cow<'a, str>)> {
        let whole = self.text(&arguments[0], context)?;
        let part = self.text(&arguments[1], context)?;
        self.work(whole.len())?;
        Ok((whole, part))
    }

    /// Pays for `more` bytes added to a text that has `bytes` already.
    fn make(&mut self, bytes: usize, more: usize) -> Outcome<()> {
        if bytes + more > MADE_BYTES_MAX {
            return Err(EvalError::BudgetExceeded);
        }
        self.work(more)
    }

    fn name_of(&mut self, function: Function, argument: &'a Expr, context: Context) -> Outcome<Cow<'a, str>> {
        let Some(node) = self.first_node(argument, context)?.filter(|node| node.made().is_none()) else {
            return Ok(Cow::Borrowed(""));
        };
        let document = self.document;
        let name = match node.attribute() {
            Some(attribute) => document.attr_name(attribute),
            None => match document.kind(node.node()) {
                NodeKind::Element | NodeKind::Pi => document.name(node.node()),
                _ => "",
            },
        };
        let is_local = function == Function::LocalName && node.is_attribute();
        let foreign = is_local.then(|| name.strip_prefix("xlink:").or(name.strip_prefix("xml:"))).flatten();
        Ok(Cow::Borrowed(foreign.unwrap_or(name)))
    }

    /// `lang()`: the nearest `xml:lang` at or above the node.
    fn language(&mut self, wanted: &str, node: NodeRef) -> Outcome<bool> {
        let Some(name) = self.document.lookup_name("xml:lang") else { return Ok(false) };
        let mut next = node.made().is_none().then_some(node.node());
        while let Some(current) = next {
            self.spend(1)?;
            if let Some(tag) = self.document.attribute(current, name) {
                return Ok(text::is_language(tag, wanted));
            }
            next = self.document.parent(current);
        }
        Ok(false)
    }

    fn by_id(&mut self, argument: &'a Expr, context: Context) -> Outcome<Vec<NodeRef>> {
        let mut lists = Vec::new();
        if argument.kind() == Type::Nodes {
            for node in self.nodes(argument, context, usize::MAX)? {
                lists.push(self.node_text(node));
            }
        } else {
            lists.push(self.text(argument, context)?);
        }
        let mut out = Vec::new();
        for list in lists {
            self.work(list.len())?;
            for id in list.split([' ', '\t', '\r', '\n']).filter(|id| !id.is_empty()) {
                let first: Option<&NodeId> = self.document.elements_with_id(id).first();
                out.extend(first.map(|node| NodeRef::of(*node)));
            }
        }
        sort_unique(&mut out);
        Ok(out)
    }

    /// The pattern in the second argument with the flags of the third: compiled with the expression where both stand in
    /// it (which takes longer than most searches), else once a run.
    fn regex(&mut self, arguments: &'a [Expr], context: Context) -> Outcome<Arc<Pattern>> {
        if let Some((text, flags)) = known_pattern(arguments) {
            let known = self.patterns.iter().find(|known| *known.text == *text && *known.flags == *flags);
            if let Some(known) = known {
                return Ok(known.pattern.clone());
            }
        }
        let text = self.text(&arguments[1], context)?.into_owned();
        let flags = match arguments.get(2) {
            Some(flags) => self.text(flags, context)?.into_owned(),
            None => String::new(),
        };
        let key = (text, flags);
        if let Some(known) = self.regexes.get(&key) {
            return Ok(known.clone());
        }
        self.spend(PATTERN_FUEL + key.0.len() as u64)?;
        let regex = Arc::new(Pattern::compile(&key.0, &key.1).map_err(EvalError::Pattern)?);
        if self.regexes.len() >= PATTERNS_MAX {
            self.regexes.clear();
        }
        self.regexes.insert(key, regex.clone());
        Ok(regex)
    }

    fn has_flag(&mut self, arguments: &'a [Expr], flag: char, context: Context) -> Outcome<bool> {
        match arguments.get(2) {
            Some(flags) => Ok(self.text(flags, context)?.contains(flag)),
            None => Ok(false),
        }
    }

    /// `re:match`: the whole match and its groups; with the flag `g` every match, or its groups joined where it has some.
    fn matches(&mut self, arguments: &'a [Expr], context: Context) -> Outcome<Vec<NodeRef>> {
        let subject = self.text(&arguments[0], context)?;
        let regex = self.regex(arguments, context)?;
        let all = self.has_flag(arguments, 'g', context)?;
        self.spend(regex.cost(subject.len()))?;
        let searched = regex.searched(&subject);
        let regex = regex.regex();
        let first = self.made.len();
        let group_text =
            |group: Option<regex::Match<'_>>| group.map_or("", |group| group.as_str()).to_owned();
        if all {
            for found in regex.captures_iter(searched) {
                let skipped = usize::from(found.len() > 1);
                let text: String = found.iter().skip(skipped).map(group_text).collect();
                self.spend(GROUP_FUEL * found.len() as u64)?;
                self.make(0, text.len())?;
                self.made.push(text);
            }
        } else if let Some(found) = regex.captures(searched) {
            for group in found.iter() {
                let text = group_text(group);
                self.make(0, text.len())?;
                self.made.push(text);
            }
        }
        Ok((first..self.made.len()).map(NodeRef::of_made).collect())
    }

    /// `re:replace(subject, pattern, flags, replacement)`: the first match, or with `g` all.
    fn replace(&mut self, arguments: &'a [Expr], context: Context) -> Outcome<Cow<'a, str>> {
        let subject = self.text(&arguments[0], context)?;
        let regex = self.regex(arguments, context)?;
        let all = self.has_flag(arguments, 'g', context)?;
        let template = self.text(&arguments[3], context)?;
        self.spend(regex.cost(subject.len()))?;
        let searched = regex.searched(&subject);
        let regex = regex.regex();
        let mut out = String::new();
        let mut copied = 0;
        for captures in regex.captures_iter(searched).take(if all { usize::MAX } else { 1 }) {
            self.spend(GROUP_FUEL * captures.len() as u64)?;
            let whole = captures.get_match();
            out.push_str(&subject[copied..whole.start()]);
            let before = out.len();
            pattern::expand(&template, &captures, &mut out);
            self.make(before, out.len() - before)?;
            copied = whole.end();
        }
        if copied == 0 && out.is_empty() {
            return Ok(subject);
        }
        out.push_str(&subject[copied..]);
        Ok(Cow::Owned(out))
    }
}

/// A part of a text, borrowed where the whole is.
fn slice<'a>(whole: Cow<'a, str>, part: impl Fn(&str) -> &str) -> Cow<'a, str> {
    match whole {
        Cow::Borrowed(text) => Cow::Borrowed(part(text)),
        Cow::Owned(text) => Cow::Owned(part(&text).to_owned()),
    }
}
