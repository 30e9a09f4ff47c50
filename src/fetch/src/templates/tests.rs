//! The language itself: what is refused, what goes out, what is read. What each vendor's template makes of that vendor's
//! answers is tested against simulators of the vendors (`tests/it/providers.rs`).

use serde_json::{Value as Json, json};

use super::answer::{Answer, read};
use super::request::{Prepared, prepare};
use super::*;
use crate::fields;
use crate::outcome::{Fault, Outcome};
use crate::provider::{Attempt, CostSource};
use crate::tests::site::{Reply, Site, answer as raw, request as to, settings as fetch_settings};
use crate::{AddressGuard, Connector, Direct, Provider, user_agent};
use bytes::Bytes;
use http::HeaderMap;

const SMALL: &str = r#"
id = "small"
name = "Small"
about = "For tests."
docs = "https://small.test/"
base_url = "https://api.small.test/base/"
[[credential]]
name = "apiKey"
about = "The key."
[[setting]]
name = "premiumTier"
about = "Which."
choices = ["premium", "ultra"]
default = "premium"
[credits]
standard = { plain = 1, render = 5 }
premium = { plain = 10, render = 25 }
ultra = { plain = 30, render = 75 }
[request]
method = "POST"
path = "/v1/get"
country = { case = "upper" }
headers = { prefix = "fwd-" }
[[request.parameter]]
header = "authorization"
value = "Bearer {credential.apiKey}"
[[request.parameter]]
query = "target"
value = "{url}"
[[request.parameter]]
json = "options.render"
value = "{render}"
[[request.parameter]]
json = "options.note"
value = "{{{tier}}} in {country}"
when = ["country", "!tier=standard"]
[[request.parameter]]
json = "headers"
value = "{header_list}"
when = ["headers"]
[[request.refuse]]
when = ["country", "tier=standard"]
reason = "takes a country with premium only"
[response]
body = [{ from = "json:page", encoding = "base64" }, { from = "json:text", encoding = "text" }]
target_status = ["json:list[name=status].value", "status"]
target_headers = "json:headers"
cost = ["json:cost | header:x-cost"]
error = ["json:error"]
[[rule]]
id = "key"
about = "a"
status = [401]
means = "bad_key"
[[rule]]
id = "busy"
about = "b"
status = ["420-429"]
contains = [{ at = "json:error", text = "SLOW" }]
means = "throttled"
[[rule]]
id = "rest"
about = "c"
means = "target"
"#;

fn small() -> Template {
    load::parse("small.toml", SMALL).unwrap()
}

fn values(json: Json) -> Values {
    let Json::Object(values) = json else { unreachable!("a literal object") };
    values
}

fn account(template: &Template, settings: Json) -> Account {
    Account {
        base_url: None,
        credentials: values(json!({ "apiKey": "secret-key" })),
        settings: fields::check("settings", &template.settings, &values(settings)).unwrap(),
        credits: template.credits.clone(),
    }
}

fn page_request() -> FetchRequest {
    to(WebUrl::parse("http://shop.test/a?b=1&c=d e").unwrap())
}

fn answered(status: u16, body: &Json) -> Answer {
    let body = Bytes::from(body.to_string());
    Answer { status, headers: HeaderMap::new(), bytes_received: body.len() as u64, body }
}

fn understood(status: u16, body: &Json) -> Attempt {
    let template = small();
    read(&template, &account(&template, json!({})), &page_request(), &answered(status, body))
}

#[test]
fn every_shipped_template_is_whole() {
    let templates = Templates::load(None).unwrap();
    let ids: Vec<_> = templates.iter().map(|template| template.id.as_str()).collect();
    assert_eq!(ids.len(), SHIPPED.len());
    assert!(ids.is_sorted());
    for (file, text) in SHIPPED {
        assert!(text.contains("Sources:"), "{file} says where its facts come from");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("data/providers");
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let files = files.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "toml")).count();
    assert_eq!(files, SHIPPED.len(), "a file in data/providers is not compiled in");
}

#[test]
fn a_folder_of_ones_own_adds_and_replaces() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    std::fs::write(folder.path().join("zyte.toml"), SMALL.replace("\"small\"", "\"zyte\"")).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "not a template").unwrap();
    let templates = Templates::load(Some(folder.path())).unwrap();
    assert_eq!(templates.iter().count(), SHIPPED.len() + 1);
    assert_eq!(templates.get("zyte").unwrap().name, "Small");
    std::fs::write(folder.path().join("twice.toml"), SMALL).unwrap();
    let error = Templates::load(Some(folder.path())).unwrap_err().to_string();
    assert!(error.contains("has the id small"), "{error}");
    let error = Templates::load(Some(Path::new("/nowhere/at/all"))).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/at/all: cannot be read"), "{error}");
}

