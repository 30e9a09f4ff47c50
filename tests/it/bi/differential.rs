//! What analysts ask (`analyst.sql`), asked of the console through its API and of PostgreSQL over the same rows: equal
//! results, or a reason that is written beside the statement and holds.

use super::QUERIES;
use super::structured::{ALL, collected, copy_table, import, shop};
use crate::harness::postgres::{Postgres, Table, comparable};
use crate::harness::{Appliance, eventually, expect, post};
use serde_json::{Map, Value, json};
use server::client::Client;
use std::collections::HashMap;
use std::time::Duration;

const STATEMENTS: &str = include_str!("analyst.sql");
/// Fewer would be no corpus any more.
const STATEMENTS_MIN: usize = 150;
const PAGES: usize = 24;
/// The tables that the statements read.
const TABLES: &[&str] = &["products", "readings", "reading_values", "urls", "url_tags", "jobs"];

/// What is said of a statement in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Equal,
    Refused,
    Differs,
}

struct Asked {
    claim: Claim,
    sql: String,
}

/// The statements of the file.
fn corpus() -> Vec<Asked> {
    let mut all = Vec::new();
    let (mut claim, mut sql) = (Claim::Equal, String::new());
    for line in STATEMENTS.lines() {
        match line.strip_prefix("--").map(str::trim) {
            Some(note) if note.starts_with("refused: ") => claim = Claim::Refused,
            Some(note) if note.starts_with("differs: ") => claim = Claim::Differs,
            Some(_) => {}
            None => {
                sql.push_str(line);
                if let Some(whole) = sql.trim_end().strip_suffix(';') {
                    all.push(Asked { claim, sql: whole.to_owned() });
                    (claim, sql) = (Claim::Equal, String::new());
                }
            }
        }
    }
    all
}

/// Whether the statement itself orders its rows.
fn is_ordered(sql: &str) -> bool {
    let behind = sql.rfind("ORDER BY").map(|at| &sql[at..]);
    behind.is_some_and(|order| order.matches(')').count() <= order.matches('(').count())
}

/// What the console gave: rows in order, and the types that it says the columns have.
#[derive(Debug)]
struct Answer {
    rows: Vec<Map<String, Value>>,
    types: Vec<String>,
}

/// What the console gives, or why not, and whether it was refused at the door.
async fn ours(client: &Client, sql: &str) -> Result<Answer, (bool, String)> {
    let reply = post(client, QUERIES, &json!({ "sql": sql, "waitMs": 10_000 })).await;
    if reply.status != 200 {
        let code = reply.json["error"]["code"].as_str().unwrap_or_default();
        return Err((matches!(code, "invalid_sql" | "syntax_error"), reply.text()));
    }
    if reply.json["status"] != "success" {
        return Err((false, reply.json["error"].to_string()));
    }
    let rows = reply.json["results"]["rows"].as_array().expect("rows");
    assert_eq!(reply.json["results"]["hasMore"], false, "{sql}");
    let rows = rows.iter().map(|row| row.as_object().expect("an object").clone()).collect();
    let columns = reply.json["dryRun"]["columns"].as_array().expect("columns");
    let types = columns.iter().map(|column| column["type"].as_str().expect("a type").to_owned()).collect();
    Ok(Answer { rows, types })
}

/// PostgreSQL's numbers of `json` and `jsonb`, and of lists of them.
const JSON: &[u32] = &[114, 3802];
const JSON_LISTS: &[u32] = &[199, 3807];

/// Whether a column is JSON in both.
fn is_alike(ours: &str, theirs: u32) -> bool {
    const RECORD: u32 = 2249;
    match ours {
        "json" => JSON.contains(&theirs) || theirs == RECORD,
        "json[]" => JSON_LISTS.contains(&theirs),
        _ => !JSON.contains(&theirs) && !JSON_LISTS.contains(&theirs),
    }
}

/// Our value as the type that PostgreSQL has there is compared: JSON is text with us, and a text of digits is no number.
pub(crate) fn as_theirs(ours: &Value, kind: u32) -> Value {
    const TEXTS: &[u32] = &[18, 19, 25, 1009, 1015, 1043];
    match ours {
        Value::String(text) if JSON.contains(&kind) => {
            comparable(&serde_json::from_str(text).unwrap_or_else(|_| ours.clone()))
        }
        text if TEXTS.contains(&kind) => text.clone(),
        other => comparable(other),
    }
}

/// PostgreSQL's names, made different where they are alike.
fn names(table: &Table) -> Vec<String> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    table
        .columns
        .iter()
        .map(|(name, _)| {
            let count = seen.entry(name).or_default();
            *count += 1;
            if *count == 1 { name.clone() } else { format!("{name}_{count}") }
        })
        .collect()
}

