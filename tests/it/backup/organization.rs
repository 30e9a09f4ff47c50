//! One organization out of a backup into a box that runs: after it was erased, and into another box.

use super::{Lab, WAIT, answers, files, pages};
use crate::account::delete;
use crate::harness::process::Process;
use crate::harness::web::Web;
use crate::harness::{Member, PASSWORD, binary, collect, ended, eventually, expect, get, member, post, text};
use parking_lot::Mutex;
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Lists that are not the same twice, or are looked at by themselves.
const NOT_COMPARED: [&str; 6] = [
    // It grows with the restore itself.
    "/api/v1/audit-logs",
    "/api/v1/events",
    // They come back switched off.
    "/api/v1/outputs",
    // Statements are asked in between.
    "/api/v1/bi/queries",
    // Of a window that ends now.
    "/api/v1/analytics/timeseries",
    // It counts bytes, also of what the restore says of itself. Doctor adds them up again.
    "/api/v1/plans/current",
];

/// What every list and every thing that there is one of says: all paths of the contract that need nothing but a caller.
async fn everything(api: &Client) -> BTreeMap<String, (u16, Value)> {
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/openapi.json");
    let contract: Value = serde_json::from_slice(&fs::read(contract).unwrap()).unwrap();
    let mut told = BTreeMap::new();
    for (path, methods) in contract["paths"].as_object().unwrap() {
        if methods["get"].is_object() && !path.contains('{') && !NOT_COMPARED.contains(&path.as_str()) {
            let reply = get(api, path).await;
            let mut answer = reply.json.clone();
            forget_now(&mut answer);
            told.insert(path.clone(), (reply.status.as_u16(), answer));
        }
    }
    assert!(told.len() > 30, "{:?}", told.keys());
    told
}

/// The same when nothing of it is on its way any more: what SQL knows comes after what happened.
async fn settled(api: &Client) -> BTreeMap<String, (u16, Value)> {
    let before = Mutex::new(everything(api).await);
    eventually("all that is told stands still", WAIT, || async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = everything(api).await;
        let before = std::mem::replace(&mut *before.lock(), now.clone());
        (before == now).then_some(now)
    })
    .await
}