#[test]
fn a_wrong_template_is_refused_with_file_key_and_reason() {
    for (from, to, error) in [
        ("id = \"small\"", "id = \"Small One\"", "small.toml: id: must be lower-case"),
        ("id = \"small\"", "id = \"proxy\"", "small.toml: id: is the name of a built-in adapter"),
        ("docs =", "dogs =", "small.toml: dogs: unknown field"),
        ("https://api.small.test/base/", "ftp://x/", "small.toml: base_url: the URL scheme"),
        ("https://api.small.test/base/", "https://x.test/?a", "small.toml: base_url: must not have a query"),
        ("default = \"premium\"", "default = \"best\"", "small.toml: setting[0].default: must be one of"),
        ("\"premium\", \"ultra\"]", "\"premium\", \"gold\"]", "small.toml: setting: premiumTier must choose"),
        ("standard = {", "usual = {", "small.toml: credits: has no tier standard"),
        ("render = 5 }", "render = -5 }", "small.toml: credits.standard.render: invalid value"),
        ("path = \"/v1/get\"", "path = \"v1\"", "small.toml: request.path: must begin with /"),
        ("method = \"POST\"", "method = \"PUT\"", "small.toml: request.method: unknown variant"),
        ("method = \"POST\"", "method = \"GET\"", "small.toml: request.parameter[2].json: a GET has no body"),
        ("value = \"{url}\"", "value = \"{uri}\"", "request.parameter[1].value: {uri} is nothing"),
        ("value = \"{url}\"", "value = \"none\"", "small.toml: request.parameter: none of them holds {url}"),
        ("{credential.apiKey}", "{credential.token}", "parameter[0].value: {credential.token} is nothing"),
        ("{header_list}", "{header_list", "parameter[4].value: has a single { (write it twice"),
        ("query = \"target\"", "query = \"a\"\njson = \"b\"", "parameter[1]: needs exactly one of"),
        ("header = \"authorization\"", "header = \"a b\"", "parameter[0].header: a b is no header's name"),
        (
            "header = \"authorization\"",
            "header = \"Host\"",
            "parameter[0].header: host is written by the box",
        ),
        ("\"country\", \"!tier=standard\"", "\"county\"", "parameter[3].when: \"county\" is no condition"),
        (
            "when = [\"country\", \"tier=standard\"]",
            "when = [\"tier=gold\"]",
            "request.refuse[0].when: \"tier=gold\"",
        ),
        ("when = [\"country\", \"tier=standard\"]", "when = []", "request.refuse[0].when: has no condition"),
        ("prefix = \"fwd-\"", "prefix = \"a b\"", "request.headers.prefix: cannot begin"),
        ("\"json:page\"", "\"jsn:page\"", "response.body[0].from: \"jsn:page\" is no place"),
        ("json:page", "json:page..x", "response.body[0].from: \"page..x\" has an empty step"),
        ("list[name=status]", "list[status]", "response.target_status: \"list[status]\" is no step"),
        ("encoding = \"base64\"", "encoding = \"base32\"", "response.body[0].encoding: unknown variant"),
        ("\"json:headers\"", "\"header:x\"", "response.target_headers: must be"),
        (
            "means = \"bad_key\"",
            "means = \"bad\"",
            "small.toml: rule[0].means: must be one of target, blocked",
        ),
        ("status = [\"420-429\"]", "status = [\"429-420\"]", "small.toml: rule[1].status: must be statuses"),
        ("id = \"busy\"", "id = \"key\"", "small.toml: rule[1].id: key is given twice"),
        ("status = [401]", "", "small.toml: rule[0]: has no condition, so the rules after it"),
        (
            "id = \"rest\"",
            "id = \"rest\"\nstatus = [200]",
            "small.toml: rule: the last rule must have no condition",
        ),
        (
            "id = \"rest\"",
            "id = \"rest\"\nmatches = [{at = \"body\", text = \"(\"}]",
            "rule[2].matches: regex",
        ),
        ("[credits]", "[credits", "small.toml: TOML parse error"),
    ] {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL, "{from} stands in the template");
        let found = load::parse("small.toml", &text).unwrap_err().to_string();
        assert!(found.contains(error), "{to}: {found}");
    }
}

fn prepared(settings: Json, request: &FetchRequest) -> Result<Prepared, String> {
    let template = small();
    prepare(&template, &account(&template, settings), request)
}