/// None when the two are alike, else how they differ.
fn difference(asked: &Asked, answer: &Answer, theirs: &Table) -> Option<String> {
    let ours = &answer.rows;
    let kinds: Vec<u32> = theirs.columns.iter().map(|(_, kind)| *kind).collect();
    if !answer.types.iter().zip(&kinds).all(|(ours, theirs)| is_alike(ours, *theirs)) {
        return Some(format!("types:\n  ours   {:?}\n  theirs {kinds:?}", answer.types));
    }
    let mut left: Vec<Vec<Value>> = ours
        .iter()
        .map(|row| {
            row.values().zip(&theirs.columns).map(|(value, (_, kind))| as_theirs(value, *kind)).collect()
        })
        .collect();
    let mut right = theirs.values();
    if !is_ordered(&asked.sql) {
        left.sort_by_key(|row| json!(row).to_string());
        right.sort_by_key(|row| json!(row).to_string());
    }
    if left != right {
        let first = left.iter().zip(&right).position(|(left, right)| left != right);
        let at = first.unwrap_or(left.len().min(right.len()));
        let show = |rows: &[Vec<Value>]| rows.get(at).map(|row| json!(row).to_string());
        let counts = (left.len(), right.len());
        return Some(format!(
            "rows {counts:?}, row {at}:\n  ours   {:?}\n  theirs {:?}",
            show(&left),
            show(&right)
        ));
    }
    let keys: Vec<String> = ours.first()?.keys().cloned().collect();
    let names = names(theirs);
    (keys != names).then(|| format!("columns:\n  ours   {keys:?}\n  theirs {names:?}"))
}

/// Rows in every table of the corpus.
async fn fill(client: &Client, web: &crate::harness::web::Web) {
    let urls: Vec<Value> = (0..40)
        .map(|n| {
            let tags = match n % 6 {
                0 => json!(["even", "six"]),
                2 | 4 => json!(["even"]),
                _ => json!([]),
            };
            let metadata =
                json!({ "shelf": n % 3, "marks": [n, format!("\"{n}\""), { "deep": [null, 1.5] }] });
            json!({ "url": web.url(&format!("/plane/{n}")), "tags": tags, "metadata": metadata })
        })
        .collect();
    expect(post(client, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    collected(web, client, 0..PAGES, PAGES).await;
    for (table, count) in [("urls", 40), ("jobs", PAGES), ("readings", PAGES)] {
        let sql = format!("SELECT count(*) AS n FROM {table}");
        eventually("SQL sees all of it", Duration::from_secs(20), || async {
            (ours(client, &sql).await.ok()?.rows.first()?["n"] == count).then_some(())
        })
        .await;
    }
    let done = "SELECT count(*) AS n FROM jobs WHERE status = 'succeeded' AND finished_at IS NOT NULL";
    eventually("SQL sees the jobs' ends", Duration::from_secs(20), || async {
        (ours(client, done).await.ok()?.rows.first()?["n"] == PAGES).then_some(())
    })
    .await;
}

#[test]
fn the_corpus_is_one() {
    let all = corpus();
    assert!(all.len() >= STATEMENTS_MIN, "{} statements", all.len());
    let equal = all.iter().filter(|asked| asked.claim == Claim::Equal).count();
    assert!(equal >= STATEMENTS_MIN, "{equal} of them answered alike");
    assert!(is_ordered("SELECT 1 ORDER BY 1") && !is_ordered("SELECT rank() OVER (ORDER BY a) FROM t"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analysts_get_what_postgresql_gives() {
    let Some(server) = Postgres::start() else { return };
    let web = shop().await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let client = appliance.member("analyst").await.api;
    import(&appliance, ALL).await;
    fill(&client, &web).await;
    let mut postgres = server.connect();
    for table in TABLES {
        copy_table(&mut postgres, &client, table).await;
    }
    let mut wrong = Vec::new();
    let all = corpus();
    for asked in &all {
        let theirs = postgres.query(&asked.sql);
        let ours = ours(&client, &asked.sql).await;
        let finding = match (asked.claim, &ours, &theirs) {
            (_, _, Err(error)) if asked.claim != Claim::Differs => Some(format!("PostgreSQL: {error}")),
            (Claim::Equal, Ok(ours), Ok(theirs)) => difference(asked, ours, theirs),
            (Claim::Equal, Err((_, error)), _) => Some(format!("we: {error}")),
            (Claim::Refused, Err((true, _)), _) => None,
            (Claim::Refused, other, _) => Some(format!("is not refused (any more): {other:?}")),
            (Claim::Differs, Ok(ours), Ok(theirs)) if difference(asked, ours, theirs).is_none() => {
                Some("does not differ (any more)".to_owned())
            }
            _ => None,
        };
        wrong.extend(finding.map(|finding| format!("{:?} {}\n  {finding}", asked.claim, asked.sql)));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    println!("{} statements, as claimed", all.len());
}
