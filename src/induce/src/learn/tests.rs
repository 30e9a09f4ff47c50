use super::*;
use crate::LESSON_FUEL_MAX;
use crate::places::shows;
use page::extract::Schema;
use page::html::Document;
use page::xpath::Fuel;
use url::Url;

fn parse(pages: &[String]) -> Vec<Document> {
    pages.iter().map(|page| Document::parse(page.clone())).collect()
}

fn base() -> Url {
    Url::parse("https://shop.example/p/1").unwrap()
}

/// Learns from the first pages, of which each has these values, beside the others.
fn taught(pages: &[String], values: &[&[(&str, &str)]]) -> Vec<Learned> {
    let (documents, base) = (parse(pages), base());
    let page = |document| Page { document, base: &base };
    let examples: Vec<Example<'_>> = documents
        .iter()
        .zip(values)
        .map(|(document, values)| Example {
            page: page(document),
            values: values
                .iter()
                .map(|(name, text)| {
                    (
                        (*name).to_owned(),
                        text.split('|').filter(|t| !t.is_empty()).map(str::to_owned).collect(),
                    )
                })
                .collect(),
        })
        .collect();
    let others: Vec<_> = documents.iter().skip(values.len()).map(page).collect();
    let mut names: Vec<&str> =
        values.iter().flat_map(|values| values.iter().map(|(name, _)| *name)).collect();
    names.sort_unstable();
    names.dedup();
    let wanted: Vec<Wanted> = names.iter().map(|name| Wanted::guess(name, &examples)).collect();
    learn(&wanted, &examples, &others, &mut Fuel::new(LESSON_FUEL_MAX)).attributes
}

fn xpaths(learned: &Learned) -> Vec<&str> {
    learned.paths.iter().map(|path| path.xpath.as_str()).collect()
}

fn book(title: &str, author: &str, isbn: &str, price: &str) -> String {
    format!(
        "<body><div id=main><h1>{title}</h1><p class=byline>By {author}</p><span class='price big'>{price}</span>\
         <ul class=facts><li><b>Pages:</b> 12</li><li><b>ISBN:</b> {isbn}</li></ul></div>\
         <div class=related><span class=price>$1.00</span></div></body>"
    )
}

#[test]
fn labels_classes_and_beginnings_are_found() {
    let pages = [
        book("Tall Trees", "Ann Lee", "978-1", "$12.90"),
        book("Deep Seas", "Bo Hall", "978-2", "$9.00"),
        book("Old Roads", "Cy Young", "978-3", "$7.50"),
    ];
    let learned = taught(
        &pages,
        &[
            &[("title", "Tall Trees"), ("author", "Ann Lee"), ("isbn", "978-1"), ("price", "$12.90")],
            &[("title", "Deep Seas"), ("author", "Bo Hall"), ("isbn", "978-2"), ("price", "$9.00")],
        ],
    );
    let of = |name: &str| learned.iter().find(|learned| learned.name == name).unwrap();
    assert_eq!(xpaths(of("title"))[0], "//h1");
    assert_eq!(
        of("isbn").paths[0].xpath,
        "//b[normalize-space()='ISBN:']/following-sibling::text()[normalize-space()][1]"
    );
    let author = xpaths(of("author"))[0];
    assert!(
        author.starts_with("substring-after(normalize-space(//") && author.ends_with("), 'By ')"),
        "{author}"
    );
    assert!(xpaths(of("price")).iter().any(|xpath| xpath.contains("' big '")), "{:?}", of("price").paths);
    assert_eq!(of("price").kind, AttributeType::Number);
    for learned in &learned {
        assert_eq!((learned.example_count, learned.paths[0].coverage), (2, 1.0), "{learned:?}");
        assert!(learned.confidence > 0.3 && learned.confidence < 1.0, "{learned:?}");
    }
}

#[test]
fn positions_are_a_last_resort_and_absence_is_kept() {
    let page =
        |value: &str, note: &str| format!("<body><div><p>one {value}x</p><p>{value}</p>{note}</div></body>");
    let pages = [page("aa", "<i id=note>new</i>"), page("bb", ""), page("cc", "")];
    let learned = taught(&pages, &[&[("v", "aa"), ("note", "new")], &[("v", "bb"), ("note", "")]]);
    assert_eq!(xpaths(&learned[0]), ["//i[@id='note']", "//i"]);
    assert_eq!(xpaths(&learned[1]), ["/html/body/div/p[2]"]);
    // What is there on a page that is known not to have it is no answer.
    let pages = [page("aa", "<i id=note>new</i>"), page("bb", "<i id=note>old</i>")];
    let learned = taught(&pages, &[&[("note", "new")], &[("note", "")]]);
    assert_eq!((xpaths(&learned[0]), learned[0].confidence), (vec![], 0.0));
}

