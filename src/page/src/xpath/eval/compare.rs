//! Comparisons (section 3.4): a node-set compares if one of its nodes does.
//!
//! Two node-sets are compared through a hash set of the texts of one of them, never pair by pair; ordered comparisons need
//! only the smallest and the largest number.

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

use super::super::plan::*;
use super::super::value::text_to_number;
use super::{CachedValue, Context, Evaluator, Outcome, text};

type Texts<'a> = Rc<HashSet<Cow<'a, str>>>;

impl<'a> Evaluator<'a> {
    pub(super) fn compare(
        &mut self,
        op: CompareOp,
        left: &'a Expr,
        right: &'a Expr,
        context: Context,
    ) -> Outcome<bool> {
        match (left.kind(), right.kind()) {
            (Type::Nodes, Type::Nodes) => self.compare_sets(op, left, right, context),
            (Type::Nodes, _) => self.compare_set(op, left, right, context),
            (_, Type::Nodes) => self.compare_set(op.flipped(), right, left, context),
            (left_kind, right_kind) => {
                let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
                let wanted = op == CompareOp::Equal;
                if is_equality && (left_kind == Type::Boolean || right_kind == Type::Boolean) {
                    return Ok((self.boolean(left, context)? == self.boolean(right, context)?) == wanted);
                }
                if is_equality && left_kind == Type::Text && right_kind == Type::Text {
                    let (left, right) = match right {
                        Expr::Call(Function::NormalizeSpace, _) => (right, left),
                        _ => (left, right),
                    };
                    if let Expr::Call(Function::NormalizeSpace, inner) = left {
                        let text = self.text(&inner[0], context)?;
                        let right = self.text(right, context)?;
                        self.work(text.len())?;
                        return Ok(text::normalized_matches(&text, &right, true) == wanted);
                    }
                    let left = self.text(left, context)?;
                    let right = self.text(right, context)?;
                    self.work(if left.len() == right.len() { left.len() } else { 0 })?;
                    return Ok((left == right) == wanted);
                }
                Ok(op.holds(self.number(left, context)?, self.number(right, context)?))
            }
        }
    }

    /// A node-set against a value of another type.
    fn compare_set(
        &mut self,
        op: CompareOp,
        set: &'a Expr,
        other: &'a Expr,
        context: Context,
    ) -> Outcome<bool> {
        let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
        match other.kind() {
            Type::Boolean => {
                let (left, right) = (self.boolean(set, context)?, self.boolean(other, context)?);
                Ok(op.holds(f64::from(u8::from(left)), f64::from(u8::from(right))))
            }
            Type::Text if is_equality => {
                let wanted = self.text(other, context)?;
                self.any_node(set, context, &mut |this, node| {
                    let text = this.node_text(node);
                    // Texts of different lengths differ at a glance.
                    this.work(if text.len() == wanted.len() { text.len() } else { 0 })?;
                    Ok((text == wanted) == (op == CompareOp::Equal))
                })
            }
            _ => {
                let wanted = self.number(other, context)?;
                self.any_node(set, context, &mut |this, node| {
                    let text = this.node_text(node);
                    this.work(text.len())?;
                    Ok(op.holds(text_to_number(&text), wanted))
                })
            }
        }
    }

    fn compare_sets(
        &mut self,
        op: CompareOp,
        left: &'a Expr,
        right: &'a Expr,
        context: Context,
    ) -> Outcome<bool> {
        match op {
            CompareOp::Equal => {
                // A kept set keeps its texts as well, so it is the one to be looked up in.
                let (asked, looked_up) =
                    if matches!(left, Expr::Once(..)) { (right, left) } else { (left, right) };
                let texts = self.texts(looked_up, context)?;
                if texts.is_empty() {
                    return Ok(false);
                }
                self.any_node(asked, context, &mut |this, node| {
                    let text = this.node_text(node);
                    this.work(text.len())?;
                    Ok(texts.contains(&text))
                })
            }
            CompareOp::NotEqual => {
                // Some pair differs unless all texts on both sides are one and the same.
                let left = self.texts(left, context)?;
                let right = self.texts(right, context)?;
                let both_single = left.len() == 1 && right.len() == 1;
                Ok(!left.is_empty() && !right.is_empty() && (!both_single || left != right))
            }
            // `a > b` is `b < a`.
            CompareOp::Greater | CompareOp::GreaterOrEqual => {
                self.compare_sets(op.flipped(), right, left, context)
            }
            CompareOp::Less | CompareOp::LessOrEqual if matches!(left, Expr::Once(..)) => {
                // A side without numbers settles it, and the one that is not kept is the cheaper to ask.
                let (_, most) = self.extremes(right, context)?;
                Ok(!most.is_nan() && op.holds(self.extremes(left, context)?.0, most))
            }
            CompareOp::Less | CompareOp::LessOrEqual => {
                let (least, _) = self.extremes(left, context)?;
                Ok(!least.is_nan() && op.holds(least, self.extremes(right, context)?.1))
            }
        }
    }

    /// The different texts of a node-set.
    fn texts(&mut self, expr: &'a Expr, context: Context) -> Outcome<Texts<'a>> {
        let slot = match expr {
            Expr::Once(slot, _) => Some(*slot),
            _ => None,
        };
        if let Some(known) = slot.and_then(|slot| self.kept_texts.get(&slot)) {
            return Ok(known.clone());
        }
        let mut texts = HashSet::new();
        self.any_node(expr, context, &mut |this, node| {
            let text = this.node_text(node);
            this.work(text.len())?;
            texts.insert(text);
            Ok(false)
        })?;
        let texts = Rc::new(texts);
        if let Some(slot) = slot {
            self.kept_texts.insert(slot, texts.clone());
        }
        Ok(texts)
    }

    /// The smallest and the largest number of a node-set, NaN where it has none.
    fn extremes(&mut self, expr: &'a Expr, context: Context) -> Outcome<(f64, f64)> {
        let slot = match expr {
            Expr::Once(slot, _) => Some(*slot),
            _ => None,
        };
        if let Some(known) = slot.and_then(|slot| self.kept_extremes.get(&slot)) {
            return Ok(*known);
        }
        // Evaluating a kept set here fills its slot.
        if let Expr::Once(slot, inner) = expr
            && let CachedValue::Nodes(nodes) = self.keep(*slot, inner, context)?
        {
            self.spend(nodes.len() as u64)?;
        }
        let (mut least, mut most) = (f64::NAN, f64::NAN);
        self.any_node(expr, context, &mut |this, node| {
            let text = this.node_text(node);
            this.work(text.len())?;
            let number = text_to_number(&text);
            // `min` and `max` pass over NaN.
            least = least.min(number);
            most = most.max(number);
            Ok(false)
        })?;
        if let Some(slot) = slot {
            self.kept_extremes.insert(slot, (least, most));
        }
        Ok((least, most))
    }
}
