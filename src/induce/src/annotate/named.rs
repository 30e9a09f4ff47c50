//! Values that a label on the page names, or a name for machines: codes, authors, days, places of work.

use page::html::{AttrId, NodeId};

use super::sheet::{Sheet, Shown, says_one_of};
use crate::forms::fold;
use crate::times;

/// Texts behind a label in which its value is looked for.
const BEHIND_MAX: usize = 2;
/// Labels of product codes, the surest first.
const CODE_LABELS: &[&str] = &[
    "sku",
    "asin",
    "item no",
    "item number",
    "item model number",
    "item #",
    "item code",
    "item id",
    "ebay item number",
    "article number",
    "article no",
    "art. nr",
    "art.-nr",
    "art.nr",
    "artikelnummer",
    "artikel-nr",
    "artikelnr",
    "bestellnummer",
    "product code",
    "product id",
    "product no",
    "product number",
    "produktnummer",
    "cod. prodotto",
    "codice",
    "código",
    "codigo",
    "référence",
    "ref.",
    "réf",
    "ref:",
    "reference",
    "model no",
    "model number",
    "kód",
    "numer ref",
    "katalogové",
    "артикул",
    "код товара",
    "код",
    "šifra",
    "kataloški broj",
    "cikkszám",
    "varenummer",
    "varenr",
    "tootekood",
    "preces kods",
    "prekės kodas",
    "indeks",
    "ürün kodu",
    "stok kodu",
    "κωδικός",
    "מק\"ט",
    "商品番号",
    "品番",
    "商品编号",
    "상품번호",
    "tuotenumero",
    "post id",
    "ad id",
    "stock code",
    "cod produs",
    "style",
    "part number",
    "isbn-13",
    "isbn",
    "ean",
];
const OUT_WORDS: &[&str] = &[
    "out of stock",
    "sold out",
    "currently unavailable",
    "no longer available",
    "not available",
    "out-of-stock",
    "derzeit nicht verfügbar",
    "nicht verfügbar",
    "nicht lieferbar",
    "ausverkauft",
    "actuellement indisponible",
    "en rupture",
    "épuisé",
    "non disponibile",
    "esaurito",
    "agotado",
    "esgotado",
    "sin stock",
    "indisponível",
    "нет в наличии",
    "niedostępny",
    "vypredané",
    "uitverkocht",
    "slutsåld",
    "loppuunmyyty",
    "läbi müüdud",
    "temporarily unavailable",
    "has ended",
    "discontinued",
    "stoc epuizat",
    "товар закончился",
    "품절",
];
const BUY_WORDS: &[&str] = &[
    "add to cart",
    "to basket",
    "to bag",
    "to trolley",
    "your basket",
    "your cart",
    "add to bag",
    "add to basket",
    "add to trolley",
    "buy now",
    "buy it now",
    "in den warenkorb",
    "in den einkaufswagen",
    "ajouter au panier",
    "aggiungi al carrello",
    "añadir",
    "agregar al carro",
    "comprar",
    "adicionar",
    "до кошика",
    "в корзину",
    "купить",
    "do koszyka",
    "do košíka",
    "do kosíka",
    "v košarico",
    "lisa ostukorvi",
    "ostukorvi",
    "lisää ostoskoriin",
    "adaugă în coș",
    "adauga in cos",
    "pievienot grozam",
    "加入購物車",
    "立即購買",
    "구매하기",
    "u košaricu",
    "kup teraz",
    "in winkelwagen",
    "köp",
    "place bid",
    "add to wish",
];

/// The value of the first of the labels that the page has: behind it in the same text, or the next text.
pub fn labelled<'s>(sheet: &'s Sheet<'_>, labels: &[&str], fits: impl Fn(&str) -> bool) -> Option<&'s str> {
    labels.iter().find_map(|label| {
        sheet.texts.iter().enumerate().find_map(|(at, shown)| {
            let rest = behind_label(&shown.text, label)?;
            if sheet.is_beside(shown.node) {
                return None;
            }
            if !rest.is_empty() {
                return Some(rest).filter(|rest| fits(rest));
            }
            let behind = sheet.texts[at + 1..].iter().take(BEHIND_MAX);
            let values = behind.map(|shown| shown.text.trim_start_matches([':', '#', ' ']));
            values.filter(|text| !text.is_empty()).take(1).find(|text| fits(text))
        })
    })
}

