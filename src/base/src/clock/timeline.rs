//! How the box's time goes on while the machine's clock is set: a machine of states without a clock of its own.

mod now;

pub use now::Now;

use super::{Moment, Timestamp};
use crate::codec::Record;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// From here on a difference is a jump. Below it dates stand still until the machine's clock has come after them.
pub const JUMP_MIN: Duration = Duration::from_secs(10);
/// The clocks are read one after the other, in whole milliseconds.
const SAME_MS: i64 = 5;
/// A box that says it was off for no longer is believed at once.
const OFF_MAX: i64 = 3_600_000;
/// What part of the time that a machine says it was off has to pass before that is believed.
const DOUBT_PART: i64 = 24;
/// The longest doubt.
const DOUBT_MAX: i64 = 24 * 3_600_000;
/// Stretches that are remembered; the first one stands for all before it.
const STRETCHES_MAX: usize = 64;

/// What the clocks of the machine say at one instant, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    /// Since 1970, by whoever set it.
    pub wall: i64,
    /// Since the machine was started, the time that it slept included: nobody sets it.
    pub up: i64,
}

/// A stretch of time in which dates were as far from moments everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetPeriod {
    since: i64,
    /// Date less moment.
    ahead: i64,
}

/// Dates and moments are one, as long as anybody remembers.
const ALWAYS: OffsetPeriod = OffsetPeriod { since: i64::MIN, ahead: 0 };

/// A jump of the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jump {
    /// What the date would have been.
    pub from: Timestamp,
    /// What it was.
    pub to: Timestamp,
}

impl Jump {
    /// By how much; negative for one back.
    pub fn millis(self) -> i64 {
        self.to.0.saturating_sub(self.from.0)
    }
}

/// Time that the machine says it was off, which is not believed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct UnconfirmedJump {
    ms: i64,
    since: i64,
}

/// Where a clock stood, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStateV1 {
    /// The run of the machine, as its kernel names it.
    boot: String,
    up: i64,
    moment: i64,
    date: i64,
    stretches: Vec<OffsetPeriod>,
    went_back: bool,
    jumps: u64,
    last_jump: Option<Jump>,
    doubted: Option<UnconfirmedJump>,
    /// The time of the newest id.
    pub newest_id_ms: u64,
}

impl Record for ClockStateV1 {}

#[derive(Debug)]
pub(super) struct Timeline {
    boot: String,
    /// `up` and moment of one instant.
    anchor: (i64, i64),
    moment: i64,
    date: i64,
    stretches: Arc<[OffsetPeriod]>,
    went_back: bool,
    pub jumps: u64,
    pub last_jump: Option<Jump>,
    doubted: Option<UnconfirmedJump>,
}

impl Timeline {
    /// One that begins now: moments are dates, and there were none before.
    pub fn new(boot: String, reading: ClockReading) -> Timeline {
        Timeline {
            boot,
            anchor: (reading.up, reading.wall),
            moment: reading.wall,
            date: reading.wall,
            stretches: Arc::new([OffsetPeriod { since: reading.wall, ahead: 0 }]),
            went_back: false,
            jumps: 0,
            last_jump: None,
            doubted: None,
        }
    }

    /// Begins where an older release ended, of which only the newest time is known that it wrote.
    pub fn resume_at(&mut self, newest: Timestamp, reading: ClockReading) {
        let moment = newest.0.max(reading.wall);
        (self.anchor, self.moment, self.date) = ((reading.up, moment), moment, moment);
        self.stretches = Arc::new([ALWAYS]);
    }

    /// Goes on where `state` was kept.
    pub fn resume(&mut self, state: &ClockStateV1, boot: String, reading: ClockReading) {
        let ran_on = state.boot == boot && reading.up >= state.up;
        let passed = if ran_on { reading.up - state.up } else { 0 };
        self.boot = boot;
        self.anchor = (state.up, state.moment);
        self.moment = state.moment + passed;
        self.date = state.date;
        self.stretches = Arc::from(state.stretches.as_slice());
        self.went_back = state.went_back;
        self.jumps = state.jumps;
        self.last_jump = state.last_jump;
        self.doubted = state.doubted;
        if ran_on {
            return;
        }
        self.anchor = (reading.up, state.moment);
        // Nobody but the machine's clock knows for how long the machine was off.
        let off = reading.wall.saturating_sub(state.moment.saturating_add(self.ahead()));
        if (0..=OFF_MAX).contains(&off) {
            self.pass(off);
        } else if off > 0 {
            self.stretch(self.ahead().saturating_add(off));
            let ms = off.saturating_add(state.doubted.map_or(0, |doubted| doubted.ms));
            self.doubted = Some(UnconfirmedJump { ms, since: self.moment });
        } else if let Some(doubted) = &mut self.doubted {
            doubted.since = self.moment;
        }
    }

