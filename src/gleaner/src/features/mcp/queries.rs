//! Tables and statements.

use super::arguments::RowCursor;
use super::bounds::{rows_that_fit, shorten};
use super::given::Given;
use super::on_behalf::{Asked, OnBehalf, Refused};
use base::ids::SavedQueryId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Rows of one answer at most, and unless said otherwise. Pages of results begin at its multiples.
const ROWS_MAX: u64 = 200;
const ROWS_DEFAULT: u64 = 50;
/// How long a submission waits for its end: the most that the box grants.
const SUBMIT_WAIT_MS: u64 = 10_000;
/// How long a call waits for a statement that ran already, and how often it looks.
const WAIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Saved queries that are looked through for a name.
const NAMES_MAX: usize = 2_000;
/// Characters of one example value.
const SAMPLE_CHARS_MAX: usize = 120;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListTables {
    /// Where the last answer's nextCursor said that it goes on.
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) async fn list_tables(on_behalf: OnBehalf, given: ListTables) -> Asked<Given> {
    let page = [("limit", Some("100".to_owned())), ("cursor", given.cursor)];
    let tables = on_behalf.find("/bi/tables", &page).await?;
    let shown = |table: &Value| {
        json!({
            "name": table["name"],
            "about": table["description"],
            "rows": table["rowCount"],
            "secondsBehind": table["freshnessSec"],
        })
    };
    let tables_shown: Vec<_> = tables["items"].as_array().into_iter().flatten().map(shown).collect();
    Ok(Given::Data(json!({ "tables": tables_shown, "nextCursor": tables["nextCursor"] })))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DescribeTable {
    /// The table's name, as list_tables gives it.
    #[schemars(length(min = 1, max = 128))]
    table: String,
}

pub(super) async fn describe_table(on_behalf: OnBehalf, given: DescribeTable) -> Asked<Given> {
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name(&given.table) {
        return Err(Refused::argument(
            "table",
            "is letters, digits and underscores, as list_tables gives it",
        ));
    }
    let mut table = on_behalf.get(&format!("/bi/tables/{}", given.table)).await?;
    shorten(&mut table["columns"], SAMPLE_CHARS_MAX * 4);
    for column in table["columns"].as_array_mut().into_iter().flatten() {
        shorten(&mut column["sampleValues"], SAMPLE_CHARS_MAX);
    }
    Ok(Given::Data(json!({
        "name": table["name"],
        "about": table["description"],
        "rows": table["rowCount"],
        "columns": table["columns"],
    })))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSql {
    /// One SELECT statement. Left out where a cursor is given.
    #[schemars(length(max = 65_536))]
    #[serde(default)]
    sql: Option<String>,
    /// The values of $1, $2 … of the statement: texts, numbers, true, false or null.
    #[schemars(length(max = 100))]
    #[serde(default)]
    params: Option<Vec<Value>>,
    /// How many rows to give, 50 unless said otherwise.
    #[schemars(range(min = 1, max = 200))]
    #[serde(default)]
    rows: Option<u64>,
    /// An earlier answer's nextCursor: the rows that follow, or the end of a statement that ran on.
    #[schemars(length(max = 100))]
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) async fn run_sql(on_behalf: OnBehalf, given: RunSql) -> Asked<Given> {
    let rows = rows_wanted(given.rows)?;
    match (given.sql, given.cursor) {
        (Some(_), Some(_)) => Err(Refused::argument("cursor", "stands alone, without sql")),
        (None, None) => Err(Refused::argument("sql", "is missing")),
        (None, Some(cursor)) => go_on(&on_behalf, RowCursor::parse(&cursor)?, rows).await,
        (Some(sql), None) => {
            let asked = json!({ "sql": sql, "params": given.params, "waitMs": SUBMIT_WAIT_MS });
            let submitted = on_behalf.post("/bi/queries", &asked).await?;
            begin(&on_behalf, &submitted, rows).await
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSavedQuery {
    /// The query's name; this or its id.
    #[schemars(length(min = 1, max = 200))]
    #[serde(default)]
    name: Option<String>,
    /// The query's id.
    #[serde(default)]
    id: Option<SavedQueryId>,
    /// The values of $1, $2 … of the statement.
    #[schemars(length(max = 100))]
    #[serde(default)]
    params: Option<Vec<Value>>,
    /// How many rows to give, 50 unless said otherwise.
    #[schemars(range(min = 1, max = 200))]
    #[serde(default)]
    rows: Option<u64>,
}

pub(super) async fn run_saved_query(on_behalf: OnBehalf, given: RunSavedQuery) -> Asked<Given> {
    let rows = rows_wanted(given.rows)?;
    let id = match (given.id, given.name) {
        (Some(id), None) => id,
        (None, Some(name)) => id_of(&on_behalf, &name).await?,
        _ => return Err(Refused::argument("name", "is given, or id, and not both")),
    };
    let asked = json!({ "params": given.params, "waitMs": SUBMIT_WAIT_MS });
    let submitted = on_behalf.post(&format!("/bi/saved-queries/{id}/run"), &asked).await?;
    begin(&on_behalf, &submitted, rows).await
}

/// The saved query of this name; letters may differ in case where that leaves one.
async fn id_of(on_behalf: &OnBehalf, name: &str) -> Asked<SavedQueryId> {
    let (mut cursor, mut alike, mut seen) = (None, Vec::new(), 0);
    loop {
        let page = [("limit", Some("200".to_owned())), ("cursor", cursor)];
        let found = on_behalf.find("/bi/saved-queries", &page).await?;
        for query in found["items"].as_array().into_iter().flatten() {
            let (own, id) =
                (query["name"].as_str().unwrap_or(""), query["id"].as_str().and_then(|id| id.parse().ok()));
            seen += 1;
            match id {
                Some(id) if own == name => return Ok(id),
                Some(id) if own.to_lowercase() == name.to_lowercase() => alike.push(id),
                _ => {}
            }
        }
        cursor = found["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() || seen >= NAMES_MAX {
            break;
        }
    }
    match alike[..] {
        [id] => Ok(id),
        [] => Err(Refused::argument("name", format!("no saved query is called {name:?}"))),
        _ => Err(Refused::argument("name", "several saved queries differ in capitals only: give the id")),
    }
}

fn rows_wanted(given: Option<u64>) -> Asked<u64> {
    match given.unwrap_or(ROWS_DEFAULT) {
        rows @ 1..=ROWS_MAX => Ok(rows),
        _ => Err(Refused::argument("rows", format!("is 1 to {ROWS_MAX}"))),
    }
}

/// What is said of a statement that was just submitted.
async fn begin(on_behalf: &OnBehalf, submitted: &Value, rows: u64) -> Asked<Given> {
    let id = submitted["jobId"].as_str().and_then(|id| id.parse().ok());
    let statement =
        id.ok_or_else(|| Refused { status: 503, told: "The box names no statement.".to_owned() })?;
    after(on_behalf, submitted, RowCursor { statement, row: 0 }, rows).await
}

/// The rows behind a cursor; a statement that still runs is waited for.
async fn go_on(on_behalf: &OnBehalf, cursor: RowCursor, rows: u64) -> Asked<Given> {
    let until = Instant::now() + WAIT;
    loop {
        let looked = on_behalf.get(&format!("/bi/queries/{}", cursor.statement)).await?;
        let is_under_way = matches!(looked["status"].as_str(), Some("queued" | "running"));
        if !is_under_way || Instant::now() >= until {
            return after(on_behalf, &looked, cursor, rows).await;
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn after(on_behalf: &OnBehalf, looked: &Value, cursor: RowCursor, rows: u64) -> Asked<Given> {
    match looked["status"].as_str() {
        Some("success") => rows_from(on_behalf, looked, cursor, rows).await,
        Some("queued" | "running") => Ok(Given::Data(json!({
            "status": looked["status"],
            "rows": [],
            "nextCursor": cursor.text(),
        }))),
        Some("canceled") => Err(Refused { status: 409, told: "The statement was canceled.".to_owned() }),
        _ => {
            let (code, told) = (&looked["error"]["code"], &looked["error"]["message"]);
            let told = told.as_str().unwrap_or("The statement failed.");
            Err(Refused { status: 400, told: format!("{told} ({})", code.as_str().unwrap_or("failed")) })
        }
    }
}

/// Rows from a place on. The box gives pages of a fixed size, so the first ones of a page may have been given before.
async fn rows_from(on_behalf: &OnBehalf, looked: &Value, cursor: RowCursor, rows: u64) -> Asked<Given> {
    let (page, given_before) = (cursor.row / ROWS_MAX, cursor.row % ROWS_MAX);
    let path = format!("/bi/queries/{}/results?page={page}&pageSize={ROWS_MAX}", cursor.statement);
    let mut found = on_behalf.get(&path).await?;
    let has_more = found["hasMore"].as_bool().unwrap_or(false);
    let Value::Array(all) = found["rows"].take() else {
        return Err(Refused { status: 503, told: "The box gives no rows.".to_owned() });
    };
    let count = all.len() as u64;
    let wanted = all.into_iter().skip(given_before as usize).take(rows as usize).collect();
    let taken = rows_that_fit(wanted);
    let end = given_before + taken.len() as u64;
    let next = (end < count || has_more)
        .then(|| RowCursor { statement: cursor.statement, row: page * ROWS_MAX + end.max(given_before) });
    Ok(Given::Data(json!({
        "status": "success",
        "totalRows": found["totalRows"],
        "rows": taken,
        "nextCursor": next.map(RowCursor::text),
        "sql": looked["sqlPreview"],
    })))
}
