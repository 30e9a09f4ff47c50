//! The same by what people have: Chromium, at the console, with a real provider. Where one of them is not there the test says so
//! and does nothing.

use super::real::{Real, governed};
use crate::clients::run;
use crate::console::browser;
use crate::tidy::root;
use serde_json::json;
use std::time::Duration;
use tokio::process::Command;

const TIME_MAX: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_signs_in_and_out_in_a_browser() {
    let Some((chromium, tools)) = browser().await else { return };
    let Some(provider) = Real::open().await else { return };
    let at = governed(&provider, &[("OIDC__LABEL", "Sign in with Acme")]).await;
    provider.told(json!({ "box": at.app().url(), "alg": "RS256", "auth": "client_secret_basic" })).await;
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=spec"]).arg(root().join("tests/it/oidc/console.test.mjs"));
    node.env("GLEANER_URL", at.app().url()).env("GLEANER_PROVIDER", provider.issuer());
    node.env("GLEANER_TOOLS", tools).env("GLEANER_CHROMIUM", chromium);
    let said = run(&mut node, TIME_MAX).await;
    assert!(said.is_ok(), "{}", said.unwrap_err());
    at.stop().await;
}
