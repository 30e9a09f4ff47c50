//! Reading what a statement gave.

use serde_json::{Map, Value};

/// A row of a statement's result.
pub(super) struct Row<'a>(pub(super) &'a Map<String, Value>);

impl Row<'_> {
    /// A count or sum; what there was nothing to add up for is 0.
    pub(super) fn int(&self, column: &str) -> i64 {
        match self.0.get(column) {
            Some(Value::Number(number)) => number.as_i64().unwrap_or(0),
            // Beyond 2^53 it travels as a text.
            Some(Value::String(text)) => text.parse().unwrap_or(0),
            _ => 0,
        }
    }

    /// The same of what is never negative.
    pub(super) fn count(&self, column: &str) -> u64 {
        u64::try_from(self.int(column)).unwrap_or(0)
    }

    /// A mean or percentile; none where there was nothing to make it of.
    pub(super) fn float(&self, column: &str) -> Option<f64> {
        self.0.get(column).and_then(Value::as_f64).map(rounded)
    }

    pub(super) fn text(&self, column: &str) -> Option<String> {
        self.0.get(column).and_then(Value::as_str).map(str::to_owned)
    }
}

/// A part of a whole; none where there is no whole.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| rounded(part as f64 / whole as f64))
}

/// Doubles are added up in any order: what differs by that is not shown.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_come_in_each_of_their_forms() {
        let row = json!({ "n": 3, "long": "9007199254740993", "none": null, "x": 0.1234567, "t": "a" });
        let row = Row(row.as_object().unwrap());
        assert_eq!((row.int("n"), row.int("long"), row.count("none")), (3, 9_007_199_254_740_993, 0));
        assert_eq!((row.float("x"), row.float("n"), row.float("none")), (Some(0.123457), Some(3.0), None));
        assert_eq!((row.text("t").as_deref(), row.text("none")), (Some("a"), None));
        assert_eq!((share(1, 3), share(0, 0)), (Some(0.333333), None));
    }
}
