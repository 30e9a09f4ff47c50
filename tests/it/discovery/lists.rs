//! Discovery of pages that list things: what they repeat teaches, whatever they say of themselves.

use super::{DISCOVER, GOODS, LEARN, collect_all, discovered, names, number};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, expect, get, post, refused, text};
use serde_json::{Value, json};

/// Goods of a list, by its number.
fn goods(page: usize) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    (0..6).map(move |at| {
        let (name, price, _) = GOODS[(page * 5 + at * 2) % GOODS.len()];
        (page * 10 + at, name, price)
    })
}

/// Two rows of three cards beside menus and what others have looked at. Nothing on it is for machines.
fn list(page: usize, bestseller: bool) -> String {
    let card = |(at, name, price): (usize, &str, &str)| {
        let place = if bestseller { format!("<b class=place>#{}</b>", at % 10 + 1) } else { String::new() };
        format!(
            "<div class=card>{place}<a href='/p/{at}'><img src='/i/tool{at}a.jpg'></a><h3><a href='/p/{at}'>{name}, no. {at}</a></h3>\
             <p><s>99,00 \u{20ac}</s> <span class=price>{} \u{20ac}</span></p></div>",
            price.replace('.', ",")
        )
    };
    let cards: Vec<String> = goods(page).map(card).collect();
    let rows: String = cards.chunks(3).map(|row| format!("<div class=row>{}</div>", row.concat())).collect();
    let menu: String = ["Planes", "Saws", "Chisels", "Vices"]
        .iter()
        .map(|name| format!("<li><a href='/c/{name}'>{name}</a>"))
        .collect();
    let title = if bestseller { "Bestsellers" } else { "Tools" };
    format!(
        "<html lang=de><title>{title}, page {page}</title><nav><ul>{menu}</ul></nav><h1>{title}</h1><div id=main>{rows}</div>\
         <div class=recently-seen><p><a href=/p/1>A plane</a> 1,00 \u{20ac}</p><p><a href=/p/2>A saw</a> 2,00 \u{20ac}</p></div></html>"
    )
}

fn results(page: usize) -> String {
    let result = |at: usize| {
        let number = page * 10 + at;
        format!(
            "<li class=hit><h2><a href='https://site{number}.example/page/{number}'>About tool number {number}</a></h2>\
             <cite>site{number}.example</cite><p class=words>What the page says of tool {number}, in words enough to be read.</p></li>"
        )
    };
    let results: String = (0..8).map(result).collect();
    format!("<title>Search</title><form><input name=q></form><ol>{results}</ol><p><a href=/s/2>Next</a></p>")
}

async fn site() -> Web {
    Web::open(|path| {
        let goods = number(path, "/l/").map(|page| list(page, false));
        let best = || number(path, "/best/").map(|page| list(page, true));
        let results = || number(path, "/s/").map(results);
        let hostile = || Some("<div class=a><a href=/x>x</a>".repeat(number(path, "/deep/")? + 60_000));
        goods.or_else(best).or_else(results).or_else(hostile).map(Answer::html)
    })
    .await
}

