//! The assistant: runs SQL that it is given, and reads plain questions into structured queries.
//!
//! Questions go to a language model first where the box has one ([`super::proposal`]); the closed grammar answers where it does not.
//! Whatever it reads (the question, names of columns, sampled values) only ever becomes a query, which runs in the scope of
//! the agent and under the console's limits. It says how it understood the question and which SQL that was.

use super::conversation::Reply;
use super::proposal::{Proposed, Subject, propose};
use super::rows::{AgentV1, CardKindV1, ChoiceV1};
use super::show::{POINTS_MAX, Understood, replies};
use crate::features::bi::{Asked, Asking, DescribedTable, Queries, is_of_statement};
use crate::features::llm::LanguageModel;
use ask::{Kind, Plan, Reading, Table};
use base::codec::Json;
use base::permission::Permission;
use base::{Code, Error, Result};
use serde_json::Value;
use server::{OrgContext, apart};
use sql::{ColumnKind, Structured, TableSpec};
use std::sync::Arc;
use std::time::Duration;

/// How long an answer is waited for.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Tables of which a question is asked, and columns of one.
const TABLES_MAX: usize = 200;
const COLUMNS_MAX: usize = 300;
/// Characters of a sampled value that the grammar knows.
const SAMPLE_CHARS_MAX: usize = 60;

/// What is said, and how the question was understood.
pub(super) type Replies = (Vec<Reply>, Option<Json>);

/// Refuses whoever has no verified address, as the console does.
pub(super) fn check_verified(org: &OrgContext, what: &str) -> Result<()> {
    if org.principal().email_verified() {
        return Ok(());
    }
    let message = format!("{what} needs a verified email address.");
    Err(Error::new(Code::AuthForbidden).title("Email address is not verified").message(message))
}

/// Answers one turn.
pub(super) struct Assistant<'a> {
    org: &'a OrgContext,
    agent: &'a AgentV1,
    queries: Arc<Queries>,
    model: Arc<LanguageModel>,
}