#[test]
fn fills_a_request() {
    let plain = prepared(json!({}), &page_request()).unwrap();
    assert_eq!(plain.place.as_str(), "https://api.small.test/base/");
    assert_eq!(plain.path, "/base/v1/get?target=http%3A%2F%2Fshop.test%2Fa%3Fb%3D1%26c%3Dd%2520e");
    assert_eq!(plain.headers["authorization"], "Bearer secret-key");
    assert!(!format!("{plain:?}").contains("secret-key"), "it does not come into a log");
    assert_eq!(
        serde_json::from_slice::<Json>(&plain.body).unwrap(),
        json!({ "options": { "render": false } })
    );

    let headers = [("accept-language", "de"), ("host", "evil.test")];
    let headers = headers.map(|(n, v)| (http::HeaderName::from_static(n), v.parse().unwrap()));
    let all = FetchRequest {
        render: true,
        premium: true,
        country: Some("DE".to_owned()),
        headers: headers.into_iter().collect(),
        ..page_request()
    };
    let rich = prepared(json!({ "premiumTier": "ultra" }), &all).unwrap();
    assert_eq!(
        serde_json::from_slice::<Json>(&rich.body).unwrap(),
        json!({
            "options": { "render": true, "note": "{ultra} in DE" },
            "headers": [{ "name": "accept-language", "value": "de" }],
        })
    );
    assert_eq!(rich.headers["fwd-accept-language"], "de");
    assert!(!rich.headers.contains_key("fwd-host"), "what belongs to the connection is nobody's to send");
    let refused = FetchRequest { premium: false, ..all };
    assert_eq!(prepared(json!({}), &refused).unwrap_err(), "Small takes a country with premium only");
}

#[test]
fn reads_pages_costs_and_statuses() {
    let page = json!({ "page": "PHA+aGk8L3A+", "cost": 2.5, "headers": { "Content-Type": "text/html" } });
    let attempt = understood(200, &page);
    assert_eq!((attempt.outcome, attempt.http_status), (Outcome::Success, Some(200)));
    let found = attempt.page.unwrap();
    assert_eq!(found.body, "<p>hi</p>");
    assert_eq!(found.headers.content_type.as_deref(), Some("text/html"));
    assert_eq!((attempt.credits, attempt.charge, attempt.cost_source), (3, 1, CostSource::Reported));

    let text = json!({ "text": "<meta charset=latin1>é", "headers": [{ "name": "content-type", "value": "text/html; charset=latin1" }] });
    let attempt = understood(200, &text);
    let found = attempt.page.unwrap();
    assert_eq!(found.headers.content_type.as_deref(), Some("text/html; charset=utf-8"), "it is decoded now");
    assert_eq!((attempt.credits, attempt.cost_source), (1, CostSource::Table));

    let missing = json!({ "list": [{ "name": "x" }, { "name": "STATUS", "value": 404 }] });
    let attempt = understood(200, &missing);
    assert_eq!((attempt.outcome, attempt.http_status, attempt.charge), (Outcome::TargetError, Some(404), 1));
    assert_eq!(attempt.rule, None);

    let captcha = json!({ "text": "<title>Robot Check</title>", "cost": "10" });
    let attempt = understood(200, &captcha);
    assert_eq!((attempt.outcome, attempt.rule.as_deref()), (Outcome::Blocked, Some("captcha_page")));
    assert_eq!(
        (attempt.credits, attempt.charge),
        (10, 0),
        "the vendor billed it, the organization is not charged"
    );
}

#[test]
fn believes_nothing_for_standing_where_it_should() {
    for (body, error) in [
        (json!({}), "Small answered without the page"),
        (json!({ "page": "%%%" }), "Small answered with a page that is not valid Base64"),
        (json!({ "page": { "a": 1 } }), "Small answered with something that is no page"),
        (json!("text"), "Small answered without the page"),
    ] {
        let attempt = understood(200, &body);
        assert_eq!((attempt.outcome, attempt.fault), (Outcome::ProviderError, Some(Fault::Down)), "{body}");
        assert_eq!(attempt.error.as_deref(), Some(error));
    }
    for cost in [json!("free"), json!(-1), json!("NaN"), json!(1e30), json!(null), json!([1])] {
        let attempt = understood(200, &json!({ "text": "x", "cost": cost }));
        assert_eq!(attempt.cost_source, CostSource::Table, "{cost}");
    }
    let attempt = understood(200, &json!({ "text": "x", "list": [{ "name": "status", "value": 99_999 }] }));
    assert_eq!(attempt.http_status, Some(200), "no HTTP status, so the next place is asked");
}

#[test]
fn an_error_is_short_and_without_credentials() {
    let attempt = understood(401, &json!({ "error": format!("bad\nkey secret-key {}", "x".repeat(1_000)) }));
    assert_eq!(attempt.fault, Some(Fault::BadKey));
    assert_eq!(attempt.rule.as_deref(), Some("small_key"));
    let error = attempt.error.unwrap();
    assert!(error.starts_with("Small refused the credentials: bad key *** xxx"), "{error}");
    assert!(error.len() < 400 && !error.contains("secret-key"));
    assert_eq!(understood(425, &json!({ "error": "please slow down" })).fault, Some(Fault::Throttled));
}

