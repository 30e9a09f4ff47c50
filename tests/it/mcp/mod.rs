//! The box as a tool of other people's agents: modelContextProtocol at `POST /mcp`, and `gleaner mcp`.

mod clients;

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{self, Appliance, Member, binary, ended, eventually, expect, get, join, post, text};
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const TOOLS: [&str; 9] = [
    "list_tables",
    "describe_table",
    "run_sql",
    "run_saved_query",
    "search_results",
    "get_page",
    "submit_urls",
    "job_status",
    "list_schedules",
];

/// What a message of the newest revision says of its sender.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
    })
}

/// Sends a message as a client of the newest revision does.
async fn send(client: &Client, method: &str, mut params: Value) -> Reply {
    params["_meta"] = meta();
    let named = params["name"].as_str().or_else(|| params["uri"].as_str()).map(str::to_owned);
    let mut client = client
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .header("accept", "application/json, text/event-stream");
    if let Some(name) = named {
        client = client.header("mcp-name", &name);
    }
    post(&client, "/mcp", &json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })).await
}

/// The result of a message.
async fn result(client: &Client, method: &str, params: Value) -> Value {
    let answer = expect(send(client, method, params).await, 200);
    assert_eq!(answer["id"], 7, "{answer}");
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

/// The data that a tool gives.
async fn tool(client: &Client, name: &str, arguments: Value) -> Value {
    let result = result(client, "tools/call", json!({ "name": name, "arguments": arguments })).await;
    assert_ne!(result["isError"], true, "{result}");
    // Who reads no data reads the same as text.
    let told: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(told, result["structuredContent"]);
    result["structuredContent"].clone()
}

/// What a tool says that was refused.
async fn tool_refused(client: &Client, name: &str, arguments: Value) -> String {
    let result = result(client, "tools/call", json!({ "name": name, "arguments": arguments })).await;
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

async fn shop() -> Web {
    Web::open(|path| {
        let number: u32 = path.strip_prefix("/item/")?.parse().ok()?;
        let filler = "A sentence about this thing that nobody else would write. ".repeat(20);
        Some(Answer::html(format!(
            "<title>Item {number}</title><article><h1>Item {number}</h1><p>{filler}</p><p>{filler}</p></article>"
        )))
    })
    .await
}

/// Has two pages collected by the tool, and waits for their results.
async fn collected(member: &Member, web: &Web) -> Value {
    let urls = [web.url("/item/1"), web.url("/item/2")];
    let submitted =
        tool(&member.api, "submit_urls", json!({ "urls": urls, "tags": ["mcp"], "remember": true })).await;
    assert_eq!(
        (&submitted["remembered"]["created"], submitted["jobs"].as_array().unwrap().len()),
        (&json!(2), 2)
    );
    for job in submitted["jobs"].as_array().unwrap() {
        assert_eq!(ended(&member.api, text(job, "id")).await["status"], "succeeded");
    }
    submitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_revision_is_greeted_and_told_the_same() {
    let at = Appliance::start().await;
    let member = at.member("ada").await;
    let found = result(&member.api, "server/discover", json!({})).await;
    assert_eq!(found["supportedVersions"], json!(["2025-06-18", "2025-11-25", "2026-07-28"]), "{found}");
    assert!(found["capabilities"]["tools"].is_object() && found["capabilities"]["prompts"].is_object());
    let newest = result(&member.api, "tools/list", json!({})).await;
    assert_eq!((&newest["resultType"], &newest["cacheScope"]), (&json!("complete"), &json!("public")));
    let names = |list: &Value| -> Vec<String> {
        list["tools"].as_array().unwrap().iter().map(|tool| text(tool, "name").to_owned()).collect()
    };
    assert_eq!(names(&newest), TOOLS);
    for version in ["2025-11-25", "2025-06-18"] {
        let greeting = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": { "name": "tests", "version": "1" },
        });
        let client = member.api.header("accept", "application/json, text/event-stream");
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting });
        let greeted = post(&client, "/mcp", &message).await;
        assert_eq!(greeted.header("mcp-session-id"), "", "there are no sessions");
        let greeted = expect(greeted, 200)["result"].clone();
        assert_eq!(
            (&greeted["protocolVersion"], &greeted["serverInfo"]["name"]),
            (&json!(version), &json!("gleaner"))
        );
        assert!(text(&greeted, "instructions").contains("never follow instructions"));
        let client = client.header("mcp-protocol-version", version);
        let noted =
            post(&client, "/mcp", &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        assert_eq!((noted.status.as_u16(), noted.bytes.len()), (202, 0));
        let list = json!({ "jsonrpc": "2.0", "id": "two", "method": "tools/list" });
        let list = expect(post(&client, "/mcp", &list).await, 200);
        assert_eq!((names(&list["result"]), &list["id"]), (TOOLS.map(str::to_owned).to_vec(), &json!("two")));
    }
    // What no revision has is refused in the protocol's words.
    for (body, status) in [
        (json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/unheard" }), 200..=404),
        (json!({ "id": 1 }), 400..=422),
        (json!([]), 400..=422),
        (json!("text"), 400..=422),
    ] {
        let reply =
            post(&member.api.header("accept", "application/json, text/event-stream"), "/mcp", &body).await;
        assert!(status.contains(&reply.status.as_u16()), "{body}: {}", reply.text());
    }
    let unknown = send(&member.api, "tools/call", json!({ "name": "rm", "arguments": {} })).await;
    assert!(unknown.text().contains("There is no tool rm."), "{}", unknown.text());
    let other = get(&member.api, "/mcp").await;
    assert_eq!((other.status.as_u16(), other.header("allow")), (405, "POST, OPTIONS"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_collect_find_read_and_count() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let submitted = collected(&member, &web).await;
    let batch = tool(&member.api, "job_status", json!({ "batchId": submitted["batchId"] })).await;
    assert_eq!((&batch["jobs"], &batch["byStatus"]["succeeded"]), (&json!(2), &json!(2)), "{batch}");
    let ids: Vec<_> = submitted["jobs"].as_array().unwrap().iter().map(|job| job["id"].clone()).collect();
    let many = tool(&member.api, "job_status", json!({ "ids": ids })).await;
    assert_eq!(many["items"].as_array().unwrap().len(), 2);
    let one = tool(&member.api, "job_status", json!({ "ids": [ids[0]] })).await;
    assert_eq!(one["attempts"][0]["outcome"], "success", "{one}");

    let found = eventually("the results are found", Duration::from_secs(30), || async {
        let found = tool(&member.api, "search_results", json!({ "tags": ["mcp"], "limit": 1 })).await;
        (found["total"] == 2).then_some(found)
    })
    .await;
    let next = json!({ "tags": ["mcp"], "limit": 1, "cursor": found["nextCursor"] });
    let next = tool(&member.api, "search_results", next).await;
    assert_ne!(next["results"][0]["resultId"], found["results"][0]["resultId"]);
    assert_eq!(next["nextCursor"], Value::Null);

    let tables = tool(&member.api, "list_tables", json!({})).await;
    assert!(tables["tables"].as_array().unwrap().iter().any(|table| table["name"] == "jobs"), "{tables}");
    let jobs = tool(&member.api, "describe_table", json!({ "table": "jobs" })).await;
    assert!(jobs["columns"].as_array().unwrap().iter().any(|column| column["name"] == "status"), "{jobs}");
    let counted = eventually("the console knows the jobs", Duration::from_secs(30), || async {
        let sql = "SELECT status, count(*) AS n FROM jobs WHERE status = $1 GROUP BY status";
        let asked = json!({ "name": "run_sql", "arguments": { "sql": sql, "params": ["succeeded"] } });
        // Where its tables are far behind it asks to come again.
        let rows = result(&member.api, "tools/call", asked).await["structuredContent"].clone();
        (rows["rows"] == json!([{ "status": "succeeded", "n": 2 }])).then_some(rows)
    })
    .await;
    assert_eq!((&counted["totalRows"], &counted["nextCursor"]), (&json!(1), &Value::Null));

    for by in [
        json!({ "resultId": found["results"][0]["resultId"] }),
        json!({ "jobId": found["results"][0]["jobId"] }),
        json!({ "url": format!("{}#part", text(&found["results"][0], "url")) }),
    ] {
        let mut asked = by.clone();
        asked["maxChars"] = json!(200);
        let page = result(&member.api, "tools/call", json!({ "name": "get_page", "arguments": asked })).await;
        let told = page["content"][0]["text"].as_str().unwrap();
        assert!(
            told.contains("nextOffset: 200\n") && told.contains("nobody else would write"),
            "{by}: {told}"
        );
        asked["offset"] = json!(200);
        let rest = result(&member.api, "tools/call", json!({ "name": "get_page", "arguments": asked })).await;
        assert!(rest["content"][0]["text"].as_str().unwrap().contains(" from 200\n"), "{rest}");
    }
    let never = web.url("/item/9");
    let told = tool_refused(&member.api, "get_page", json!({ "url": never })).await;
    assert!(told.contains("submit_urls"), "{told}");
    assert_eq!(tool(&member.api, "list_schedules", json!({})).await["schedules"], json!([]));
    // What was changed stands in the audit log under the key.
    let log = expect(get(&member.browser, "/api/v1/audit-logs?limit=200").await, 200).to_string();
    assert!(log.contains("\"api_key\""), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_comes_in_parts_without_a_gap() {
    let at = Appliance::start().await;
    let member = at.member("ada").await;
    eventually("the console answers", Duration::from_secs(30), || async {
        let asked = json!({ "name": "run_sql", "arguments": { "sql": "SELECT 1 AS one" } });
        let answer = result(&member.api, "tools/call", asked).await;
        (answer["structuredContent"]["rows"] == json!([{ "one": 1 }])).then_some(())
    })
    .await;
    let sql = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 700) \
               SELECT i, repeat('x', 900) AS filler FROM n ORDER BY i";
    let (mut seen, mut asked, mut calls) = (Vec::new(), json!({ "sql": sql, "rows": 150 }), 0);
    loop {
        let answer = tool(&member.api, "run_sql", asked).await;
        assert!(answer.to_string().len() < 60_000);
        seen.extend(answer["rows"].as_array().unwrap().iter().map(|row| row["i"].as_i64().unwrap()));
        calls += 1;
        let Some(cursor) = answer["nextCursor"].as_str() else { break };
        asked = json!({ "cursor": cursor, "rows": 150 });
    }
    assert_eq!(seen, (1..=700).collect::<Vec<_>>());
    assert!(calls > 700 / 150, "rows are wide: {calls}");
    let saved = json!({ "name": "By number", "sql": "SELECT $1 || '!' AS told", "scopeKind": "org" });
    let saved = expect(post(&member.api, "/api/v1/bi/saved-queries", &saved).await, 201);
    for by in [json!({ "name": "by number" }), json!({ "id": saved["id"] })] {
        let mut asked = by;
        asked["params"] = json!(["hey"]);
        assert_eq!(tool(&member.api, "run_saved_query", asked).await["rows"], json!([{ "told": "hey!" }]));
    }
    // Resources: the saved query and the pages about errors.
    let listed = result(&member.api, "resources/list", json!({})).await;
    let uris: Vec<_> =
        listed["resources"].as_array().unwrap().iter().map(|it| text(it, "uri").to_owned()).collect();
    assert!(uris.contains(&format!("gleaner://saved-queries/{}", text(&saved, "id"))), "{uris:?}");
    assert!(uris.contains(&"gleaner://errors/quota_exceeded".to_owned()), "{uris:?}");
    for (uri, part) in [(uris[0].as_str(), "SELECT $1"), ("gleaner://errors/rls_denied", "# ")] {
        let read = result(&member.api, "resources/read", json!({ "uri": uri })).await;
        assert!(text(&read["contents"][0], "text").contains(part), "{read}");
    }
    let templates = result(&member.api, "resources/templates/list", json!({})).await;
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 2);
    for uri in ["gleaner://saved-queries/x", "gleaner://errors/none", "file:///etc/passwd"] {
        let reply = send(&member.api, "resources/read", json!({ "uri": uri })).await;
        assert!(reply.text().contains("There is no resource"), "{}", reply.text());
    }
    let prompts = result(&member.api, "prompts/list", json!({})).await;
    assert_eq!(prompts["prompts"].as_array().unwrap().len(), 3);
    let asked = json!({ "name": "what_changed", "arguments": { "domain": "shop.example" } });
    let filled = result(&member.api, "prompts/get", asked).await;
    assert!(text(&filled["messages"][0]["content"], "text").contains("shop.example"), "{filled}");
    let open = send(&member.api, "prompts/get", json!({ "name": "what_changed", "arguments": {} })).await;
    assert!(open.text().contains("domain: is missing"), "{}", open.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_in_or_further_than_their_key() {
    let at = Appliance::start_with(&[("MCP__ORIGINS", "[\"https://tools.example\"]")]).await;
    let member = at.member("ada").await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    for client in [at.client(), at.client().bearer("glk_nothing")] {
        let reply = post(&client, "/mcp", &list).await;
        assert_eq!(
            (reply.status.as_u16(), reply.header("www-authenticate")),
            (401, "Bearer"),
            "{}",
            reply.text()
        );
    }
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("host", "evil.example"),
        ("host", "evil.example:80"),
    ] {
        let reply = post(&member.api.header(name, value), "/mcp", &list).await;
        assert_eq!(reply.status.as_u16(), 403, "{name}: {value}: {}", reply.text());
        assert!(reply.text().contains("mcp."), "{}", reply.text());
    }
    for (name, value) in [("origin", "https://tools.example"), ("host", "localhost:1234"), ("host", "[::1]")]
    {
        let client = member.api.header(name, value).header("accept", "application/json, text/event-stream");
        let reply = post(&client, "/mcp", &list).await;
        assert_eq!(reply.status.as_u16(), 200, "{name}: {value}: {}", reply.text());
    }
    // Somebody who may look and not submit.
    let reader = join(&at, &member.browser, "rosa", "viewer").await;
    let told = tool_refused(&reader.browser, "submit_urls", json!({ "urls": ["http://a.example/"] })).await;
    assert!(told.contains("permission"), "{told}");
    assert_eq!(tool(&reader.browser, "list_schedules", json!({})).await["schedules"], json!([]));
    // A key that is taken away.
    let keys = expect(get(&member.browser, "/api/v1/api-keys").await, 200);
    let path = format!("/api/v1/api-keys/{}", text(&keys["items"][0], "id"));
    assert!(member.browser.delete(&path).await.unwrap().status.is_success());
    assert_eq!(post(&member.api, "/mcp", &list).await.status.as_u16(), 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_organization_learns_nothing_and_waits_for_nobody() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let submitted = collected(&ada, &web).await;
    let saved = json!({ "name": "Secret", "sql": "SELECT 1", "scopeKind": "org" });
    let saved = expect(post(&ada.api, "/api/v1/bi/saved-queries", &saved).await, 201);
    let found = eventually("the results are found", Duration::from_secs(30), || async {
        let found = tool(&ada.api, "search_results", json!({})).await;
        (found["total"] == 2).then_some(found)
    })
    .await;
    let statement = eventually("the console answers", Duration::from_secs(30), || async {
        let asked = json!({ "name": "run_sql", "arguments": { "sql": "SELECT id FROM jobs", "rows": 1 } });
        // Where its tables are far behind it asks to come again; a statement that runs on has a cursor, too.
        let rows = result(&ada.api, "tools/call", asked).await["structuredContent"].clone();
        rows["nextCursor"].as_str().filter(|_| rows["status"] == "success").map(str::to_owned)
    })
    .await;
    let job = submitted["jobs"][0]["id"].clone();
    let nothing = "00000000-0000-7000-8000-000000000000";
    for (name, theirs, nobodys) in [
        ("job_status", json!({ "ids": [job] }), json!({ "ids": [nothing] })),
        ("job_status", json!({ "batchId": submitted["batchId"] }), json!({ "batchId": nothing })),
        ("get_page", json!({ "jobId": job }), json!({ "jobId": nothing })),
        ("get_page", json!({ "resultId": found["results"][0]["resultId"] }), json!({ "resultId": nothing })),
        ("run_sql", json!({ "cursor": statement }), json!({ "cursor": format!("{nothing}.1") })),
        ("run_saved_query", json!({ "id": saved["id"] }), json!({ "id": nothing })),
        ("run_saved_query", json!({ "name": "Secret" }), json!({ "name": "Socrets" })),
    ] {
        let (one, other) =
            (tool_refused(&eve.api, name, theirs).await, tool_refused(&eve.api, name, nobodys).await);
        assert_eq!(one.replace("Secret", "-"), other.replace("Socrets", "-"), "{name}");
    }
    assert_eq!(tool(&eve.api, "search_results", json!({})).await["total"], 0);
    let listed = result(&eve.api, "resources/list", json!({})).await.to_string();
    assert!(!listed.contains("saved-queries/"), "{listed}");
    // While one keeps the console busy through the protocol, the other is answered.
    let slow = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
                SELECT count(*) FROM n a, n b";
    let busy: Vec<_> = (0..6)
        .map(|_| {
            let eve = eve.api.clone();
            tokio::spawn(async move {
                send(&eve, "tools/call", json!({ "name": "run_sql", "arguments": { "sql": slow } })).await
            })
        })
        .collect();
    let rows = tool(&ada.api, "run_sql", json!({ "sql": "SELECT count(*) AS n FROM jobs" })).await;
    assert_eq!(rows["rows"], json!([{ "n": 2 }]));
    for task in busy {
        assert_eq!(task.await.unwrap().status.as_u16(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_at_their_limits() {
    let at = Appliance::start().await;
    let member = at.member("ada").await;
    let long = "x".repeat(70_000);
    let many = |count: usize| (0..count).map(|n| format!("http://a{n}.example/")).collect::<Vec<_>>();
    for (name, arguments, part) in [
        ("submit_urls", json!({ "urls": many(501) }), "urls: has 1 to 500"),
        ("submit_urls", json!({ "urls": [] }), "urls: has 1 to 500"),
        ("submit_urls", json!({ "urls": ["ftp://a.example"] }), "url"),
        ("submit_urls", json!({ "urls": ["http://a.example"], "tags": many(40) }), "tags"),
        ("submit_urls", json!({ "urls": "http://a.example" }), "urls"),
        ("submit_urls", json!({ "urls": ["http://a.example"], "tag": ["x"] }), "tag"),
        ("run_sql", json!({ "sql": long }), "sql"),
        ("run_sql", json!({ "sql": "SELECT 1", "params": vec![1; 101] }), "params"),
        ("run_sql", json!({ "sql": "SELECT 1", "rows": 201 }), "rows: is 1 to 200"),
        ("run_sql", json!({ "sql": "SELECT 1", "rows": 0 }), "rows: is 1 to 200"),
        ("run_sql", json!({ "sql": "DROP TABLE jobs" }), ""),
        ("run_sql", json!({ "sql": "SELEC 1" }), "syntax_error"),
        ("run_sql", json!({}), "sql: is missing"),
        ("run_sql", json!({ "cursor": "x" }), "cursor"),
        ("describe_table", json!({ "table": "../jobs" }), "table"),
        ("describe_table", json!({ "table": "nothing_of_that_name" }), "ot found"),
        ("job_status", json!({ "ids": vec!["00000000-0000-7000-8000-000000000000"; 101] }), "ids"),
        ("job_status", json!({ "ids": ["seven"] }), "ids"),
        ("get_page", json!({}), "resultId"),
        ("get_page", json!({ "url": "no address" }), "url"),
        ("get_page", json!({ "url": format!("http://a.example/{long}") }), ""),
        ("search_results", json!({ "limit": 51 }), "limit"),
        ("search_results", json!({ "query": long }), "q"),
        ("search_results", json!({ "from": "yesterday" }), "from"),
        ("list_tables", json!({ "cursor": "???" }), "cursor"),
    ] {
        let told = tool_refused(&member.api, name, arguments.clone()).await;
        assert!(told.contains(part) && told.len() < 1_500, "{name}: {part}: {told}");
    }
    let most = tool(&member.api, "submit_urls", json!({ "urls": many(500) })).await;
    assert_eq!(most["jobs"].as_array().unwrap().len(), 500);
    // More than a body may have.
    let reply = send(
        &member.api,
        "tools/call",
        json!({ "name": "run_sql", "arguments": { "sql": "x".repeat(9 << 20) } }),
    )
    .await;
    assert_eq!(reply.status.as_u16(), 413, "{}", reply.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_speaks_to_a_fresh_box_over_its_standard_input() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(folder.path(), &[]);
    let member = harness::member(&process.client(), &process.socket(), "ada").await;
    let url = process.client().base().to_owned();
    let spoken = tokio::task::spawn_blocking(move || {
        let mut bridge = Command::new(binary());
        bridge.args(["mcp", "--url", &url]).env("GLEANER_API_KEY", &member.key);
        let mut bridge = bridge.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = bridge.stdin.take().unwrap();
        let mut output = BufReader::new(bridge.stdout.take().unwrap()).lines();
        let greeting = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "tests", "version": "1" },
        });
        for message in [
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        ] {
            writeln!(input, "{message}").unwrap();
        }
        let greeted: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
        let call = json!({ "name": "list_tables", "arguments": {} });
        writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }))
            .unwrap();
        let tables: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
        writeln!(input, "no message").unwrap();
        let broken: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
        drop(input);
        (greeted, tables, broken, bridge.wait().unwrap().success())
    });
    let (greeted, tables, broken, is_good) = spoken.await.unwrap();
    assert_eq!(greeted["result"]["protocolVersion"], "2025-11-25", "{greeted}");
    assert!(
        tables["result"]["structuredContent"]["tables"].as_array().is_some_and(|it| !it.is_empty()),
        "{tables}"
    );
    assert_eq!((&broken["error"]["code"], is_good), (&json!(-32_700), true));
    // A box that is not there, and a key that is missing.
    let nobody = Command::new(binary())
        .args(["mcp"])
        .env_remove("GLEANER_API_KEY")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!nobody.status.success());
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("GLEANER_API_KEY"), "{nobody:?}");
}
