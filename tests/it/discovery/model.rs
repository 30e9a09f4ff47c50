//! A language model that proposes: a server on loopback speaks its protocol, well and badly.

use super::{GOODS, collect_all, discovered, number, product};
use crate::harness::model::{Dialect, Model, completion};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, expect, get};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// A shop of pages that say nothing of themselves (`/bare/`) and of pages that do (`/p/`), and a model that says what it is told to,
/// one after the other.
struct Site {
    web: Web,
    model: Model,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Site {
    async fn open() -> Site {
        let answers: Arc<Mutex<VecDeque<Answer>>> = Arc::default();
        let said = Arc::clone(&answers);
        let says = move |_: &Value| said.lock().pop_front().unwrap_or_else(|| Answer::status(500));
        let model = Model::open(Dialect::Format, says).await;
        let web = Web::asked(move |request| {
            let path = request.uri().path();
            if let Some(number) = number(path, "/p/") {
                return Some(Answer::html(product(number, "")));
            }
            let page = product(number(path, "/bare/")?, "");
            Some(Answer::html(page.split("</script>").nth(1)?))
        })
        .await;
        Site { web, model, answers }
    }

    async fn appliance(&self, timeout_sec: &str) -> Appliance {
        let mut settings = self.model.settings();
        let ports = [self.web.address.port(), self.model.address.port()];
        settings.retain(|(key, _)| !matches!(*key, "NETWORK__ALLOW" | "LLM__TIMEOUT_SEC"));
        settings.push(("LLM__TIMEOUT_SEC", timeout_sec.to_owned()));
        let allow = ports.map(|port| format!("\"127.0.0.1/32:{port}\"")).join(",");
        settings.push(("NETWORK__ALLOW", format!("[{allow}]")));
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        Appliance::start_with(&settings).await
    }

    fn says(&self, contents: &[&Value]) {
        self.answers.lock().extend(contents.iter().map(|content| completion(&content.to_string())));
    }

    fn asked(&self) -> usize {
        self.model.asked().len()
    }
}

fn proposal() -> Value {
    let attribute =
        |name: &str, kind: &str, xpaths: Value| json!({ "name": name, "type": kind, "xpaths": xpaths });
    json!({ "pageType": "product", "attributes": [
        attribute("name", "text", json!(["//h1"])),
        attribute("price", "number", json!(["//p[@class='old']", "//dl/dd"])),
        attribute("shop", "text", json!(["'Shop'"])),
        attribute("maker", "text", json!(["//nav"])),
    ] })
}

/// The values of pages of these numbers, and one that they do not have.
fn values(numbers: &[usize]) -> Value {
    let page = |(at, number): (usize, &usize)| {
        let (name, price, _) = GOODS[*number];
        json!({ "page": at + 1, "values": [
            { "name": "name", "texts": [name] },
            { "name": "price", "texts": [format!("{} €", price.replace('.', ","))] },
            { "name": "shop", "texts": ["Shop"] },
            { "name": "maker", "texts": ["Nowhere to be seen"] },
        ] })
    };
    json!({ "pages": numbers.iter().enumerate().map(page).collect::<Vec<_>>() })
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_model_proposes_passes_the_same_checker() {
    let site = Site::open().await;
    let at = site.appliance("60").await;
    let member = at.member("ada").await;
    let api = &member.api;
    collect_all(api, &site.web, "/bare/", 0..6).await;
    // It is shown the newest page, and reads two that were held back. A first answer that is none is asked for once more.
    site.says(&[&json!("I cannot help with that."), &proposal(), &values(&[4, 3])]);
    let found = discovered(api, &json!({ "domain": "127.0.0.1", "sampleSize": 1 })).await;
    assert_eq!((&found["status"], &found["discoveredBy"]), (&json!("succeeded"), &json!("llm")), "{found:#}");
    assert_eq!(site.asked(), 3);
    assert_eq!((&found["pageType"], &found["notes"]), (&json!("product"), &json!([])));
    assert_eq!(names(&found["attributes"]), ["name", "price"], "{found:#}");
    assert_eq!(
        found["attributes"][1]["xpaths"],
        json!(["//dl/dd"]),
        "what was wrong on held-back pages went"
    );
    assert_eq!(names(&found["leftOut"]), ["shop", "maker"], "{found:#}");
    let schema = expect(get(api, "/api/v1/extraction/schemas/127.0.0.1/product").await, 200);
    assert_eq!((&schema["discoveredBy"], &schema["version"]), (&json!("llm"), &json!(1)));
    assert_eq!((&schema["sampleCount"], &schema["confidence"]), (&json!(6), &json!(1.0)));

    // Several pages are shown, and nothing is better for it.
    site.says(&[&proposal(), &values(&[2, 1, 0])]);
    let found =
        discovered(api, &json!({ "domain": "127.0.0.1", "pageType": "product", "sampleSize": 3 })).await;
    assert_eq!(
        (&found["discoveredBy"], &found["notSaved"]),
        (&json!("llm_multi_sample"), &json!("not_better")),
        "{found:#}"
    );
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_is_away_slow_large_or_lying_keeps_nobody() {
    let site = Site::open().await;
    let at = site.appliance("2").await;
    let member = at.member("ada").await;
    let api = &member.api;
    collect_all(api, &site.web, "/p/", 0..6).await;
    let asked = json!({ "domain": "127.0.0.1" });
    let lie = json!({ "pageType": "product", "attributes": [
        { "name": "price", "type": "number", "xpaths": ["//p[@class='old']"] },
        { "name": "name", "type": "text", "xpaths": ["'Shop'", "//nav"] },
    ] });
    let hostile = json!({ "pageType": "product", "attributes": [
        { "name": "price", "type": "number", "xpaths": ["//*[count(.//*[count(.//*) > 0]) > 0]".repeat(5), "//dd[".repeat(90)] },
        { "name": "x".repeat(100_000), "type": "text", "xpaths": ["//h1"] },
    ] });
    let mut large = completion("");
    large.body = "[".repeat(2_000_000).into();
    let mut odd = completion("");
    odd.body = "\u{0}{".into();
    let cases: [(&str, Vec<Answer>); 8] = [
        ("away", vec![Answer::status(503)]),
        ("elsewhere", vec![Answer::redirect("http://169.254.169.254/")]),
        ("slow", vec![completion(&proposal().to_string()).after_ms(5_000)]),
        ("large", vec![large]),
        ("odd", vec![odd]),
        ("talking", vec![completion("Sure!"), completion("Sure!")]),
        ("lying", vec![completion(&lie.to_string())]),
        ("hostile", vec![completion(&hostile.to_string()), completion(&hostile.to_string())]),
    ];
    let mut first = None;
    for (case, answers) in cases {
        *site.answers.lock() = answers.into();
        let found = discovered(api, &asked).await;
        assert_eq!(found["status"], "succeeded", "{case}: {found:#}");
        assert_eq!(found["discoveredBy"], "reverse_engineered", "{case}: {found:#}");
        let expected = ["name", "price", "currency", "availability", "sku"];
        assert_eq!(names(&found["attributes"]), expected, "{case}");
        let notes = found["notes"].as_array().unwrap();
        assert!(
            notes.len() == 1 && notes[0].as_str().unwrap().contains("language model"),
            "{case}: {notes:?}"
        );
        let schema = first.get_or_insert_with(|| found["schema"].clone());
        assert_eq!(*schema, found["schema"], "{case}");
        assert!(site.asked() >= 1, "{case}");
    }
    at.stop().await;
}
