//! Time: dates, the box's own time, and the clock that knows both.
//!
//! The machine's clock is set by people and time servers, also by years and back. So there are two times, with a type each:
//! - A [`Timestamp`] is a **date**: when something happened (`created_at`), or a date that somebody named (the end of an API
//!   key). It follows the machine's clock: a difference below [`JUMP_MIN`] is waited out, so that dates do not go back; a
//!   larger one is a jump, which is followed at once, logged and counted, also back.
//! - A [`Moment`] is a point of the **box's own time**, which goes on as time does and never back: whatever waits, lasts or
//!   ends after a while is kept and compared as moments: leases, waits, terms of tokens and links, billing periods. Nothing
//!   has to be moved when the clock is set. Shown to people they are dates ([`Now::date_of`]).
//!
//! How long ago a date was is not a difference of dates either: [`Now::age`] knows what the clock showed when. Within a
//! process and nowhere else `std::time::Instant` serves as well as a moment. Ids follow moments (`ids.rs`).
//!
//! **Restarts.** The store keeps with each commit where the clock stood ([`ClockStateV1`]). Within one run of the machine its
//! uptime tells how much time has passed since, whatever the clock says. After a restart of the machine only its clock can
//! tell; below an hour it is believed. If it says more, dates follow at once, but the time is not counted before the clock has
//! stood by it for a twenty-fourth of that, at most a day (or the operator says so: `gleaner admin clock accept`): a machine
//! that starts in the year 2030 must not end every term and delete what is kept for a month. If it goes back before that,
//! nothing has happened.

mod timeline;

pub use timeline::{ClockStateV1, JUMP_MIN, Jump, Now};

use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;
use timeline::{ClockReading, Timeline};

use jiff::fmt::temporal::Pieces;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
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

    /// The date as the machine has it, for who has no [`Clock`].
    pub fn by_machine() -> Timestamp {
        Timestamp(wall_ms())
    }
}

const EPOCH: jiff::civil::DateTime = jiff::civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// Offsets of RFC 3339 are below this.
const DAY_SECONDS: i32 = 86_400;

/// A time with an offset that jiff's own timestamps do not reach: in the last day of the year 9999, which people write for
/// "never".
fn beyond_jiff(pieces: &Pieces<'_>) -> Option<Timestamp> {
    let (time, offset) = (pieces.time()?, pieces.to_numeric_offset()?);
    let millis = pieces.date().to_datetime(time).duration_since(EPOCH).as_millis();
    i64::try_from(millis - i128::from(offset.seconds()) * 1_000).ok().map(Timestamp)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => match EPOCH.checked_add(jiff::SignedDuration::from_millis(self.0)) {
                Ok(time) => write!(f, "{time:.3}Z"),
                Err(_) => write!(f, "{}ms", self.0),
            },
        }
    }
}

impl FromStr for Timestamp {
    type Err = String;

    /// Reads RFC 3339 (any offset) or a bare date, which is its midnight in UTC.
    fn from_str(text: &str) -> Result<Self, String> {
        let pieces = Pieces::parse(text).ok();
        let offset = pieces.as_ref().and_then(Pieces::to_numeric_offset);
        if offset.is_none_or(|offset| offset.seconds().abs() < DAY_SECONDS) {
            if let Ok(time) = text.parse::<jiff::Timestamp>() {
                return Ok(Timestamp(time.as_millisecond()));
            }
            if let Some(time) = pieces.as_ref().and_then(beyond_jiff) {
                return Ok(time);
            }
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

/// A point of the box's own time, in milliseconds: it goes on as time does, whoever sets the machine's clock, and never
/// back, also over a restart. It is no date (see [`Now::date_of`]); in a row an integer.
///
/// On a box whose clock was never set while it ran, or between two runs, it is the date's number, and so it is in rows of
/// releases that knew dates only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub i64);

impl Moment {
    /// This moment plus `duration`, saturating.
    pub fn after(self, duration: Duration) -> Moment {
        Moment(Timestamp(self.0).after(duration).0)
    }

    /// This moment minus `duration`, saturating.
    pub fn before(self, duration: Duration) -> Moment {
        Moment(Timestamp(self.0).before(duration).0)
    }

    /// How long from `earlier` to this moment; zero when it is not earlier.
    pub fn since(self, earlier: Moment) -> Duration {
        Timestamp(self.0).since(Timestamp(earlier.0))
    }

    pub fn millis(self) -> i64 {
        self.0
    }
}

/// The box's clock; clones share it.
#[derive(Clone, Debug)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Added to what the machine's clocks say; tests set them.
    wall_offset_ms: AtomicI64,
    up_offset_ms: AtomicI64,
    boots: AtomicI64,
    timeline: Mutex<Timeline>,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::system()
    }
}

impl Clock {
    /// The machine's time.
    pub fn system() -> Clock {
        Clock {
            inner: Arc::new(Inner {
                wall_offset_ms: AtomicI64::new(0),
                up_offset_ms: AtomicI64::new(0),
                boots: AtomicI64::new(0),
                timeline: Mutex::new(Timeline::new(boot(0), machine())),
            }),
        }
    }

    /// One look at it.
    pub fn look(&self) -> Now {
        self.look_with(Timeline::now)
    }

    fn look_with<T>(&self, read: impl FnOnce(&Timeline) -> T) -> T {
        let mut timeline = self.inner.timeline.lock();
        let jump = timeline.go_on(self.reading());
        let seen = read(&timeline);
        drop(timeline);
        if let Some(jump) = jump {
            tracing::warn!(
                target: "gleaner::clock",
                from = %jump.from,
                to = %jump.to,
                by_sec = jump.millis() as f64 / 1e3,
                "the machine's clock jumped; dates follow it, waits and terms go on as they were"
            );
        }
        seen
    }

