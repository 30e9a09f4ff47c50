//! `Retry-After`: how long a server asks to be left alone.

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// The longest `Retry-After` that is reported.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long `Retry-After` asks to wait: seconds, or a date (RFC 9110, section 10.2.3). A date is one of the server's clock,
/// as is the answer's own; without that it is held against `now`.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let dated = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    let now = dated.unwrap_or(now);
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn reads_retry_after() {
        let now = httpdate::parse_http_date("Fri, 21 Nov 2025 10:00:00 GMT").unwrap();
        for (text, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Fri, 21 Nov 2025 10:05:00 GMT", Some(300)),
            ("Fri, 21 Nov 2025 09:00:00 GMT", Some(0)),
            ("99999999999", Some(86_400)),
            ("soon", None),
            ("-5", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())]);
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
        let date = |text: &'static str| HeaderValue::from_static(text);
        let headers = HeaderMap::from_iter([
            (RETRY_AFTER, date("Sat, 21 Nov 2026 10:02:00 GMT")),
            (DATE, date("Sat, 21 Nov 2026 10:00:00 GMT")),
        ]);
        assert_eq!(retry_after(&headers, now), Some(Duration::from_secs(120)), "our clock is a year behind");
    }
}
