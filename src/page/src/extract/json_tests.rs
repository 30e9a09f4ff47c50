use serde_json::{Value as Json, json};
use url::Url;

use super::{Attribute, Extraction, Reason, Schema, page_base};
use crate::html::Document;
use crate::xpath::{EvalError, Fuel};

const PAGE: &str = r#"<html lang=en><head>
<script type="application/ld+json">{"@type":"Organization","name":"Shop"}</script>
<script type='application/ld+json; charset=utf-8'>
//<![CDATA[
{"@graph":[{"@type":"Product","name":"Red
shoe","offers":[{"price":"1,299.50","url":"/buy/1"},{"price":12.5}],"image":["a.png","b.png",null,{"url":"c"}]}]};
//]]></script>
<script type="application/ld+json">{"broken": </script>
<script id="__NEXT_DATA__" type="application/json">{"props":{"stock":true,"sku":"N-1","ratings":[4,5.5]}}</script>
<script>var other = 1; window.__STATE__ = {"sku":"S-1","text":"a {brace} = {\"b\":1}","deep":[[1]]}; MY__STATE__ = {"sku":"no"};
  if (a == {}) { config = {unquoted: 1}; }</script>
<script>self["named"]={"sku":"S-2"}</script>
</head><body><h1>Shoe</h1></body></html>"#;

fn schema(attributes: &Json) -> Schema {
    let attributes: Vec<Attribute> = serde_json::from_value(attributes.clone()).unwrap();
    Schema::compile(&attributes).unwrap()
}

fn extract(source: &str, attributes: &Json) -> Extraction {
    let document = Document::parse(source.to_owned());
    let base = page_base(&document, &Url::parse("https://shop.example/p/1.html").unwrap());
    schema(attributes).extract(&document, &base, &mut Fuel::for_page())
}

fn one(source: &str, path: &str, kind: &str) -> Json {
    let found = extract(source, &json!([{ "name": "n", "jsonPaths": [path], "type": kind }]));
    found.values.get("n").cloned().unwrap_or_default()
}

#[test]
fn values_come_from_the_json_that_a_page_carries() {
    let cases = [
        ("ld+json $..name", "text", json!("Shop")),
        ("ld+json $..name", "text[]", json!(["Shop", "Red shoe"])),
        ("ld+json$['@graph'][0].name", "text", json!("Red shoe")),
        ("ld+json $..offers[0].price", "number", json!(1299.5)),
        ("ld+json $..offers[1].price", "number", json!(12.5)),
        ("ld+json $..offers[1].price", "text", json!("12.5")),
        ("ld+json $..offers[0].url", "url", json!("https://shop.example/buy/1")),
        (
            "ld+json $..image",
            "url[]",
            json!(["https://shop.example/p/a.png", "https://shop.example/p/b.png"]),
        ),
        ("ld+json $..image", "text", json!("a.png")),
        ("__NEXT_DATA__ $.props.stock", "boolean", json!(true)),
        ("__NEXT_DATA__ $.props.ratings", "text[]", json!(["4", "5.5"])),
        ("__STATE__ $.sku", "text", json!("S-1")),
        ("named $.sku", "text", json!("S-2")),
        ("$.deep[0][0]", "number", json!(1)),
        ("$.props", "text", Json::Null),
        ("none $.sku", "text", Json::Null),
        ("__STATE__ $.deep", "text", Json::Null),
    ];
    for (path, kind, expected) in cases {
        assert_eq!(one(PAGE, path, kind), expected, "{path} as {kind}");
    }
    let lone = r#"<script type="application/ld+json">{"sku":"L"}</script>"#;
    assert_eq!(one(lone, "$.sku", "text"), "L", "linked data counts where there is nothing else");
    assert_eq!(one("<p>no script</p>", "$.sku", "text"), Json::Null);
}

#[test]
fn json_paths_come_behind_xpaths_under_the_same_rules() {
    let attributes = json!([
        { "name": "title", "xpaths": ["//h2", "//h1"], "jsonPaths": ["ld+json $..name"], "type": "text" },
        { "name": "sku", "xpaths": ["//h2"], "jsonPaths": ["$.none", "__STATE__ $.sku"], "type": "text",
          "validation": { "minLength": 9 } },
        { "name": "price", "jsonPaths": ["ld+json $..name", "ld+json $..price"], "type": "number" },
        { "name": "brand", "jsonPaths": ["ld+json $..name"], "antiPatterns": ["shop", "shoe"], "type": "text" },
    ]);
    let found = extract(PAGE, &attributes);
    assert_eq!(Json::from(found.values), json!({ "title": "Shoe", "sku": "S-1", "price": 1299.5 }));
    let told: Vec<_> = found.errors.iter().map(|e| (e.name.as_str(), e.reason, e.detail.as_str())).collect();
    let expected =
        [("sku", Reason::Invalid, "shorter than 9 characters"), ("brand", Reason::AntiPattern, "")];
    assert_eq!(told, expected);
    let page = json!({ "items": [{ "price": "9.5" }, { "price": 3 }], "h1": "x" });
    let whole = schema(
        &json!([{ "name": "p", "xpaths": ["//h1"], "jsonPaths": ["$.items[*].price"], "type": "text[]" }]),
    );
    let base = Url::parse("https://api.example/v1").unwrap();
    let found = whole.extract_json(&page, &base, &mut Fuel::for_page());
    assert_eq!(Json::from(found.values), json!({ "p": ["9.5", "3"] }));
}

/// Numbers and truth values of JSON and of expressions are under the same rules as texts.
#[test]
fn anti_patterns_hold_for_what_is_no_text() {
    let page =
        json!({ "price": 0, "list": 12.0, "sold": false, "there": true, "large": 9_007_199_254_740_993_u64 });
    let whole = schema(&json!([
        { "name": "price", "jsonPaths": ["$.price", "$.list"], "antiPatterns": ["^0$"], "type": "number" },
        { "name": "there", "jsonPaths": ["$.sold", "$.there"], "antiPatterns": ["false"], "type": "boolean" },
        { "name": "large", "jsonPaths": ["$.large"], "type": "number" },
        { "name": "counted", "xpaths": ["count(//p)", "count(//h1) + 4"], "antiPatterns": ["^0$"], "type": "number" },
        { "name": "none", "jsonPaths": ["$.price"], "antiPatterns": ["^0$"], "type": "number" },
    ]));
    let found =
        whole.extract_json(&page, &Url::parse("https://api.example/v1").unwrap(), &mut Fuel::for_page());
    let expected = json!({ "price": 12, "there": true, "large": 9_007_199_254_740_993_u64, "counted": 4 });
    assert_eq!(Json::from(found.values), expected);
    assert_eq!(
        found.errors.iter().map(|e| (e.name.as_str(), e.reason)).collect::<Vec<_>>(),
        [("none", Reason::AntiPattern)]
    );
}

#[test]
fn wrong_json_paths_are_refused_with_their_place() {
    let refused = |attribute: Json| {
        let attributes: Vec<Attribute> = serde_json::from_value(json!([attribute])).unwrap();
        Schema::compile(&attributes).unwrap_err().to_string()
    };
    for (paths, expected) in [
        (
            json!(["$.a", "ld+json $.a["]),
            "attributes[0].jsonPaths[1]: a name in quotes, `*`, an index, a slice or a filter is expected at character 13",
        ),
        (
            json!(["a b $.a"]),
            "attributes[0].jsonPaths[0]: what stands before `$` is a name of up to 128 characters at character 1",
        ),
        (json!(["sku"]), "attributes[0].jsonPaths[0]: a query begins with `$` at character 1"),
        (json!([]), "attributes[0].xpaths: at least one is needed, here or in jsonPaths"),
        (json!(vec!["$"; 51]), "attributes[0].jsonPaths: more than 50"),
    ] {
        assert_eq!(refused(json!({ "name": "n", "type": "text", "jsonPaths": paths })), expected);
    }
}

/// Pages that are made to cost much: many scripts, scripts that nearly are JSON, one long text named many times.
#[test]
fn hostile_json_ends_within_the_budget() {
    let paths = json!([
        { "name": "main", "jsonPaths": ["$..a"], "type": "text" },
        { "name": "data", "jsonPaths": ["ld+json $..*..*"], "type": "text[]" },
        { "name": "named", "jsonPaths": ["x $..a"], "type": "text" },
        { "name": "many", "jsonPaths": [format!("ld+json $[{}]", ["'t'"; 2_000].join(","))], "type": "text[]" },
    ]);
    let pages = [
        "<script>".to_owned() + &"x = {\"a\":".repeat(200_000) + "</script>",
        "<script>".to_owned() + &"x=[".repeat(1_000_000) + "</script>",
        "<script>x={\"a\":1}</script>".repeat(50_000),
        format!(
            "<script type=application/ld+json>{}1{}</script>",
            "[".repeat(2_000_000),
            "]".repeat(2_000_000)
        ),
        format!("<script type=application/ld+json>[{}1]</script>", "[[1]],".repeat(400_000)),
        format!("<script type=application/ld+json>{{\"t\":\"{}\"}}</script>", "x".repeat(1_000_000)),
    ];
    for page in pages {
        let found = extract(&page, &paths);
        let told =
            found.errors.iter().all(|error| error.reason == Reason::NotFound || !error.detail.is_empty());
        assert!(told, "{:?}", found.errors);
    }
    let long = extract(
        &format!("<script type=application/ld+json>{{\"t\":\"{}\"}}</script>", "x".repeat(1_000_000)),
        &paths,
    );
    let many = long.errors.iter().find(|error| error.name == "many").unwrap();
    assert_eq!(many.reason, Reason::Budget, "{}", many.detail);
    let mut dry = Fuel::new(10);
    let document = Document::parse(PAGE.to_owned());
    let base = Url::parse("https://shop.example/").unwrap();
    let found = schema(&json!([{ "name": "n", "jsonPaths": ["$.sku"], "type": "text" }]));
    let found = found.extract(&document, &base, &mut dry);
    assert_eq!(found.errors[0].detail, format!("jsonPaths[0]: {}", EvalError::BudgetExceeded));
}

/// The end of an assignment's left side is a name as well as the whole of it: one text must not be held once for each.
#[test]
fn json_that_is_named_many_times_is_not_held_as_often() {
    let names = ["z", "y.z", "x.y.z", "w.x.y.z", "z"];
    let page = format!("<script>w.x.y.z=[{}0]</script>", "0,".repeat(399_999));
    let paths: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(at, name)| json!({ "name": format!("n{at}"), "jsonPaths": [format!("{name} $[0]")], "type": "number" }))
        .collect();
    let found = extract(&page, &json!(paths));
    assert_eq!((&found.values["n0"], &found.values["n1"]), (&json!(0), &json!(0)));
    assert_eq!(found.values["n4"], json!(0), "what is held is read on");
    let told: Vec<_> = found.errors.iter().map(|error| (error.name.as_str(), error.reason)).collect();
    assert_eq!(told, [("n2", Reason::Budget), ("n3", Reason::Budget)]);
    // Of a text of the schema no copy is made for each node that it is compared with.
    let long = "x".repeat(16_000);
    let wide = format!("<script>z=[{}0]</script>", "\"y\",".repeat(900_000));
    let compared = json!([{ "name": "n", "jsonPaths": [format!("z $[?@=='{long}']")], "type": "text" }]);
    assert_eq!(extract(&wide, &compared).errors[0].reason, Reason::NotFound);
}