impl<'a> Assistant<'a> {
    /// Refuses whom the console would refuse: a question becomes a statement of theirs.
    pub(super) fn new(org: &'a OrgContext, agent: &'a AgentV1) -> Result<Assistant<'a>> {
        let refused = |message: &str| Err(Error::new(Code::AuthForbidden).message(message));
        if !org.may(Permission::BiRead) {
            return refused("Asking an agent also needs the permission bi:read.");
        }
        check_verified(org, "Asking an agent")?;
        Ok(Assistant { org, agent, queries: org.service(), model: org.service() })
    }

    /// Answers a text.
    pub(super) async fn answer(&self, text: &str) -> Result<Replies> {
        if let Some(sql) = sql_of(text) {
            let understood = Understood {
                note: String::new(),
                sentence: "I have run the statement as it is, over what belongs to this agent.".to_owned(),
                title: title_of(sql),
            };
            return Ok((self.run(Asked::Sql(sql.to_owned()), &understood).await?, None));
        }
        self.question(text).await
    }

    /// Answers a reading that was chosen.
    pub(super) async fn answer_plan(&self, plan: Json) -> Result<Replies> {
        let read = serde_json::from_value(plan.0);
        self.planned(read.map_err(|e| Error::internal("read a choice", e))?, "").await
    }

    /// Reads a question and answers it, asks back, or says what can be asked. A language model is asked first where there is one.
    async fn question(&self, text: &str) -> Result<Replies> {
        let described = self.queries.described(self.org.store(), self.agent.id).await?;
        let of_agent = |(spec, _): &&DescribedTable| spec.agent_rows.is_some();
        let specs: Vec<Arc<TableSpec>> =
            described.iter().filter(of_agent).take(TABLES_MAX).map(|(spec, _)| Arc::clone(spec)).collect();
        let seen: Vec<Table> = described.iter().filter(of_agent).take(TABLES_MAX).map(table).collect();
        let all: Vec<Table> = described.iter().take(TABLES_MAX).map(table).collect();
        let last =
            self.agent.plan.as_ref().and_then(|plan| serde_json::from_value::<Plan>(plan.0.clone()).ok());
        let now = self.org.store().clock().now();
        let subject = Subject { question: text, tables: &seen, specs: &specs, last: last.as_ref(), now };
        let note = match propose(&self.model, self.org.store().id(), &subject).await {
            Some(Ok(Proposed::Query(plan))) => {
                return self.planned(*plan, "A language model has read it so: ").await;
            }
            Some(Ok(Proposed::Nothing(said))) => {
                Some(format!("The language model knows no query for it: “{said}”"))
            }
            Some(Err(unanswered)) => Some(unanswered.sentence().to_owned()),
            None => None,
        };
        let note = note.map(|note| format!("{note}\n\n")).unwrap_or_default();
        self.by_grammar(text, (seen, all), last, &note).await
    }

    async fn by_grammar(
        &self,
        text: &str,
        (seen, all): (Vec<Table>, Vec<Table>),
        last: Option<Plan>,
        note: &str,
    ) -> Result<Replies> {
        let (question, now) = (text.to_owned(), self.org.store().clock().now().millis());
        // Some hundred thousand comparisons of words at worst.
        let ((reading, mended), outside, examples) = apart(move || {
            let (reading, mended) = ask::read(&question, &seen, now, last.as_ref());
            let outside = match &reading {
                Reading::Unread(_) => match ask::read(&question, &all, now, None).0 {
                    Reading::Understood(plan) => Some(plan.table),
                    _ => None,
                },
                _ => None,
            };
            ((reading, mended), outside, ask::examples(&seen))
        })
        .await?;
        let taken = mended.iter().map(|word| format!("“{}” as “{}”", word.given, word.taken));
        let taken: Vec<String> = taken.collect();
        let note = match taken.is_empty() {
            true => note.to_owned(),
            false => format!("{note}I have read {}. ", taken.join(" and ")),
        };
        match reading {
            Reading::Understood(plan) => self.planned(*plan, &note).await,
            Reading::Unsure(plans) => Ok((vec![question_back(plans, &note)?], None)),
            Reading::Unread(why) => Ok((vec![declined(why, outside, &examples, &note)], None)),
        }
    }

    async fn planned(&self, plan: Plan, note: &str) -> Result<Replies> {
        let structured: Structured = serde_json::from_value(plan.structured())
            .map_err(|e| Error::internal("write down a question", e))?;
        let understood = Understood { note: note.to_owned(), sentence: plan.sentence(), title: plan.title() };
        let replies = self.run(Asked::Structured(Box::new(structured)), &understood).await?;
        let plan = serde_json::to_value(&plan).map_err(|e| Error::internal("keep a question", e))?;
        Ok((replies, Some(Json(plan))))
    }

    /// Runs a statement in the agent's scope. That it cannot be run is an answer, too.
    async fn run(&self, asked: Asked, understood: &Understood) -> Result<Vec<Reply>> {
        let asking = Asking {
            agent: self.agent.id,
            by: self.org.principal().user(),
            wait: ANSWER_WAIT,
            rows_max: POINTS_MAX as u64,
        };
        match self.queries.ask(self.org.store(), asking, asked).await {
            Ok(answered) => Ok(replies(understood, &answered)),
            Err(error) if is_of_statement(&error) => {
                let why = error.detail().unwrap_or_else(|| error.sentence());
                let code = error.code().name();
                let Understood { note, sentence, .. } = understood;
                Ok(vec![Reply::text(format!("{note}{sentence}\n\nIt cannot be run ({code}): {why}"))])
            }
            Err(error) => Err(error),
        }
    }
}