    fn reading(&self) -> ClockReading {
        let ClockReading { wall, up } = machine();
        ClockReading {
            wall: wall.saturating_add(self.inner.wall_offset_ms.load(Ordering::Relaxed)),
            up: up.saturating_add(self.inner.up_offset_ms.load(Ordering::Relaxed)),
        }
    }

    /// The date: what people, logs and rows that tell of the past are shown.
    pub fn now(&self) -> Timestamp {
        self.look_with(|timeline| timeline.now().date)
    }

    /// The moment: what waits, leases, terms and periods go by.
    pub fn moment(&self) -> Moment {
        self.look_with(|timeline| timeline.now().moment)
    }

    /// What jumped since the box was founded, for the operator.
    pub fn report(&self) -> ClockReport {
        self.look_with(|timeline| ClockReport {
            now: timeline.now().date,
            jumps: timeline.jumps,
            last_jump: timeline.last_jump,
            ahead_ms: timeline.ahead(),
            doubted: timeline.doubted(),
        })
    }

    /// Goes on where the clock of a data folder stood; `newest` is a date that was written by a release that kept no more.
    pub fn resume(&self, state: Option<&ClockStateV1>, newest: Option<Timestamp>) {
        let mut timeline = self.inner.timeline.lock();
        let reading = self.reading();
        match (state, newest) {
            (Some(state), _) => {
                timeline.resume(state, boot(self.inner.boots.load(Ordering::Relaxed)), reading);
            }
            (None, Some(newest)) => timeline.resume_at(newest, reading),
            (None, None) => {}
        }
        drop(timeline);
        let now = self.look();
        if let Some(off) = self.report().doubted {
            tracing::warn!(
                target: "gleaner::clock",
                now = %now.date,
                off_sec = off.as_secs(),
                "the machine says that it was off for long; its clock has to stand by that for a while before terms end by it"
            );
        }
    }

    /// Where it stands, to go on from in another process.
    pub fn state(&self, newest_id_ms: u64) -> ClockStateV1 {
        self.look_with(|timeline| timeline.state(newest_id_ms))
    }

    /// Believes at once that the machine was off for as long as it says; for how long, if there was a doubt.
    pub fn accept(&self) -> Option<Duration> {
        let mut timeline = self.inner.timeline.lock();
        let doubted = timeline.doubted();
        timeline.accept();
        doubted
    }

    /// Lets time pass on this clock and every clone of it, for tests.
    pub fn advance(&self, duration: Duration) {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        // Whoever looks in between sees the calendar a moment late, which is not a jump of its own.
        let mut timeline = self.inner.timeline.lock();
        self.inner.wall_offset_ms.fetch_add(millis, Ordering::Relaxed);
        self.inner.up_offset_ms.fetch_add(millis, Ordering::Relaxed);
        timeline.go_on(self.reading());
    }

    /// Sets the machine's clock under this one, forward or back, for tests.
    pub fn set_wall(&self, by_ms: i64) {
        self.inner.wall_offset_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Has the machine be started anew, for tests; what [`Clock::resume`] then is given is of the run before.
    pub fn reboot(&self) {
        let up = self.reading().up;
        self.inner.boots.fetch_add(1, Ordering::Relaxed);
        self.inner.up_offset_ms.fetch_sub(up, Ordering::Relaxed);
    }
}

/// What an operator is told of the clock.
#[derive(Clone, Debug)]
pub struct ClockReport {
    pub now: Timestamp,
    /// Since the box was founded.
    pub jumps: u64,
    pub last_jump: Option<Jump>,
    /// By how much dates are ahead of the box's own time: all jumps together.
    pub ahead_ms: i64,
    /// For how long the machine says it was off, while that is not believed.
    pub doubted: Option<Duration>,
}

/// The clocks of the machine.
fn machine() -> ClockReading {
    let mut up = up_ms();
    loop {
        let wall = wall_ms();
        let after = up_ms();
        // A process that was held up in between would see a jump where there was none.
        if after - up <= READ_WITHIN_MS {
            return ClockReading { wall, up };
        }
        up = after;
    }
}

/// How long reading both clocks may take for them to be of one instant.
const READ_WITHIN_MS: i64 = 100;

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn up_ms() -> i64 {
    // Linux has this clock since 2.6.39; a kernel that filters the call leaves the one that stops while the machine sleeps.
    let read = clock_gettime(ClockId::CLOCK_BOOTTIME).or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
    read.map_or(0, |time| time.tv_sec().saturating_mul(1_000) + time.tv_nsec() / 1_000_000)
}

/// The name of the machine's run. One that cannot be read is one of its own each time.
fn boot(number: i64) -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        name.map_or_else(|_| uuid::Uuid::new_v4().to_string(), |name| name.trim().to_owned())
    });
    if number == 0 { name.clone() } else { format!("{name}+{number}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_form_has_milliseconds_and_z() {
        let time: Timestamp = "2026-11-20T10:30:00+01:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-20T09:30:00.000Z");
        assert_eq!("2026-11-20".parse::<Timestamp>().unwrap().to_string(), "2026-11-20T00:00:00.000Z");
        for (text, read) in [
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z"),
            ("9999-12-31T23:59:59.999+01:00", "9999-12-31T22:59:59.999Z"),
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), read);
        }
        for bad in [
            "yesterday",
            "2026-11-20T00:00:00+25:00",
            "2026-11-20T09:30:00",
            "2026-11-20 09:30",
            "2026-02-30",
        ] {
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
