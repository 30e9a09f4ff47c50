//! Extraction schemas, and trying selectors on a page.

use crate::commands::SchemasCommand;
use crate::failure::{Failure, Outcome};
use crate::http::with_query;
use crate::output::{Column, Sink, Table, cell, width};
use crate::session::{Session, items, pretty, read_text};
use serde_json::{Map, Value, json};
use std::path::Path;

const FILE_BYTES_MAX: u64 = 1 << 20;
const TYPES: [&str; 6] = ["text", "number", "url", "boolean", "text[]", "url[]"];

const SCHEMAS: [Column; 6] = [
    ("DOMAIN", "/domain"),
    ("TYPE", "/pageType"),
    ("VERSION", "/version"),
    ("CONFIDENCE", "/confidence"),
    ("SAMPLES", "/sampleCount"),
    ("ID", "/id"),
];

pub async fn carry_out(session: &Session, command: SchemasCommand) -> Outcome<()> {
    match command {
        SchemasCommand::List { domain, page_type } => {
            let query = [("domain", domain), ("pageType", page_type)];
            let page = session.remote.get(&with_query("/api/v1/extraction/schemas", &query)).await?;
            session.rows(items(&page)?, &SCHEMAS)
        }
        SchemasCommand::Test { domain, page_type, attribute, attributes, job } => {
            let mut all = match &attributes {
                Some(file) => of_file(&read_text("--attributes", file, FILE_BYTES_MAX).await?, file)?,
                None => Vec::new(),
            };
            for text in &attribute {
                all.push(of_text(text)?);
            }
            let mut body = Map::new();
            body.insert("domain".to_owned(), domain.into());
            body.insert("pageType".to_owned(), page_type.into());
            body.insert("attributes".to_owned(), all.clone().into());
            if let Some(job) = job {
                body.insert("jobId".to_owned(), job.into());
            }
            let told = session.remote.post("/api/v1/extraction/test-xpath", &Value::Object(body)).await?;
            tell(session, &all, &told)
        }
    }
}

/// `NAME=XPATH` or `NAME:TYPE=XPATH`.
fn of_text(text: &str) -> Outcome<Value> {
    let wrong = |reason: &str| Failure::usage("--attribute", format!("\"{text}\" {reason}"));
    let (name, xpath) = text.split_once('=').ok_or_else(|| wrong("is not NAME=XPATH"))?;
    let (name, kind) = name.split_once(':').unwrap_or((name, "text"));
    if !TYPES.contains(&kind) {
        return Err(wrong(&format!("has the type \"{kind}\"; types are {}", TYPES.join(", "))));
    }
    match name.trim().is_empty() || xpath.trim().is_empty() {
        true => Err(wrong("is not NAME=XPATH")),
        false => Ok(json!({ "name": name.trim(), "type": kind, "xpaths": [xpath.trim()] })),
    }
}

/// An array of attributes, or an object that has one, as a schema does.
fn of_file(text: &str, file: &Path) -> Outcome<Vec<Value>> {
    let wrong = |reason: String| Failure::usage("--attributes", format!("{}: {reason}", file.display()));
    let read: Value = serde_json::from_str(text).map_err(|e| wrong(format!("is no JSON: {e}")))?;
    match read {
        Value::Array(all) => Ok(all),
        Value::Object(mut schema) => match schema.remove("attributes") {
            Some(Value::Array(all)) => Ok(all),
            _ => Err(wrong("has no array \"attributes\"".to_owned())),
        },
        _ => Err(wrong("is no array of attributes".to_owned())),
    }
}

/// Prints what each attribute found; some that found nothing are a failure.
fn tell(session: &Session, asked: &[Value], told: &Value) -> Outcome<()> {
    let value = |name: &str| told["values"].get(name).filter(|value| !value.is_null());
    let mut sink = Sink::open(None)?;
    let names = || asked.iter().filter_map(|attribute| attribute["name"].as_str());
    if session.json {
        sink.line(&pretty(told))?;
    } else {
        let mut table = Table::new(["NAME", "VALUE", "REASON"].map(str::to_owned), width());
        for name in names() {
            let errors = told["attributeErrors"].as_array().into_iter().flatten();
            let reason =
                errors.filter(|error| error["name"] == name).map(|error| cell(error.get("reason"))).next();
            let cells = vec![crate::output::visible(name), cell(value(name)), reason.unwrap_or_default()];
            table.row(cells, &mut sink)?;
        }
        table.end(&mut sink)?;
    }
    sink.end()?;
    match names().filter(|name| value(name).is_none()).count() {
        0 => Ok(()),
        none => Err(Failure::failed(format!("{none} of {} attributes found nothing", asked.len()))
            .message(told["url"].as_str().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_typed_shortly() {
        let price = json!({ "name": "price", "type": "number", "xpaths": ["//b[@id='p']"] });
        assert_eq!(of_text("price:number=//b[@id='p']").unwrap(), price);
        assert_eq!(of_text("title=//h1").unwrap()["type"], "text");
        for wrong in ["title", "=//h1", "title=", "title:float=//h1", ":text=//h1"] {
            let refused = of_text(wrong).unwrap_err().to_string();
            assert!(refused.starts_with("--attribute: "), "{wrong}: {refused}");
        }
        let file = Path::new("a.json");
        assert_eq!(of_file("[{}]", file).unwrap().len(), 1);
        assert_eq!(of_file("{\"attributes\": [{}, {}]}", file).unwrap().len(), 2);
        for wrong in ["", "7", "{}", "{\"attributes\": 1}"] {
            assert!(of_file(wrong, file).unwrap_err().to_string().starts_with("--attributes: a.json: "));
        }
    }
}
