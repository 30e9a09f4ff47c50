//! Running a plan over a document.
//!
//! Expressions are evaluated by the type that is wanted: [`Evaluator::boolean`], [`Evaluator::number`],
//! [`Evaluator::text`] and [`Evaluator::nodes`]. A boolean never builds a node-set where a walk can answer, and a text is
//! borrowed from the document where it can be. Node-sets are vectors in document order without duplicates (`path`).

mod axes;
mod compare;
mod functions;
mod lists;
mod path;
mod text;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::EvalError;
use super::pattern::Pattern;
use super::plan::*;
use super::value::{NodeRef, Value, number_to_text, text_to_number};
use crate::html::{Document, NameId, NodeId};

type Outcome<T> = Result<T, EvalError>;

/// Answers that all memos of a run may hold together, in bytes.
const MEMO_BYTES_MAX: usize = 64 << 20;

/// A memo starts when its predicate was asked this often: most are asked of a few nodes only.
const MEMO_STARTS_AT: u32 = 32;

/// Longest text that a function may make, in bytes.
const MADE_BYTES_MAX: usize = 32 << 20;

/// The node, position and size that an expression speaks of.
#[derive(Clone, Copy, Debug)]
struct Context {
    node: NodeRef,
    position: usize,
    size: usize,
}

impl Context {
    fn of(node: NodeRef) -> Context {
        Context { node, position: 1, size: 1 }
    }
}

/// A value that depends on the document only.
#[derive(Clone)]
enum CachedValue<'a> {
    Nodes(Rc<Vec<NodeRef>>),
    Number(f64),
    Text(Rc<Cow<'a, str>>),
    Boolean(bool),
}

/// Answers of one predicate by node: two bits each, 0 where it was not asked.
#[derive(Default)]
struct Memo {
    asked: u32,
    answers: Vec<u8>,
}

struct Evaluator<'a> {
    document: &'a Document,
    names: Vec<NameId>,
    fuel: u64,
    kept: Vec<Option<CachedValue<'a>>>,
    /// The texts of kept node-sets, for comparisons.
    kept_texts: HashMap<usize, Rc<HashSet<Cow<'a, str>>>>,
    /// Their smallest and largest numbers.
    kept_extremes: HashMap<usize, (f64, f64)>,
    memos: Vec<Memo>,
    memo_bytes: usize,
    /// What `re:match` made; node references point into it.
    made: Vec<String>,
    regexes: HashMap<(String, String), Arc<Pattern>>,
    /// Those that were compiled with the expression.
    patterns: &'a [KnownPattern],
}

/// Evaluates a plan; `units` is the fuel, and says afterwards what is left of it.
pub(super) fn evaluate(plan: &Plan, document: &Document, context: NodeId, units: &mut u64) -> Outcome<Value> {
    let names = plan.names.iter().map(|name| document.lookup_name(name).unwrap_or(NameId::NONE)).collect();
    let mut evaluator = Evaluator {
        document,
        names,
        fuel: *units,
        kept: Vec::new(),
        kept_texts: HashMap::new(),
        kept_extremes: HashMap::new(),
        memos: Vec::new(),
        memo_bytes: 0,
        made: Vec::new(),
        regexes: HashMap::new(),
        patterns: &plan.patterns,
    };
    evaluator.kept.resize(plan.once_count, None);
    evaluator.memos.resize_with(plan.memo_count, Memo::default);
    let value = evaluator.value(&plan.root, Context::of(NodeRef::of(context)));
    *units = evaluator.fuel;
    value
}

