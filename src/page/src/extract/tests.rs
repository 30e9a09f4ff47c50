use super::*;
use crate::xpath::PAGE_FUEL_MAX;

fn schema(json: &str) -> Result<Schema, SchemaError> {
    let attributes: Vec<Attribute> = serde_json::from_str(json).unwrap();
    Schema::compile(&attributes)
}

fn extract(source: &str, json: &str) -> Extraction {
    let document = Document::parse(source.to_owned());
    let page = Url::parse("https://shop.example/p/1.html").unwrap();
    let base = page_base(&document, &page);
    schema(json).unwrap().extract(&document, &base, &mut Fuel::for_page())
}

fn values(extraction: &Extraction) -> String {
    serde_json::to_string(&extraction.values).unwrap()
}

/// The error entries as rows keep them.
fn told(extraction: &Extraction) -> Vec<String> {
    extraction
        .errors
        .iter()
        .map(|error| format!("{}: {}", error.name, error.reason.join(&error.detail)))
        .collect()
}

#[test]
fn an_ambiguous_number_is_read_in_the_language_of_its_element_or_page_or_site() {
    let read = |html: &str, site: &str| {
        let document = Document::parse(html.to_owned());
        let schema = schema(
            r#"[{"name":"n","xpaths":["//b"],"type":"number"},{"name":"s","xpaths":["string(//b)"],"type":"number"}]"#,
        )
        .unwrap();
        let found = schema.extract(&document, &Url::parse(site).unwrap(), &mut Fuel::for_page());
        [found.values["n"].as_f64().unwrap(), found.values["s"].as_f64().unwrap()]
    };
    let com = "https://shop.com/";
    assert_eq!(read("<html lang=de><b>1.204 Bewertungen</b>", com), [1204.0, 1204.0]);
    assert_eq!(read("<html lang=fr><b>2,125 kg</b>", com), [2.125, 2.125]);
    assert_eq!(read("<html lang=en><b>2,125 kg</b>", com), [2125.0, 2125.0]);
    assert_eq!(read("<b>1.204</b><b>2,125</b>", com), [1.204, 1.204]);
    // The nearest element with a language decides; a text that stands nowhere is the page's.
    assert_eq!(read("<html lang=en><div lang=de><p><b>1.204</b></div>", com), [1204.0, 1.204]);
    assert_eq!(read("<html lang=de><b lang=en>1.204</b>", com), [1.204, 1204.0]);
    // Without one: the declaration in the head, then the site's country.
    let head = "<meta http-equiv=Content-Language content=de>";
    assert_eq!(read(&format!("{head}<b>1.204</b>"), com), [1204.0, 1204.0]);
    assert_eq!(read("<b>1.204</b>", "https://shop.de/"), [1204.0, 1204.0]);
    assert_eq!(read("<html lang=''><b>2,125</b>", "https://shop.fr/"), [2.125, 2.125]);
    assert_eq!(read("<html lang=en><b>1.204</b>", "https://shop.de/"), [1.204, 1.204]);
}

