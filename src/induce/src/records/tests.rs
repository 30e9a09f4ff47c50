use super::*;
use crate::{Kind, LESSON_FUEL_MAX, discover};
use ::page::html::Document;
use ::page::xpath::Fuel;
use url::Url;

fn base() -> Url {
    Url::parse("https://shop.example/").unwrap()
}

fn first(html: &str, wish: Wish) -> Vec<Record> {
    let (document, base) = (Document::parse(html.to_owned()), base());
    let lists = lists_of(Page { document: &document, base: &base }, wish);
    lists.into_iter().next().map(|list| list.records).unwrap_or_default()
}

fn titles(html: &str, wish: Wish) -> Vec<String> {
    first(html, wish).into_iter().map(|record| record.title).collect()
}

const NAV: &str = "<nav><ul><li><a href=/a>All tools</a><li><a href=/b>Saws</a><li><a href=/c>Planes</a><li>\
                   <a href=/d>Chisels</a></ul></nav>";
const GOODS: [(&str, &str); 6] = [
    ("Jack plane", "189.50"),
    ("Bench chisel", "24.90"),
    ("Fine saw", "61.20"),
    ("Oak mallet", "18.00"),
    ("Spoke shave", "44.00"),
    ("Marking gauge", "31.75"),
];

fn card((at, (name, price)): (usize, &(&str, &str))) -> String {
    format!(
        "<div class='cell col-4'><a href='/p/{at}'><img src='/i/{at}-plane.jpg'></a><h3><a href='/p/{at}'>{name}</a></h3>\
         <p class=was><s>€ 999.00</s></p><p class=price>€ {price}</p><span title='4.{at} out of 5 stars'></span></div>"
    )
}

/// Two rows of three.
fn grid() -> String {
    let cards: Vec<String> = GOODS.iter().enumerate().map(card).collect();
    let rows: String = cards.chunks(3).map(|row| format!("<div class=row>{}</div>", row.concat())).collect();
    format!(
        "<title>Tools</title><body>{NAV}<main><h1>Tools</h1>{rows}</main><footer><a href=/x>Imprint</a></footer>"
    )
}

#[test]
fn cells_of_a_grid_are_records_across_its_rows() {
    let found = first(&grid(), Wish::Goods);
    assert_eq!(
        found.iter().map(|record| record.title.as_str()).collect::<Vec<_>>(),
        GOODS.map(|(name, _)| name)
    );
    let second = Record {
        title: "Bench chisel".to_owned(),
        url: "/p/1".to_owned(),
        price: "€ 24.90".to_owned(),
        image: "/i/1-plane.jpg".to_owned(),
        rating: "4.1 out of 5 stars".to_owned(),
        ..Record::default()
    };
    assert_eq!(found[1], second);
}

#[test]
fn siblings_that_belong_together_are_one_record() {
    let text =
        |at: usize| format!("What is said of number {at} goes on for some words, so that it is a text.");
    let terms: String = (0..5)
        .map(|at| format!("<dt><a href='/t/{at}'>Term of art {at}x</a></dt><dd>{}</dd>", text(at)))
        .collect();
    let found = first(&format!("<body>{NAV}<dl>{terms}</dl>"), Wish::Any);
    assert_eq!((found.len(), found[3].title.as_str()), (5, "Term of art 3x"));
    assert!(found[3].snippet.starts_with("What is said of number 3"), "{found:?}");
}

