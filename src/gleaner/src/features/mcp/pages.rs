//! Collected pages: what was found on them, and their text.

use super::bounds::{ANSWER_CHARS_MAX, part_of, rows_that_fit};
use super::given::Given;
use super::on_behalf::{Asked, OnBehalf, Refused};
use base::ids::{JobId, ResultId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Results of one answer at most, and unless said otherwise.
const RESULTS_MAX: u64 = 50;
const RESULTS_DEFAULT: u64 = 10;
/// Characters of a page in one answer, unless said otherwise.
const PAGE_CHARS_DEFAULT: usize = 20_000;
/// URLs that are looked through for one that is meant: a search for it finds those that contain it.
const URLS_LOOKED_AT: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SearchResults {
    /// Words that the extracted values have.
    #[schemars(length(max = 1_000))]
    #[serde(default)]
    query: Option<String>,
    /// Only this registrable domain, such as shop.example.
    #[serde(default)]
    domain: Option<String>,
    /// Only this page type, such as product or article.
    #[serde(default)]
    page_type: Option<String>,
    /// Only what has all of these tags.
    #[schemars(length(max = 32))]
    #[serde(default)]
    tags: Vec<String>,
    /// Only what was collected at or after this time (RFC 3339).
    #[serde(default)]
    from: Option<String>,
    /// Only what was collected before this time (RFC 3339).
    #[serde(default)]
    to: Option<String>,
    /// Only pages where a value differs from the visit before.
    #[serde(default)]
    changed: Option<bool>,
    /// How many to give, 10 unless said otherwise.
    #[schemars(range(min = 1, max = 50))]
    #[serde(default)]
    limit: Option<u64>,
    /// The last answer's nextCursor.
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) async fn search_results(on_behalf: OnBehalf, given: SearchResults) -> Asked<Given> {
    let limit = match given.limit.unwrap_or(RESULTS_DEFAULT) {
        limit @ 1..=RESULTS_MAX => limit,
        _ => return Err(Refused::argument("limit", format!("is 1 to {RESULTS_MAX}"))),
    };
    let mut parameters = vec![
        ("q", given.query),
        ("domain", given.domain),
        ("pageType", given.page_type),
        ("from", given.from),
        ("to", given.to),
        ("changed", given.changed.map(|changed| changed.to_string())),
        ("limit", Some(limit.to_string())),
        ("cursor", given.cursor),
    ];
    parameters.extend(given.tags.into_iter().map(|tag| ("tag", Some(tag))));
    let mut found = on_behalf.find("/extraction/results", &parameters).await?;
    let shown = |result: &Value| {
        json!({
            "resultId": result["id"],
            "jobId": result["jobId"],
            "url": result["url"],
            "pageType": result["pageType"],
            "scrapedAt": result["scrapedAt"],
            "values": result["values"],
            "changed": result["changed"],
            "tags": result["tags"],
            "highlights": result["highlights"],
        })
    };
    let Value::Array(items) = found["items"].take() else {
        return Err(Refused { status: 503, told: "The box gives no results.".to_owned() });
    };
    // A cursor of the box's is behind all of them, so all are given, each shortened as far as they must be.
    let room = ANSWER_CHARS_MAX / items.len().max(1);
    let results: Vec<Value> = items.iter().map(shown).map(|result| narrowed(result, room)).collect();
    Ok(Given::Data(json!({
        "total": found["total"],
        "results": results,
        "nextCursor": found["nextCursor"],
    })))
}

/// A result in at most so many characters: long texts are cut more and more.
fn narrowed(mut result: Value, room: usize) -> Value {
    for chars_max in [2_000, 500, 100, 20] {
        if result.to_string().len() <= room {
            break;
        }
        super::bounds::shorten(&mut result["values"], chars_max);
    }
    if result.to_string().len() > room {
        // Thousands of values: a statement reads them better.
        result["values"] = json!({ "_": "too many values to show here: read them with run_sql" });
    }
    rows_that_fit(vec![result]).remove(0)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GetPage {
    /// The result whose page is wanted; this, jobId or url.
    #[serde(default)]
    result_id: Option<ResultId>,
    /// The job that fetched it.
    #[serde(default)]
    job_id: Option<JobId>,
    /// The page's address: the newest visit is given.
    #[schemars(length(max = 2_048))]
    #[serde(default)]
    url: Option<String>,
    /// Where to go on, in characters: the last answer's nextOffset.
    #[serde(default)]
    offset: Option<usize>,
    /// How many characters to give, 20,000 unless said otherwise.
    #[schemars(range(min = 200, max = 48_000))]
    #[serde(default)]
    max_chars: Option<usize>,
}

pub(super) async fn get_page(on_behalf: OnBehalf, given: GetPage) -> Asked<Given> {
    let chars_max = match given.max_chars.unwrap_or(PAGE_CHARS_DEFAULT) {
        chars @ 200..=ANSWER_CHARS_MAX => chars,
        _ => return Err(Refused::argument("maxChars", format!("is 200 to {ANSWER_CHARS_MAX}"))),
    };
    let id = match (given.result_id, given.job_id, given.url) {
        (Some(id), None, None) => id.to_string(),
        (None, Some(job), None) => {
            let result = on_behalf.get(&format!("/jobs/{job}/result")).await?;
            text_of(&result["id"]).ok_or_else(|| Refused::argument("jobId", "has no result"))?
        }
        (None, None, Some(url)) => newest_of(&on_behalf, &url).await?,
        _ => return Err(Refused::argument("resultId", "is given, or jobId, or url, and one of them only")),
    };
    let page = on_behalf.get(&format!("/extraction/results/by-id/{id}/content?format=markdown")).await?;
    let (content, offset) = (page["content"].as_str().unwrap_or(""), given.offset.unwrap_or(0));
    let (part, next) = part_of(content, offset, chars_max);
    let member = |name: &str| page[name].as_str().unwrap_or("-");
    let mut text = format!(
        "url: {}\ntitle: {}\nscrapedAt: {}\ncharacters: {} from {offset}\n",
        member("url"),
        member("title").replace(['\n', '\r'], " "),
        member("scrapedAt"),
        content.chars().count(),
    );
    if let Some(next) = next {
        text.push_str(&format!("nextOffset: {next}\n"));
    }
    text.push('\n');
    text.push_str(part);
    Ok(Given::Text(text))
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The newest result of a URL that is registered, or that words of the index lead to.
async fn newest_of(on_behalf: &OnBehalf, url: &str) -> Asked<String> {
    let parsed = url::Url::parse(url).map_err(|error| Refused::argument("url", error))?;
    let mut wanted = parsed;
    wanted.set_fragment(None);
    let wanted = wanted.as_str();
    let known = [("q", Some(wanted.to_owned())), ("limit", Some(URLS_LOOKED_AT.to_string()))];
    let known = on_behalf.find("/urls", &known).await?;
    let row = known["items"].as_array().into_iter().flatten().find(|row| row["url"] == wanted);
    if let Some(id) = row.and_then(|row| text_of(&row["id"])) {
        let newest =
            [("urlId", Some(id)), ("limit", Some("1".to_owned())), ("sort", Some("newest".to_owned()))];
        let found = on_behalf.find("/extraction/results", &newest).await?;
        if let Some(id) = text_of(&found["items"][0]["id"]) {
            return Ok(id);
        }
    }
    let sql = json!({
        "sql": "SELECT result_id FROM readings WHERE url = $1 ORDER BY scraped_at DESC LIMIT 1",
        "params": [wanted],
        "waitMs": 10_000,
    });
    let found = on_behalf.post("/bi/queries", &sql).await?;
    text_of(&found["results"]["rows"][0]["result_id"]).ok_or_else(|| Refused {
        status: 404,
        told: format!("No page of {wanted} is stored: have it collected with submit_urls."),
    })
}