/// A language is looked for above every number, so deep pages must not make that dear.
#[test]
fn a_language_is_looked_for_within_a_bound() {
    let html = format!("<html lang=de>{}<b>1.204</b>", "<div>".repeat(100_000));
    let document = Document::parse(html);
    let schema = schema(r#"[{"name":"n","xpaths":["//b"],"type":"number"}]"#).unwrap();
    let base = Url::parse("https://shop.com/").unwrap();
    let mut fuel = Fuel::for_page();
    let found = schema.extract(&document, &base, &mut fuel);
    assert_eq!(found.values["n"], 1.204);
}

#[test]
fn a_line_end_within_an_address_is_dropped_as_browsers_do() {
    let found = extract(
        "<a href=' /a\nb '>x</a><a href='/c d'>y</a><a href='/e\t\r\nf'>z</a>",
        r#"[{"name":"links","xpaths":["//a/@href"],"type":"url[]"}]"#,
    );
    assert_eq!(
        values(&found),
        r#"{"links":["https://shop.example/ab","https://shop.example/c%20d","https://shop.example/ef"]}"#
    );
}

const PAGE: &str = "<!DOCTYPE html><base href='/img/'><h1> Blue\n  shirt </h1><p class=price>1.234,56 €</p><p class=old></p>\
    <p class=old>2,50</p><a href='b.html'>b</a><a href='javascript:1'>x</a><a href='b.html'>b again</a>\
    <link itemprop=availability href='https://schema.org/OutOfStock'><ul><li>one<li> <li>two<li>one</ul>";

#[test]
fn each_type() {
    let found = extract(
        PAGE,
        r#"[{"name":"title","xpaths":["//h1"],"type":"text"},
            {"name":"price","xpaths":["//*[@class='price']/text()"],"type":"number"},
            {"name":"old","xpaths":["//*[@class='old']"],"type":"number"},
            {"name":"link","xpaths":["//a/@href"],"type":"url"},
            {"name":"available","xpaths":["//link[@itemprop='availability']/@href"],"type":"boolean"},
            {"name":"hasTitle","xpaths":["//h1"],"type":"boolean"},
            {"name":"hasOld","xpaths":["//*[@class='old']"],"type":"boolean"},
            {"name":"hasCart","xpaths":["boolean(//button)"],"type":"boolean"},
            {"name":"items","xpaths":["//nothing","//li"],"type":"text[]"},
            {"name":"links","xpaths":["//a/@href"],"type":"url[]"},
            {"name":"count","xpaths":["count(//li)"],"type":"number"},
            {"name":"absent","xpaths":["//nothing"],"type":"text"},
            {"name":"nan","xpaths":["number(//nothing)"],"type":"text"}]"#,
    );
    assert_eq!(
        values(&found),
        r#"{"title":"Blue shirt","price":1234.56,"old":2.5,"link":"https://shop.example/img/b.html","available":false,"hasTitle":true,"hasOld":true,"hasCart":false,"items":["one","two","one"],"links":["https://shop.example/img/b.html","https://shop.example/img/b.html"],"count":4}"#
    );
    assert_eq!(told(&found), ["absent: not_found", "nan: not_found"]);
    assert_eq!(found.quality.completeness, 0.8462);
    assert_eq!(found.quality.validation, 1.0);
    assert_eq!(found.quality.composite, 0.9077);
}

#[test]
fn fallbacks_anti_patterns_and_validation() {
    let found = extract(
        PAGE,
        r#"[{"name":"a","xpaths":["//h1","//li"],"type":"number"},
            {"name":"b","xpaths":["//h1","//*[@class='price']"],"type":"number"},
            {"name":"c","xpaths":["//h1","//li"],"type":"text","antiPatterns":["BLUE"]},
            {"name":"d","xpaths":["//li"],"type":"text[]","antiPatterns":["^one$"]},
            {"name":"e","xpaths":["//li"],"type":"text","validation":{"minLength":4,"pattern":"^x"}},
            {"name":"f","xpaths":["count(//li)"],"type":"number","validation":{"min":1,"max":3}},
            {"name":"g","xpaths":["//h1"],"type":"text","antiPatterns":["blue"],"validation":{"minLength":99}}]"#,
    );
    assert_eq!(values(&found), r#"{"b":1234.56,"c":"one","d":["two"],"e":"one","f":4}"#);
    assert_eq!(
        told(&found),
        [
            "a: not_a_number: xpaths[1]: `one` is not a number",
            "e: invalid: shorter than 4 characters; does not match /^x/",
            "f: invalid: above 3",
            "g: anti_pattern"
        ]
    );
    // Values: b c d e f of seven; of those and the refused a, three pass.
    assert_eq!(found.quality, Quality { completeness: 0.7143, validation: 0.5, composite: 0.6286 });
}

