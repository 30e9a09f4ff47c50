//! Reads a node's `config` member by member, and notes everything that is wrong with it.

use super::shape::{Fault, NodeType, Problem, one_of, quoted, with_article};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A node's config while it is read. Every method that gives none has said why.
pub(super) struct NodeConfig<'a> {
    /// The node's own path: `dag.nodes[2]`.
    path: String,
    members: Option<&'a Map<String, Value>>,
    pub problems: Vec<Problem>,
}

impl<'a> NodeConfig<'a> {
    pub fn new(path: String, members: Option<&'a Map<String, Value>>) -> NodeConfig<'a> {
        NodeConfig { path, members, problems: Vec::new() }
    }

    /// The path of a member.
    pub fn at(&self, name: &str) -> String {
        format!("{}.config.{name}", self.path)
    }

    pub fn add(&mut self, name: &str, fault: Fault, message: impl Into<String>) {
        self.problems.push(Problem::new(self.at(name), fault, message));
    }

    /// Notes what is wrong with a member.
    pub fn wrong(&mut self, name: &str, message: impl Into<String>) {
        self.add(name, Fault::BadConfig, message);
    }

    /// Notes members that a node of this type does not read: mostly a name that was typed wrong.
    pub fn warn_of_others(&self, kind: NodeType, warnings: &mut Vec<Problem>) {
        for (name, _) in self.members.into_iter().flatten() {
            if !kind.members().contains(&name.as_str()) {
                let known = match kind.members() {
                    [] => "it has no config".to_owned(),
                    known => format!("it reads {}", one_of(known.iter().copied()).replace(" or ", " and ")),
                };
                let message =
                    format!("{} node does not read {}; {known}", with_article(kind.name()), quoted(name));
                let shown: String = name.chars().take(60).collect();
                warnings.push(Problem::new(self.at(&shown), Fault::BadConfig, message));
            }
        }
    }

    /// A member; `null` is as good as left out (data/docs/api.md, "Conventions").
    pub fn optional(&self, name: &str) -> Option<&'a Value> {
        self.members?.get(name).filter(|value| !value.is_null())
    }

    pub fn required(&mut self, name: &str) -> Option<&'a Value> {
        let value = self.optional(name);
        if value.is_none() {
            self.wrong(name, "is required");
        }
        value
    }

    /// A required text.
    pub fn text(&mut self, name: &str) -> Option<&'a str> {
        let value = self.required(name)?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong(name, "must be text");
        }
        text
    }

    /// A required id; `what` names what it is the id of.
    pub fn id<T: FromStr>(&mut self, name: &str, what: &str) -> Option<T> {
        let value = self.required(name)?;
        self.parse_id(name, value, what)
    }

    pub fn parse_id<T: FromStr>(&mut self, name: &str, value: &Value, what: &str) -> Option<T> {
        let id = value.as_str().and_then(|text| text.parse().ok());
        if id.is_none() {
            self.wrong(name, format!("must be the id of {what}"));
        }
        id
    }

    /// A number that may be left out: the outer none is a problem, the inner one says that it was left out.
    pub fn number(&mut self, name: &str, range: RangeInclusive<u32>) -> Option<Option<u32>> {
        let Some(value) = self.optional(name) else { return Some(None) };
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| range.contains(n));
        if number.is_none() {
            self.wrong(name, format!("must be a whole number from {} to {}", range.start(), range.end()));
        }
        number.map(Some)
    }

    /// A yes or no that may be left out.
    pub fn flag(&mut self, name: &str) -> Option<Option<bool>> {
        let Some(value) = self.optional(name) else { return Some(None) };
        let flag = value.as_bool();
        if flag.is_none() {
            self.wrong(name, "must be true or false");
        }
        flag.map(Some)
    }
}
