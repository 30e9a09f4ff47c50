//! The operator: the command line, the socket, what a mistake is answered with.

use crate::harness::Request;
use crate::harness::process::Process;
use crate::harness::{Appliance, PASSWORD, binary, expect, get, member, post, refused, text};
use base::ids::OrgId;
use base::page::PageRequest;
use gleaner::admin;
use gleaner::features::auth::Auth;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use store::{Actor, AuditFilter};
use tempfile::TempDir;

/// Runs the binary in `folder` and gives its exit code, output and errors.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary());
    command.args(arguments).current_dir(folder).env("GLEANER_SERVER__LISTEN", "127.0.0.1:0");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_mistake_at_the_command_line_is_named() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("bad.toml"), "[server]\nlisen = \"x\"").unwrap();
    for (arguments, code, part) in [
        (&["srve"][..], 2, "similar subcommand exists: 'serve'"),
        (&["serve", "--config", "nope.toml"], 1, "nope.toml: cannot be read"),
        (&["serve", "--config", "bad.toml"], 1, "server.lisen: unknown field"),
        (&["admin", "status"], 1, "Is `gleaner serve` running?"),
        (&["admin", "schema", "import", "nope.json"], 1, "nope.json: cannot be read"),
    ] {
        let (status, _, errors) = run(dir.path(), arguments);
        assert_eq!(status, Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
    }
    let (status, help, _) = run(dir.path(), &["--help"]);
    assert_eq!(status, Some(0));
    assert!(help.contains("serve") && help.contains("demo") && !help.contains("sql-worker"));
}

#[test]
fn the_printed_reference_is_the_golden_one() {
    let (status, printed, _) = run(Path::new("."), &["openapi"]);
    assert_eq!(status, Some(0));
    let golden = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("data/openapi.json"),
    )
    .unwrap();
    let (printed, golden): (Value, Value) =
        (serde_json::from_str(&printed).unwrap(), serde_json::from_str(&golden).unwrap());
    assert_eq!(printed, golden);
}

#[test]
fn one_folder_serves_one_process_and_keeps_its_secrets() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data").join("var");
    std::fs::create_dir(dir.path().join("data")).unwrap();
    let first = Process::start(&data, &[]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let key = dir.path().join("data").join("var.key");
    assert_eq!((mode(&data), mode(&key), mode(&data.join("admin.sock"))), (0o700, 0o600, 0o600));
    let (status, _, errors) = run(dir.path(), &["serve"]);
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("another process has the data folder open"), "{errors}");
    assert!(errors.contains("gleaner.redb") && errors.contains("`gleaner admin status`"), "{errors}");
    assert_eq!(first.terminate(), Some(0));
    assert!(!data.join("admin.sock").exists(), "the socket goes with its process");

    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (status, _, errors) = run(dir.path(), &["serve"]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("chmod 600"), "{errors}");
    std::fs::remove_file(&key).unwrap();
    let (status, _, errors) = run(dir.path(), &["serve"]);
    assert_eq!(status, Some(1), "a box with data never makes new secrets: {errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_answers_what_an_operator_asks() {
    let appliance = Appliance::start().await;
    let client = appliance.client();
    let person = json!({ "email": "op@example.com", "password": "a long enough passphrase", "name": "Op" });
    let login = expect(post(&client, "/api/v1/auth/register", &person).await, 201);
    let browser = client.bearer(text(&login, "accessToken"));
    let verified =
        || async { expect(get(&browser, "/api/v1/auth/me").await, 200)["user"]["emailVerifiedAt"].clone() };
    assert_eq!(verified().await, Value::Null);
    let outbox = appliance.operator(Request::Outbox { limit: 10 }).await;
    assert_eq!(outbox[0]["to"], "op@example.com", "{outbox}");
    appliance.operator(Request::UserVerify { email: "op@example.com".into() }).await;
    assert!(verified().await.is_string());

    let socket = appliance.app().socket();
    let unknown = Request::UserVerify { email: "nobody@example.com".into() };
    let refused = admin::call(&socket, &unknown).await.unwrap_err();
    assert!(refused.to_string().contains("User not found"), "{refused}");
    let schema = |xpath: &str| {
        json!({ "schemas": [{ "domain": "shop.example", "pageType": "article",
            "attributes": [{ "name": "title", "type": "text", "xpaths": [xpath] }] }] })
        .to_string()
    };
    let broken = Request::SchemaImport { json: schema("//h1["), domain: None };
    let refused = admin::call(&socket, &broken).await.unwrap_err();
    assert!(refused.to_string().contains("schemas[0].attributes[0].xpaths[0]"), "{refused}");
    let good = appliance.operator(Request::SchemaImport { json: schema("//h1"), domain: None }).await;
    assert_eq!(good["created"], 1);
    let exported = appliance.operator(Request::SchemaExport).await;
    let again = appliance.operator(Request::SchemaImport { json: exported.to_string(), domain: None }).await;
    assert_eq!(
        (&again["created"], &again["unchanged"]),
        (&json!(0), &json!(1)),
        "what was exported is known"
    );
    let status = appliance.operator(Request::Status).await;
    assert_eq!(status["url"], appliance.app().url());
}