/// A question back, with a reading to each of its actions.
fn question_back(plans: Vec<Plan>, note: &str) -> Result<Reply> {
    let question = "That can be read in more than one way. Which is meant?";
    let choice = |plan: Plan| {
        let label = plan.sentence();
        let plan = serde_json::to_value(&plan).map_err(|e| Error::internal("keep a reading", e))?;
        Ok(ChoiceV1 { label, plan: Json(plan) })
    };
    let choices = plans.into_iter().map(choice).collect::<Result<_>>()?;
    let card = CardKindV1::Question { question: question.to_owned(), choices };
    Ok(Reply { text: format!("{note}{question}"), card: Some(card), query: None })
}

fn declined(why: String, outside: Option<String>, examples: &[String], note: &str) -> Reply {
    let why = match outside {
        Some(table) => format!("The table {table} is outside of what an agent may read."),
        None => why,
    };
    let examples: Vec<String> = examples.iter().map(|example| format!("- {example}")).collect();
    Reply::text(format!(
        "{note}I cannot answer that. {why}\n\nWhat can be asked, for example:\n{}",
        examples.join("\n")
    ))
}

/// The statement in a text, if it is one: said so by a fence, or by how it begins.
fn sql_of(text: &str) -> Option<&str> {
    let text = text.trim();
    if let Some(fenced) = text.strip_prefix("```") {
        let inner = fenced.strip_suffix("```").unwrap_or(fenced);
        let inner = inner.strip_prefix("sql").or_else(|| inner.strip_prefix("SQL")).unwrap_or(inner);
        return Some(inner.trim());
    }
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    let second = words.next().unwrap_or_default().to_ascii_lowercase();
    let begins = match first.trim_start_matches('(') {
        "select" | "values" | "table" | "explain" | "copy" | "pragma" | "grant" | "revoke" => true,
        "with" => words.next().is_some_and(|third| third.eq_ignore_ascii_case("as")) || second == "recursive",
        "insert" => second == "into",
        "delete" => second == "from",
        "drop" | "create" | "alter" | "truncate" => {
            matches!(second.as_str(), "table" | "view" | "index" | "schema")
        }
        "update" => words.next().is_some_and(|third| third.eq_ignore_ascii_case("set")),
        _ => false,
    };
    begins.then_some(text)
}

/// A name for a statement: how it begins.
fn title_of(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().take(12).collect();
    words.join(" ").chars().take(80).collect()
}

fn table((spec, samples): &(Arc<TableSpec>, Vec<(String, Value)>)) -> Table {
    let texts = |name: &str| -> Vec<String> {
        let values =
            samples.iter().find(|(column, _)| column == name).and_then(|(_, values)| values.as_array());
        let texts = values.into_iter().flatten().filter_map(Value::as_str);
        texts.filter(|text| text.chars().count() <= SAMPLE_CHARS_MAX).map(str::to_owned).collect()
    };
    let kind = |kind: ColumnKind| match kind {
        ColumnKind::Text => Kind::Text,
        ColumnKind::Int64 => Kind::Integer,
        ColumnKind::Float64 => Kind::Float,
        ColumnKind::Bool => Kind::Bool,
        ColumnKind::Timestamp => Kind::Time,
        ColumnKind::Json => Kind::Json,
    };
    let columns = spec.columns.iter().take(COLUMNS_MAX).map(|column| ask::Column {
        name: column.name.clone(),
        kind: kind(column.kind),
        nullable: column.nullable,
        description: column.description.clone().unwrap_or_default(),
        samples: texts(&column.name),
    });
    Table { name: spec.name.to_string(), columns: columns.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_from_questions() {
        for sql in [
            "SELECT 1",
            "  select * from jobs",
            "```sql\nSELECT 1\n```",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "(SELECT 1)",
            "DELETE FROM jobs",
            "drop table jobs",
            "update jobs set id = 1",
        ] {
            assert!(sql_of(sql).is_some(), "{sql}");
        }
        for question in
            ["with which provider do jobs fail", "how many jobs", "delete all jobs", "update me on jobs", ""]
        {
            assert!(sql_of(question).is_none(), "{question}");
        }
        assert_eq!(sql_of("```sql\nSELECT 1\n```"), Some("SELECT 1"));
    }
}
