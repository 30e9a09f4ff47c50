//! What a predicate implies about attributes, ids and class tokens.
//!
//! A seed is a fact that must hold for every node that a predicate lets pass. The evaluator may then start from the
//! postings of that fact instead of from all nodes; the predicate itself is still asked, so a seed only has to be implied,
//! never to be equivalent. Anything doubtful yields no seed.

use super::super::plan::*;

/// The facts implied by a step's predicates. With `alternatives`, an `or` yields the choice of its members' facts as well;
/// their lists must be merged, which pays for a step that is taken once, not for one inside a predicate.
///
/// Those behind a positional predicate count too: whatever passes all of them
/// has the fact; but the position is counted among nodes that need not have it, so they are left out.
pub(super) fn of_predicates(predicates: &[Predicate], names: &[Box<str>], alternatives: bool) -> Vec<Seed> {
    let mut seeds = Vec::new();
    for predicate in predicates {
        if predicate.kind != PredicateKind::Node {
            break;
        }
        collect(&predicate.expr, names, &mut seeds);
    }
    if !alternatives {
        seeds.retain(|seed| !matches!(seed, Seed::OneOf(_)));
    }
    seeds
}

/// What each member implies, if all imply something; and apart from that what all of them imply alike.
fn either(members: &[Expr], names: &[Box<str>], seeds: &mut Vec<Seed>) {
    let mut facts = Vec::with_capacity(members.len());
    for member in members {
        let mut own = Vec::new();
        collect(member, names, &mut own);
        if own.is_empty() {
            return;
        }
        facts.push(own);
    }
    if let Some((first, rest)) = facts.split_first() {
        let plain = first.iter().filter(|fact| !matches!(fact, Seed::OneOf(_)));
        let shared = plain.filter(|fact| rest.iter().all(|own| own.contains(fact)));
        seeds.extend(shared.cloned());
    }
    seeds.push(Seed::OneOf(facts));
}

fn collect(expr: &Expr, names: &[Box<str>], seeds: &mut Vec<Seed>) {
    match expr {
        Expr::And(members) => members.iter().for_each(|member| collect(member, names, seeds)),
        Expr::Or(members) => either(members, names, seeds),
        Expr::Attribute(name) => seeds.push(Seed::Attribute(*name)),
        // `[self::h1]`; alternatives of it are how one asks for any of several elements.
        Expr::Path(Path { start: PathStart::Context, steps, .. }) => {
            if let [Step { axis: Axis::SelfNode, test: NodeTest::Name(name), .. }] = &steps[..] {
                seeds.push(Seed::Element(*name));
            }
        }
        Expr::HasTokens(tokens) => {
            if &*names[tokens.attribute] == "class" {
                seeds.extend(tokens.tokens.iter().map(|token| Seed::Class(token.clone())));
            } else {
                seeds.push(Seed::Attribute(tokens.attribute));
            }
        }
        Expr::Compare(op, left, right) => {
            compared(*op, left, right, names, seeds);
            compared(op.flipped(), right, left, names, seeds);
        }
        Expr::Call(Function::Boolean, arguments) => collect(&arguments[0], names, seeds),
        // With an empty second argument this holds for a missing attribute as well.
        Expr::Contains(whole, part) if !part.needle().is_empty() => {
            seeds.extend(attribute_text(whole).map(Seed::Attribute));
            seeds.extend(class_token(whole, part.needle(), names));
        }
        Expr::Matches(subject, pattern) if !pattern.is_match("") => {
            seeds.extend(attribute_text(subject).map(Seed::Attribute));
        }
        Expr::Call(Function::StartsWith, arguments) => {
            if let (Some(name), Expr::Literal(text)) = (attribute_text(&arguments[0]), &arguments[1])
                && !text.is_empty()
            {
                seeds.push(Seed::Attribute(name));
            }
        }
        // A text is true when it is not empty.
        Expr::Call(Function::String | Function::NormalizeSpace, _) => {
            seeds.extend(attribute_text(expr).map(Seed::Attribute));
        }
        _ => {}
    }
}

fn compared(op: CompareOp, left: &Expr, right: &Expr, names: &[Box<str>], seeds: &mut Vec<Seed>) {
    match (left, right) {
        (Expr::Attribute(name), Expr::Literal(text)) if op == CompareOp::Equal => {
            match &*names[*name] {
                "id" => seeds.push(Seed::Id(text.clone())),
                "class" => {
                    let tokens = text.split_ascii_whitespace();
                    seeds.extend(tokens.map(|token| Seed::Class(token.into())));
                }
                _ => {}
            }
            seeds.push(Seed::Attribute(*name));
        }
        // A node-set compares by its members, unless with a boolean.
        (Expr::Attribute(name), other) if other.kind() != Type::Boolean => {
            seeds.push(Seed::Attribute(*name));
        }
        (other, Expr::Literal(text)) if op == CompareOp::Equal && !text.is_empty() => {
            seeds.extend(attribute_text(other).map(Seed::Attribute));
        }
        _ => {}
    }
}

/// The attribute of which this is the text, if it is one's: empty where the attribute is missing.
fn attribute_text(expr: &Expr) -> Option<NameIndex> {
    match expr {
        Expr::Attribute(name) => Some(*name),
        Expr::Call(Function::String | Function::NormalizeSpace | Function::Translate, arguments) => {
            attribute_text(&arguments[0])
        }
        _ => None,
    }
}

/// `contains(concat(' ', @class, ' '), ' token ')`: not the whole idiom (a tab would not separate), but it implies the token.
fn class_token(whole: &Expr, part: &[u8], names: &[Box<str>]) -> Option<Seed> {
    let Expr::Call(Function::Concat, parts) = whole else { return None };
    let [Expr::Literal(before), Expr::Attribute(name), Expr::Literal(after)] = &parts[..] else {
        return None;
    };
    let wanted = std::str::from_utf8(part).ok()?;
    let token = wanted.strip_prefix(' ')?.strip_suffix(' ')?;
    let is_token = !token.is_empty() && !token.contains(|character: char| character.is_ascii_whitespace());
    let is_class = &*names[*name] == "class" && &**before == " " && &**after == " ";
    (is_class && is_token).then(|| Seed::Class(token.into()))
}

/// `contains(concat(' ', normalize-space(@a), ' '), ' token ')`, the XPath 1.0 idiom for "has this token".
pub(super) fn class_idiom(arguments: &[Expr]) -> Option<Tokens> {
    let [Expr::Call(Function::Concat, parts), Expr::Literal(wanted)] = arguments else { return None };
    let [Expr::Literal(before), Expr::Call(Function::NormalizeSpace, inner), Expr::Literal(after)] =
        &parts[..]
    else {
        return None;
    };
    let Expr::Attribute(attribute) = inner[0] else { return None };
    let token = wanted.strip_prefix(' ')?.strip_suffix(' ')?;
    let is_token = !token.is_empty() && !token.contains([' ', '\t', '\n', '\r']);
    (&**before == " " && &**after == " " && is_token).then(|| Tokens {
        attribute,
        tokens: vec![token.into()],
        html_space: false,
    })
}