/// The binary against a running process, as an operator types it.
struct Shell {
    folder: TempDir,
    process: Process,
}

impl Shell {
    fn start(settings: &[(&str, &str)]) -> Shell {
        let folder = TempDir::new().unwrap();
        let process = Process::start(&folder.path().join("data"), settings);
        Shell { folder, process }
    }

    fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let socket = self.process.socket().display().to_string();
        run(self.folder.path(), &[&["admin", "--socket", &socket], arguments].concat())
    }

    /// What a command that is done prints.
    fn done(&self, arguments: &[&str]) -> Value {
        let (status, printed, errors) = self.command(arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {errors}");
        serde_json::from_str(&printed).unwrap()
    }

    /// Asserts that a command is refused with exit code 1 and these words.
    fn refused(&self, arguments: &[&str], parts: &[&str]) {
        let (status, printed, errors) = self.command(arguments);
        assert_eq!((status, printed.as_str()), (Some(1), ""), "{arguments:?}: {errors}");
        assert!(errors.starts_with("gleaner: ") && errors.lines().count() == 1, "{errors}");
        for part in parts {
            assert!(errors.contains(part), "{arguments:?}: \"{part}\" is not in \"{errors}\"");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_listed_and_get_links() {
    let shell = Shell::start(&[]);
    let client = shell.process.client();
    let ada = member(&client, &shell.process.socket(), "ada").await;
    let bob = json!({ "email": "bob@example.com", "password": PASSWORD, "name": "Bob" });
    expect(post(&client, "/api/v1/auth/register", &bob).await, 201);
    let all = shell.done(&["user", "list"]);
    let listed: Vec<(&str, &Value)> =
        all.as_array().unwrap().iter().map(|user| (text(user, "email"), &user["role"])).collect();
    assert_eq!(listed, [("bob@example.com", &Value::Null), ("ada@example.com", &json!("owner"))]);
    assert!(!all.to_string().contains("argon2"), "{all}");
    assert_eq!(shell.done(&["user", "list", "--limit", "1"]).as_array().unwrap().len(), 1);
    let members = shell.done(&["user", "list", "--org", "Ada"]);
    assert_eq!((members.as_array().unwrap().len(), text(&members[0], "orgId")), (1, ada.org_id.as_str()));
    shell.refused(&["user", "list", "--org", "adda"], &["Organization not found", "did you mean \"ada\"?"]);

    shell.done(&["user", "verify", " BOB@example.com"]);
    shell
        .refused(&["user", "verify", "bop@example.com"], &["User not found", "did you mean bob@example.com"]);
    shell.refused(&["user", "verify", "bob"], &["email: must be an address"]);
    shell.refused(&["user", "reset-link", "zzz@nowhere.test"], &["nobody has the address zzz@nowhere.test"]);

    let first = shell.done(&["user", "reset-link", "ada@example.com"]);
    let second = shell.done(&["user", "reset-link", "ada@example.com"]);
    let link = format!("{}/reset-password#{}", shell.process.url, text(&second, "token"));
    assert_eq!((text(&second, "link"), text(&second, "email")), (link.as_str(), "ada@example.com"));
    let reset = async |token: &str| {
        let body = json!({ "token": token, "password": "another long passphrase" });
        post(&client, "/api/v1/auth/reset-password", &body).await.status.as_u16()
    };
    assert_eq!(reset(text(&first, "token")).await, 400, "an earlier link has ended");
    assert_eq!(reset(text(&second, "token")).await, 200);
    assert_eq!(reset(text(&second, "token")).await, 400, "good once");
    assert_eq!(get(&ada.browser, "/api/v1/auth/me").await.status, 401, "every session has ended");
    let outbox = shell.done(&["outbox"]);
    let resets = outbox.as_array().unwrap().iter().filter(|mail| mail["kind"] == "reset_password");
    assert_eq!(resets.count(), 0, "the operator passes it on, nothing is sent");
    shell.refused(&["outbox", "--retry"], &["no mail server is configured", "mail.host"]);
    assert_eq!(shell.process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn organizations_get_plans_and_credits() {
    let shell = Shell::start(&[]);
    let (client, socket) = (shell.process.client(), shell.process.socket());
    let ada = member(&client, &socket, "ada").await;
    let twin = member(&client, &socket, "twin").await;
    let rename = json!({ "name": "ADA" });
    expect(twin.browser.send(http::Method::PATCH, "/api/v1/orgs/current", Some(&rename)).await.unwrap(), 200);
    let orgs = shell.done(&["org", "list"]);
    assert_eq!((text(&orgs[0], "id"), text(&orgs[0], "plan")), (ada.org_id.as_str(), "appliance"));
    assert_eq!((&orgs[0]["members"], &orgs[0]["remainingCredits"]), (&json!(1), &json!(1_000_000)));

    shell.refused(&["org", "plan", "ada", "team"], &["2 organizations are named", &ada.org_id, &twin.org_id]);
    let id = ada.org_id.as_str();
    shell.refused(
        &["org", "plan", id, "gold"],
        &["there is no plan \"gold\"; there are appliance, trial, team"],
    );
    shell.refused(&["org", "plan", id, "appliance"], &["is on the plan appliance already"]);
    shell.refused(
        &["org", "plan", "00000000-0000-0000-0000-000000000000", "team"],
        &["Organization not found"],
    );
    let changed = shell.done(&["org", "plan", id, "team"]);
    assert_eq!((&changed["remainingCredits"], text(&changed, "to")), (&json!(100_000), "team"));

    for amount in ["0", "-5", "1000000001"] {
        shell.refused(&["credits", "grant", id, amount], &["amount: must be 1 to 1000000000"]);
    }
    let (status, _, errors) = shell.command(&["credits", "grant", id, "many"]);
    assert!(status == Some(2) && errors.contains("invalid value 'many'"), "{errors}");
    shell.refused(&["credits", "grant", "nobody's", "5"], &["Organization not found"]);
    let granted = shell.done(&["credits", "grant", id, "250", "--note", "sorry for the outage"]);
    assert_eq!((&granted["credits"], &granted["remainingCredits"]), (&json!(250), &json!(100_250)));
    assert!(granted["warning"].is_null());
    let rows = expect(get(&ada.api, "/api/v1/plans/transactions?kind=recharge").await, 200);
    assert_eq!(
        (&rows["items"][0]["amount"], text(&rows["items"][0], "note")),
        (&json!(250), "sorry for the outage")
    );

    assert_eq!(shell.done(&["recharge", "list"]), json!([]));
    let mut ids = Vec::new();
    for credits in [10, 20] {
        let body = json!({ "credits": credits, "note": "more" });
        let made = expect(post(&ada.api, "/api/v1/plans/recharge-requests", &body).await, 201);
        ids.push(text(&made, "id").to_owned());
    }
    let waiting = shell.done(&["recharge", "list"]);
    assert_eq!((waiting.as_array().unwrap().len(), text(&waiting[0], "id")), (2, ids[0].as_str()));
    let approved = shell.done(&["recharge", "approve", &ids[0], "--note", "fine"]);
    assert_eq!((text(&approved, "status"), text(&approved, "answer")), ("approved", "fine"));
    assert_eq!(text(&shell.done(&["recharge", "deny", &ids[1]]), "status"), "denied");
    shell.refused(&["recharge", "approve", &ids[1]], &["this request was denied at "]);
    let unknown = uuid::Uuid::now_v7().to_string();
    shell.refused(&["recharge", "deny", &unknown], &["no recharge request has the id", "recharge list"]);
    let (status, _, errors) = shell.command(&["recharge", "approve", "first"]);
    assert!(status == Some(2) && errors.contains("invalid value 'first'"), "{errors}");
    let left = expect(get(&ada.api, "/api/v1/plans/current").await, 200);
    assert_eq!(left["remainingCredits"], 100_260);
    assert_eq!(shell.process.terminate(), Some(0));
}

#[test]
fn a_port_that_is_taken_is_said_before_anything_is_made() {
    let dir = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let mut command = Command::new(binary());
    command.arg("serve").current_dir(dir.path()).env("GLEANER_SERVER__LISTEN", listen.to_string());
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&format!("cannot listen on {listen}")), "{errors}");
    assert!(errors.contains("Another program has it") && errors.contains("server.listen"), "{errors}");
    assert!(!dir.path().join("data").exists(), "neither store nor key");
}

#[test]
fn an_id_that_is_none_is_refused_in_plain_words() {
    let dir = TempDir::new().unwrap();
    for command in [["admin", "recharge", "approve", "123"], ["admin", "outbox", "--retry", "123"]] {
        let (status, _, errors) = run(dir.path(), &command);
        assert_eq!(status, Some(2), "{errors}");
        assert!(errors.contains("invalid value '123'") && errors.contains("not an id such as"), "{errors}");
    }
}

/// Who may register, in each of the three modes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registration_is_open_by_invitation_or_closed() {
    let mut at = Appliance::start().await;
    let owner = at.member("ada").await;
    let register = async |at: &Appliance, name: &str, token: Option<&str>| {
        let body = json!({ "email": format!("{name}@example.com"), "password": PASSWORD, "name": name,
            "inviteToken": token });
        post(&at.client(), "/api/v1/auth/register", &body).await
    };
    let invited = async |at: &Appliance, name: &str| {
        let body = json!({ "email": format!("{name}@example.com"), "role": "viewer" });
        let api = at.client().bearer(&owner.key);
        expect(post(&api, "/api/v1/orgs/current/invites", &body).await, 201);
        at.mailed_token("gli_").await
    };
    let token = invited(&at, "b").await;
    expect(register(&at, "a", None).await, 201);
    expect(register(&at, "b", Some(&token)).await, 201);

    at.set("AUTH__REGISTRATION", "invite");
    at.restart().await;
    let token = invited(&at, "c").await;
    for (name, token) in [("c", None), ("c", Some("gli_x")), ("d", Some(token.as_str()))] {
        refused(&register(&at, name, token).await, 403, "Registration is closed", "by invitation only");
    }
    expect(register(&at, "c", Some(&token)).await, 201);

    at.set("AUTH__REGISTRATION", "closed");
    at.restart().await;
    let token = invited(&at, "e").await;
    for token in [None, Some(token.as_str())] {
        refused(&register(&at, "e", token).await, 403, "Registration is closed", "takes no new accounts");
    }
    // The letter promises no more than that.
    let outbox = at.operator(Request::Outbox { limit: 20 }).await;
    let letters = outbox.as_array().unwrap().iter().filter(|mail| mail["to"] == "e@example.com");
    let letters: Vec<_> = letters.filter_map(|mail| mail["text"].as_str()).collect();
    assert_eq!(letters.len(), 1, "{outbox}");
    assert!(letters[0].contains("operator of the box alone"), "{}", letters[0]);
    assert!(!letters[0].contains("with a new one"), "{}", letters[0]);
    let login = json!({ "email": "c@example.com", "password": PASSWORD });
    expect(post(&at.client(), "/api/v1/auth/login", &login).await, 200);
    at.stop().await;
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("appliance.toml"), "[auth]\nregistration = \"invitation\"").unwrap();
    let (status, _, errors) = run(dir.path(), &["serve"]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("auth.registration: ") && errors.contains("`invite`"), "{errors}");
}

/// What the operator changes stands in the audit log of whom it concerns.
#[tokio::test]
async fn what_the_operator_does_is_written_down() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let org = ada.org_id.clone();
    let asked = async |credits: u64| {
        let body = json!({ "credits": credits });
        let made = expect(post(&ada.api, "/api/v1/plans/recharge-requests", &body).await, 201);
        text(&made, "id").parse().unwrap()
    };
    let (first, second) = (asked(1).await, asked(2).await);
    for request in [
        Request::UserResetLink { email: ada.email.clone() },
        Request::OrgPlan { org: org.clone(), plan: "team".into() },
        Request::CreditsGrant { org: org.clone(), amount: 5, note: Some("between us".into()) },
        Request::RechargeDecide { id: first, approve: true, note: None },
        Request::RechargeDecide { id: second, approve: false, note: Some("no".into()) },
    ] {
        at.operator(request).await;
    }
    let refused = Request::CreditsGrant { org, amount: 0, note: None };
    admin::call(&at.app().socket(), &refused).await.unwrap_err();
    let auth = at.app().services().service::<Auth>();
    let id: OrgId = ada.org_id.parse().unwrap();
    let rows = auth
        .system()
        .org(id)
        .read(|tx| tx.audit_page(&AuditFilter::default(), &PageRequest { limit: 200, cursor: None }))
        .unwrap();
    let by = |actor: Actor| {
        let rows = rows.items.iter().rev().filter(move |row| row.actor == actor);
        rows.map(|row| row.action.as_str()).collect::<Vec<_>>()
    };
    let expected = [
        "user.verified",
        "auth.reset_link_made",
        "org.plan_changed",
        "credits.granted",
        "recharge.approved",
        "recharge.denied",
    ];
    assert_eq!(by(Actor::Operator), expected);
    let asked = rows.items.iter().filter(|row| row.action == "recharge.requested");
    assert_eq!(asked.clone().count(), 2);
    assert!(asked.clone().all(|row| matches!(row.actor, Actor::ApiKey { .. })), "whoever asks is named");
    let said = format!("{:?}", rows.items.iter().map(|row| &row.details).collect::<Vec<_>>());
    assert!(!said.contains("between us") && !said.contains("ada@example.com"), "{said}");
    at.stop().await;
}

/// /metrics tells how much everybody does: the operator sees it, from their networks or with their token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_shown_to_the_operator_only() {
    let at = Appliance::start().await;
    let near = at.client();
    assert_eq!(get(&near, "/metrics").await.status, 200);
    // Through a proxy that the box was not told of, everybody comes from this machine.
    for header in ["x-forwarded-for", "forwarded", "via"] {
        let passed_on = near.header(header, "203.0.113.9");
        refused(&get(&passed_on, "/metrics").await, 403, "Insufficient permissions", "server.metrics_from");
    }
    at.stop().await;
    let token = "a token of the operator's".replace(' ', "-");
    let settings =
        [("SERVER__METRICS_FROM", "[\"192.0.2.0/24\"]"), ("SERVER__METRICS_TOKEN", token.as_str())];
    let at = Appliance::start_with(&settings).await;
    let member = at.member("ada").await;
    for nobody in [at.client(), member.api, at.client().bearer("a-token-of-the-operator")] {
        refused(&get(&nobody, "/metrics").await, 403, "Insufficient permissions", "server.metrics_token");
    }
    let page = get(&at.client().bearer(&token), "/metrics").await;
    assert!(page.status == 200 && page.text().contains("gleaner_store_file_bytes"));
    at.stop().await;
}