#[test]
fn retry_after_is_the_targets_or_on_a_fault_the_providers() {
    let template = small();
    let seconds = |status, body: Json, own: &[(&'static str, &'static str)]| {
        let mut answer = answered(status, &body);
        let own = own.iter().map(|(n, v)| (http::HeaderName::from_static(n), v.parse().unwrap()));
        answer.headers.extend(own.collect::<HeaderMap>());
        let attempt = read(&template, &account(&template, json!({})), &page_request(), &answer);
        attempt.retry_after.map(|wait| wait.as_secs())
    };
    let busy = |headers: Json| json!({ "text": "", "list": [{ "name": "status", "value": 429 }], "headers": headers });
    assert_eq!(seconds(200, busy(json!({ "Retry-After": "7" })), &[("retry-after", "99")]), Some(7), "kept");
    assert_eq!(seconds(200, busy(json!({})), &[("retry-after", "99")]), None, "dropped on the way");
    assert_eq!(seconds(425, json!({ "error": "slow" }), &[("retry-after", "5")]), Some(5));
}

/// A hosted provider at `site` through the real connector.
fn hosted(site: &Site, allow: &[&str]) -> Hosted {
    let template = Arc::new(small());
    let base = Some(site.url("/"));
    let account = Account { base_url: base, ..account(&template, json!({})) };
    let allow: Vec<_> = allow.iter().map(|rule| rule.parse().unwrap()).collect();
    let direct = Direct::new(fetch_settings(), AddressGuard::new(&allow, &[]));
    let connector: &Arc<Connector> = direct.connector();
    Hosted::new(template, account, connector.clone())
}

#[tokio::test]
async fn asks_over_the_wire_and_reads_what_comes() {
    let site = Site::start(|head| {
        assert!(head.starts_with("POST /v1/get?target=http%3A%2F%2Fshop.test"), "{head}");
        Reply::Close(match raw(200, &[("x-cost", "4")], r#"{"text":"<p>page</p>"}"#) {
            Reply::Raw(bytes) => bytes,
            _ => unreachable!("an answer is raw"),
        })
    })
    .await;
    let provider = hosted(&site, &["127.0.0.0/8"]);
    let attempt = provider.fetch(&page_request()).await;
    assert_eq!((attempt.outcome, attempt.error.as_deref()), (Outcome::Success, None));
    assert_eq!((attempt.credits, attempt.bytes), (4, 22));
    let closed = hosted(&site, &[]).fetch(&page_request()).await;
    assert_eq!((closed.outcome, closed.fault), (Outcome::ProviderError, Some(Fault::Down)));
    assert!(closed.error.unwrap().contains("network.allow"));
}

#[tokio::test]
async fn silence_is_a_timeout_and_a_dead_provider_is_at_fault() {
    let site = Site::start(|_| Reply::Silence).await;
    let provider = hosted(&site, &["127.0.0.0/8"]);
    let brief = FetchRequest { timeout: std::time::Duration::from_millis(150), ..page_request() };
    let attempt = provider.fetch(&brief).await;
    assert_eq!((attempt.outcome, attempt.fault, attempt.charge), (Outcome::Timeout, None, 0));
    drop(site);
    let attempt = provider.fetch(&page_request()).await;
    assert_eq!((attempt.outcome, attempt.fault), (Outcome::ProviderError, Some(Fault::Down)));
}

#[test]
fn a_vendor_that_sends_our_lines_on_does_not_get_the_box_s_name_for_the_target() {
    let all = load::parse("small.toml", &SMALL.replace("prefix = \"fwd-\"", "prefix = \"\"")).unwrap();
    let request = |headers: &[(&'static str, &'static str)]| {
        let mut request = page_request();
        request.headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value)))
            .collect();
        request
    };
    let agent = |template: &Template, request: &FetchRequest| {
        let prepared = prepare(template, &account(template, json!({})), request).unwrap();
        prepared.headers.get("user-agent").map(|value| value.to_str().unwrap().to_owned())
    };
    let own = user_agent(None);
    assert_eq!(agent(&all, &request(&[])).as_deref(), Some(own.as_str()), "nothing is sent on");
    assert_eq!(agent(&all, &request(&[("accept-language", "de")])), None);
    assert_eq!(agent(&all, &request(&[("user-agent", "mine/1")])).as_deref(), Some("mine/1"));
    // Behind a prefix only what carries it is sent on.
    assert_eq!(agent(&small(), &request(&[("accept-language", "de")])).as_deref(), Some(own.as_str()));
}
