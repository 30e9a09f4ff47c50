//! The log's level, changed while the box runs.

use super::{LoggedBox, PATIENCE};
use crate::harness::{Appliance, eventually, get};
use gleaner::admin;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};

const REQUESTS: &str = "gleaner::request";

impl LoggedBox {
    fn level(&self, arguments: &[&str]) -> Value {
        let (code, printed, errors) = self.admin(&[&["log", "level"], arguments].concat());
        assert_eq!(code, Some(0), "{arguments:?}: {errors}");
        serde_json::from_str(&printed).unwrap()
    }

    async fn ask(&self, request_id: &str) {
        get(&self.process.client().header("x-request-id", request_id), "/healthz").await;
    }

    fn has(&self, request_id: &str) -> bool {
        self.lines(REQUESTS).iter().any(|line| line["fields"]["request_id"] == request_id)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_level_is_set_and_set_back_while_the_box_runs() {
    let at = LoggedBox::start(&[("LOG__LEVEL", "warn")]);
    assert_eq!(at.level(&[]), json!({ "level": "warn", "configured": "warn", "endsInSec": null }));
    at.ask("before").await;
    // One part of the program.
    let set = at.level(&["warn,gleaner::request=info"]);
    assert_eq!((&set["level"], &set["configured"]), (&json!("warn,gleaner::request=info"), &json!("warn")));
    at.ask("one-part").await;
    at.logged("one-part").await;
    assert_eq!(at.level(&["--reset"])["level"], "warn");
    at.ask("reset").await;
    let set = at.level(&["debug", "--minutes", "2"]);
    assert!((1..=120).contains(&set["endsInSec"].as_u64().unwrap()), "{set}");
    at.ask("all-of-it").await;
    at.logged("all-of-it").await;
    // Lines are written in their order.
    assert!(!at.has("before") && !at.has("reset"), "{}", at.log());
    // The configuration, read again, counts from then on.
    let pid = Pid::from_raw(i32::try_from(at.process.id()).unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    eventually("the configuration is read again", PATIENCE, || async {
        (at.level(&[]) == json!({ "level": "warn", "configured": "warn", "endsInSec": null })).then_some(())
    })
    .await;
    let (code, audit, _) = at.admin(&["audit"]);
    assert_eq!((code, audit.matches("log.level_set").count()), (Some(0), 3), "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_level_ends_by_itself() {
    let at = LoggedBox::start(&[]);
    let order = |level: &str, seconds: u64| admin::Request {
        command: "log_level".to_owned(),
        given: Map::from_iter([("level".to_owned(), json!(level)), ("seconds".to_owned(), json!(seconds))]),
    };
    let set = admin::call(&at.process.socket(), &order("error", 1)).await.unwrap();
    assert_eq!(set["level"], "error");
    // The end of the first is not that of the second.
    let set = admin::call(&at.process.socket(), &order("warn", 2)).await.unwrap();
    assert_eq!((&set["level"], &set["configured"]), (&json!("warn"), &json!("info")));
    eventually("it is over", PATIENCE, || async { (at.level(&[])["level"] == "info").then_some(()) }).await;
    at.ask("shown-again").await;
    at.logged("shown-again").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mistake_changes_nothing() {
    let at = LoggedBox::start(&[]);
    let long = "a=info,".repeat(200);
    for (arguments, code, told) in [
        (&["loud"][..], 1, "\"loud\" is no level (off, error, warn, info, debug, trace)"),
        (&["info,gleaner::x=loud"], 1, "log.level"),
        (&[long.as_str()], 1, "at most 1000 characters"),
        (&["debug", "--minutes", "0"], 2, "--minutes"),
        (&["debug", "--minutes", "10081"], 2, "10080"),
        (&["--minutes", "5"], 2, "required"),
        (&["debug", "--reset"], 2, "cannot be used with"),
    ] {
        let (ended, printed, errors) = at.admin(&[&["log", "level"], arguments].concat());
        assert_eq!((ended, printed.as_str()), (Some(code), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(told), "{arguments:?}: {errors}");
    }
    assert_eq!(at.level(&[])["level"], "info");
    // A box without a log of its own says so.
    let bare = Appliance::start().await;
    let order = admin::Request { command: "log_level".to_owned(), given: Map::new() };
    let refused = admin::call(&bare.app().socket(), &order).await.unwrap_err();
    assert!(refused.to_string().contains("no log"), "{refused}");
    bare.stop().await;
}