fn found_paths<'f>(found: &'f Value, name: &str) -> &'f Value {
    let all = found["attributes"].as_array().unwrap();
    &all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {found:#}"))["xpaths"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_goods_teach_without_a_model() {
    let web = site().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, other) = (at.member("ada").await, at.member("bob").await);
    let api = &member.api;
    collect_all(api, &web, "/l/", 1..7).await;
    // What is nobody else's is nobody else's lesson.
    let asked = json!({ "domain": "127.0.0.1", "pageType": "product_list" });
    refused(&post(&other.api, DISCOVER, &asked).await, 404, "Page not found", "collect one");
    // Six cards with prices on each of six pages are a list, so it need not be said.
    let found = discovered(api, &json!({ "domain": "127.0.0.1" })).await;
    assert_eq!(
        (&found["status"], &found["pageType"]),
        (&json!("succeeded"), &json!("product_list")),
        "{found:#}"
    );
    assert_eq!(names(&found["attributes"]), ["names", "urls", "prices", "image_urls"], "{found:#}");
    assert!(found_paths(&found, "prices")[0].as_str().unwrap().contains("' price '"), "{found:#}");
    // Nobody has said that it is right.
    let confidence = found["confidence"].as_f64().unwrap();
    assert!((0.5..0.9).contains(&confidence), "{found:#}");
    let held_back =
        found["sample"].as_array().unwrap().iter().filter(|page| page["use"] == "held_back").count();
    assert_eq!(held_back, 1, "{found:#}");
    let schema = expect(get(api, "/api/v1/extraction/schemas/127.0.0.1/product_list").await, 200);
    assert_eq!(
        (&schema["id"], &schema["discoveredBy"]),
        (&found["schema"]["id"], &json!("reverse_engineered"))
    );

    // The other one's list is read by it: every record, in order, and nothing of what stands beside.
    let job = json!({ "url": web.url("/l/8"), "pageType": "product_list" });
    let job = expect(post(&other.api, "/api/v1/jobs", &job).await, 201);
    let job = crate::harness::ended(&other.api, text(&job, "id")).await;
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&job, "resultId"));
    let values = expect(get(&other.api, &result).await, 200)["values"].clone();
    let all: Vec<String> = goods(8).map(|(at, name, _)| format!("{name}, no. {at}")).collect();
    assert_eq!(values["names"], json!(all), "{values:#}");
    let urls: Vec<String> = goods(8).map(|(at, ..)| web.url(&format!("/p/{at}"))).collect();
    assert_eq!(values["urls"], json!(urls), "{values:#}");
    let prices: Vec<String> =
        goods(8).map(|(.., price)| format!("{} \u{20ac}", price.replace('.', ","))).collect();
    assert_eq!(values["prices"], json!(prices), "{values:#}");
    let again = discovered(api, &asked).await;
    assert_eq!(
        (&again["notSaved"], &again["attributes"]),
        (&json!("not_better"), &found["attributes"]),
        "{again:#}"
    );
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_and_bestsellers_teach_and_hostile_lists_end() {
    let web = site().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (busy, mine) = (at.member("busy").await, at.member("mine").await);
    collect_all(&busy.api, &web, "/deep/", 0..4).await;
    let asked = |kind: &str| json!({ "domain": "127.0.0.1", "pageType": kind });
    for kind in ["product_list", "serp", "bestseller"] {
        expect(post(&busy.api, DISCOVER, &asked(kind)).await, 202);
    }
    let api = &mine.api;
    let jobs = collect_all(api, &web, "/s/", 1..5).await;
    let by = |jobs: &[Value], kind: &str| {
        let ids: Vec<&Value> = jobs.iter().map(|job| &job["id"]).collect();
        json!({ "domain": "127.0.0.1", "pageType": kind, "jobIds": ids })
    };
    let found = discovered(api, &by(&jobs, "serp")).await;
    assert_eq!(names(&found["attributes"]), ["titles", "urls", "snippets"], "{found:#}");
    let jobs = collect_all(api, &web, "/best/", 1..5).await;
    let found = discovered(api, &by(&jobs, "bestseller")).await;
    assert_eq!(
        (&found["status"], &found["pageType"]),
        (&json!("succeeded"), &json!("bestseller")),
        "{found:#}"
    );
    for name in ["names", "urls", "prices"] {
        assert!(found_paths(&found, name)[0].is_string(), "{found:#}");
    }
    // Teaching by examples goes on as before, on lists as well.
    let example = |page: usize| {
        let names: Vec<String> = goods(page).map(|(at, name, _)| format!("{name}, no. {at}")).collect();
        json!({ "url": web.url(&format!("/best/{page}")), "values": { "tools": names } })
    };
    let lesson =
        json!({ "domain": "127.0.0.1", "pageType": "bestseller", "examples": [example(1), example(2)] });
    let learned = expect(post(api, LEARN, &lesson).await, 200);
    assert_eq!(learned["attributes"][0]["type"], "text[]", "{learned:#}");
    let deep = discovered(&busy.api, &asked("product_list")).await;
    assert!(matches!(text(&deep, "status"), "succeeded" | "failed"), "{deep:#}");
    let job = collect(&busy.api, &web.url("/s/9")).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    at.stop().await;
}
