//! The image that shows what a page is about.

use page::html::NodeId;

use super::sheet::{Sheet, says_one_of};
use crate::forms::fold;

/// Images of one page that are weighed.
const IMAGES_MAX: usize = 400;
const MAIN_WORDS: &[&str] =
    &["main", "hero", "primary", "gallery", "zoom", "featured", "product", "lead", "full", "slide"];
const NO_WORDS: &[&str] = &[
    "logo",
    "icon",
    "sprite",
    "avatar",
    "badge",
    "pixel",
    "flag",
    "payment",
    "banner",
    "author",
    "thumb",
    "placeholder",
];

/// The address of the page's main image.
pub fn image(sheet: &Sheet<'_>) -> Option<String> {
    let document = sheet.page.document;
    let images = document.elements_named(document.lookup_name("img")?).take(IMAGES_MAX);
    let title = sheet.title().and_then(|title| fold(&title)).unwrap_or_default();
    let scored = images.filter_map(|image| {
        let address = address(sheet, image)?;
        Some((score(sheet, image, &address, &title), address))
    });
    let best = scored.reduce(|best, one| if one.0 > best.0 { one } else { best });
    best.filter(|(score, _)| *score >= 3).map(|(_, address)| address)
}

fn address(sheet: &Sheet<'_>, image: NodeId) -> Option<String> {
    let document = sheet.page.document;
    let said = ["data-src", "data-original", "data-zoom-image", "src"];
    let mut said = said.iter().filter_map(|name| document.attribute_named(image, name)).map(str::trim);
    said.find(|address| {
        (5..2_000).contains(&address.len()) && !address.starts_with("data:") && !address.ends_with(".svg")
    })
    .map(str::to_owned)
}

fn score(sheet: &Sheet<'_>, image: NodeId, address: &str, title: &str) -> i32 {
    let document = sheet.page.document;
    let side =
        |name: &str| document.attribute_named(image, name).and_then(|side| side.trim().parse::<u32>().ok());
    let smallest = side("width").into_iter().chain(side("height")).min();
    let around = sheet.names_around(image);
    let alt = document.attribute_named(image, "alt").and_then(fold).unwrap_or_default();
    let (distance, _) = sheet.distance(image);
    let mut score = match smallest {
        Some(side) if side >= 250 => 2,
        Some(side) if side < 120 => -3,
        _ => 0,
    };
    score += if alt.len() > 5 && !title.is_empty() && (title.contains(&alt) || alt.contains(title)) {
        4
    } else {
        0
    };
    score += if says_one_of(&around, MAIN_WORDS) { 1 } else { 0 };
    score -=
        if says_one_of(&around, NO_WORDS) || says_one_of(&address.to_lowercase(), NO_WORDS) { 3 } else { 0 };
    score -= if sheet.is_beside(image) { 4 } else { 0 };
    score
        + match distance {
            0..=15 => 3,
            16..=50 => 2,
            51..=120 => 1,
            _ => -1,
        }
}
