//! Whether an attack was one: what the box answered it, against what it was meant to be answered.
//!
//! An attack whose requests are refused at the door for a slip of their own measures nothing, and its figures look best of
//! all. So each says what has to be true of it, and one that missed is told so and fails the bench.

use serde_json::Value;
use server::client::{Client, ClientError, Reply};
use std::collections::BTreeMap;
use std::fmt;

/// What an attack did, and why it was none, if so.
pub struct Outcome {
    pub did: String,
    pub missed: Vec<String>,
}

impl Outcome {
    pub fn did(what: impl Into<String>) -> Outcome {
        Outcome { did: what.into(), missed: Vec::new() }
    }

    /// It was an attack only where this holds.
    pub fn must(mut self, holds: bool, what: impl Into<String>) -> Outcome {
        if !holds {
            self.missed.push(what.into());
        }
        self
    }
}

/// How often the box answered what: `202`, or `400 Validation failed`.
#[derive(Default)]
pub struct Answers(BTreeMap<String, usize>);

impl Answers {
    pub fn add(&mut self, answer: String) {
        *self.0.entry(answer).or_default() += 1;
    }

    pub fn extend(&mut self, more: Answers) {
        for (answer, count) in more.0 {
            *self.0.entry(answer).or_default() += count;
        }
    }

    /// How many begin with one of these.
    pub fn of(&self, meant: &[&str]) -> usize {
        let is_meant = |answer: &str| meant.iter().any(|meant| answer.starts_with(meant));
        self.0.iter().filter(|(answer, _)| is_meant(answer)).map(|(_, count)| count).sum()
    }

    /// An attack that is one where each of these answers came, and hardly another.
    pub fn meant(self, meant: &[&str]) -> Outcome {
        let (all, as_meant) = (self.0.values().sum::<usize>(), self.of(meant));
        let lacks: Vec<_> = meant.iter().filter(|meant| self.of(&[**meant]) == 0).collect();
        Outcome::did(format!("answers: {self}"))
            .must(lacks.is_empty(), format!("nothing was answered {lacks:?}"))
            .must(as_meant * 20 >= all * 19, format!("{} of {all} answers are not as meant", all - as_meant))
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (answer, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} × {answer}", if n > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// Status and error of an answer.
pub fn label(reply: Result<Reply, ClientError>) -> String {
    let Ok(reply) = reply else { return "none".to_owned() };
    let status = reply.status.as_u16();
    let error = &reply.json["error"];
    match error.as_str().or(error["code"].as_str()).or(reply.json["code"].as_str()) {
        Some(error) if !reply.status.is_success() => format!("{status} {error}"),
        _ => status.to_string(),
    }
}

pub async fn answer(client: &Client, path: &str, body: &Value) -> String {
    label(client.post(path, body).await)
}