impl<'a> Evaluator<'a> {
    fn spend(&mut self, units: u64) -> Outcome<()> {
        match self.fuel.checked_sub(units) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => {
                self.fuel = 0;
                Err(EvalError::BudgetExceeded)
            }
        }
    }

    /// Pays for looking at (or making) a text of so many bytes.
    fn work(&mut self, bytes: usize) -> Outcome<()> {
        self.spend(1 + bytes as u64 / 8)
    }

    fn value(&mut self, expr: &'a Expr, context: Context) -> Outcome<Value> {
        Ok(match expr.kind() {
            Type::Number => Value::Number(self.number(expr, context)?),
            Type::Boolean => Value::Bool(self.boolean(expr, context)?),
            Type::Text => Value::Text(self.text(expr, context)?.into_owned()),
            Type::Nodes => {
                let nodes = self.nodes(expr, context, usize::MAX)?;
                if nodes.iter().any(|node| node.made().is_some()) {
                    Value::Texts(nodes.iter().map(|node| self.node_text(*node).into_owned()).collect())
                } else {
                    Value::Nodes(nodes)
                }
            }
        })
    }

    fn boolean(&mut self, expr: &'a Expr, context: Context) -> Outcome<bool> {
        match expr {
            Expr::Or(members) => {
                for member in members {
                    if self.boolean(member, context)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expr::And(members) => {
                for member in members {
                    if !self.boolean(member, context)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expr::Compare(op, left, right) => self.compare(*op, left, right, context),
            Expr::HasTokens(tokens) => self.has_tokens(tokens, context.node),
            Expr::Matches(subject, pattern) => {
                let subject = self.text(subject, context)?;
                self.spend(pattern.cost(subject.len()))?;
                Ok(pattern.is_match(&subject))
            }
            Expr::Contains(whole, part) => {
                let whole = self.text(whole, context)?;
                self.work(whole.len())?;
                Ok(part.find(whole.as_bytes()).is_some())
            }
            Expr::Once(slot, inner) => Ok(match self.keep(*slot, inner, context)? {
                CachedValue::Nodes(nodes) => !nodes.is_empty(),
                CachedValue::Number(number) => number != 0.0 && !number.is_nan(),
                CachedValue::Text(text) => !text.is_empty(),
                CachedValue::Boolean(boolean) => boolean,
            }),
            _ => match expr.kind() {
                Type::Nodes => self.any_node(expr, context, &mut |_, _| Ok(true)),
                Type::Number => self.number(expr, context).map(|number| number != 0.0 && !number.is_nan()),
                Type::Text => self.non_empty(expr, context),
                Type::Boolean => match expr {
                    Expr::Call(function, arguments) => self.call_boolean(*function, arguments, context),
                    _ => Ok(false),
                },
            },
        }
    }

    /// Whether a text has a character; of a normalized one that is one which is no white space.
    fn non_empty(&mut self, expr: &'a Expr, context: Context) -> Outcome<bool> {
        if let Expr::Call(Function::NormalizeSpace, inner) = expr {
            let text = self.text(&inner[0], context)?;
            self.work(text.len())?;
            return Ok(!text::is_blank(&text));
        }
        self.text(expr, context).map(|text| !text.is_empty())
    }

    fn number(&mut self, expr: &'a Expr, context: Context) -> Outcome<f64> {
        match expr {
            Expr::Number(number) => Ok(*number),
            Expr::Negate(operand) => Ok(-self.number(operand, context)?),
            Expr::Arithmetic(first, rest) => {
                let mut result = self.number(first, context)?;
                for (op, operand) in rest {
                    result = op.apply(result, self.number(operand, context)?);
                }
                Ok(result)
            }
            Expr::Call(function, arguments) if expr.kind() == Type::Number => {
                self.call_number(*function, arguments, context)
            }
            Expr::Once(slot, inner) if inner.kind() == Type::Number => {
                match self.keep(*slot, inner, context)? {
                    CachedValue::Number(number) => Ok(number),
                    _ => Ok(f64::NAN),
                }
            }
            _ if expr.kind() == Type::Boolean => Ok(f64::from(u8::from(self.boolean(expr, context)?))),
            _ => {
                let text = self.text(expr, context)?;
                self.work(text.len())?;
                Ok(text_to_number(&text))
            }
        }
    }

    fn text(&mut self, expr: &'a Expr, context: Context) -> Outcome<Cow<'a, str>> {
        match expr {
            Expr::Literal(text) => Ok(Cow::Borrowed(text)),
            Expr::Once(slot, inner) if inner.kind() == Type::Text => {
                match self.keep(*slot, inner, context)? {
                    CachedValue::Text(text) => Ok((*text).clone()),
                    _ => Ok(Cow::Borrowed("")),
                }
            }
            _ => match expr.kind() {
                Type::Nodes => {
                    let first = self.first_node(expr, context)?;
                    Ok(first.map_or(Cow::Borrowed(""), |node| self.node_text(node)))
                }
                Type::Number => Ok(Cow::Owned(number_to_text(self.number(expr, context)?))),
                Type::Boolean => {
                    let boolean = self.boolean(expr, context)?;
                    Ok(Cow::Borrowed(if boolean { "true" } else { "false" }))
                }
                Type::Text => match expr {
                    Expr::Call(function, arguments) => self.call_text(*function, arguments, context),
                    _ => Ok(Cow::Borrowed("")),
                },
            },
        }
    }

    /// The node-set, or its first `limit` nodes in document order (more may come).
    fn nodes(&mut self, expr: &'a Expr, context: Context, limit: usize) -> Outcome<Vec<NodeRef>> {
        match expr {
            Expr::Context => Ok(vec![context.node]),
            Expr::Attribute(name) => Ok(self.attribute(context.node, *name).into_iter().collect()),
            Expr::Path(path) => self.path(path, context, limit),
            Expr::Union(members) => {
                let mut all = Vec::new();
                for member in members {
                    all.append(&mut self.nodes(member, context, limit)?);
                }
                path::sort_unique(&mut all);
                Ok(all)
            }
            Expr::Filter(inner, predicates) => {
                let wanted = match predicates.first().map(|predicate| predicate.kind) {
                    Some(PredicateKind::Nth(position)) => position as usize,
                    _ => usize::MAX,
                };
                let mut nodes = self.nodes(inner, context, wanted)?;
                self.filter(predicates, &mut nodes, limit)?;
                Ok(nodes)
            }
            Expr::Once(slot, inner) => Ok(match self.keep(*slot, inner, context)? {
                CachedValue::Nodes(nodes) => {
                    self.spend(nodes.len() as u64)?;
                    (*nodes).clone()
                }
                _ => Vec::new(),
            }),
            Expr::Call(function, arguments) => self.call_nodes(*function, arguments, context),
            // No other expression is a node-set.
            _ => Ok(Vec::new()),
        }
    }

    /// The first node in document order.
    fn first_node(&mut self, expr: &'a Expr, context: Context) -> Outcome<Option<NodeRef>> {
        match expr {
            Expr::Context => Ok(Some(context.node)),
            Expr::Attribute(name) => Ok(self.attribute(context.node, *name)),
            Expr::Path(path) if path.ordered => {
                let mut first = None;
                self.any_node(expr, context, &mut |_, node| {
                    first = Some(node);
                    Ok(true)
                })?;
                Ok(first)
            }
            Expr::Once(slot, inner) => Ok(match self.keep(*slot, inner, context)? {
                CachedValue::Nodes(nodes) => nodes.first().copied(),
                _ => None,
            }),
            _ => Ok(self.nodes(expr, context, 1)?.first().copied()),
        }
    }

    /// Whether `test` answers true for some node of the set; stops at the first.
    fn any_node(
        &mut self,
        expr: &'a Expr,
        context: Context,
        test: &mut dyn FnMut(&mut Self, NodeRef) -> Outcome<bool>,
    ) -> Outcome<bool> {
        match expr {
            Expr::Context => test(self, context.node),
            Expr::Attribute(name) => {
                self.spend(1)?;
                self.attribute(context.node, *name).map_or(Ok(false), |node| test(self, node))
            }
            Expr::Path(path) if path.walkable => {
                let start = match path.start {
                    PathStart::Root => NodeRef::of(Document::ROOT),
                    _ => context.node,
                };
                self.walk(&path.steps, start, test)
            }
            Expr::Union(members) => {
                for member in members {
                    if self.any_node(member, context, test)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expr::Once(slot, inner) => {
                if let CachedValue::Nodes(nodes) = self.keep(*slot, inner, context)? {
                    for node in nodes.iter() {
                        if test(self, *node)? {
                            return Ok(true);
                        }
                    }
                }
                Ok(false)
            }
            _ => {
                for node in self.nodes(expr, context, usize::MAX)? {
                    if test(self, node)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// The value of an expression that looks at the document only, computed when first asked for.
    fn keep(&mut self, slot: usize, inner: &'a Expr, context: Context) -> Outcome<CachedValue<'a>> {
        if let Some(kept) = &self.kept[slot] {
            return Ok(kept.clone());
        }
        let kept = match inner.kind() {
            Type::Nodes => CachedValue::Nodes(Rc::new(self.nodes(inner, context, usize::MAX)?)),
            Type::Number => CachedValue::Number(self.number(inner, context)?),
            Type::Text => CachedValue::Text(Rc::new(self.text(inner, context)?)),
            Type::Boolean => CachedValue::Boolean(self.boolean(inner, context)?),
        };
        self.kept[slot] = Some(kept.clone());
        Ok(kept)
    }

    /// The attribute of this name, if the node is an element that has it.
    #[inline]
    fn attribute(&self, node: NodeRef, name: NameIndex) -> Option<NodeRef> {
        let name = self.names[name];
        if name == NameId::NONE || node.is_attribute() {
            return None;
        }
        let attribute = self.document.attribute_id(node.node(), name)?;
        Some(NodeRef::of_attribute(node.node(), attribute))
    }

    /// XPath's string value of a node, borrowed unless `re:match` made it.
    #[inline]
    fn node_text(&self, node: NodeRef) -> Cow<'a, str> {
        match node.made() {
            Some(index) => Cow::Owned(self.made[index].clone()),
            None => Cow::Borrowed(node.string_value(self.document)),
        }
    }

    fn has_tokens(&mut self, tokens: &Tokens, node: NodeRef) -> Outcome<bool> {
        let Some(attribute) = self.attribute(node, tokens.attribute).and_then(NodeRef::attribute) else {
            self.spend(1)?;
            return Ok(false);
        };
        let value = self.document.attr_value(attribute);
        self.work(value.len() * tokens.tokens.len())?;
        Ok(tokens.tokens.iter().all(|token| text::has_token(value, token, tokens.html_space)))
    }
}