    pub fn state(&self, newest_id_ms: u64) -> ClockStateV1 {
        ClockStateV1 {
            boot: self.boot.clone(),
            up: self.anchor.0 + (self.moment - self.anchor.1),
            moment: self.moment,
            date: self.date,
            stretches: self.stretches.to_vec(),
            went_back: self.went_back,
            jumps: self.jumps,
            last_jump: self.last_jump,
            doubted: self.doubted,
            newest_id_ms,
        }
    }

    /// Goes on to an instant; says so when the machine's clock jumped on the way.
    pub fn go_on(&mut self, reading: ClockReading) -> Option<Jump> {
        let passed = reading.up.saturating_sub(self.anchor.0);
        self.moment = self.moment.max(self.anchor.1.saturating_add(passed));
        let due = self.moment.saturating_add(self.ahead());
        let off_by = reading.wall.saturating_sub(due);
        if off_by.unsigned_abs() < JUMP_MIN.as_millis() as u64 {
            // Whoever corrects a clock by a little at a time does not jump, however far that leads.
            // What was written before keeps its moment all the same.
            if off_by.abs() > SAME_MS {
                self.stretch(self.ahead() + off_by);
            }
            self.date = self.date.max(self.moment.saturating_add(self.ahead()));
            self.believe();
            return None;
        }
        let jump = Jump { from: Timestamp(due), to: Timestamp(reading.wall) };
        self.stretch(reading.wall.saturating_sub(self.moment));
        self.date = reading.wall;
        self.went_back |= off_by < 0;
        self.jumps += 1;
        self.last_jump = Some(jump);
        if let Some(doubted) = &mut self.doubted {
            // What is taken back was never time.
            *doubted = UnconfirmedJump { ms: doubted.ms.saturating_add(off_by.min(0)), since: self.moment };
        }
        self.doubted = self.doubted.filter(|doubted| doubted.ms > 0);
        Some(jump)
    }

    /// Counts the time that the machine was off, once its clock has stood by it for long enough.
    fn believe(&mut self) {
        let Some(doubted) = self.doubted else { return };
        if self.moment - doubted.since >= (doubted.ms / DOUBT_PART).min(DOUBT_MAX) {
            self.accept();
        }
    }

    /// Counts it now.
    pub fn accept(&mut self) {
        let Some(UnconfirmedJump { ms, .. }) = self.doubted.take() else { return };
        let ahead = self.ahead().saturating_sub(ms);
        self.pass(ms);
        self.stretch(ahead);
    }

    /// Lets time pass.
    fn pass(&mut self, ms: i64) {
        self.anchor.1 = self.anchor.1.saturating_add(ms);
        self.moment = self.moment.saturating_add(ms);
    }

    /// Dates are so far from moments from here on. Of too many stretches the two become one that differ least, and of such
    /// the oldest: a year is remembered for longer than many small corrections.
    fn stretch(&mut self, ahead: i64) {
        let mut all = self.stretches.to_vec();
        all.push(OffsetPeriod { since: self.moment, ahead });
        if all.len() > STRETCHES_MAX {
            let differ = |at: &usize| all[*at].ahead.abs_diff(all[at - 1].ahead);
            let least = (1..all.len()).min_by_key(differ).unwrap_or(1);
            all[least].since = all[least - 1].since;
            all.remove(least - 1);
        }
        self.stretches = all.into();
    }

    pub fn ahead(&self) -> i64 {
        self.stretches.last().map_or(0, |last| last.ahead)
    }

    pub fn doubted(&self) -> Option<Duration> {
        let ms = u64::try_from(self.doubted?.ms).ok()?;
        Some(Duration::from_millis(ms))
    }

