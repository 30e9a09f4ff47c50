//! What a statement is made of: SQL, or a structured query that is compiled to SQL.
//!
//! A request brings one of the two. A structured query is compiled each time it is run, because the tables may have
//! grown since it was saved; what it came to is the statement's text from then on.

use super::refusals::refusal;
use super::rows::{ContentV1, QueryV2};
use base::codec::Json;
use base::{Code, Error, Result};
use serde_json::Value;
use sql::structured::Structured;
use sql::{STATEMENT_BYTES_MAX, with_parameters};

/// SQL or a structured query, as a request brings it.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Sql(String),
    Structured(Box<Structured>),
}

/// A statement ready to be submitted.
#[derive(Clone, Debug)]
pub struct Runnable {
    pub sql: String,
    /// The structured query that it was.
    pub structured: Option<Json>,
    /// Counts the readings that it leaves out.
    pub coverage: Option<String>,
}

impl Content {
    /// What a request gives; none when it gives neither.
    pub(super) fn given(sql: Option<String>, structured: Option<Structured>) -> Result<Option<Content>> {
        match (sql, structured) {
            (Some(_), Some(_)) => Err(invalid("sql, structured: send one of the two")),
            (Some(sql), None) => checked(sql).map(Content::Sql).map(Some),
            (None, Some(structured)) => Ok(Some(Content::Structured(Box::new(structured)))),
            (None, None) => Ok(None),
        }
    }

    /// What a request must give.
    pub(super) fn required(sql: Option<String>, structured: Option<Structured>) -> Result<Content> {
        Content::given(sql, structured)?.ok_or_else(|| invalid("sql: is required, or structured"))
    }

    /// For a row.
    pub(super) fn stored(&self) -> Result<ContentV1> {
        Ok(match self {
            Content::Sql(sql) => ContentV1::Sql(sql.clone()),
            Content::Structured(structured) => ContentV1::Structured(json(structured)?),
        })
    }

    /// The same with the values of its parameters.
    pub(super) fn with_parameters(self, values: Option<Vec<Value>>) -> Result<Content> {
        let values = values.unwrap_or_default();
        match self {
            Content::Sql(sql) => {
                let sql = with_parameters(&sql, &values).map_err(refusal)?;
                checked(sql).map(Content::Sql)
            }
            Content::Structured(_) if !values.is_empty() => {
                Err(invalid("params: only SQL has parameters; a structured query has its values itself"))
            }
            structured => Ok(structured),
        }
    }

    /// From a row.
    pub(super) fn read(stored: &ContentV1) -> Result<Content> {
        Ok(match stored {
            ContentV1::Sql(sql) => Content::Sql(sql.clone()),
            ContentV1::Structured(structured) => {
                let parsed = serde_json::from_value(structured.0.clone());
                Content::Structured(parsed.map_err(|e| Error::internal("read a structured query", e))?)
            }
        })
    }
}

/// What a submitted query was made of.
pub(super) fn content_of(query: &QueryV2) -> ContentV1 {
    match &query.structured {
        Some(structured) => ContentV1::Structured(structured.clone()),
        None => ContentV1::Sql(query.sql.clone()),
    }
}

pub(super) fn json(structured: &Structured) -> Result<Json> {
    let value = serde_json::to_value(structured);
    value.map(Json).map_err(|e| Error::internal("write down a structured query", e))
}

/// A statement of a length that can be stored; the workers look at the rest.
fn checked(sql: String) -> Result<String> {
    if sql.len() > STATEMENT_BYTES_MAX {
        return Err(invalid(&format!("sql: the statement is longer than {} KiB", STATEMENT_BYTES_MAX >> 10)));
    }
    Ok(sql)
}

fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidSql).message(message)
}