/// What stands behind a label at the beginning of a text; empty where the text is the label alone, none where it is another text.
fn behind_label<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    let folded = text.to_lowercase();
    if folded.len() != text.len() || !folded.starts_with(label) {
        return None;
    }
    let rest = &text[label.len()..];
    let word_ends = !rest.starts_with(char::is_alphanumeric);
    let rest_of_label = rest.trim_start_matches(|c: char| c.is_alphabetic() || c == '.');
    let rest = if word_ends { rest } else { rest_of_label };
    let value = rest.trim_start_matches([' ', ':', '#', '.', '-', '\u{2013}', '\u{a0}', '(', ')', '|']);
    let is_marked =
        value.len() == rest.len() || rest[..rest.len() - value.len()].contains([':', '#', ' ', '.']);
    (word_ends || value.is_empty() || is_marked).then_some(value.trim_end_matches([')', '.', ' ']))
}

/// Whether a text is a code: some digits, hardly a space.
pub fn is_code(text: &str) -> bool {
    (3..=32).contains(&text.len())
        && text.bytes().filter(u8::is_ascii_digit).count() >= 2
        && text.split_whitespace().count() <= 2
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '/' | '_' | ' '))
}

/// The code that the shop knows a product by: labelled, in an attribute for machines, or in the page's own address.
pub fn code(sheet: &Sheet<'_>) -> Option<String> {
    labelled_code(sheet).or_else(|| code_in_address(sheet)).or_else(|| in_attribute(sheet))
}

/// The code that stands behind a label.
pub fn labelled_code(sheet: &Sheet<'_>) -> Option<String> {
    labelled(sheet, CODE_LABELS, |text| is_code(first_word(text))).map(|text| first_word(text).to_owned())
}

pub fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

const CODE_ATTRIBUTES: &[&str] = &[
    "data-sku",
    "data-product-sku",
    "data-product-code",
    "data-item-id",
    "data-asin",
    "data-product-id",
    "data-productid",
];

fn in_attribute(sheet: &Sheet<'_>) -> Option<String> {
    let document = sheet.page.document;
    CODE_ATTRIBUTES.iter().find_map(|name| {
        let name = document.lookup_name(name)?;
        let mut places = document.attribute_postings(name).iter().take(40).map(|at| AttrId(*at));
        places.find_map(|place| {
            let value = document.attr_value(place).trim();
            (is_code(value) && !sheet.is_beside(document.attr_owner(place))).then(|| value.to_owned())
        })
    })
}

/// A code in the address of the page that the page shows as well.
fn code_in_address(sheet: &Sheet<'_>) -> Option<String> {
    let url = sheet.page.base;
    let path = fold(url.path()).unwrap_or_default();
    let query = url.query().and_then(fold).unwrap_or_default();
    let is_there = |text: &str| {
        fold(text).is_some_and(|text| text.len() >= 5 && (path.contains(&text) || query.contains(&text)))
    };
    let shown = sheet.texts.iter().filter(|shown| !sheet.is_beside(shown.node));
    let words = shown.flat_map(|shown| shown.text.split([' ', ':', '#', '(', ')']));
    let found = words.filter(|word| word.bytes().filter(u8::is_ascii_digit).count() >= 4);
    found.filter(|word| is_code(word)).find(|word| is_there(word)).map(str::to_owned)
}

