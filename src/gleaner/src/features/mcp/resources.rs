//! What a client can attach to a conversation: saved queries, and the pages about errors.

use super::on_behalf::{Asked, OnBehalf, Refused};
use base::Code;
use base::ids::SavedQueryId;
use serde_json::{Value, json};

/// Saved queries of one answer.
const QUERIES_A_PAGE: usize = 100;
const QUERY_URI: &str = "gleaner://saved-queries/";
const ERROR_URI: &str = "gleaner://errors/";

/// One resource as it is listed.
pub(super) struct Listed {
    pub uri: String,
    pub name: String,
    pub about: String,
    pub media_type: &'static str,
}

/// Addresses with a part that is filled in: `(template, name, about, media type)`.
pub(super) static TEMPLATES: &[(&str, &str, &str, &str)] = &[
    (
        "gleaner://saved-queries/{id}",
        "saved query",
        "A query that people of the organization have saved.",
        "application/json",
    ),
    (
        "gleaner://errors/{code}",
        "error page",
        "What an error code means and what to do about it.",
        "text/markdown",
    ),
];

/// A page of what there is, and where it goes on: the saved queries that the caller may see, and then the pages about errors.
pub(super) async fn list(
    on_behalf: &OnBehalf,
    cursor: Option<String>,
) -> Asked<(Vec<Listed>, Option<String>)> {
    let page = [("limit", Some(QUERIES_A_PAGE.to_string())), ("cursor", cursor)];
    let found = match on_behalf.find("/bi/saved-queries", &page).await {
        // Who may not use the console still has the pages.
        Err(Refused { status: 402 | 403, .. }) => Value::Null,
        found => found?,
    };
    let query = |query: &Value| {
        Some(Listed {
            uri: format!("{QUERY_URI}{}", query["id"].as_str()?),
            name: query["name"].as_str()?.to_owned(),
            about: query["description"].as_str().unwrap_or("A saved query.").to_owned(),
            media_type: "application/json",
        })
    };
    let mut listed: Vec<_> = found["items"].as_array().into_iter().flatten().filter_map(query).collect();
    let next = found["nextCursor"].as_str().map(str::to_owned);
    if next.is_none() {
        listed.extend(Code::ALL.iter().map(|code| Listed {
            uri: format!("{ERROR_URI}{}", code.name()),
            name: code.name().to_owned(),
            about: format!("About the error {}: {}", code.name(), code.sentence()),
            media_type: "text/markdown",
        }));
    }
    Ok((listed, next))
}

/// The text of a resource and its media type; none where there is none of this address.
pub(super) async fn read(on_behalf: &OnBehalf, uri: &str) -> Asked<Option<(String, &'static str)>> {
    if let Some(code) = uri.strip_prefix(ERROR_URI) {
        return Ok(server::error_guide(code).map(|text| (text.to_owned(), "text/markdown")));
    }
    let id = uri.strip_prefix(QUERY_URI).and_then(|id| id.parse::<SavedQueryId>().ok());
    let Some(id) = id else { return Ok(None) };
    let query = match on_behalf.get(&format!("/bi/saved-queries/{id}")).await {
        Err(Refused { status: 404, .. }) => return Ok(None),
        query => query?,
    };
    let shown = json!({
        "name": query["name"],
        "description": query["description"],
        "sql": query["sql"],
        "structured": query["structured"],
        "updatedAt": query["updatedAt"],
    });
    Ok(Some((format!("{shown:#}"), "application/json")))
}
