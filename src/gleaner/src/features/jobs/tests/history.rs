//! What a URL's history shows stays small, however large what changed is.

use super::super::history::entries;
use super::*;
use base::ids::ResultId;
use base::page::PageRequest;

/// Of so many characters is the value that changes with each result.
const LARGE: usize = 300_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_history_is_bounded_whatever_changed() {
    let mut lab = Lab::new(1, 1, Duration::ZERO).await;
    let url = a_url(&lab, "/x");
    let row = url.clone();
    lab.org.write(move |tx| tx.insert(&URLS, &row.id, &row)).await.unwrap();
    lab.start();
    let first = lab.submit("a.test/x").await;
    let first = lab.ended(first).await;
    let result = lab.org.read(|tx| tx.require(&RESULTS, &first.id)).unwrap();
    let mut made = vec![first.id];
    // Half of the jobs are gone, and their results are not.
    let mut alone = Vec::new();
    for n in 0..20 {
        let mut row = result.clone();
        (row.id, row.job) = (ResultId::new(), JobId::new());
        row.place.0 += 1_000 + n;
        row.values = Json(json!({ "text": format!("{n}{}", "x".repeat(LARGE)) }));
        row.changed = vec!["text".to_owned()];
        let job = JobV2 { id: row.job, result_id: Some(row.id), ..first.clone() };
        let is_alone = n < 10;
        if is_alone { &mut alone } else { &mut made }.push(row.job);
        lab.org
            .write(move |tx| {
                if !is_alone {
                    tx.insert(&JOBS, &job.id, &job)?;
                }
                tx.insert(&RESULTS, &row.job, &row)
            })
            .await
            .unwrap();
    }
    let (mut seen, mut request) = (Vec::new(), PageRequest { limit: 200, cursor: None });
    loop {
        let page = lab.org.read(|tx| entries(tx, &url, &request)).unwrap();
        let shown = serde_json::to_value(&page).unwrap();
        let bytes = shown.to_string().len();
        assert!(bytes < (1 << 20) + 3 * LARGE, "a page of {bytes} bytes");
        seen.extend(shown["items"].as_array().unwrap().iter().map(|item| item["jobId"].clone()));
        match page.next_cursor {
            None => break,
            next => request.cursor = next,
        }
    }
    let due: Vec<_> = alone.iter().chain(&made).map(|job| json!(job)).collect();
    assert_eq!(seen, due);
}
