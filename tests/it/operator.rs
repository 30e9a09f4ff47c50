//! The operator: the command line, the socket, what a mistake is answered with.

use crate::harness::process::Process;
use crate::harness::{Appliance, binary, expect, get, post, text};
use gleaner::admin::{self, Request};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
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
    let golden =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/openapi.json")).unwrap();
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
