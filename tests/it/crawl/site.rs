//! A shop of 5,000 pages, made from a seed: lists with further pages, articles, tags, a page of reviews for each item; items
//! that are linked under five spellings, what robots.txt forbids, a login, and three traps without end.

use crate::harness::random::Random;
use crate::harness::web::Answer;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

const CATEGORIES: usize = 40;
const ITEMS_PER_PAGE: usize = 10;
const ARTICLES: usize = 500;
const TAGS: usize = 300;

/// How large the shop is.
pub struct Shop {
    seed: u64,
    pub items: Vec<u32>,
    places: HashMap<u32, usize>,
    categories: usize,
    articles: usize,
    tags: usize,
    /// How often each path with its query was asked for.
    asked: Mutex<BTreeMap<String, usize>>,
}

fn mixed(seed: u64, what: &str, number: u64) -> u64 {
    let mut hash = seed ^ 0xcbf2_9ce4_8422_2325;
    for byte in what.bytes().chain(number.to_be_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ (hash >> 29)
}

fn html(head: &str, body: &str) -> Answer {
    Answer::html(format!("<!doctype html><html><head>{head}</head><body>{body}</body></html>"))
}

impl Shop {
    /// A shop with so many items, a multiple of 400; with 2,000 it has 5,000 pages.
    pub fn new(seed: u64, items: usize) -> Shop {
        let mut random = Random(seed);
        let mut ids = Vec::with_capacity(items);
        let mut places = HashMap::new();
        while ids.len() < items {
            let id = 10_000 + u32::try_from(random.below(900_000)).expect("six digits");
            places.entry(id).or_insert_with(|| {
                ids.push(id);
                ids.len() - 1
            });
        }
        let part = |whole: usize| (whole * items / 2_000).max(1);
        Shop {
            seed,
            items: ids,
            places,
            categories: part(CATEGORIES),
            articles: part(ARTICLES),
            tags: part(TAGS),
            asked: Mutex::default(),
        }
    }

    pub fn asked(&self) -> BTreeMap<String, usize> {
        self.asked.lock().clone()
    }

    /// A link to an item, in one of its spellings.
    fn item(&self, place: usize, from: &str) -> String {
        let id = self.items[place % self.items.len()];
        let href = match mixed(self.seed, from, id.into()) % 6 {
            0 => format!("/item/{id}?utm_source=list&utm_medium=x"),
            1 => format!("/item/{id};jsessionid={:X}", mixed(self.seed, "session", id.into())),
            2 => format!("/x/../%69tem/{id}#top"),
            3 => format!("/item/{id}?PHPSESSID={:x}", mixed(self.seed, from, 7)),
            // Only its page says that it is the item's own.
            4 => format!("/item/{id}?view=compact"),
            _ => format!("/item/{id}"),
        };
        format!("<a href='{href}'>{id}</a> ")
    }

    /// What a path with its query answers.
    pub fn answer(&self, target: &str) -> Option<Answer> {
        *self.asked.lock().entry(target.to_owned()).or_default() += 1;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let page: u64 = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("page="))
            .and_then(|number| number.parse().ok())
            .unwrap_or(1);
        let path = path.replace("%69", "i");
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        Some(match parts.as_slice() {
            ["robots.txt"] => Answer {
                headers: vec![("content-type".into(), "text/plain".into())],
                ..Answer::html("User-agent: *\nDisallow: /private/\n")
            },
            [""] => self.home(),
            ["c", category] => self.list(category.parse().ok()?, page),
            ["item", id] => self.detail(id.split(';').next()?.parse().ok()?, query)?,
            ["item", id, "reviews"] => {
                html("", &format!("<main>Reviews of {id}: <a href='/item/{id}'>back</a></main>"))
            }
            ["item", _, "buy"] | ["account"] => Answer::redirect(&format!("/login?next={path}")),
            ["login"] => {
                html("<title>Log in</title>", "<form><input type=password></form><a href=/>home</a>")
            }
            ["blog", number] => self.article(number.parse().ok()?)?,
            ["tag", number] => self.tag(number.parse().ok()?)?,
            ["private", ..] => html("", "<main>nobody is to ask for this</main>"),
            ["calendar", year, month] => calendar(year.parse().ok()?, month.parse().ok()?),
            ["s", token, "browse"] => self.session(token),
            ["search"] => endless(page),
            _ => return None,
        })
    }

    fn home(&self) -> Answer {
        let mut nav = String::new();
        for category in 0..self.categories {
            let _ = write!(nav, "<a href=/c/{category}>{category}</a> ");
        }
        let body = format!(
            "<nav>{nav}<a href=/blog/0>blog</a> <a href=/tag/0>tags</a> <a href=/calendar/2026/11>calendar</a>\
             <a href=/s/{}/browse>browse</a> <a href='/search?page=1'>search</a> <a href=/account>account</a>\
             <a href=/private/1>private</a> <a href=mailto:shop@shop.example>mail</a></nav>\
             <footer><a href=https://elsewhere.example/>elsewhere</a></footer>",
            token(self.seed, 0)
        );
        html("<title>Shop</title><link rel=canonical href='/'>", &body)
    }

    /// Half of the items stand in categories, ten on a page.
    fn list(&self, category: usize, page: u64) -> Answer {
        let listed = self.items.len() / 2;
        let own = listed / self.categories;
        let pages = own.div_ceil(ITEMS_PER_PAGE) as u64;
        let mut body = String::from("<nav><a href=/>home</a></nav><main>");
        if category < self.categories && (1..=pages).contains(&page) {
            let first = category * own + (page as usize - 1) * ITEMS_PER_PAGE;
            for place in first..(first + ITEMS_PER_PAGE).min((category + 1) * own) {
                // A picture and a name: one page under two spellings.
                body.push_str(&self.item(place, "list"));
                body.push_str(&self.item(place, "picture"));
            }
        }
        let mut head = format!("<title>Category {category}, page {page}</title>");
        if page < pages {
            let _ = write!(head, "<link rel=next href='/c/{category}?page={}'>", page + 1);
        }
        let _ = write!(body, "<a href=/private/{category}>staff</a></main>");
        html(&head, &body)
    }

    fn detail(&self, id: u32, query: &str) -> Option<Answer> {
        let place = *self.places.get(&id)?;
        let look = if query.contains("view=compact") { "in short" } else { "whole" };
        let head = format!("<title>Item {id}</title><link rel=canonical href='/item/{id}'>");
        let body = format!(
            "<main><h1>Item {id}</h1><p>{look} {}</p><a href='/item/{id}/reviews'>reviews</a> \
             <a href='/item/{id}/buy'>buy</a> {}</main>",
            mixed(self.seed, "price", place as u64) % 10_000,
            self.item(place + 1, "similar"),
        );
        Some(html(&head, &body))
    }

    /// A quarter of the items is linked from articles alone.
    fn article(&self, number: usize) -> Option<Answer> {
        if number >= self.articles {
            return None;
        }
        let (first, own) = (self.items.len() / 2, self.items.len() / 4);
        let mut body = format!("<main><h1>Article {number}</h1>");
        for place in (number * own / self.articles)..((number + 1) * own / self.articles) {
            body.push_str(&self.item(first + place, "article"));
        }
        for n in 0..5 {
            let any = mixed(self.seed, "see also", (number * 5 + n) as u64) as usize % self.items.len();
            body.push_str(&self.item(any, "see also"));
        }
        // A tree, four wide.
        for child in (number * 4 + 1)..=(number * 4 + 4) {
            if child < self.articles {
                let _ = write!(body, "<a href=/blog/{child}>more</a> ");
            }
        }
        body.push_str("</main>");
        Some(html(&format!("<title>Article {number}</title>"), &body))
    }

    /// And a quarter from tags; some buy buttons among them.
    fn tag(&self, number: usize) -> Option<Answer> {
        if number >= self.tags {
            return None;
        }
        let (first, own) = (self.items.len() * 3 / 4, self.items.len() / 4);
        let mut body = format!("<main><h1>Tag {number}</h1>");
        for place in (number * own / self.tags)..((number + 1) * own / self.tags) {
            body.push_str(&self.item(first + place, "tag"));
        }
        if number.is_multiple_of(20) {
            let _ = write!(body, "<a href=/item/{}/buy>buy</a> ", self.items[number % self.items.len()]);
        }
        for child in (number * 4 + 1)..=(number * 4 + 4) {
            if child < self.tags {
                let _ = write!(body, "<a href=/tag/{child}>more</a> ");
            }
        }
        body.push_str("</main>");
        Some(html(&format!("<title>Tag {number}</title>"), &body))
    }

    /// Each visit has a token of its own, and leads to three others.
    fn session(&self, own: &str) -> Answer {
        let mut body = format!("<main><h1>Browse</h1><p>{own}</p>");
        for n in 1..=3 {
            let _ = write!(body, "<a href=/s/{}/browse>browse</a> ", token(mixed(self.seed, own, n), n));
        }
        body.push_str("<a href=/c/0>first</a></main>");
        html("<title>Browse</title>", &body)
    }
}

fn token(seed: u64, number: u64) -> String {
    format!("{:016x}{:08x}", mixed(seed, "token", number), mixed(seed, "more", number) as u32)
}

fn calendar(year: i32, month: i32) -> Answer {
    let (next, last) =
        ((year + month / 12, month % 12 + 1), (year - i32::from(month == 1), (month + 10) % 12 + 1));
    let body = format!(
        "<main><h1>{year}/{month}</h1><a href=/calendar/{}/{}>next</a> <a href=/calendar/{}/{}>last</a></main>",
        next.0, next.1, last.0, last.1
    );
    html("<title>Calendar</title>", &body)
}

fn endless(page: u64) -> Answer {
    let head = format!("<title>Results</title><link rel=next href='/search?page={}'>", page + 1);
    html(&head, &format!("<main>No results on page {page}</main>"))
}
