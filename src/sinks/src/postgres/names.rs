//! Names as PostgreSQL takes them.

use ring::digest::{SHA256, digest};
use std::borrow::Cow;

/// Bytes of a name; PostgreSQL cuts what is longer.
pub const NAME_BYTES_MAX: usize = 63;
/// Bytes of a digest that tell names apart whose beginnings are the same.
const DIGEST_BYTES: usize = 4;

/// A name in quotes, in which any character stands for itself.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A column's name, cut so that two that begin alike stay two.
pub(super) fn column(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME_BYTES_MAX {
        return Cow::Borrowed(name);
    }
    let sum = digest(&SHA256, name.as_bytes());
    let sum: String = sum.as_ref()[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = name.floor_char_boundary(NAME_BYTES_MAX - 1 - 2 * DIGEST_BYTES);
    Cow::Owned(format!("{}_{sum}", &name[..kept]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_quotes_and_stay_apart() {
        assert_eq!(quoted("a\"; DROP TABLE x; --"), "\"a\"\"; DROP TABLE x; --\"");
        let (one, other) = (format!("{}1", "x".repeat(70)), format!("{}2", "x".repeat(70)));
        assert_eq!((column("price").as_ref(), column(&one).len()), ("price", NAME_BYTES_MAX));
        assert_ne!(column(&one), column(&other));
        assert!(column(&"ä".repeat(40)).len() <= NAME_BYTES_MAX);
    }
}
