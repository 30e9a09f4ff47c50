//! Time: a millisecond timestamp, and a clock that tests can set.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z. On the wire RFC 3339 with milliseconds and `Z`; in a row an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This moment plus `duration`, saturating.
    pub fn after(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This moment minus `duration`, saturating.
    pub fn before(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long from `earlier` to this moment; zero when it is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub fn millis(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = String;

    /// Reads RFC 3339 (any offset) or a bare date, which is its midnight in UTC.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(Timestamp(time.as_millisecond()));
        }
        // jiff would also read the date of a local time and drop the rest, which would move it by up to a day.
        let is_bare = text.len() == "2026-11-20".len();
        text.parse::<jiff::civil::Date>()
            .ok()
            .filter(|_| is_bare)
            .and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok())
            .map(|zoned| Timestamp(zoned.timestamp().as_millisecond()))
            .ok_or_else(|| "is not an RFC 3339 time such as 2026-11-20T09:30:00Z".to_owned())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_i64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
        } else {
            i64::deserialize(deserializer).map(Timestamp)
        }
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// The box's clock. Tests move theirs; the offset is added to the machine's own time.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    offset_ms: Arc<AtomicI64>,
}

impl Clock {
    /// The machine's time.
    pub fn system() -> Clock {
        Clock::default()
    }

    pub fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Timestamp(millis.saturating_add(self.offset_ms.load(Ordering::Relaxed)))
    }

    /// Moves this clock, and every clone of it, forward.
    pub fn advance(&self, duration: Duration) {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.offset_ms.fetch_add(millis, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_form_has_milliseconds_and_z() {
        let time: Timestamp = "2026-11-20T10:30:00+01:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-20T09:30:00.000Z");
        assert_eq!("2026-11-20".parse::<Timestamp>().unwrap().to_string(), "2026-11-20T00:00:00.000Z");
        for bad in ["yesterday", "2026-11-20T09:30:00", "2026-11-20 09:30", "2026-02-30"] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_moved_clock_moves_its_clones() {
        let clock = Clock::system();
        let other = clock.clone();
        clock.advance(Duration::from_secs(3600));
        assert!(other.now().since(Clock::system().now()) > Duration::from_secs(3599));
    }
}
