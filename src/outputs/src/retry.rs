//! What an endpoint's answer means, and when a delivery is tried again.
//!
//! Eight tries over about 28 hours, each at a stated time behind the one before, moved a little so that what failed together is
//! not tried together. An endpoint that asks for a pause gets it; one that is overloaded is asked less often; one that says that
//! it is gone is not asked any more.

use std::time::Duration;

/// The pauses between tries: with the first one at once, eight tries in all.
pub const PAUSES: [Duration; 7] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3_600),
    Duration::from_secs(5 * 3_600),
    Duration::from_secs(10 * 3_600),
    Duration::from_secs(10 * 3_600),
];
/// Tries of a delivery.
pub const TRIES_MAX: u32 = PAUSES.len() as u32 + 1;
/// A pause is longer or shorter by up to this share of itself.
pub const JITTER: f64 = 0.1;
/// How long an endpoint has to answer, from the connection on to the end of its answer's head.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// The longest pause that an endpoint may ask for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How long an endpoint that is overloaded and says no more is left alone.
pub const THROTTLE: Duration = Duration::from_secs(60);
/// The first and the longest pause of a target that cannot be used.
pub const AWAY_MIN: Duration = Duration::from_secs(5);
pub const AWAY_MAX: Duration = Duration::from_secs(5 * 60);
/// An endpoint whose deliveries have all failed for so long is disabled.
pub const DISABLED_AFTER: Duration = Duration::from_secs(5 * 24 * 3_600);

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Delivered,
    /// To be tried again.
    Failed,
    /// To be tried again, and nothing else is sent there for a while.
    Throttled,
    /// The endpoint wants nothing any more (410).
    Gone,
    /// The target cannot be used at all for now, whatever is sent there.
    Away,
    /// Never to be tried again, and nothing is said of what comes next.
    Refused,
}

/// What the answer of an endpoint means; none: there was no answer.
pub fn verdict(status: Option<u16>) -> Verdict {
    match status {
        Some(200..=299) => Verdict::Delivered,
        Some(410) => Verdict::Gone,
        Some(429 | 502 | 504) => Verdict::Throttled,
        // A redirect is no delivery: what is signed for one place is not carried to another.
        _ => Verdict::Failed,
    }
}

/// How long the next try waits behind one that has failed, given how many there were; none when that was the last one. `dice`
/// is a random number from 0 to 1.
pub fn pause(tries: u32, retry_after: Option<Duration>, dice: f64) -> Option<Duration> {
    let stated = *PAUSES.get(tries.checked_sub(1)? as usize)?;
    let dice = if dice.is_finite() { dice.clamp(0.0, 1.0) } else { 0.5 };
    let moved = stated.mul_f64(1.0 + JITTER * (2.0 * dice - 1.0));
    Some(moved.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX)))
}

/// How long an endpoint that is overloaded is left alone.
pub fn throttle(retry_after: Option<Duration>) -> Duration {
    retry_after.unwrap_or(THROTTLE).min(RETRY_AFTER_MAX)
}

/// How long a target is left alone that cannot be used, and could not be used for this long: it doubles, and ends soon after
/// the target is there again.
pub fn away(failing_for: Duration) -> Duration {
    failing_for.clamp(AWAY_MIN, AWAY_MAX)
}

/// Whether an endpoint is to be disabled that has failed, and not delivered once, for this long.
pub fn is_dead(failing_for: Duration) -> bool {
    failing_for >= DISABLED_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_tries_over_about_28_hours() {
        let mut total = Duration::ZERO;
        for tries in 1..TRIES_MAX {
            let (least, most) = (pause(tries, None, 0.0).unwrap(), pause(tries, None, 1.0).unwrap());
            let stated = pause(tries, None, 0.5).unwrap();
            assert_eq!(stated, PAUSES[tries as usize - 1]);
            assert!(least < stated && stated < most && most <= stated.mul_f64(1.11), "{tries}");
            total += stated;
        }
        assert_eq!((TRIES_MAX, total.as_secs() / 3_600), (8, 27));
        assert_eq!((pause(0, None, 0.5), pause(TRIES_MAX, None, 0.5)), (None, None));
        assert_eq!(pause(u32::MAX, Some(Duration::MAX), f64::NAN), None);
    }

    #[test]
    fn what_an_endpoint_asks_for_is_heeded_within_bounds() {
        let after = |secs| Some(Duration::from_secs(secs));
        assert_eq!(pause(1, after(120), 0.5), after(120), "longer than stated");
        assert_eq!(pause(3, after(1), 0.5), Some(PAUSES[2]), "never sooner than stated");
        assert_eq!(pause(1, after(u64::MAX), 0.5), Some(RETRY_AFTER_MAX));
        assert_eq!((throttle(None), throttle(after(7))), (THROTTLE, Duration::from_secs(7)));
        assert_eq!(throttle(after(u64::MAX)), RETRY_AFTER_MAX);
    }

    #[test]
    fn answers_mean_what_the_specification_says() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(verdict(Some(status)), Verdict::Delivered, "{status}");
        }
        for status in
            [100, 199, 300, 301, 302, 304, 307, 308, 400, 401, 404, 408, 409, 422, 500, 501, 503, 999]
        {
            assert_eq!(verdict(Some(status)), Verdict::Failed, "{status}");
        }
        for status in [429, 502, 504] {
            assert_eq!(verdict(Some(status)), Verdict::Throttled, "{status}");
        }
        assert_eq!((verdict(Some(410)), verdict(None)), (Verdict::Gone, Verdict::Failed));
        assert!(is_dead(DISABLED_AFTER) && !is_dead(DISABLED_AFTER - Duration::from_millis(1)));
    }
}