/// Waits until all is told as it was, and names what is not.
async fn is_again(api: &Client, then: &BTreeMap<String, (u16, Value)>) {
    let began = Instant::now();
    loop {
        let now = everything(api).await;
        let differs: Vec<_> =
            then.iter().filter(|(path, said)| now.get(*path) != Some(said)).map(|(path, _)| path).collect();
        let Some(first) = differs.first() else { return };
        let (was, is) = (&then[*first].1, &now[*first].1);
        assert!(began.elapsed() < WAIT, "{differs:?}; the first was {was} and is {is}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Removes what says when it was asked: request ids, and when a key was used last.
fn forget_now(answer: &mut Value) {
    match answer {
        Value::Object(members) => {
            // The restore is one more.
            if members.get("name") == Some(&json!("events")) {
                members.remove("rowCount");
            }
            members.retain(|name, _| {
                !["requestId", "lastUsedAt", "indexedAt", "from", "to", "freshnessSec"]
                    .contains(&name.as_str())
            });
            members.values_mut().for_each(forget_now);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_now),
        _ => {}
    }
}

/// Something of every kind that an organization has.
async fn works(member: &Member, api: &Client, web: &Web) {
    for n in 0..3 {
        let job =
            json!({ "url": web.url(&format!("/{}/{n}", member.user_id)), "tags": ["shop"], "priority": 3 });
        let job = expect(post(api, "/api/v1/jobs", &job).await, 201);
        assert_eq!(ended(api, text(&job, "id")).await["status"], "succeeded");
    }
    let saved = json!({ "name": "how many", "sql": "SELECT count(*) FROM readings" });
    expect(post(api, "/api/v1/bi/saved-queries", &saved).await, 201);
    let schedule = json!({ "name": "nightly", "cron": "@yearly", "tagFilters": ["shop"] });
    expect(post(api, "/api/v1/schedules", &schedule).await, 201);
    let output = json!({ "kind": "webhook", "name": "out", "url": web.url("/hook"), "events": ["job.*"] });
    expect(post(api, "/api/v1/outputs", &output).await, 201);
    answers(api, 3).await;
}

/// Erases the organization and waits until nothing is left of it.
async fn erases(lab: &Lab, process: &Process, who: &Member, name: &str) {
    let browser = log_in(process, &who.email).await;
    let gone = delete(&browser, "/api/v1/orgs/current", &json!({ "confirmName": name })).await;
    assert_eq!(gone.status, 202, "{}", gone.text());
    eventually("it is erased", WAIT, || async {
        let told = lab.done("first", &["admin", "erasures"]);
        (told[0]["state"] == "done").then_some(())
    })
    .await;
}

async fn log_in(process: &Process, email: &str) -> Client {
    let login = json!({ "email": email, "password": PASSWORD });
    let login = expect(post(&process.client(), "/api/v1/auth/login", &login).await, 200);
    process.client().bearer(text(&login, "accessToken"))
}

const RESTORE: [&str; 4] = ["restore", "backups", "--organization", "ada"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erased_organization_comes_back_as_it_was_while_others_work() {
    let web = pages().await;
    let allow = web.allow();
    let lab = Lab::new(&[("NETWORK__ALLOW", &allow)]);
    let process = lab.start("first");
    let ada = member(&process.client(), &process.socket(), "ada").await;
    let bob = member(&process.client(), &process.socket(), "bob").await;
    works(&ada, &ada.api, &web).await;
    works(&bob, &bob.api, &web).await;
    let of_ada = settled(&ada.api).await;
    let log = expect(get(&ada.api, "/api/v1/audit-logs?limit=200").await, 200);
    let page = text(&of_ada["/api/v1/extraction/results"].1["items"][0], "id").to_owned();
    let page = format!("/api/v1/extraction/results/by-id/{page}");
    let result = expect(get(&ada.api, &page).await, 200);
    lab.back_up("first");

    // As long as it is there nothing is written over.
    let said = lab.refused("first", &RESTORE);
    assert!(said.contains("organization \"ada\"") && said.contains("is in this box"), "{said}");
    is_again(&ada.api, &of_ada).await;
    erases(&lab, &process, &ada, "ada").await;
    assert_eq!(get(&ada.api, "/api/v1/urls").await.status, 401);

    // Somebody else works all the while.
    let mut of_bob = settled(&bob.api).await;
    let (submits, web_of_bob) = (bob.api.clone(), web.url("/while"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn(async move {
        let (mut stopped, mut n) = (stopped, 0);
        while stopped.try_recv().is_err() {
            let url = json!({ "urls": [{ "url": format!("{web_of_bob}/{n}") }] });
            let added = post(&submits, "/api/v1/urls", &url).await;
            assert_eq!(added.status, 200, "{}", added.text());
            n += 1;
        }
        n
    });
    let asked: Vec<String> = RESTORE.iter().map(|part| (*part).to_owned()).collect();
    let told = tokio::task::block_in_place(|| {
        lab.done("first", &asked.iter().map(String::as_str).collect::<Vec<_>>())
    });
    stop.send(()).unwrap();
    let added = working.await.unwrap();
    assert_eq!(told["organization"]["id"], ada.org_id.as_str(), "{told}");
    assert_eq!((&told["members"]["again"], &told["outputsSwitchedOff"]), (&json!(1), &json!(1)), "{told}");
    assert_eq!((&told["pages"], &told["unknownTables"]), (&json!(3), &json!([])), "{told}");

    // All of it is there at once: keys, lists, balances, search, SQL, pages, the log.
    is_again(&ada.api, &of_ada).await;
    answers(&ada.api, 3).await;
    assert_eq!(expect(get(&ada.api, &page).await, 200), result);
    let outputs = expect(get(&ada.api, "/api/v1/outputs").await, 200);
    let output = &outputs["items"][0];
    assert_eq!(
        (&output["isEnabled"], &output["disabledReason"]),
        (&json!(false), &json!("restored")),
        "{output}"
    );
    let now = expect(get(&ada.api, "/api/v1/audit-logs?limit=200").await, 200);
    let (now, then) = (now["items"].as_array().unwrap(), log["items"].as_array().unwrap());
    assert_eq!(&now[now.len() - then.len()..], &then[..]);
    assert!(now.iter().any(|row| row["action"] == "org.restored"), "{now:?}");
    // And it goes on.
    assert_eq!(collect(&ada.api, &web.url("/after")).await["status"], "succeeded");
    answers(&ada.api, 4).await;
    log_in(&process, &ada.email).await;

    // The other one has what it did itself, and nothing else.
    let urls = expect(get(&bob.api, "/api/v1/urls?limit=1").await, 200);
    assert!(added > 0 && urls["items"].is_array());
    for theirs in [
        "/api/v1/urls",
        "/api/v1/urls/tags",
        "/api/v1/analytics/overview",
        "/api/v1/analytics/domains",
        // It counts them.
        "/api/v1/bi/tables",
    ] {
        of_bob.remove(theirs);
    }
    is_again(&bob.api, &of_bob).await;
    let audit = lab.done("first", &["admin", "audit"]).to_string();
    assert!(audit.contains("org.restore_started") && audit.contains("org.restored"), "{audit}");
    assert_eq!(process.terminate(), Some(0));
    lab.is_sound("first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_restored_is_refused_by_name() {
    let web = pages().await;
    let allow = web.allow();
    let lab = Lab::new(&[("NETWORK__ALLOW", &allow)]);
    let process = lab.start("first");
    let ada = member(&process.client(), &process.socket(), "ada").await;
    assert_eq!(collect(&ada.api, &web.url("/one")).await["status"], "succeeded");
    let made = lab.back_up("first");
    let say = |named: &str, more: &[&str]| {
        let asked: Vec<&str> =
            ["restore", "backups", "--organization", named].into_iter().chain(more.iter().copied()).collect();
        lab.refused("first", &asked)
    };
    let said = say("adaa", &[]);
    assert!(said.contains("--organization: ") && said.contains("\"ada\""), "{said}");
    erases(&lab, &process, &ada, "ada").await;
    fs::write(lab.folder.path().join("wrong"), "another passphrase\n").unwrap();
    let said = say("ada", &["--passphrase-file", "wrong"]);
    assert!(said.contains("the passphrase is wrong"), "{said}");
    let said = say("ada", &["--backup", "019a0000-0000-7000-8000-000000000000"]);
    assert!(said.contains("has no backup 019a0000"), "{said}");

    // A bit of every object that has something of it.
    let mut refused = 0;
    for (name, bytes) in files(&lab.place()).into_iter().filter(|(name, _)| name.starts_with("objects")) {
        let path = lab.place().join(&name);
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        fs::write(&path, flipped).unwrap();
        let (code, printed, said) = lab.run("first", &RESTORE);
        fs::write(&path, bytes).unwrap();
        if code == Some(1) {
            assert!(said.contains(&name) && said.contains("nothing was restored"), "{name}: {said}");
            refused += 1;
        } else {
            // The key file, which is not asked for.
            let told: Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(told["backup"], made["id"], "{said}");
            erases(&lab, &process, &ada, "ada").await;
        }
    }
    assert!(refused >= 3, "rows, a list, a pack: {refused}");

    // Whoever left for good does not come back with a backup, unless they register anew: then what was theirs is again.
    let browser = log_in(&process, &ada.email).await;
    assert_eq!(delete(&browser, "/api/v1/account", &json!({ "password": PASSWORD })).await.status, 202);
    let said = say("ada", &[]);
    assert!(
        said.contains("nobody would own the organization: its owners have had their accounts erased"),
        "{said}"
    );
    let person = json!({ "email": ada.email, "password": PASSWORD, "name": "ada" });
    expect(post(&process.client(), "/api/v1/auth/register", &person).await, 201);
    lab.done("first", &["admin", "user", "verify", &ada.email]);
    let told = lab.done("first", &RESTORE);
    assert_eq!(told["members"]["again"], 1, "{told}");
    answers(&ada.api, 1).await;
    let keys = expect(get(&ada.api, "/api/v1/api-keys").await, 200);
    assert_eq!(keys["items"].as_array().unwrap().len(), 1, "{keys}");
    assert_eq!(process.terminate(), Some(0));
    lab.is_sound("first");
    let said = say("ada", &[]);
    assert!(said.contains("admin.sock"), "a box that is off is named: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_organization_moves_to_another_box() {
    let web = pages().await;
    let allow = web.allow();
    let lab = Lab::new(&[("NETWORK__ALLOW", &allow)]);
    let process = lab.start("first");
    let ada = member(&process.client(), &process.socket(), "ada").await;
    works(&ada, &ada.api, &web).await;
    let of_ada = settled(&ada.api).await;
    lab.back_up("first");
    process.kill();
    let second = lab.start("second");
    let eve = member(&second.client(), &second.socket(), "eve").await;
    assert_eq!(collect(&eve.api, &web.url("/eve")).await["status"], "succeeded");
    let told = lab.done(
        "second",
        &["restore", "backups", "--organization", &ada.org_id, "--passphrase-file", "passphrase"],
    );
    assert_eq!(told["members"]["withAccount"], 1, "{told}");
    assert!(told["next"].to_string().contains("entered anew"), "{told}");
    let api = second.client().bearer(&ada.key);
    answers(&api, 3).await;
    is_again(&api, &of_ada).await;
    log_in(&second, &ada.email).await;
    assert_eq!(collect(&api, &web.url("/there")).await["status"], "succeeded");
    answers(&api, 4).await;
    answers(&eve.api, 1).await;
    assert_eq!(second.terminate(), Some(0));
    lab.is_sound("second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_dies_in_a_restore_has_all_of_it_or_nothing() {
    let web = pages().await;
    let allow = web.allow();
    let lab = Lab::new(&[("NETWORK__ALLOW", &allow)]);
    let mut process = lab.start("first");
    let ada = member(&process.client(), &process.socket(), "ada").await;
    works(&ada, &ada.api, &web).await;
    let of_ada = settled(&ada.api).await;
    lab.back_up("first");
    erases(&lab, &process, &ada, "ada").await;
    let mut killed = 0;
    for delay_ms in [20, 60, 120, 200, 300, 450, 700, 1_000] {
        let mut command = Command::new(binary());
        command.args(RESTORE).current_dir(lab.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("GLEANER_STORAGE__DATA_DIR", lab.data("first"));
        let mut asking = command.spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        process.kill();
        asking.wait().unwrap();
        process = lab.start("first");
        let api = process.client().bearer(&ada.key);
        match get(&api, "/api/v1/urls").await.status.as_u16() {
            401 => killed += 1,
            200 => break,
            other => panic!("{other}"),
        }
    }
    let api = process.client().bearer(&ada.key);
    if get(&api, "/api/v1/urls").await.status == 401 {
        lab.done("first", &RESTORE);
    }
    println!("killed {killed} times before it was there");
    answers(&api, 3).await;
    is_again(&api, &of_ada).await;
    assert_eq!(process.terminate(), Some(0));
    lab.is_sound("first");
}
