//! What somebody may have meant who typed something that does not exist.

/// How alike two texts must be to be named: 1 is the same (Jaro-Winkler).
const LIKENESS_MIN: f64 = 0.75;

/// Up to `max` of the known texts that are most like the given one, the most alike in front; letters' case does not count.
pub fn nearest(given: &str, known: impl IntoIterator<Item = String>, max: usize) -> Vec<String> {
    let given = given.to_lowercase();
    let mut found: Vec<(f64, String)> = known
        .into_iter()
        .map(|text| (strsim::jaro_winkler(&given, &text.to_lowercase()), text))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.truncate(max);
    found.into_iter().map(|(_, text)| text).collect()
}

/// "; did you mean a, b or c?", or nothing.
pub fn did_you_mean(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => format!("; did you mean {only}?"),
        [rest @ .., last] => format!("; did you mean {} or {last}?", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognized_and_something_else_is_not() {
        let known = || ["ada@example.com", "bob@example.com", "zoe@other.test"].map(str::to_owned);
        assert_eq!(nearest("Ad@example.com", known(), 1), ["ada@example.com"]);
        assert!(nearest("qqqq", known(), 3).is_empty());
        assert_eq!(did_you_mean(&nearest("", known(), 3)), "");
        assert_eq!(did_you_mean(&["a".into(), "b".into(), "c".into()]), "; did you mean a, b or c?");
        assert_eq!(did_you_mean(&["a".into()]), "; did you mean a?");
    }
}
