//! Having pages collected, how far that is, and what is collected by itself.

use super::bounds::rows_that_fit;
use super::given::Given;
use super::on_behalf::{Asked, OnBehalf, Refused};
use base::ids::{BatchId, JobId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// URLs of one call: what a model writes out by itself.
const URLS_MAX: usize = 500;
const IDS_MAX: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SubmitUrls {
    /// The pages' addresses.
    #[schemars(length(min = 1, max = 500))]
    urls: Vec<String>,
    /// Tags that the results will have.
    #[schemars(length(max = 32))]
    #[serde(default)]
    tags: Option<Vec<String>>,
    /// What kind of page they are, such as product, where that is known.
    #[serde(default)]
    page_type: Option<String>,
    /// Whether the URLs are kept as well, so that schedules visit them again; false unless said otherwise.
    #[serde(default)]
    remember: Option<bool>,
    /// What people will call the batch.
    #[schemars(length(min = 1, max = 200))]
    #[serde(default)]
    name: Option<String>,
}

pub(super) async fn submit_urls(on_behalf: OnBehalf, given: SubmitUrls) -> Asked<Given> {
    if given.urls.is_empty() || given.urls.len() > URLS_MAX {
        return Err(Refused::argument("urls", format!("has 1 to {URLS_MAX} addresses")));
    }
    let entry = |url: &String| json!({ "url": url, "tags": given.tags, "pageType": given.page_type });
    let entries: Vec<Value> = given.urls.iter().map(entry).collect();
    let remembered = match given.remember {
        Some(true) => on_behalf.post("/urls", &json!({ "urls": entries })).await?,
        _ => Value::Null,
    };
    let submitted = on_behalf.post("/jobs/batch", &json!({ "name": given.name, "jobs": entries })).await;
    let submitted = submitted.map_err(|refused| match remembered.is_null() {
        true => refused,
        // What was done stays, and whoever tries again should know.
        false => {
            Refused { told: format!("{} The URLs are remembered all the same.", refused.told), ..refused }
        }
    })?;
    Ok(Given::Data(json!({
        "batchId": submitted["batchId"],
        "jobs": submitted["jobs"],
        "remembered": remembered,
    })))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct JobStatus {
    /// The jobs' ids; or a batch's.
    #[schemars(length(max = 100))]
    #[serde(default)]
    ids: Option<Vec<JobId>>,
    /// The batch whose jobs are asked for together.
    #[serde(default)]
    batch_id: Option<BatchId>,
}

pub(super) async fn job_status(on_behalf: OnBehalf, given: JobStatus) -> Asked<Given> {
    let found = match (given.ids.as_deref(), given.batch_id) {
        (None, Some(batch)) => on_behalf.get(&format!("/batches/{batch}")).await?,
        (Some([id]), None) => on_behalf.get(&format!("/jobs/{id}")).await?,
        (Some(ids), None) if (1..=IDS_MAX).contains(&ids.len()) => {
            on_behalf.post("/jobs/poll", &json!({ "ids": ids })).await?
        }
        _ => return Err(Refused::argument("ids", format!("has 1 to {IDS_MAX} ids, or batchId is given"))),
    };
    Ok(Given::Data(rows_that_fit(vec![found]).remove(0)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSchedules {
    /// The last answer's nextCursor.
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) async fn list_schedules(on_behalf: OnBehalf, given: ListSchedules) -> Asked<Given> {
    let page = [("limit", Some("20".to_owned())), ("cursor", given.cursor)];
    let found = on_behalf.find("/schedules", &page).await?;
    let shown = |schedule: &Value| {
        let urls = schedule["urlIds"].as_array().map(Vec::len);
        json!({
            "id": schedule["id"],
            "name": schedule["name"],
            "cron": schedule["cron"],
            "timezone": schedule["timezone"],
            "isEnabled": schedule["isEnabled"],
            "disabledReason": schedule["disabledReason"],
            "tagFilters": schedule["tagFilters"],
            "urls": urls,
            "nextFireAt": schedule["nextFireAt"],
            "lastRunAt": schedule["lastRunAt"],
        })
    };
    let schedules: Vec<_> = found["items"].as_array().into_iter().flatten().map(shown).collect();
    Ok(Given::Data(json!({ "schedules": schedules, "nextCursor": found["nextCursor"] })))
}
