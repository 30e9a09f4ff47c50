//! The erasure of an organization.

use super::*;
use crate::harness::refused;
use search::{ResultQuery, SearchIndex};

const GONE: &str = "zqgonemarker";
const KEPT: &str = "zqkeptmarker";

/// Makes a file of the newest statement's rows.
async fn export_newest(client: &Client) {
    let queries = expect(get(client, "/api/v1/bi/queries?limit=1").await, 200);
    let path = format!("/api/v1/bi/queries/{}/exports", text(&queries["items"][0], "jobId"));
    let asked = expect(post(client, &path, &json!({ "format": "csv" })).await, 202);
    let path = format!("/api/v1/bi/exports/{}", text(&asked["export"], "id"));
    eventually("the file is made", Duration::from_secs(20), || async {
        let export = expect(get(client, &path).await, 200);
        (export["export"]["status"] == "success").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_an_erased_organization_is_left_and_all_of_the_other() {
    let web = web().await;
    let mut at = appliance(&web).await;
    let (gone, kept) = (at.member(GONE).await, at.member(KEPT).await);
    fill(&gone.api, &web.url(""), GONE).await;
    fill(&kept.api, &web.url(""), KEPT).await;
    export_newest(&gone.api).await;
    export_newest(&kept.api).await;
    let guest = join(&at, &gone.browser, "guest", "editor").await;
    let sums_before = sums(&kept.api).await;
    let before = inventory(&kept.api, KEPT).await;

    // Whoever keeps something new beside the store names it in the `holdings` of its slice, and here.
    let known = [
        "account-exports",
        "admin.sock",
        "exports",
        "gleaner.redb",
        "pages",
        "results",
        "search",
        "snapshots",
        "spill",
    ];
    let there = std::fs::read_dir(at.data_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unknown: Vec<_> = there.filter(|name| !known.contains(&name.as_str())).collect();
    assert_eq!(unknown, Vec::<String>::new(), "is it erased with an organization?");

    // The test can fail: the marker stands in every kind of file, in some only as long as they are inflated.
    let data = at.data_dir();
    let found = traces(&data, &[GONE, &gone.org_id]);
    for place in ["gleaner.redb", "pages/", "snapshots/", "results/", "exports/"] {
        assert!(found.iter().any(|trace| trace.contains(place)), "no trace in {place}: {found:#?}");
    }

    let started = expect(delete(&gone.browser, CURRENT, &json!({ "confirmName": GONE })).await, 202);
    // At once, and for everybody.
    for path in ["jobs", "urls", "orgs/current", "extraction/results", "plans/current"] {
        let path = format!("/api/v1/{path}");
        for browser in [&gone.browser, &guest.browser] {
            refused(&get(browser, &path).await, 403, "No organization exists for this user", "");
        }
        refused(&get(&gone.api, &path).await, 401, "Invalid API key", "");
    }
    assert_eq!(get(&gone.browser, "/api/v1/bi/tables").await.json["error"]["code"], "no_org");
    for browser in [&gone.browser, &guest.browser] {
        let me = expect(get(browser, ME).await, 200);
        assert_eq!(
            (&me["organization"], &me["role"], &me["user"]["orgId"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
    }
    let again = delete(&gone.browser, CURRENT, &json!({ "confirmName": GONE })).await;
    refused(&again, 403, "No organization exists for this user", "");

    let receipt = receipt(&at, text(&started, "erasureId")).await;
    assert_eq!(receipt["erased"], json!({ "type": "organization", "id": gone.org_id }));
    assert_eq!((&receipt["left"], &receipt["error"]), (&json!({}), &Value::Null), "{receipt}");
    assert_eq!(receipt["requestedBy"], gone.user_id);
    let removed = |name: &str| receipt["removed"][name].as_u64().unwrap_or(0);
    let counts =
        [("urls", 6), ("jobs", 3), ("results", 3), ("api_keys", 2), ("pages", 3), ("search documents", 3)];
    for (name, count) in counts {
        assert_eq!(removed(name), count, "{name}: {receipt}");
    }
    for name in [
        "bi_queries",
        "bi_exports",
        "result files",
        "export files",
        "snapshot files",
        "changes",
        "org",
        "messages",
    ] {
        assert!(removed(name) > 0, "{name}: {receipt}");
    }

    // The name of the organization and of its owner are the same word: what is left is the person's own account.
    let accounts = traces(&data, &[GONE]);
    assert!(accounts.iter().all(|trace| trace.contains("gleaner.redb")), "{accounts:#?}");
    let started = expect(delete(&gone.browser, ACCOUNT, &json!({ "password": PASSWORD })).await, 202);
    let of_person = super::receipt(&at, text(&started, "erasureId")).await;
    assert_eq!(of_person["left"], json!({}));
    assert_eq!(traces(&data, &[GONE]), Vec::<String>::new());
    assert_eq!(files_naming(&data, &gone.org_id), ["gleaner.redb"], "the receipts name it");
    assert_eq!(inventory(&kept.api, KEPT).await, before);
    assert_eq!(sums(&kept.api).await, sums_before);

    at.restart().await;
    let kept_api = at.client().bearer(&kept.key);
    assert_eq!(traces(&data, &[GONE]), Vec::<String>::new());
    // The newest statement is that of `sums` now; everything else is as it was.
    let but_statements = |all: Vec<(String, Value)>| {
        all.into_iter()
            .filter(|(list, _)| !matches!(list.as_str(), "bi/queries" | "result page"))
            .collect::<Vec<_>>()
    };
    assert_eq!(but_statements(inventory(&kept_api, KEPT).await), but_statements(before));
    assert_eq!(sums(&kept_api).await, sums_before);
    assert_eq!(erasures(&at).await.len(), 2, "receipts stay");
    // The index keeps words in a form in which they are not found by their bytes: it is asked itself.
    let searched = |org: &str, word: &str| {
        let index = SearchIndex::open(data.join("search")).unwrap();
        let query = ResultQuery { q: Some(word.to_owned()), limit: 10, ..ResultQuery::default() };
        index.org(org.parse().unwrap()).search(&query).unwrap().total
    };
    assert_eq!((searched(&gone.org_id, GONE), searched(&kept.org_id, KEPT)), (0, 3));
    assert_eq!(SearchIndex::open(data.join("search")).unwrap().documents(), 3);
    // The other one's work goes on.
    let job = collect(&kept_api, &web.url(&format!("/{KEPT}/later"))).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    at.stop().await;
}

/// A member's export tells of the organization too: of its statements, keys and invitations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_of_its_members_go_with_it_and_others_stay() {
    let at = Appliance::start().await;
    let (gone, kept) = (at.member(GONE).await, at.member(KEPT).await);
    let member = join(&at, &gone.browser, "mary", "admin").await;
    for (browser, marker) in [(&member.browser, GONE), (&kept.browser, KEPT)] {
        let key = json!({ "name": format!("key of {marker}") });
        expect(post(browser, "/api/v1/api-keys", &key).await, 201);
        let id = export::request(browser).await;
        export::made(browser, &id).await;
    }
    let data = at.data_dir();
    let in_exports = |marker: &str| {
        let found = traces(&data, &[marker]);
        found.iter().filter(|trace| trace.contains("account-exports")).count()
    };
    assert_eq!((in_exports(GONE), in_exports(KEPT)), (1, 1), "the test can fail");
    let receipt = erase(&at, &gone, GONE).await;
    assert_eq!(receipt["removed"]["personal exports"], 1, "{receipt}");
    assert_eq!((in_exports(GONE), in_exports(KEPT)), (0, 1));
    at.stop().await;
}

/// Whoever was let in a moment before finds the organization gone; nobody finds a 500.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_run_into_its_end_are_refused_and_do_not_fail() {
    let web = web().await;
    let at = appliance(&web).await;
    for round in 0..3 {
        let name = format!("org{round}");
        let owner = at.member(&name).await;
        let asking: Vec<_> = (0..16)
            .map(|n| {
                let (api, browser) = (owner.api.clone(), owner.browser.clone());
                let url = web.url(&format!("/late/{n}"));
                tokio::spawn(async move {
                    let mut seen = Vec::new();
                    for _ in 0..200 {
                        let reply = match n % 3 {
                            0 => post(&api, "/api/v1/jobs", &json!({ "url": url })).await,
                            1 => get(&browser, "/api/v1/plans/current").await,
                            _ => post(&api, "/api/v1/bi/queries", &json!({ "sql": "SELECT 1 AS one" })).await,
                        };
                        seen.push((reply.status.as_u16(), reply.text()));
                        if [401, 403].contains(&reply.status.as_u16()) {
                            break;
                        }
                    }
                    seen
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        expect(delete(&owner.browser, CURRENT, &json!({ "confirmName": name })).await, 202);
        for loop_ in asking {
            let seen = loop_.await.unwrap();
            let failed: Vec<_> = seen.iter().filter(|(status, _)| *status >= 500 && *status != 503).collect();
            assert!(failed.is_empty(), "{failed:?}");
        }
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_alone_erases_it_by_its_name() {
    let at = Appliance::start().await;
    let owner = at.member("Engines").await;
    let admin = join(&at, &owner.browser, "adele", "admin").await;
    let named = json!({ "confirmName": "Engines" });
    refused(&delete(&admin.browser, CURRENT, &named).await, 403, "Insufficient permissions", "Only an owner");
    refused(&delete(&owner.api, CURRENT, &named).await, 403, "Insufficient permissions", "API key");
    refused(&delete(&at.client(), CURRENT, &named).await, 401, "Authentication required", "");
    for other in ["engines", "Engines ", "", "adele"] {
        let reply = delete(&owner.browser, CURRENT, &json!({ "confirmName": other })).await;
        refused(&reply, 400, "Validation failed", "confirmName: is not the organization's name");
    }
    for (body, part) in [(json!({}), "confirmName"), (json!({ "confirmName": 7 }), "confirmName")] {
        refused(&delete(&owner.browser, CURRENT, &body).await, 400, "Validation failed", part);
    }
    let person = json!({ "email": "new@example.com", "password": PASSWORD, "name": "New" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let outside = at.client().bearer(text(&login, "accessToken"));
    refused(&delete(&outside, CURRENT, &named).await, 403, "No organization exists for this user", "");
    // Nothing of all that did anything.
    assert_eq!(text(&expect(get(&owner.api, CURRENT).await, 200), "name"), "Engines");
    assert_eq!(erasures(&at).await, Vec::<Value>::new());

    erase(&at, &owner, "Engines").await;
    // Its people go on: one of them makes another organization of the same name, and it starts empty.
    let made = expect(post(&admin.browser, "/api/v1/orgs", &named_org("Engines")).await, 201);
    assert_ne!(text(&made["organization"], "id"), owner.org_id);
    assert_eq!(expect(get(&admin.browser, "/api/v1/api-keys").await, 200)["items"], json!([]));
    expect(post(&owner.browser, "/api/v1/orgs", &named_org("Mills")).await, 201);
    at.stop().await;
}

fn named_org(name: &str) -> Value {
    json!({ "name": name })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_and_statements_that_run_end_with_it() {
    let web = web().await;
    let at = appliance(&web).await;
    let (gone, kept) = (at.member("slowzqgone").await, at.member(KEPT).await);
    fill(&kept.api, &web.url(""), KEPT).await;
    let submit = async |client: &Client, marker: &str, count: usize| {
        let jobs: Vec<_> = (0..count).map(|n| json!({ "url": web.url(&format!("/{marker}/{n}")) })).collect();
        expect(post(client, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201)
    };
    submit(&gone.api, "slowzqgone", 60).await;
    eventually("jobs run", Duration::from_secs(10), || async {
        let running = expect(get(&gone.api, "/api/v1/jobs?status=running&limit=10").await, 200);
        (running["items"].as_array().unwrap().len() > 3).then_some(())
    })
    .await;
    let others = submit(&kept.api, "slowkept", 6).await;
    // A statement that never ends by itself.
    let endless = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t";
    let reply = post(&gone.api, "/api/v1/bi/queries", &json!({ "sql": endless, "waitMs": 0 })).await;
    assert_eq!(reply.status, 202, "{}", reply.text());

    let receipt = erase(&at, &gone, "slowzqgone").await;
    assert_eq!(receipt["left"], json!({}), "{receipt}");
    assert!(receipt["removed"]["running jobs"].as_u64() > Some(0), "{receipt}");
    assert_eq!(receipt["removed"]["jobs"], 60);
    assert_eq!(traces(&at.data_dir(), &["slowzqgone/"]), Vec::<String>::new());
    assert_eq!(files_naming(&at.data_dir(), &gone.org_id), ["gleaner.redb"], "the receipt names it");
    for job in others["jobs"].as_array().unwrap() {
        let ended = crate::harness::ended(&kept.api, text(job, "id")).await;
        assert_eq!(ended["status"], "succeeded", "the other's jobs run on: {ended}");
    }
    // A run is over shortly after its job has ended.
    eventually("no job runs", Duration::from_secs(60), || async {
        (at.operator(Request::Status).await["jobsRunning"] == 0).then_some(())
    })
    .await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_organizations_go_together() {
    let web = web().await;
    let at = appliance(&web).await;
    let kept = at.member(KEPT).await;
    fill(&kept.api, &web.url(""), KEPT).await;
    let before = inventory(&kept.api, KEPT).await;
    let names = ["zqfirst", "zqsecond", "zqthird"];
    let mut members = Vec::new();
    for name in names {
        let member = at.member(name).await;
        fill(&member.api, &web.url(""), name).await;
        members.push(member);
    }
    let mut started = Vec::new();
    for (member, name) in members.iter().zip(names) {
        let reply = delete(&member.browser, CURRENT, &json!({ "confirmName": name })).await;
        started.push(text(&expect(reply, 202), "erasureId").to_owned());
    }
    for id in &started {
        assert_eq!(receipt(&at, id).await["left"], json!({}));
    }
    let words = names.map(|name| format!("{name}/"));
    let needles: Vec<_> = words.iter().map(String::as_str).collect();
    assert_eq!(traces(&at.data_dir(), &needles), Vec::<String>::new());
    assert_eq!(inventory(&kept.api, KEPT).await, before);
    at.stop().await;
}

/// Another folder stands where the box's data were, while an organization is being erased and others work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_folder_that_went_away_loses_nothing_and_erases_nothing() {
    let at = Appliance::start_with(&[("BI__RESULTS_ORG_MB", "10")]).await;
    let (gone, kept) = (at.member(GONE).await, at.member(KEPT).await);
    for member in [&gone, &kept] {
        let urls = json!({ "urls": ["https://shop.example/1", "https://shop.example/2"] });
        expect(post(&member.api, "/api/v1/urls", &urls).await, 200);
        let statement = json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 });
        expect(post(&member.api, "/api/v1/bi/queries", &statement).await, 200);
    }
    let (data, aside) = (at.data_dir(), at.data_dir().with_extension("aside"));
    // The erasure cannot get on with the results until they are a folder again.
    let held = Path::new("results").join(&gone.org_id);
    let own = data.with_extension("results");
    std::fs::rename(data.join(&held), &own).unwrap();
    std::fs::write(data.join(&held), "no folder").unwrap();
    let started = expect(delete(&gone.browser, CURRENT, &json!({ "confirmName": GONE })).await, 202);
    eventually("the erasure is held up", Duration::from_secs(20), || async {
        let erasures = at.operator(Request::Erasures { limit: 10 }).await;
        (erasures[0]["error"] != Value::Null).then_some(())
    })
    .await;

    std::fs::rename(&data, &aside).unwrap();
    std::fs::create_dir(&data).unwrap();
    let listed = expect(get(&kept.api, "/api/v1/urls").await, 200);
    let one = format!("/api/v1/urls/{}", text(&listed["items"][0], "id"));
    // At once, also what frees room, and before anybody looked after the folder.
    for reply in [
        delete(&kept.api, &one, &json!({})).await,
        post(&kept.api, "/api/v1/urls", &json!({ "urls": ["https://shop.example/3"] })).await,
    ] {
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(reply.text().contains("the data folder was moved or unmounted"), "{}", reply.text());
    }
    let statement = json!({ "sql": "SELECT 2 AS two", "waitMs": 10_000 });
    let refused = post(&kept.api, "/api/v1/bi/queries", &statement).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    std::fs::remove_file(aside.join(&held)).unwrap();
    std::fs::rename(&own, aside.join(&held)).unwrap();
    // Some tries of the erasure, and more looks after the box.
    tokio::time::sleep(Duration::from_secs(14)).await;
    std::fs::remove_dir(&data).expect("nothing was made there");
    std::fs::rename(&aside, &data).unwrap();

    let receipt = receipt(&at, text(&started, "erasureId")).await;
    assert!(!data.join(&held).exists(), "said to be erased: {receipt}");
    assert_eq!(receipt["removed"]["result files"], 1, "{receipt}");
    let listed = expect(get(&kept.api, "/api/v1/urls").await, 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    expect(post(&kept.api, "/api/v1/bi/queries", &statement).await, 200);
    let deleted = delete(&kept.api, &one, &json!({})).await;
    assert!(deleted.status.is_success(), "{}", deleted.text());
}