#[test]
fn lists_are_found_whole() {
    let page = |names: &[&str]| {
        let members: String =
            names.iter().map(|name| format!("<li><a href='/tag/{name}/x'>{name}</a></li>")).collect();
        format!("<body><ul class=menu><li><a href='/'>Home</a></li></ul><ul class=tags>{members}</ul></body>")
    };
    let pages = [page(&["red", "blue", "new"]), page(&["green", "old"]), page(&["pink"])];
    let learned = taught(&pages, &[&[("tags", "red|blue|new")], &[("tags", "green|old")]]);
    assert_eq!(learned[0].kind, AttributeType::TextList);
    assert!(learned[0].paths.iter().all(|path| path.f1 == 1.0) && learned[0].paths.len() > 1, "{learned:?}");
    let attribute = learned[0].attribute().unwrap();
    let schema = page::extract::Schema::compile(&[attribute]).unwrap();
    let found = schema.extract(&Document::parse(pages[2].clone()), &base(), &mut Fuel::for_page());
    assert_eq!(found.values["tags"], serde_json::json!(["pink"]));
}

#[test]
fn what_is_told_and_not_there_is_not_learned() {
    let pages = [book("A Tree", "Ann", "1", "$1"), book("A Sea", "Bo", "2", "$2")];
    let learned = taught(&pages, &[&[("title", "nowhere")], &[("title", "neither")]]);
    assert_eq!((learned[0].paths.len(), learned[0].attribute()), (0, None));
    let document = Document::parse(pages[0].clone());
    let page = Page { document: &document, base: &base() };
    let shown = |text: &str| shows(page, AttributeType::Text, Form::Text, &[text.to_owned()]);
    assert!(shown("a tree") && !shown("nowhere"));
}

#[test]
fn the_same_pages_teach_the_same() {
    let pages: Vec<String> = (0..6)
        .map(|n| book(&format!("Book {n}x"), &format!("Ann {n}y"), &format!("978{n}"), "$3.10"))
        .collect();
    let values =
        |n: usize| [("title".to_owned(), format!("Book {n}x")), ("isbn".to_owned(), format!("978{n}"))];
    let all: Vec<_> = (0..3).map(values).collect();
    let borrowed: Vec<Vec<(&str, &str)>> = all
        .iter()
        .map(|page| page.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect())
        .collect();
    let given: Vec<&[(&str, &str)]> = borrowed.iter().map(Vec::as_slice).collect();
    let first = taught(&pages, &given);
    assert!((0..3).all(|_| taught(&pages, &given) == first));
}

/// Pages that are made to cost much end within the fuel, and what is found on them is still right.
/// A list stays one where each page that was told has a single member of it.
#[test]
fn a_list_of_one_is_a_list() {
    let page = |title: &str, tags: &str| {
        format!(
            "<h1>{title}</h1><ul class=tags><li>{tags}</li></ul><ul class=more><li>Oak desk</li><li>Ash desk</li></ul>"
        )
    };
    let pages = [page("Chair", "oak"), page("Table", "ash"), page("Bench", "oak</li><li>elm")];
    let documents = parse(&pages);
    let base = base();
    let example = |(document, tag): (_, &str)| Example {
        page: Page { document, base: &base },
        values: vec![("tags".to_owned(), vec![tag.to_owned()])],
    };
    let examples: Vec<Example<'_>> = documents.iter().zip(["oak", "ash"]).map(example).collect();
    let wanted = [Wanted::guess("tags", &examples).listed()];
    let others = [Page { document: &documents[2], base: &base }];
    let learned = learn(&wanted, &examples, &others, &mut Fuel::new(LESSON_FUEL_MAX)).attributes;
    let schema = Schema::compile(&[learned[0].attribute().unwrap()]).unwrap();
    let given = schema.extract(&documents[2], &base, &mut Fuel::for_page()).values;
    assert_eq!(
        serde_json::Value::from(given),
        serde_json::json!({ "tags": ["oak", "elm"] }),
        "{:?}",
        xpaths(&learned[0])
    );
}

#[test]
fn hostile_pages_end() {
    let value = "<b id=v>needle</b>";
    let nested = format!("{}{value}{}", "<div class=a>".repeat(300_000), "</div>".repeat(300_000));
    let equal = format!("{}{value}", "<p class=x><i>needle</i></p>".repeat(20_000));
    let attributes = format!(
        "<p {}>x</p>{value}",
        (0..120_000).map(|n| format!("data-a{n}='needle' ")).collect::<String>()
    );
    let classes = format!(
        "<p class='{}'>needle</p>{value}",
        (0..200_000).map(|n| format!("c{n} ")).collect::<String>()
    );
    let siblings = format!("{}{value}", "<td>x<td>needle".repeat(50_000));
    let pages = [nested, equal, attributes, classes, siblings];
    for page in &pages {
        let mut fuel = Fuel::new(LESSON_FUEL_MAX);
        let documents = parse(&[page.clone(), format!("<body><b id=v>other</b>{}", "<p>z".repeat(2_000))]);
        let base = base();
        let examples: Vec<Example<'_>> = documents
            .iter()
            .zip(["needle", "other"])
            .map(|(document, text)| Example {
                page: Page { document, base: &base },
                values: vec![("v".to_owned(), vec![text.to_owned()])],
            })
            .collect();
        let wanted = [Wanted::guess("v", &examples)];
        let learned = learn(&wanted, &examples, &[], &mut fuel).attributes;
        assert!(learned.len() == 1 && fuel.left() > 0);
        assert!(learned[0].paths[0].f1 == 1.0, "{learned:?}");
    }
}