/// Whether the page lets one buy: "InStock", "OutOfStock"; none where it says neither.
pub fn availability(sheet: &Sheet<'_>, has_price: bool) -> Option<&'static str> {
    let short = |shown: &&Shown| shown.text.len() <= 60 && !sheet.is_beside(shown.node);
    let near = |shown: &&Shown| {
        let (distance, is_behind) = sheet.distance(shown.node);
        is_behind && distance < 80
    };
    let says = |shown: &Shown, words: &[&str]| says_one_of(&shown.text.to_lowercase(), words);
    let out = sheet.texts.iter().filter(short).filter(near).find(|shown| says(shown, OUT_WORDS));
    let buys = sheet.texts.iter().filter(short).any(|shown| says(shown, BUY_WORDS)) || has_buy_button(sheet);
    match (out, buys, has_price) {
        (Some(_), false, _) | (Some(_), true, false) => Some("OutOfStock"),
        (_, true, _) | (None, _, true) => Some("InStock"),
        _ => None,
    }
}

fn has_buy_button(sheet: &Sheet<'_>) -> bool {
    let document = sheet.page.document;
    ["button", "input"].iter().filter_map(|name| document.lookup_name(name)).any(|name| {
        document.elements_named(name).take(200).any(|node| {
            let mut said = document.attributes(node).take(16).map(AttrId).filter(|attribute| {
                matches!(
                    document.attr_name(*attribute),
                    "value" | "title" | "aria-label" | "name" | "id" | "class"
                )
            });
            document.attribute_named(node, "disabled").is_none()
                && said.any(|attribute| {
                    let value = document.attr_value(attribute);
                    let words = || says_one_of(&value.to_lowercase(), BUY_WORDS);
                    value.len() < 200
                        && (words() || fold(value).is_some_and(|value| value.contains("addtocart")))
                })
        })
    })
}

/// Whether a text is a person's name or two: some words without digits.
fn is_name(text: &str) -> bool {
    (3..=60).contains(&text.len())
        && !text.contains(|c: char| c.is_ascii_digit() || matches!(c, '@' | '|' | ':' | '?' | '!'))
        && (1..=6).contains(&text.split_whitespace().count())
}

/// Who wrote it: what a link or an element for the author says, or what stands behind "By".
pub fn author(sheet: &Sheet<'_>) -> Option<String> {
    let document = sheet.page.document;
    let strip = |text: &str| {
        let lower = text.to_lowercase();
        let front = ["written by ", "posted by ", "by ", "von ", "por ", "par ", "door ", "af ", "av "];
        let front = front.iter().find(|front| lower.starts_with(**front)).map_or(0, |front| front.len());
        text.get(front..).unwrap_or(text).trim_matches([' ', ',', '.', ':', '|']).to_owned()
    };
    let near = |shown: &&Shown| !sheet.is_beside(shown.node) && sheet.distance(shown.node).0 < 60;
    let named = |shown: &&Shown| {
        let names = sheet.names_around(shown.holder);
        document.attribute_named(shown.holder, "rel") == Some("author")
            || says_one_of(&names, &["author", "byline", "autor", "writer"])
    };
    let by = |shown: &&Shown| shown.text.starts_with("By ") || shown.text.starts_with("BY ");
    let of_names = sheet.texts.iter().filter(near).filter(named).map(|shown| strip(&shown.text));
    let by_line = || sheet.texts.iter().filter(near).filter(by).map(|shown| strip(&shown.text));
    let is_word =
        |text: &String| is_name(text) && !["by", "author", "about"].contains(&&*text.to_lowercase());
    of_names.filter(is_word).find(|text| text.contains(' ')).or_else(|| by_line().find(is_word))
}

/// The day near the heading: in a `time` element, under a name for days, or any short text that is a day.
pub fn day(sheet: &Sheet<'_>) -> Option<String> {
    let document = sheet.page.document;
    let is_near = |node: NodeId| !sheet.is_beside(node) && sheet.distance(node).0 < 60;
    let times = document.lookup_name("time");
    let of_element = times.and_then(|name| {
        let near = document.elements_named(name).take(40).filter(|node| is_near(*node));
        let said = near.filter_map(|node| {
            let own = document.attribute_named(node, "datetime").unwrap_or_default();
            let text = document.string_value(node).trim();
            [own, text].into_iter().find(|text| times::dates(text).len() == 1).map(str::to_owned)
        });
        said.take(1).next()
    });
    let of_text = || {
        let near = sheet.texts.iter().filter(|shown| is_near(shown.node) && shown.text.len() <= 60);
        let dated = near.filter(|shown| times::dates(&shown.text).len() == 1);
        dated.map(|shown| shown.text.clone()).next()
    };
    of_element.or_else(of_text)
}

/// What an offer of work names by labels.
pub fn of_job(sheet: &Sheet<'_>) -> Vec<(&'static str, String)> {
    const LABELS: &[(&str, &[&str])] = &[
        (
            "company",
            &[
                "company name",
                "company",
                "employer",
                "organization",
                "hiring organization",
                "firma",
                "unternehmen",
            ],
        ),
        (
            "location",
            &["job location", "location", "work location", "city", "standort", "arbeitsort", "ort", "lieu"],
        ),
        (
            "date_posted",
            &["date posted", "posted on", "posted", "job posted", "publication date", "published"],
        ),
        ("salary", &["salary", "pay rate", "pay", "compensation", "gehalt", "wage"]),
        (
            "employment_type",
            &[
                "employment type",
                "job type",
                "contract type",
                "type of employment",
                "position type",
                "tax term",
            ],
        ),
        ("industry", &["industry", "job category", "sector", "branche"]),
    ];
    let fits = |name: &str, text: &str| match name {
        "date_posted" => !times::dates(text).is_empty(),
        "salary" => text.bytes().any(|byte| byte.is_ascii_digit()),
        _ => text.len() <= 80 && text.contains(char::is_alphabetic),
    };
    let found = LABELS.iter().filter_map(|(name, labels)| {
        Some((*name, labelled(sheet, labels, |text| fits(name, text))?.to_owned()))
    });
    found.collect()
}

/// The last link of the page's breadcrumbs that is not the page itself.
pub fn crumb(sheet: &Sheet<'_>) -> Option<String> {
    let document = sheet.page.document;
    let title = sheet.title().and_then(|title| fold(&title));
    let is_crumb = |shown: &&Shown| {
        let around = std::iter::successors(Some(shown.holder), |node| document.parent(*node)).take(6);
        let mut elements = around.filter(|node| document.is_element(*node));
        document.name(shown.holder) != "script"
            && elements.any(|node| super::sheet::names(document, node).contains("breadcrumb"))
    };
    let is_other = |shown: &&Shown| {
        let own = fold(&shown.text);
        own != title && shown.text.chars().filter(|c| c.is_alphabetic()).count() > 2
    };
    let crumbs: Vec<&Shown> = sheet.texts.iter().filter(is_crumb).filter(is_other).take(12).collect();
    crumbs.last().filter(|_| crumbs.len() > 1).map(|shown| shown.text.clone())
}

/// Stars out of five, and how many gave them.
pub fn rating(sheet: &Sheet<'_>) -> (Option<String>, Option<String>) {
    let near = |shown: &&Shown| !sheet.is_beside(shown.node) && sheet.distance(shown.node).0 < 80;
    let texts: Vec<&Shown> = sheet.texts.iter().filter(near).collect();
    let stars = texts.iter().find(|shown| {
        let lower = shown.text.to_lowercase();
        says_one_of(&lower, &["out of 5", "von 5", "sur 5", "su 5", "/ 5", "/5", "de 5"])
    });
    let count = texts.iter().find(|shown| {
        let lower = shown.text.to_lowercase();
        let words = ["review", "rating", "bewertung", "avis", "recension", "opinion", "vote"];
        shown.text.len() <= 40
            && says_one_of(&lower, &words)
            && lower.bytes().any(|byte| byte.is_ascii_digit())
            && !says_one_of(&lower, &["out of", "/"])
    });
    (stars.map(|shown| shown.text.clone()), count.map(|shown| shown.text.clone()))
}

/// Whether a page has prose, as an article does.
pub fn is_prose(sheet: &Sheet<'_>) -> bool {
    sheet.prose > 1_500
}
