//! What addresses of one kind of page have in common: so pages that a site has redesigned are told from its others.

use std::collections::BTreeSet;
use url::Url;

/// The parts of a path that are looked at.
const PARTS_MAX: usize = 8;

/// An address without what differs between pages of one kind: numbers and the last part of the path become what they are like,
/// of the query only the names are left. None of what is no address.
pub fn shape(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let parts: Vec<&str> = url.path_segments()?.filter(|part| !part.is_empty()).take(PARTS_MAX).collect();
    let mut shape = url.host_str()?.to_owned();
    for (place, part) in parts.iter().enumerate() {
        let has_digits = part.bytes().any(|byte| byte.is_ascii_digit());
        let is_last = place + 1 == parts.len();
        shape.push('/');
        shape.push_str(match (has_digits, is_last) {
            (true, _) => "0",
            (false, true) if part.matches(['-', '_']).count() > 1 => "a-b-c",
            (false, true) if parts.len() > 1 => "a",
            _ => part,
        });
    }
    let names: BTreeSet<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    for name in names {
        shape.push('?');
        shape.push_str(&name);
    }
    Some(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_kind_have_one_shape() {
        for (one, other) in [
            ("https://shop.example/p/4711", "https://shop.example/p/12?"),
            ("https://shop.example/goods/oak-table", "https://shop.example/goods/chair"),
            ("https://shop.example/item?id=1&ref=x", "https://shop.example/item?ref=y&id=2"),
            (
                "https://shop.example/2026/11/a-long-title-here",
                "https://shop.example/2025/01/one-more-long-title",
            ),
        ] {
            assert_eq!(shape(one), shape(other), "{one} {other}");
        }
        for (one, other) in [
            ("https://shop.example/p/4711", "https://shop.example/about"),
            ("https://shop.example/p/4711", "https://shop.example/help/returns"),
            ("https://shop.example/imprint", "https://shop.example/about"),
            ("https://shop.example/item?id=1", "https://shop.example/item?page=1"),
            ("https://a.shop.example/p/1", "https://b.shop.example/p/1"),
        ] {
            assert_ne!(shape(one), shape(other), "{one} {other}");
        }
        assert_eq!(shape("no address"), None);
    }
}