#[test]
fn a_schema_is_refused_with_the_place() {
    let error = |json: &str| schema(json).unwrap_err().to_string();
    let one = |body: &str| error(&format!(r#"[{{"name":"ok","xpaths":["//a"],"type":"text"}},{{{body}}}]"#));
    assert_eq!(error("[]"), "attributes: at least one attribute is needed");
    assert_eq!(
        one(r#""name":"b","xpaths":["//a","//a[contains(@b, 'c']"],"type":"text""#),
        "attributes[1].xpaths[1]: unbalanced parenthesis at character 13"
    );
    assert_eq!(
        one(r#""name":"ok","xpaths":["//a"],"type":"text""#),
        "attributes[1].name: `ok` is the name of another attribute"
    );
    assert_eq!(
        one(r#""name":"b","xpaths":[],"type":"text""#),
        "attributes[1].xpaths: at least one is needed, here or in jsonPaths"
    );
    assert_eq!(
        one(r#""name":"1b","xpaths":["//a"],"type":"text""#),
        "attributes[1].name: must be a letter or `_`, then letters, digits, `_` or `-`"
    );
    assert_eq!(
        one(r#""name":"b","xpaths":["//a"],"type":"text","antiPatterns":["a","("]"#),
        "attributes[1].antiPatterns[1]: wrong regular expression: unclosed group"
    );
    assert_eq!(
        one(r#""name":"b","xpaths":["//a"],"type":"text","validation":{"pattern":"(?=x)"}"#),
        "attributes[1].validation.pattern: wrong regular expression: look-around is not supported"
    );
    assert_eq!(
        one(r#""name":"b","xpaths":["//a"],"type":"text","validation":{"min":2,"max":1}"#),
        "attributes[1].validation.min: is greater than max"
    );
    let many: Vec<String> =
        (0..201).map(|number| format!(r#"{{"name":"a{number}","xpaths":["//a"],"type":"text"}}"#)).collect();
    assert_eq!(error(&format!("[{}]", many.join(","))), "attributes: more than 200 attributes");
    let patterns = vec![r#""x""#; ANTI_PATTERNS_MAX].join(",");
    let many: Vec<String> = (0..11)
        .map(|number| {
            format!(r#"{{"name":"a{number}","xpaths":["//a"],"type":"text","antiPatterns":[{patterns}]}}"#)
        })
        .collect();
    assert_eq!(
        error(&format!("[{}]", many.join(","))),
        "attributes[10]: more than 500 regular expressions in all"
    );
}

#[test]
fn the_wire_shape_is_the_specification_s() {
    let json = r#"{"name":"a","xpaths":["//a"],"type":"url[]","description":null,"antiPatterns":["x"],"semanticType":"product_image","validation":{"minLength":1,"pattern":"^h"}}"#;
    let attribute: Attribute = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&attribute).unwrap(), json);
    let least: Attribute = serde_json::from_str(r#"{"name":"a","xpaths":["//a"],"type":"text"}"#).unwrap();
    assert_eq!(least.kind, AttributeType::Text);
    assert!(serde_json::from_str::<Attribute>(r#"{"name":"a","xpaths":["//a"],"type":"date"}"#).is_err());
    let shape = serde_json::to_value(schemars::schema_for!(Attribute)).unwrap();
    // Beyond the specification: an attribute may have jsonPaths in the place of XPaths.
    assert_eq!(shape["required"], serde_json::json!(["name", "type"]));
}

/// Scrapy users write `table/tr`, Chrome copies `table/tbody/tr`: both find the rows of a page that has no `<tbody>`. Where
/// the page has one itself, `table/tr` finds nothing, as in every library.
#[test]
fn tables_are_found_with_and_without_tbody() {
    let json = r#"[{"name":"short","xpaths":["//table[@id='t']/tr/td[2]"],"type":"text[]"},
        {"name":"long","xpaths":["//table[@id='t']/tbody/tr/td[2]"],"type":"text[]"},
        {"name":"second","xpaths":["//table[@id='t']/tr[2]/td[1]"],"type":"number"},
        {"name":"last","xpaths":["/html/body/table/tbody/tr[last()]/td[1]"],"type":"number"},
        {"name":"label","xpaths":["//tr[td[1]='2']/../tr[1]/td[2]"],"type":"text"}]"#;
    let rows = "<tr><td>1<td>one<tr><td>2<td>two";
    assert_eq!(
        values(&extract(&format!("<table id=t>{rows}</table>"), json)),
        r#"{"short":["one","two"],"long":["one","two"],"second":2,"last":2,"label":"one"}"#
    );
    assert_eq!(
        values(&extract(&format!("<table id=t><tbody>{rows}</tbody></table>"), json)),
        r#"{"long":["one","two"],"last":2,"label":"one"}"#
    );
}

#[test]
fn fuel_that_ends_is_an_entry() {
    let document = Document::parse("<p>text</p>".repeat(5000));
    let base = Url::parse("https://shop.example/").unwrap();
    let schema = schema(
        r#"[{"name":"a","xpaths":["//p[contains(., 'x')]", "//html"],"type":"text"},
            {"name":"b","xpaths":["count(//p)"],"type":"number"}]"#,
    )
    .unwrap();
    let found = schema.extract(&document, &base, &mut Fuel::new(3000));
    assert_eq!(found.errors[0].name, "a");
    assert_eq!(
        found.errors[0].reason.join(&found.errors[0].detail),
        "budget: xpaths[0]: the expression takes more work on this page than is allowed (20 million units, 100 million for the page); \
         xpaths[1]: the expression takes more work on this page than is allowed (20 million units, 100 million for the page)"
    );
    assert_eq!(found.errors.len(), 2);
    let whole = schema.extract(&document, &base, &mut Fuel::new(PAGE_FUEL_MAX));
    assert_eq!(whole.errors, []);
    assert_eq!(whole.values["b"], 5000);
}

#[test]
fn nested_lists_cannot_grow_without_bound() {
    let document = Document::parse(format!("{}{}", "<div>".repeat(5000), "some text ".repeat(1000)));
    let base = Url::parse("https://shop.example/").unwrap();
    let schema = schema(r#"[{"name":"a","xpaths":["//div"],"type":"text[]"}]"#).unwrap();
    let found = schema.extract(&document, &base, &mut Fuel::for_page());
    assert_eq!(found.errors[0].detail, "xpaths[0]: the values of the page are longer than 8 MB in all");
    assert_eq!(found.errors[0].reason, Reason::Budget);
    assert!(found.values.is_empty());
}

#[test]
fn extraction_repeats_byte_for_byte() {
    let json = r#"[{"name":"items","xpaths":["//li"],"type":"text[]"},{"name":"t","xpaths":["//h1"],"type":"text"}]"#;
    let first = extract(PAGE, json);
    for _ in 0..5 {
        assert_eq!(extract(PAGE, json), first);
    }
}

/// The names of a page are numbered through a hash that is seeded anew in every process, and indexes are made in the order
/// in which they are asked for. Neither may show: the bytes written here are those of every run on every machine.
#[test]
fn the_same_page_and_schema_give_the_same_bytes() {
    let mut source = String::from("<!DOCTYPE html><title> A  page </title><body>");
    for n in 0..60 {
        let (a, b) = (n * 7 % 31, n * 11 % 17);
        source.push_str(&format!(
            "<x-{a} data-{b}={n} class='k{b} own-{a}' id=i{n}><a href='?{n}'>{n}</a></x-{a}>"
        ));
    }
    let json = r#"[{"name":"title","xpaths":["//title"],"type":"text"},
        {"name":"named","xpaths":["//*[self::x-3 or self::x-9 or @data-5]"],"type":"text[]"},
        {"name":"classes","xpaths":["//*[has-class('k4') or has-class('own-3')]/@class"],"type":"text[]"},
        {"name":"links","xpaths":["//*[@data-1 or @data-2]/a[1]/@href"],"type":"url[]"},
        {"name":"distinct","xpaths":["set:distinct(//@*[starts-with(name(),'data-1')])"],"type":"text[]"},
        {"name":"wrong","xpaths":["//nothing","//title"],"type":"number"},
        {"name":"count","xpaths":["count(//*[@class = //x-4/@class])"],"type":"number"}]"#;
    let page = Url::parse("https://shop.example/").unwrap();
    let bytes = |document: &Document, schema: &Schema| {
        let found = schema.extract(document, &page, &mut Fuel::for_page());
        format!("{} {:?} {:?}", values(&found), found.errors, found.quality)
    };
    let document = Document::parse(source.clone());
    let first = bytes(&document, &schema(json).unwrap());
    assert_eq!(first, DETERMINED);
    let shared = schema(json).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // With indexes made in another order, indexes made already, and a schema that others use meanwhile.
                let document = Document::parse(source.clone());
                let _ = document.elements_with_class("k4");
                let _ = document.elements_with_id("i7");
                for _ in 0..3 {
                    assert_eq!(bytes(&document, &shared), first);
                }
            });
        }
    });
}

const DETERMINED: &str = r#"{"title":"A page","named":["2","19","27","36","50","53","58"],"classes":["k4 own-4","k4 own-30","k8 own-3","k4 own-25","k4 own-20","k9 own-3"],"links":["https://shop.example/?11","https://shop.example/?14","https://shop.example/?28","https://shop.example/?31","https://shop.example/?45","https://shop.example/?48"],"distinct":["1","3","4","6","9","12","14","15","18","20","21","23","26","29","31","32","35","37","38","40","43","46","48","49","52","54","55","57"],"count":2} [AttributeError { name: "wrong", reason: NotANumber, detail: "xpaths[1]: `A page` is not a number" }] Quality { completeness: 0.8571, validation: 0.8571, composite: 0.8571 }"#;

/// What a schema does with a hostile page, and the fuel that took.
fn hostile(source: String, json: &str) -> (Extraction, u64) {
    let document = Document::parse(source);
    let page = Url::parse("https://shop.example/p/1.html").unwrap();
    let base = page_base(&document, &page);
    let mut fuel = Fuel::for_page();
    let found = schema(json).unwrap().extract(&document, &base, &mut fuel);
    (found, PAGE_FUEL_MAX - fuel.left())
}

/// A page of 5 MB: the unit again and again, each in an element.
fn page_of(tag: &str, unit: &str) -> String {
    let element = format!("<{tag}>{unit}</{tag}>");
    element.repeat((5 << 20) / element.len())
}

#[test]
fn a_long_base_is_none() {
    let links = "<a href=x>x</a>".repeat(10_000);
    for base in
        ["/".to_owned() + &"b".repeat(1 << 20), format!("//{}/", "ü".repeat(1_000)), "x/".repeat(1_024)]
    {
        let (found, spent) = hostile(
            format!("<base href='{base}'>{links}"),
            r#"[{"name":"a","xpaths":["//a/@href"],"type":"url[]"}]"#,
        );
        let links = found.values["a"].as_array().unwrap();
        assert_eq!((links.len(), links[9_999].as_str()), (10_000, Some("https://shop.example/p/x")));
        // Ten thousand bases of a megabyte would be ten gigabytes.
        assert!(spent < PAGE_FUEL_MAX / 10, "{spent}");
    }
    let (found, _) = hostile(
        format!("<base href='/{}/'>{links}", "b".repeat(1_500)),
        r#"[{"name":"a","xpaths":["//a/@href"],"type":"url[]"}]"#,
    );
    // One that is as long as it may be is honoured, and what it costs is counted.
    assert_eq!(found.errors[0].reason, Reason::Budget, "{:?}", found.errors);
}

/// For each type of value a page that makes the most work of it: the work is counted, and ends with the fuel.
#[test]
fn what_a_value_costs_is_counted() {
    let long_number = format!("<p>{}1.234 €</p>", "x ".repeat(2 << 20));
    for (name, source, json, least) in [
        (
            "links with hosts that take the square of their length to encode",
            page_of("a", &format!("http://{}/", "ü".repeat(500))),
            r#"[{"name":"a","xpaths":["//a"],"type":"url[]"}]"#,
            PAGE_FUEL_MAX / 4,
        ),
        (
            "links as long as they may be",
            page_of("a", &"x".repeat(15_000)),
            r#"[{"name":"a","xpaths":["//a"],"type":"url[]"}]"#,
            5 << 20,
        ),
        (
            "a pattern that is simulated for each byte",
            page_of("p", &"ab".repeat(4_000)),
            // Every member is valid, so every one is looked at.
            r#"[{"name":"a","xpaths":["//p"],"type":"text[]","validation":{"pattern":"(a|b|ab){500}"}}]"#,
            PAGE_FUEL_MAX,
        ),
        (
            "the same over one long text",
            format!("<p>{}</p>", "ab".repeat(2 << 20)),
            r#"[{"name":"a","xpaths":["//p"],"type":"text","validation":{"pattern":"(a|b|ab){500}c"}}]"#,
            PAGE_FUEL_MAX,
        ),
        (
            "texts that are refused by a pattern",
            page_of("p", &"ab".repeat(4_000)),
            r#"[{"name":"a","xpaths":["//p"],"type":"text[]","antiPatterns":["(a|b|ab){500}c"]}]"#,
            PAGE_FUEL_MAX,
        ),
        (
            "a number far behind, asked for again and again",
            long_number,
            &format!(r#"[{{"name":"a","xpaths":[{}],"type":"number"}}]"#, vec!["\"//p\""; 50].join(",")),
            // Twenty looks at what is read of it, each time.
            50 * ((4 << 20) / 8 + (64 << 10) / 2),
        ),
        (
            "a text of signs",
            format!("<p>{}</p>", "- ".repeat(2 << 20)),
            r#"[{"name":"a","xpaths":["//p"],"type":"boolean"}]"#,
            (4 << 20) / 4,
        ),
    ] {
        let (found, spent) = hostile(source, json);
        assert!(spent >= least, "{name}: {spent} of at least {least}; {:?}", found.errors);
    }
}

#[test]
fn a_value_that_cannot_be_validated_any_more_says_so() {
    let (found, spent) = hostile(
        format!("<p>{}</p>", "ab".repeat(2 << 20)),
        r#"[{"name":"a","xpaths":["//p"],"type":"text","validation":{"pattern":"(a|b|ab){500}c"}}]"#,
    );
    assert_eq!(spent, PAGE_FUEL_MAX);
    assert!(found.values.contains_key("a") && found.quality.validation < 1.0);
    assert!(found.errors[0].detail.starts_with("validation: "), "{:?}", found.errors);
}
