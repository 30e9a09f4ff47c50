//! Collecting pages now, and waiting for them.

use super::urls::Lines;
use crate::commands::Collect;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Column, say};
use crate::session::{Session, ends_after};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Jobs that are submitted at once, and that are asked after at once.
const JOBS_AT_ONCE: usize = 1_000;
const ASKED_AT_ONCE: usize = 500;
/// Between two looks at jobs: at first, and at most.
const LOOK_FIRST: Duration = Duration::from_millis(200);
const LOOK_MOST: Duration = Duration::from_secs(2);

const SUBMITTED: [Column; 2] = [("JOB", "/id"), ("URL", "/url")];
const ENDED: [Column; 5] =
    [("JOB", "/id"), ("STATUS", "/status"), ("RESULT", "/resultId"), ("URL", "/url"), ("ERROR", "/error")];

pub async fn collect(session: &Session, given: &Collect) -> Outcome<()> {
    let ends = ends_after(given.timeout);
    let mut jobs = Vec::new();
    if let Err(failure) = submit_all(session, given, &mut jobs).await {
        // Those that were taken are collected all the same.
        if !jobs.is_empty() {
            session.rows(&jobs, &SUBMITTED)?;
        }
        return Err(failure);
    }
    if jobs.is_empty() {
        return Err(Failure::usage("--from", "has no URL"));
    }
    if !given.wait {
        return session.rows(&jobs, &SUBMITTED);
    }
    let in_time = wait(session, &mut jobs, ends).await?;
    session.rows(&jobs, &ENDED)?;
    let with = |status: &str| jobs.iter().filter(|job| job["status"] == status).count();
    let (all, good) = (jobs.len(), with("succeeded"));
    match (in_time, all - good) {
        (_, 0) => Ok(()),
        (false, _) => {
            let open = with("queued") + with("running");
            Err(Failure::new(Exit::InVain, format!("the time is over; {open} of {all} pages have not ended")))
        }
        (true, bad) => Err(Failure::failed(format!("{bad} of {all} pages were not collected"))),
    }
}

/// Submits all URLs, a part at a time; `jobs` has those that were taken, also where it fails.
async fn submit_all(session: &Session, given: &Collect, jobs: &mut Vec<Value>) -> Outcome<()> {
    for urls in given.urls.chunks(JOBS_AT_ONCE) {
        jobs.extend(submit(session, given, urls).await?);
    }
    let Some(file) = &given.from else { return Ok(()) };
    let mut lines = Lines::open("--from", file).await?;
    loop {
        let part: Vec<_> = lines.part(JOBS_AT_ONCE).await?.into_iter().map(|(_, url)| url).collect();
        if part.is_empty() {
            return Ok(());
        }
        jobs.extend(submit(session, given, &part).await?);
    }
}

async fn submit(session: &Session, given: &Collect, urls: &[String]) -> Outcome<Vec<Value>> {
    let job = |url: &String| {
        let mut job = Map::new();
        job.insert("url".to_owned(), url.clone().into());
        if let Some(page_type) = &given.page_type {
            job.insert("pageType".to_owned(), page_type.clone().into());
        }
        if !given.tag.is_empty() {
            job.insert("tags".to_owned(), given.tag.clone().into());
        }
        if given.render {
            job.insert("options".to_owned(), json!({ "render": true }));
        }
        Value::Object(job)
    };
    let body = json!({ "jobs": urls.iter().map(job).collect::<Vec<_>>() });
    let mut told = session.remote.post("/api/v1/jobs/batch", &body).await?;
    match told["jobs"].take() {
        Value::Array(jobs) => Ok(jobs),
        _ => Err(Failure::failed("the answer has no jobs: is this a box?")),
    }
}

/// Asks after jobs until all have ended and writes into them what came of each; false: the time was over before. A box that
/// is away for a moment is asked again while there is time.
async fn wait(session: &Session, jobs: &mut [Value], ends: Option<Instant>) -> Outcome<bool> {
    let bar = bar(jobs.len() as u64);
    let mut open: Vec<usize> = (0..jobs.len()).collect();
    let mut pause = LOOK_FIRST;
    let mut failures = 0;
    let mut last_chance = false;
    while !open.is_empty() {
        let mut still = Vec::new();
        for part in open.chunks(ASKED_AT_ONCE) {
            let ids: Vec<_> = part.iter().map(|at| jobs[*at]["id"].clone()).collect();
            match session.remote.post("/api/v1/jobs/poll", &json!({ "ids": ids })).await {
                Ok(told) => {
                    failures = 0;
                    still.extend(note(jobs, part, &told));
                }
                Err(failure) if failure.exit() == Exit::Away && failures < 10 => {
                    failures += 1;
                    still.extend_from_slice(part);
                }
                Err(failure) => return Err(failure),
            }
        }
        open = still;
        bar.set_position((jobs.len() - open.len()) as u64);
        if open.is_empty() {
            break;
        }
        let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        if last_chance {
            bar.finish_and_clear();
            return Ok(false);
        }
        // What ended in the last moment is seen by one more look.
        last_chance = left.is_some_and(|left| left <= pause);
        sleep(left.map_or(pause, |left| left.min(pause))).await;
        pause = (pause * 3 / 2).min(LOOK_MOST);
    }
    bar.finish_and_clear();
    Ok(true)
}

/// Writes down what is known of the jobs at `places`; gives those that have not ended.
fn note(jobs: &mut [Value], places: &[usize], told: &Value) -> Vec<usize> {
    let items = told["items"].as_array().into_iter().flatten();
    let by_id: HashMap<_, _> = items.filter_map(|item| Some((item["id"].as_str()?, item))).collect();
    let mut open = Vec::new();
    for &place in places {
        let job = &mut jobs[place];
        let Some(known) = job["id"].as_str().and_then(|id| by_id.get(id)) else {
            // Removed by somebody meanwhile.
            job["status"] = "missing".into();
            continue;
        };
        for name in ["status", "resultId", "error"] {
            job[name] = known[name].clone();
        }
        if matches!(known["status"].as_str(), Some("queued" | "running")) {
            open.push(place);
        }
    }
    open
}

/// A bar on standard error's terminal; nothing off one.
fn bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{bar:30} {pos} of {len} pages, {elapsed}") {
        Ok(style) => bar.set_style(style),
        Err(error) => say(&format!("gleaner: {error}")),
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_not_asked_after_again() {
        let mut jobs: Vec<_> = (0..4).map(|id| json!({ "id": id.to_string(), "url": "u" })).collect();
        let told = json!({ "items": [
            { "id": "0", "status": "succeeded", "resultId": "r", "error": null },
            { "id": "1", "status": "running", "resultId": null, "error": null },
            { "id": "3", "status": "failed", "resultId": null, "error": "blocked" },
        ], "missing": ["2"] });
        assert_eq!(note(&mut jobs, &[0, 1, 2, 3], &told), [1]);
        let status: Vec<_> = jobs.iter().map(|job| job["status"].as_str().unwrap()).collect();
        assert_eq!(status, ["succeeded", "running", "missing", "failed"]);
        assert_eq!((&jobs[0]["resultId"], &jobs[3]["error"]), (&json!("r"), &json!("blocked")));
    }
}
