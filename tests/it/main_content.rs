//! The main content of stored pages, through HTTP: getResultContent.

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, eventually, expect, get, refused, text};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use uuid::Uuid;

const PROSE: &str = "The river rose by two metres in one night, and nobody in the village had seen such a thing. By the \
                     morning, the bridge was gone, and with it the only road to the town, the school, the doctor.";

fn article() -> String {
    format!(
        "<html lang=en><title>The river rose | News</title><nav><a href=/>Home</a><a href=/news>News</a></nav>\
         <article><h1>The river rose</h1><p>{PROSE}</p><h2>What <b>now</b>?</h2><ul><li>wait<li><a href=/boats>boats</a> come</ul>\
         <table><tr><th>Day<th>Level<tr><td>1<td>2 m</table><p>{PROSE}</p></article>\
         <div id=comments><p>I knew it, said somebody, at length, and with many commas, as they all do.</p></div>\
         <footer>News is a company. All rights are reserved, and so are you, dear reader.</footer>"
    )
}

async fn news() -> Web {
    Web::open(|path| match path {
        "/article" => Some(Answer::html(article())),
        "/empty" => Some(Answer::html("")),
        "/deep" => Some(Answer::html("<div>".repeat(200_000))),
        "/long" => Some(Answer::html(format!("<p>{PROSE}</p>").repeat(13_000))),
        "/slow" => Some(Answer::html("<ul><li><a href=x>a</a> b, c.</ul>".repeat(12_000))),
        _ => None,
    })
    .await
}

fn content_of(job: &Value) -> String {
    content_by_id(text(job, "resultId"))
}

fn content_by_id(id: &str) -> String {
    format!("/api/v1/extraction/results/by-id/{id}/content")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_read_as_markdown_text_and_html() {
    let web = news().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let job = collect(&member.api, &web.url("/article")).await;
    let path = content_of(&job);

    let read = expect(get(&member.api, &path).await, 200);
    let boats = web.url("/boats");
    let markdown = format!(
        "{PROSE}\n\n## What now?\n\n- wait\n- [boats]({boats}) come\n\n| Day | Level |\n| --- | --- |\n| 1 | 2 m |\n\n{PROSE}\n"
    );
    assert_eq!(read["content"], markdown);
    assert_eq!((&read["format"], &read["isTruncated"]), (&json!("markdown"), &json!(false)));
    assert_eq!((&read["title"], &read["language"]), (&json!("The river rose"), &json!("en")));
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&job, "resultId"));
    let result = expect(get(&member.api, &result).await, 200);
    assert_eq!((&read["url"], &read["scrapedAt"]), (&result["finalUrl"], &result["scrapedAt"]));
    assert_eq!(read.as_object().unwrap().len(), 7);

    let plain = expect(get(&member.api, &format!("{path}?format=text")).await, 200);
    let expected = format!("{PROSE}\n\nWhat now?\n\nwait\nboats come\n\nDay\tLevel\n1\t2 m\n\n{PROSE}\n");
    assert_eq!((&plain["content"], &plain["format"]), (&json!(expected), &json!("text")));
    let html = expect(get(&member.api, &format!("{path}?format=html")).await, 200);
    let html = text(&html, "content");
    assert!(html.starts_with(&format!("<p>{PROSE}</p>\n<h2>What now?</h2>")), "{html}");
    assert!(html.contains(&format!("<a href=\"{boats}\">boats</a>")) && !html.contains("<nav"), "{html}");
    // The same page, the same bytes.
    assert_eq!(
        get(&member.api, &path).await.text(),
        get(&member.api, &format!("{path}?format=markdown")).await.text()
    );

    let empty = collect(&member.api, &web.url("/empty")).await;
    let empty = expect(get(&member.api, &content_of(&empty)).await, 200);
    let nothing = (&json!(""), &Value::Null, &Value::Null);
    assert_eq!((&empty["content"], &empty["title"], &empty["language"]), nothing);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_content_is_refused_by_name() {
    let web = news().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let job = collect(api, &web.url("/article")).await;
    let path = content_of(&job);
    refused(&get(api, &format!("{path}?format=pdf")).await, 400, "Validation failed", "format");
    refused(&get(api, &content_by_id(&Uuid::now_v7().to_string())).await, 404, "Result not found", "");
    refused(&get(api, &content_by_id("none")).await, 404, "Result not found", "");
    // Somebody else's result is one that there is not.
    let foreign = get(&stranger.api, &path).await;
    let missing = get(&stranger.api, &content_by_id(&Uuid::now_v7().to_string())).await;
    assert_eq!((foreign.status.as_u16(), foreign.text()), (404, missing.text()));

    assert_eq!(api.delete(&path.replace("/content", "")).await.unwrap().status, 204);
    refused(&get(api, &path).await, 404, "Result not found", "");
    at.stop().await;
}

/// Work is bounded by the page, and who asks for much of it waits for themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_pages_end_and_keep_nobody_waiting() {
    let web = news().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (busy, mine) = (at.member("busy").await, at.member("mine").await);
    let deep = collect(&busy.api, &web.url("/deep")).await;
    assert_eq!(expect(get(&busy.api, &content_of(&deep)).await, 200)["content"], "");
    let long = collect(&busy.api, &web.url("/long")).await;
    let long = expect(get(&busy.api, &content_of(&long)).await, 200);
    assert_eq!((text(&long, "content").len(), &long["isTruncated"]), (2 << 20, &json!(true)));

    let slow = content_of(&collect(&busy.api, &web.url("/slow")).await);
    let own = content_of(&collect(&mine.api, &web.url("/article")).await);
    let done = Arc::new(AtomicUsize::new(0));
    let theirs: Vec<_> = (0..10)
        .map(|_| {
            let (api, slow, done) = (busy.api.clone(), slow.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let reply = get(&api, &slow).await;
                done.fetch_add(1, Ordering::SeqCst);
                reply
            })
        })
        .collect();
    eventually("theirs have begun", Duration::from_secs(60), || async {
        (done.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
    let read = expect(get(&mine.api, &own).await, 200);
    let before = done.load(Ordering::SeqCst);
    assert_eq!(read["title"], "The river rose");
    assert!(before < 10, "mine came after all of theirs");
    for reply in theirs {
        expect(reply.await.unwrap(), 200);
    }
    at.stop().await;
}