    pub fn now(&self) -> Now {
        Now {
            date: Timestamp(self.date),
            moment: Moment(self.moment),
            stretches: Arc::clone(&self.stretches),
            went_back: self.went_back,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 3_600 * SECOND;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    /// 2026-11-22.
    const TODAY: i64 = 1_795_305_600_000;

    /// A machine whose clocks the test moves.
    struct Machine {
        reading: ClockReading,
        timeline: Timeline,
        boot: u32,
    }

    impl Machine {
        fn new() -> Machine {
            let reading = ClockReading { wall: TODAY, up: 5_000 };
            Machine { reading, timeline: Timeline::new("0".to_owned(), reading), boot: 0 }
        }

        fn pass(&mut self, ms: i64) -> Option<Jump> {
            self.reading.wall += ms;
            self.reading.up += ms;
            self.timeline.go_on(self.reading)
        }

        fn jump(&mut self, ms: i64) -> Option<Jump> {
            self.reading.wall += ms;
            self.timeline.go_on(self.reading)
        }

        /// The process is started anew.
        fn restart(&mut self) {
            let state = self.timeline.state(0);
            self.timeline = Timeline::new(self.boot.to_string(), self.reading);
            self.timeline.resume(&state, self.boot.to_string(), self.reading);
            self.timeline.go_on(self.reading);
        }

        /// The machine is off for a while, and its clock says another one.
        fn reboot(&mut self, off_by_its_clock: i64) {
            self.boot += 1;
            self.reading = ClockReading { wall: self.reading.wall + off_by_its_clock, up: 1_000 };
            self.restart();
        }

        fn moment(&self) -> i64 {
            self.timeline.now().moment.0
        }

        fn date(&self) -> i64 {
            self.timeline.now().date.0
        }
    }

    #[test]
    fn dates_follow_a_jump_and_moments_do_not() {
        let mut machine = Machine::new();
        assert_eq!((machine.moment(), machine.date()), (TODAY, TODAY));
        assert!(machine.pass(HOUR).is_none());
        let jump = machine.jump(YEAR).unwrap();
        assert_eq!((jump.from.0, jump.to.0, jump.millis()), (TODAY + HOUR, TODAY + HOUR + YEAR, YEAR));
        assert_eq!((machine.moment(), machine.date()), (TODAY + HOUR, TODAY + HOUR + YEAR));
        assert!(machine.pass(HOUR).is_none(), "it is one jump");
        assert_eq!(machine.jump(-YEAR - DAY).unwrap().millis(), -YEAR - DAY);
        assert_eq!((machine.moment(), machine.date()), (TODAY + 2 * HOUR, TODAY + 2 * HOUR - DAY));
        assert_eq!(machine.timeline.jumps, 2);
    }

    #[test]
    fn a_small_difference_is_waited_out() {
        let mut machine = Machine::new();
        machine.pass(HOUR);
        assert!(machine.jump(-9 * SECOND).is_none());
        assert_eq!(machine.date(), TODAY + HOUR, "dates do not go back");
        machine.pass(5 * SECOND);
        assert_eq!((machine.date(), machine.moment()), (TODAY + HOUR, TODAY + HOUR + 5 * SECOND));
        machine.pass(10 * SECOND);
        assert_eq!(machine.date(), machine.reading.wall);
        // However often.
        for _ in 0..100 {
            assert!(machine.jump(9 * SECOND).is_none());
            machine.pass(SECOND);
        }
        assert_eq!((machine.date(), machine.timeline.jumps), (machine.reading.wall, 0));
        assert_eq!(machine.moment(), TODAY + HOUR + 115 * SECOND);
    }

    #[test]
    fn what_was_written_while_dates_stood_still_is_not_taken_for_something_older() {
        let mut machine = Machine::new();
        machine.pass(2 * DAY);
        machine.jump(-DAY).unwrap();
        machine.pass(6 * HOUR);
        assert!(machine.jump(-40).is_none());
        let (date, moment) = (Timestamp(machine.date()), machine.moment());
        assert_eq!(
            machine.timeline.now().moment_of(date),
            Moment(moment),
            "and not what had that date a day before"
        );
        // Nor when the stretch was over before its dates had gone on.
        machine.pass(10);
        machine.jump(YEAR).unwrap();
        machine.pass(HOUR);
        assert_eq!(machine.timeline.now().moment_of(date), Moment(moment + 10));
    }

    #[test]
    fn a_date_whose_stretch_was_forgotten_is_not_taken_for_one_before_the_box() {
        let mut machine = Machine::new();
        machine.pass(DAY);
        let mut written = Vec::new();
        // Twenty seconds forward and back, a year forward and back: the smaller ones become one with others.
        for n in 0..STRETCHES_MAX as i64 * 2 {
            written.push((machine.date(), machine.moment()));
            let ms = if n % 8 < 6 { 20 * SECOND } else { YEAR };
            machine.jump(if n % 2 == 0 { ms } else { -ms });
            machine.pass(SECOND);
        }
        let now = machine.timeline.now();
        assert_eq!(now.stretches.len(), STRETCHES_MAX);
        for (date, moment) in written {
            let told = now.moment_of(Timestamp(date)).0;
            assert!(told.abs_diff(moment) < MINUTE as u64 * 4, "{} ms off", told.abs_diff(moment));
        }
    }

    #[test]
    fn small_corrections_move_nothing_that_was_written_before() {
        let mut machine = Machine::new();
        let mut written = Vec::new();
        for correction in [9 * SECOND, 40, 5 * SECOND, 9 * SECOND] {
            machine.pass(HOUR);
            written.push((machine.date(), machine.moment()));
            machine.pass(SECOND);
            assert!(machine.jump(correction).is_none());
        }
        machine.pass(SECOND);
        let now = machine.timeline.now();
        for (date, moment) in written {
            assert_eq!(
                (now.moment_of(Timestamp(date)), now.date_of(Moment(moment))),
                (Moment(moment), Timestamp(date))
            );
        }
        // However many come, a year is not forgotten for them.
        machine.jump(YEAR).unwrap();
        let (date, moment) = (machine.date(), machine.moment());
        machine.pass(DAY);
        machine.jump(-YEAR).unwrap();
        for n in 0..1_000 {
            machine.pass(HOUR);
            assert!(machine.jump(if n % 2 == 0 { SECOND } else { -SECOND }).is_none());
        }
        let now = machine.timeline.now();
        assert_eq!((now.stretches.len(), now.moment_of(Timestamp(date))), (STRETCHES_MAX, Moment(moment)));
        assert_eq!(now.date_of(now.moment).0, machine.reading.wall);
    }

    #[test]
    fn it_is_known_by_how_much_dates_of_late_may_be_off() {
        let of = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap());
        let mut machine = Machine::new();
        let off = |machine: &Machine, time: i64| machine.timeline.now().off_within(of(time));
        machine.pass(DAY);
        assert_eq!(off(&machine, HOUR), Duration::ZERO);
        // A night that a virtual machine slept through.
        machine.jump(8 * HOUR).unwrap();
        assert_eq!(off(&machine, HOUR), of(8 * HOUR));
        machine.pass(2 * HOUR);
        assert_eq!((off(&machine, HOUR), off(&machine, DAY)), (Duration::ZERO, of(8 * HOUR)));
        // A wrong year that was mended.
        machine.jump(YEAR).unwrap();
        machine.pass(MINUTE);
        machine.jump(-YEAR).unwrap();
        assert_eq!((off(&machine, HOUR), off(&machine, 2 * HOUR)), (of(YEAR), of(YEAR)));
        machine.pass(2 * HOUR);
        assert_eq!((off(&machine, HOUR), off(&machine, 4 * HOUR)), (Duration::ZERO, of(YEAR)));
    }

    #[test]
    fn an_age_is_a_true_one_across_jumps() {
        let mut machine = Machine::new();
        let mut written = vec![(machine.date(), machine.moment())];
        for jump in [YEAR, -2 * YEAR, 30 * DAY, -DAY, 4 * YEAR, -3 * YEAR] {
            machine.pass(HOUR);
            machine.jump(jump);
            machine.pass(SECOND);
            written.push((machine.date(), machine.moment()));
        }
        machine.pass(DAY);
        let now = machine.timeline.now();
        for (date, moment) in written {
            assert_eq!(now.moment_of(Timestamp(date)), Moment(moment));
            assert_eq!(now.age(Timestamp(date)), now.moment.since(Moment(moment)));
            assert_eq!(now.date_of(Moment(moment)), Timestamp(date));
        }
        assert_eq!(now.age(Timestamp(TODAY + 20 * YEAR)), Duration::ZERO, "nobody wrote that");
        assert_eq!(
            now.age(Timestamp(TODAY - 5 * DAY)),
            now.moment.since(Moment(TODAY - 5 * DAY)),
            "before it began"
        );
        assert!(now.went_back());
    }

    #[test]
    fn a_restart_goes_on_by_the_machines_uptime_whatever_its_clock_says() {
        let mut machine = Machine::new();
        machine.pass(HOUR);
        for jump in [YEAR, -2 * YEAR, -SECOND, DAY, 0] {
            let before = machine.moment();
            let state = machine.timeline.state(7);
            assert_eq!(state.newest_id_ms, 7);
            machine.reading.wall += jump + 60 * SECOND;
            machine.reading.up += 60 * SECOND;
            machine.timeline = Timeline::new("0".to_owned(), machine.reading);
            machine.timeline.resume(&state, "0".to_owned(), machine.reading);
            machine.timeline.go_on(machine.reading);
            assert_eq!(machine.moment(), before + 60 * SECOND, "{jump}");
            assert!((machine.date() - machine.reading.wall).abs() <= SECOND, "{jump}");
        }
        assert_eq!(machine.timeline.jumps, 3);
    }

    #[test]
    fn a_machine_that_says_it_was_off_for_a_year_is_believed_after_a_day() {
        let mut machine = Machine::new();
        machine.reboot(600 * SECOND);
        assert_eq!(machine.moment(), TODAY + 600 * SECOND, "ten minutes are believed");
        machine.reboot(YEAR);
        let begun = machine.moment();
        assert_eq!(
            (begun, machine.date()),
            (TODAY + 600 * SECOND, machine.reading.wall),
            "dates follow at once"
        );
        assert_eq!(machine.timeline.doubted(), Some(Duration::from_millis(YEAR as u64)));
        machine.pass(23 * HOUR);
        machine.restart();
        assert_eq!(machine.moment(), begun + 23 * HOUR, "a restart of the process does not count for it");
        machine.pass(HOUR);
        assert_eq!(machine.moment(), begun + DAY + YEAR);
        assert_eq!((machine.date(), machine.timeline.jumps), (machine.reading.wall, 0));
        let now = machine.timeline.now();
        assert_eq!(now.age(Timestamp(TODAY)), now.moment.since(Moment(TODAY)));
        // A day is believed within an hour.
        machine.reboot(DAY);
        let begun = machine.moment();
        machine.pass(HOUR - SECOND);
        assert_eq!(machine.moment(), begun + HOUR - SECOND);
        machine.pass(SECOND);
        assert_eq!(machine.moment(), begun + HOUR + DAY);
    }

    #[test]
    fn a_year_that_is_taken_back_in_time_never_was() {
        let mut machine = Machine::new();
        machine.reboot(YEAR);
        let begun = machine.moment();
        machine.pass(HOUR);
        machine.jump(-YEAR + 3 * HOUR);
        machine.pass(2 * DAY);
        assert_eq!(machine.moment(), begun + HOUR + 2 * DAY + 3 * HOUR, "what is left of it is believed");
        assert_eq!((machine.date(), machine.timeline.doubted()), (machine.reading.wall, None));
        machine.reboot(YEAR);
        let begun = machine.moment();
        machine.jump(-YEAR - DAY);
        machine.pass(2 * DAY);
        assert_eq!((machine.moment(), machine.timeline.doubted()), (begun + 2 * DAY, None));
        // The operator knows better.
        machine.reboot(YEAR);
        let begun = machine.moment();
        machine.timeline.accept();
        assert_eq!((machine.moment(), machine.date()), (begun + YEAR, machine.reading.wall));
    }

    #[test]
    fn a_machine_whose_clock_went_back_while_it_was_off_goes_on_where_it_was() {
        let mut machine = Machine::new();
        machine.pass(HOUR);
        let before = machine.moment();
        machine.reboot(-50 * YEAR);
        assert_eq!((machine.moment(), machine.date()), (before, machine.reading.wall));
        assert_eq!(machine.timeline.jumps, 1);
        machine.jump(50 * YEAR + DAY);
        machine.pass(HOUR);
        assert_eq!((machine.moment(), machine.date()), (before + HOUR, machine.reading.wall));
    }

    #[test]
    fn a_folder_of_an_older_release_goes_on_from_its_newest_date() {
        for (newest, moment, jumps) in [(TODAY - DAY, TODAY, 0), (TODAY + DAY, TODAY + DAY, 1)] {
            let mut machine = Machine::new();
            machine.timeline.resume_at(Timestamp(newest), machine.reading);
            machine.pass(0);
            assert_eq!((machine.moment(), machine.date()), (moment, TODAY));
            assert_eq!(machine.timeline.jumps, jumps);
        }
    }

    #[test]
    fn jumps_without_end_cost_no_memory_and_lose_the_oldest_only() {
        let mut machine = Machine::new();
        for n in 0..1_000 {
            machine.pass(SECOND);
            machine.jump(if n % 2 == 0 { YEAR } else { -YEAR }).unwrap();
        }
        machine.pass(SECOND);
        let now = machine.timeline.now();
        assert_eq!(now.stretches.len(), STRETCHES_MAX);
        assert_eq!(now.moment_of(now.date), now.moment);
        assert!(now.went_back() && machine.timeline.jumps == 1_000);
    }
}
