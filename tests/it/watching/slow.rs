//! Slow requests and statements in the log: whose, which, and nothing that people have written.

use super::LoggedBox;
use crate::harness::{expect, get, member, post};
use serde_json::{Value, json};

const SLOW: &str = "gleaner::slow";

fn statement(text: &str) -> Value {
    json!({ "sql": text, "waitMs": 10_000 })
}

fn is_statement(line: &Value) -> bool {
    line["fields"]["message"] == "a statement was slow"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_things_are_told_with_their_ids_and_without_values() {
    let at = LoggedBox::start(&[("LOG__SLOW_REQUEST_MS", "1"), ("BI__SLOW_MS", "1")]);
    let client = at.process.client();
    let ada = member(&client, &at.process.socket(), "ada").await;
    let eve = member(&client, &at.process.socket(), "eve").await;
    let text = "SELECT count(*) AS n, 'geheim-4711' AS x, 4712 AS y FROM urls -- geheim-4713";
    let asked =
        post(&ada.api.header("x-request-id", "ada-asks"), "/api/v1/bi/queries", &statement(text)).await;
    let id = expect(asked, 200)["jobId"].clone();
    let line = at.line(SLOW, |line| is_statement(line) && line["fields"]["query"] == id).await;
    let fields = &line["fields"];
    assert_eq!((&line["level"], &fields["org"]), (&json!("WARN"), &json!(ada.org_id)));
    assert_eq!((&fields["request_id"], &fields["status"]), (&json!("ada-asks"), &json!("success")));
    assert_eq!((&fields["rows"], &fields["tables"]), (&json!(1), &json!("urls")));
    assert!(fields["ms"].as_f64().unwrap() >= 1.0 && fields["waited_ms"].is_number(), "{line}");
    assert!(fields.get("sql").is_none(), "{line}");
    // The fingerprint is the one that the kill switch takes, and knows the form whatever the values.
    let other = statement(&text.replace("'geheim-4711'", "'something else'").replace("4712", "4714"));
    let other = expect(post(&ada.api, "/api/v1/bi/queries", &other).await, 200)["jobId"].clone();
    let again = at.line(SLOW, |line| is_statement(line) && line["fields"]["query"] == other).await;
    let print = fields["statement"].as_str().unwrap().to_owned();
    assert_eq!(again["fields"]["statement"], print);
    let (code, _, errors) = at.admin(&["bi", "kill-switch", "set", "--statement", &print]);
    assert_eq!(code, Some(0), "{errors}");
    let off = post(&ada.api, "/api/v1/bi/queries", &statement(text)).await;
    assert!(off.status.is_client_error() || off.status.is_server_error(), "{}", off.text());
    // What is refused, and waits by wish, is no slow request; what is one has its route and organization.
    let secret = "/api/v1/urls?search=geheim-4715";
    get(&eve.api.header("x-request-id", "eve-looks"), secret).await;
    at.logged("eve-looks").await;
    for line in at.lines(SLOW).iter().filter(|line| !is_statement(line)) {
        assert_eq!(line["fields"]["message"], "a request was slow");
        assert!(line["fields"]["request_id"].as_str().is_some_and(|id| !id.is_empty()), "{line}");
        assert!(line["fields"]["route"].as_str().is_some_and(|route| !route.contains('?')), "{line}");
        assert_ne!(line["fields"]["route"], "/api/v1/bi/queries", "{line}");
    }
    let log = at.log();
    for secret in ["geheim", &ada.key, &eve.key, "something else", crate::harness::PASSWORD] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    let mut all = at.lines(SLOW).into_iter().filter(|line| line["fields"]["org"] == eve.org_id.as_str());
    assert!(all.all(|line| !line.to_string().contains(&ada.org_id)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_slow_things_is_a_few_lines_and_leaves_room_for_others() {
    let settings = [("LOG__SLOW_REQUEST_MS", "1"), ("BI__SLOW_MS", "1"), ("BI__SLOW_TEXT", "true")];
    let at = LoggedBox::start(&settings);
    let client = at.process.client();
    let ada = member(&client, &at.process.socket(), "ada").await;
    // Each makes a row, and a commit takes longer than a millisecond; what does not is not slow.
    for n in 0..200 {
        let urls = json!({ "urls": [format!("https://shop.example/{n}")] });
        expect(post(&ada.api, "/api/v1/urls", &urls).await, 200);
    }
    let long = format!("SELECT '{}' AS seen FROM urls LIMIT 1", "geheim".repeat(400));
    for _ in 0..12 {
        expect(post(&ada.api, "/api/v1/bi/queries", &statement(&long)).await, 200);
    }
    let marked = ada.api.header("x-request-id", "the-last");
    get(&marked, "/api/v1/urls").await;
    at.logged("the-last").await;
    let lines = at.lines(SLOW);
    let page = get(&client, "/metrics").await.text();
    let counted = |name: &str| -> usize {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.expect("it is counted").parse().unwrap()
    };
    let of = |kind: bool| {
        let lines: Vec<_> = lines.iter().filter(|line| is_statement(line) == kind).collect();
        let left_out: u64 = lines.iter().map(|line| line["fields"]["left_out"].as_u64().unwrap()).sum();
        (lines.len(), left_out as usize)
    };
    let ((requests, left_out), (statements, _)) = (of(false), of(true));
    let slow = counted("gleaner_slow_requests_total");
    assert!(slow > 20, "{slow} requests were slow: the test shows nothing");
    assert!(
        requests > 0 && requests < slow && requests + left_out <= slow,
        "{requests} {left_out} of {slow}"
    );
    assert!(statements > 0 && statements <= counted("gleaner_slow_statements_total"));
    for line in lines.iter().filter(|line| is_statement(line) && line["fields"]["query"].is_string()) {
        let text = line["fields"]["sql"].as_str().expect("bi.slow_text wants it");
        assert!(text.starts_with("SELECT 'geheim") && text.len() == 1_000, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zero_tells_of_nothing() {
    let at = LoggedBox::start(&[("LOG__SLOW_REQUEST_MS", "0"), ("BI__SLOW_MS", "0")]);
    let ada = member(&at.process.client(), &at.process.socket(), "ada").await;
    expect(post(&ada.api, "/api/v1/bi/queries", &statement("SELECT 1")).await, 200);
    get(&ada.api.header("x-request-id", "the-last"), "/api/v1/urls").await;
    at.logged("the-last").await;
    assert_eq!(at.lines(SLOW), Vec::<Value>::new());
    let page = get(&at.process.client(), "/metrics").await.text();
    assert!(page.contains("gleaner_slow_requests_total 0\n"), "{page}");
}
