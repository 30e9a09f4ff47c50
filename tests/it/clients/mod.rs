//! Clients that others' tools generate from `data/openapi.json`: they compile, and they work against a running box.
//!
//! The tools come from their registries, in fixed versions, into a folder of the cache that is reused; never into the
//! system, and never into the checkout. Where there is no Python, no Node or no registry the test says so and is skipped.

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, collect, expect, post, text};
use crate::workflows::{chain, direct};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

/// What the Python client is generated and run with; all of it, so that a release of any of them changes nothing.
const PYTHON: &[&str] = &[
    "openapi-python-client==0.29.1",
    "annotated-doc==0.0.7",
    "annotated-types==0.8.0",
    "anyio==4.16.0",
    "attrs==26.1.0",
    "certifi==2026.10.18",
    "h11==0.16.0",
    "httpcore==1.0.9",
    "httpx==0.28.1",
    "idna==3.20",
    "Jinja2==3.1.6",
    "markdown-it-py==4.3.0",
    "MarkupSafe==3.0.4",
    "mdurl==0.1.2",
    "pydantic==2.14.3",
    "pydantic_core==2.50.4",
    "Pygments==2.21.0",
    "rich==15.0.0",
    "ruamel.yaml==0.19.1",
    "ruff==0.17.6",
    "shellingham==1.5.4",
    "typer==0.27.3",
    "typing-inspection==0.4.5",
    "typing_extensions==4.16.0",
];
/// The same for TypeScript; what these need themselves comes as their ranges have it.
const NODE: &[&str] = &["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3"];

/// An installation is given up after so long: a registry that does not answer must not hold up the tests.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(240);
/// Anything else that is run.
const RUN_TIME_MAX: Duration = Duration::from_secs(300);

