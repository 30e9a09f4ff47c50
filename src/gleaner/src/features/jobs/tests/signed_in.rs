//! Jobs that name a site session.

use super::*;
use crate::features::site_sessions::{self, JOB_SESSIONS};
use base::ids::SiteSessionId;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_session_is_gone_fails_and_nobody_is_asked() {
    let mut lab = Lab::new(2, 2, Duration::ZERO).await;
    let job = lab.submit("a.test/slow/1/x").await;
    let named = lab.org.write(move |tx| {
        let gone = Some(SiteSessionId::new());
        site_sessions::name(tx, &JOB_SESSIONS, &job, gone)
    });
    named.await.unwrap();
    lab.start();
    let ended = lab.ended(job).await;
    assert_eq!((ended.status, ended.attempts.len()), (JobStatus::Failed, 0), "{ended:?}");
    assert!(ended.error.as_deref().unwrap().contains("site session was deleted"), "{ended:?}");
    assert!(lab.web.log().is_empty(), "{:?}", lab.web.log());
    // What it asked for cannot be asked for again either.
    let context = lab.context.clone();
    let again = lab.org.write(move |tx| submit::retry(tx, &context, job)).await;
    assert_eq!(again.unwrap_err().code(), Code::Conflict);
    assert_eq!(lab.spent(), 0);
    lab.drain().await;
}

/// The hash of a request that an older release has kept must be that of the same request now.
#[test]
fn a_request_without_a_session_is_written_as_ever() {
    let options = json!({ "render": true, "headers": { "Authorization": "Bearer secret" } });
    let request: NewJob =
        serde_json::from_value(json!({ "url": "http://a.test/", "options": options })).unwrap();
    let written = serde_json::to_value(&request).unwrap();
    assert!(written["options"].get("siteSessionId").is_none(), "{written}");
    assert!(!format!("{request:?}").contains("secret"), "what a job is sent with may be a login");
    let stored = submit::options("options", request.options.unwrap()).unwrap();
    assert!(!format!("{stored:?}").contains("secret"));
}