#[test]
fn what_the_page_names_is_its_list() {
    let list = |class: &str, names: [&str; 4]| {
        let members = names.map(|name| format!("<li><a href='/{name}'>{name} tool</a> <b>€ 5.00</b></li>"));
        format!("<ul class={class}>{}</ul>", members.concat())
    };
    let lists = list("one", ["Aaa", "Bbb", "Ccc", "Ddd"])
        + "<p>More:</p>"
        + &list("two", ["Eee", "Fff", "Ggg", "Hhh"]);
    let named = |names: [&str; 4]| {
        let members = names.map(|name| format!(r#"{{"@type":"ListItem","name":"{name} tool"}}"#)).join(",");
        format!(
            r#"<script type="application/ld+json">{{"@type":"ItemList","itemListElement":[{members}]}}</script>{lists}"#
        )
    };
    assert_eq!(titles(&named(["Aaa", "Bbb", "Ccc", "Ddd"]), Wish::Goods)[0], "Aaa tool");
    assert_eq!(titles(&named(["Eee", "Fff", "Ggg", "Hhh"]), Wish::Goods)[0], "Eee tool");
}

#[test]
fn kinds_of_lists_are_told_apart_where_that_is_firm() {
    let kind = |html: &str| {
        let (document, base) = (Document::parse(html.to_owned()), base());
        list_kind_of(Page { document: &document, base: &base })
    };
    let results: String = (0..6)
        .map(|at| {
            format!(
                "<div class=hit><h2><a href='https://site{at}.example/page'>Site number {at}x</a></h2><p>Words that the page \
                 has, of which there are some more: {at}.</p></div>"
            )
        })
        .collect();
    let posts = results.replace("https://site", "/site");
    let ranked =
        grid().replace("<h3>", "<h3><!-- -->").replace("<title>Tools", "<title>Bestsellers in tools");
    assert_eq!(kind(&grid()), Some(Kind::ProductList));
    assert_eq!(kind(&ranked), Some(Kind::Bestseller));
    assert_eq!(kind(&format!("<body>{NAV}{results}")), Some(Kind::Serp));
    // Lists of a site's own pages may be anything.
    assert_eq!(kind(&format!("<body>{NAV}{posts}")), None);
    assert_eq!(kind("<body><h1>About us</h1><p>We make tools.</p>"), None);
}

#[test]
fn lists_of_one_template_are_alike() {
    let shape = |html: &str| {
        let (document, base) = (Document::parse(html.to_owned()), base());
        list_answers(Page { document: &document, base: &base }, Kind::ProductList).1
    };
    let other = grid()
        .replace("<h3>", "<h2 class=t>")
        .replace("</h3>", "</h2>")
        .replace("col-4", "")
        .replace("cell", "hit");
    let other =
        other.replace("<p class=was>", "<div>").replace("<p class=price>", "<div>").replace("</p>", "</div>");
    assert!(shape(&grid()).is_like(&shape(&grid().replace("<p class=was><s>€ 999.00</s></p>", ""))));
    assert!(!shape(&grid()).is_like(&shape(&other)));
}

#[test]
fn lists_teach_their_attributes() {
    let page = |front: &str| {
        grid().replace("<h3><a ", &format!("<h3><i>{front}</i><a ")).replace(" saw", &format!(" saw {front}"))
    };
    let other = page("new")
        .replace("/i/2-plane", "/i/7-saw")
        .replace("Jack", "Long")
        .replace("189.50", "233.00")
        .replace("/p/0", "/p/9");
    let third = page("old")
        .replace("/i/4-plane", "/i/9-shave")
        .replace("Oak", "Ash")
        .replace("18.00", "19.00")
        .replace("/p/3", "/p/8");
    let documents: Vec<Document> = [grid(), other, third].into_iter().map(Document::parse).collect();
    let base = base();
    let pages: Vec<Page<'_>> = documents.iter().map(|document| Page { document, base: &base }).collect();
    for kind in [None, Some(Kind::ProductList)] {
        let found = discover(&pages, kind, &mut Fuel::new(LESSON_FUEL_MAX));
        assert_eq!((found.kind, found.page_count), (Some(Kind::ProductList), 3));
        let path = |name: &str| {
            let learned = found.attributes.iter().find(|learned| learned.name == name);
            learned.map(|learned| learned.paths[0].xpath.as_str())
        };
        assert!(path("names").is_some_and(|path| path.ends_with("/h3/a")), "{found:?}");
        assert!(path("urls").is_some_and(|path| path.ends_with("/a/@href")), "{found:?}");
        assert!(path("prices").is_some_and(|path| path.contains("' price '")), "{found:?}");
        assert!(path("image_urls").is_some_and(|path| path.ends_with("@src")), "{found:?}");
        assert!(found.attributes.iter().all(|learned| learned.confidence < 0.6));
    }
}

/// Pages that are made to cost much end, and say that they list nothing or something, twice the same.
#[test]
fn hostile_pages_end() {
    let attributes: String = (0..200_000).map(|n| format!("data-a{n}='{n} €' ")).collect();
    let classes: String = (0..400_000).map(|n| format!("c{n} ")).collect();
    let each: String =
        (0..60_000).map(|n| format!("<p class='a b c d e f{n}'><a href=/{n}>n{n}</a>")).collect();
    let pages = [
        "<div class=a><a href=/x>x</a>".repeat(400_000),
        "<p><a href=/x>x</a>".repeat(1_000_000),
        format!("<p {attributes}>x</p>").repeat(3),
        format!("<p class='{classes}'>x</p>").repeat(3),
        "<table><tr><td><a href=/x>some words</a>".repeat(40_000),
        "<dl><dt>x<dd>y".repeat(100_000),
        format!("<ul>{}", "<li><a href=/x>a title</a> € 5,00".repeat(100_000)),
        each,
    ];
    for page in pages {
        let (document, base) = (Document::parse(page), base());
        let page = Page { document: &document, base: &base };
        let found = list_answers(page, Kind::ProductList);
        assert!(found.0.labels.iter().all(|label| label.values.len() <= RECORDS_MAX));
        assert_eq!(list_answers(page, Kind::ProductList), found);
    }
}

/// A table of pairs of rows, as boards and courts have them.
fn pairs(second: fn(usize) -> String) -> String {
    let rows: String = (0..7)
        .map(|at| {
            format!(
                "<tr><td>{at}.</td><td><a href='/case/{at}'>Smith {at}x against the town of Number{at}</a></td></tr>{}",
                second(at)
            )
        })
        .collect();
    format!("<title>Cases</title><body>{NAV}<table>{rows}</table>")
}

#[test]
fn rows_in_pairs_are_one_record_each() {
    let plain = |at: usize| {
        format!("<tr><td colspan=2>Decided in the {at}th week, and what was said of it</td></tr>")
    };
    let linked = |at: usize| {
        format!(
            "<tr><td colspan=2><span class=sub><b>{at} points</b> <i>by <a href='/user/{at}'>user{at}</a></i> <a href='/c/{at}'>comments</a></span></td></tr>"
        )
    };
    let spaced = |at: usize| {
        format!(
            "<tr><td colspan=2><span class=sub><b>{at} points</b> <a href='/c/{at}'>comments</a></span></td></tr><tr><td></td></tr>"
        )
    };
    for second in [plain, linked, spaced] {
        let found = first(&pairs(second), Wish::Any);
        assert_eq!(found.len(), 7, "{found:?}");
        assert_eq!(
            (found[6].title.as_str(), found[6].url.as_str()),
            ("Smith 6x against the town of Number6", "/case/6")
        );
    }
    // Two in a row of a table are two.
    let cells: String = (0..8)
        .map(|at| {
            let end = if at % 2 == 1 { "</tr><tr>" } else { "" };
            format!("<td><a href='/p/{at}'>Tool of number {at}x</a><b>€ {at}.50</b></td>{end}")
        })
        .collect();
    assert_eq!(first(&format!("<body>{NAV}<table><tr>{cells}</table>"), Wish::Goods).len(), 8);
}

#[test]
fn prices_are_read_however_sites_write_them() {
    let page = |price: fn(usize) -> String| {
        let cards: String = (1..9)
            .map(|at| {
                format!(
                    "<li class=item><a href='/p/{at}'><img src='/i/{at}-tool.jpg'></a><h3><a href='/p/{at}'>Tool of number {at}x</a></h3>{}</li>",
                    price(at)
                )
            })
            .collect();
        format!("<title>Tools</title><body>{NAV}<main><ul>{cells}</ul></main>", cells = cards)
    };
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    type Shape = fn(usize) -> String;
    let shapes: [(&str, Shape); 6] = [
        ("the old one in the same box", |at| {
            let old = if at % 2 == 0 { format!("<del><b>${at}9.99</b></del> ") } else { String::new() };
            format!("<span class=price>{old}<ins><b>${at}2.50</b></ins></span>")
        }),
        ("twice, once to be heard", |at| {
            format!(
                "<span class=a-price><span class=off>${at}2.50</span><span aria-hidden=true>$<i>{at}2</i><sup>50</sup></span></span>"
            )
        }),
        ("raised cents", |at| format!("<p class=price>€ {at}2<sup>50</sup></p>")),
        ("the sign in a box of its own", |at| format!("<p><span>{at}2,50</span> <span>€</span></p>")),
        ("no sign but a name", |at| format!("<div class=product-price>{at}2.50</div>")),
        ("none for some", |at| match at % 5 {
            0 | 2 => "<div class=price>Price on request</div>".to_owned(),
            _ => format!("<div class=price>{at}2.50 zł</div>"),
        }),
    ];
    for (what, price) in shapes {
        let found = first(&page(price), Wish::Goods);
        assert_eq!(found.len(), 8, "{what}");
        for (at, record) in found.iter().enumerate() {
            let wanted = format!("{}250", at + 1);
            let is_none = what == "none for some" && matches!((at + 1) % 5, 0 | 2);
            let wanted = if is_none { "" } else { wanted.as_str() };
            assert_eq!(digits(&record.price), wanted, "{what}: {record:?}");
        }
    }
}

#[test]
fn links_around_whole_cards_are_learned() {
    let page = |front: &str| {
        let cards: String = (0..6)
            .map(|at| {
                format!(
                    "<div><a href='https://s{at}.example/{front}'><h3>About {front} {at}x, by number</h3></a><a href='/cached?{at}{front}'>Cached</a>\
                     <span>Words of the page on {front} and what is said there, number {at}.</span></div>"
                )
            })
            .collect();
        format!(
            "<title>{front}</title><body>{NAV}<div id=main>{cards}</div><div><a href=/next>Next</a></div>"
        )
    };
    let documents = ["planes", "saws", "chisels"].map(|front| Document::parse(page(front)));
    let base = base();
    let pages: Vec<Page<'_>> = documents.iter().map(|document| Page { document, base: &base }).collect();
    let found = discover(&pages, Some(Kind::Serp), &mut Fuel::new(LESSON_FUEL_MAX));
    let urls = found.attributes.iter().find(|learned| learned.name == "urls");
    assert!(urls.is_some_and(|urls| urls.paths[0].xpath == "//a[h3]/@href"), "{found:?}");
}