/// Runs a command; gives what it printed, or why it failed.
pub(crate) async fn run(command: &mut Command, time_max: Duration) -> Result<String, String> {
    let begun = command.kill_on_drop(true).stdin(std::process::Stdio::null()).output();
    let ended = tokio::time::timeout(time_max, begun).await;
    let output = ended.map_err(|_| format!("not done within {time_max:?}"))?.map_err(|e| e.to_string())?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(printed),
        false => Err(format!("{printed}{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// The folder of the cache where these tools are for the `program` that runs them, installed there by `install` if they are
/// not yet; none, and why, where they cannot be had.
pub(crate) async fn tools(
    program: &str,
    pins: &[&str],
    install: impl FnOnce(&Path) -> Command,
) -> Result<PathBuf, String> {
    // What is installed for one release of the program may not run with another.
    let release = run(Command::new(program).arg("--version"), RUN_TIME_MAX).await?;
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.unwrap_or_else(std::env::temp_dir).join("gleaner/clients");
    let sum = pins
        .iter()
        .copied()
        .chain([release.trim()])
        .flat_map(str::bytes)
        .fold(0u32, |sum, byte| sum.rotate_left(5).wrapping_mul(31) ^ u32::from(byte));
    let folder = cache.join(format!("{program}-{sum:08x}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    std::fs::create_dir_all(&cache).map_err(|e| format!("{}: {e}", cache.display()))?;
    // Beside its place and then moved there: what was not finished is not found by the next one.
    let part = tempfile::TempDir::new_in(&cache).map_err(|e| e.to_string())?;
    run(&mut install(part.path()), INSTALL_TIME_MAX).await?;
    if std::fs::rename(part.path(), &folder).is_err() && !folder.is_dir() {
        return Err(format!("{} cannot be made", folder.display()));
    }
    Ok(folder)
}

/// Says that a test does nothing here.
pub(crate) fn skipped(what: &str, why: &str) {
    let reason = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    println!("skipped: {what} cannot be had here: {reason}");
}

/// A box with a member who has a job that succeeded and a published workflow, for the client to find.
async fn box_with_a_job() -> (Web, Appliance, Member, String) {
    let web = Web::open(|_| Some(Answer::html("<title>A page</title>"))).await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = appliance.member("generated").await;
    let dag = chain(&[&direct(&member).await]);
    let made = post(&member.api, "/api/v1/workflows", &json!({ "name": "drawn", "dag": dag })).await;
    expect(made, 201);
    let job = collect(&member.api, &web.url("/page")).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let id = text(&job, "id").to_owned();
    (web, appliance, member, id)
}

fn document() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join("data/openapi.json")
}

/// What both clients print at the end of their work.
fn check(printed: &str, job: &str) {
    let last = printed.lines().rfind(|line| line.starts_with('{')).unwrap_or_default();
    let said: Value = serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {printed}"));
    assert_eq!(said["listed"], json!([job]), "{printed}");
    assert_eq!(said["status"], "succeeded");
    assert_eq!(said["types"], json!(["start", "provider", "end", "end"]));
    assert_eq!(said["refused"], 404, "{printed}");
    assert_ne!(said["submitted"], said["listed"][0]);
}

/// The generator reads feeds as files, once it is told.
const CONFIG: &str = "post_hooks: []\ncontent_type_overrides:\n  application/rss+xml: application/octet-stream\n  \
                      application/atom+xml: application/octet-stream\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_client_is_generated_and_lists_jobs() {
    let install = |folder: &Path| {
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--no-deps",
        ]);
        pip.args(["--only-binary", ":all:", "--target"]).arg(folder).args(PYTHON);
        pip
    };
    let tools = match tools("python3", PYTHON, install).await {
        Ok(tools) => tools,
        Err(why) => return skipped("openapi-python-client", &why),
    };
    let work = tempfile::tempdir().unwrap();
    let python = || {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", &tools).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(work.path());
        python
    };
    let mut generate = python();
    std::fs::write(work.path().join("config.yml"), CONFIG).unwrap();
    generate.args(["-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]);
    generate.args(["--config", "config.yml", "--output-path", "box_client", "--path"]).arg(document());
    if let Err(error) = run(&mut generate, RUN_TIME_MAX).await {
        panic!("the document is not one that a client can be generated from: {error}");
    }
    let (web, appliance, member, job) = box_with_a_job().await;
    std::fs::write(work.path().join("main.py"), include_str!("main.py")).unwrap();
    let mut main = python();
    main.arg("main.py").env("BOX", appliance.app().url()).env("KEY", &member.key).env("PAGE", web.url("/x"));
    check(&run(&mut main, RUN_TIME_MAX).await.unwrap_or_else(|error| panic!("{error}")), &job);
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typescript_client_is_generated_compiles_and_lists_jobs() {
    let install = |folder: &Path| {
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--no-package-lock",
            "--save-exact",
        ]);
        npm.arg("--prefix").arg(folder).args(NODE).current_dir(folder);
        npm
    };
    let tools = match tools("node", NODE, install).await {
        Ok(tools) => tools,
        Err(why) => return skipped("openapi-typescript", &why),
    };
    let work = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(work.path().join(name), text).unwrap();
    write("package.json", r#"{ "type": "module", "private": true }"#);
    write("tsconfig.json", include_str!("tsconfig.json"));
    write("main.ts", include_str!("main.ts"));
    std::os::unix::fs::symlink(tools.join("node_modules"), work.path().join("node_modules")).unwrap();
    let node = |program: &str| {
        let mut node = Command::new("node");
        node.arg(tools.join("node_modules").join(program)).current_dir(work.path());
        node
    };
    let mut generate = node("openapi-typescript/bin/cli.js");
    generate.arg(document()).args(["-o", "schema.d.ts"]);
    for mut step in [generate, node("typescript/bin/tsc")] {
        run(&mut step, RUN_TIME_MAX).await.unwrap_or_else(|error| panic!("{error}"));
    }
    let (web, appliance, member, job) = box_with_a_job().await;
    let mut main = Command::new("node");
    main.arg("main.js").current_dir(work.path());
    main.env("BOX", appliance.app().url()).env("KEY", &member.key).env("PAGE", web.url("/x"));
    check(&run(&mut main, RUN_TIME_MAX).await.unwrap_or_else(|error| panic!("{error}")), &job);
    appliance.stop().await;
}
