//! Schedules over a real store and a clock that is set: what fires is what the policy says, and each tick has its row.

use super::rows::{
    BY_SCHEDULE, DUE, Misfire, OPEN, Overlap, RUNS, RunStatus, SCHEDULES, ScheduleRunV1, ScheduleV1,
};
use super::service::{self, QUEUED_MAX, Ticked};
use super::state::Scheduler;
use super::task::{entries, next_turn, tick_some, turns};
use super::times::Times;
use crate::features::jobs::{self, NewOptions};
use base::audit::Action;
use base::clock::{Clock, Timestamp};
use base::ids::{OrgId, ScheduleId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::fault::{FaultyDisk, damage_row};
use store::{AuditFilter, MIGRATIONS, Order, OrgStore, Store};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const YEAR_MS: i64 = 365 * 86_400_000;

struct Lab {
    store: Store,
    org: OrgStore,
    clock: Clock,
}

impl Lab {
    fn new() -> Lab {
        let disk = FaultyDisk::new();
        let clock = Clock::system();
        let store = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap();
        let org = store.system().org(OrgId::new());
        Lab { store, org, clock }
    }

    async fn schedule(&self, cron: &str, change: impl FnOnce(&mut ScheduleV1)) -> ScheduleId {
        self.schedule_of(&self.org, cron, change).await
    }

    async fn schedule_of(
        &self,
        org: &OrgStore,
        cron: &str,
        change: impl FnOnce(&mut ScheduleV1),
    ) -> ScheduleId {
        let now = self.clock.now();
        let mut row = ScheduleV1 {
            id: ScheduleId::new(),
            name: "one".to_owned(),
            cron: cron.to_owned(),
            timezone: "UTC".to_owned(),
            workflow_id: None,
            tag_filters: Vec::new(),
            url_ids: None,
            options: jobs::options("options", NewOptions::default()).unwrap(),
            is_enabled: true,
            disabled_reason: None,
            overlap: Overlap::Skip,
            misfire: Misfire::RunOnce,
            catch_up_sec: 31_536_000,
            jitter_sec: 0,
            decided_until: now,
            next_at: None,
            due_at: None,
            last_run_at: None,
            runs: 0,
            created_at: now,
        };
        change(&mut row);
        let id = row.id;
        let written = org.write(move |tx| {
            if let Ok(times) = Times::read(&row.cron, &row.timezone) {
                service::from_now(tx, &mut row, &times)?;
            } else {
                (row.next_at, row.due_at) = (Some(tx.now()), Some(tx.now()));
            }
            tx.insert(&SCHEDULES, &id, &row)
        });
        written.await.unwrap();
        id
    }

    async fn tick(&self, id: ScheduleId) -> Ticked {
        self.org.write(move |tx| service::tick(tx, id)).await.unwrap()
    }

    fn row(&self, id: ScheduleId) -> ScheduleV1 {
        self.org.read(|tx| tx.require(&SCHEDULES, &id)).unwrap()
    }

    /// The runs of a schedule by their ticks.
    fn runs(&self, id: ScheduleId) -> BTreeMap<Timestamp, ScheduleRunV1> {
        let read =
            |tx: &store::OrgRead<'_>| tx.scan_index(&RUNS, &BY_SCHEDULE, id, Order::Ascending, usize::MAX);
        let rows = self.org.read(read).unwrap();
        let count = rows.len();
        let by_tick: BTreeMap<_, _> = rows.into_iter().map(|run| (run.scheduled_for, run)).collect();
        assert_eq!(by_tick.len(), count, "a tick has one row");
        by_tick
    }

    fn count(&self, id: ScheduleId, status: RunStatus) -> usize {
        self.runs(id).values().filter(|run| run.status == status).count()
    }

    /// Ends the run that is under way, as if its jobs had ended; whether another one began.
    async fn end(&self, id: ScheduleId) -> bool {
        let ended = self.org.write(move |tx| {
            let status = RunStatus::Running as u8;
            let running = tx.scan_index(&RUNS, &OPEN, (id, status), Order::Ascending, 1)?;
            let run = running.into_iter().next().expect("a run is under way");
            service::end(tx, run, RunStatus::Completed, None)
        });
        ended.await.unwrap()
    }

    /// How many rows of the audit log have this action.
    fn logged(&self, action: Action) -> usize {
        let filter = AuditFilter { action: Some(action), ..AuditFilter::default() };
        let page = base::page::PageRequest::parse(None, None).unwrap();
        self.org.read(|tx| tx.audit_page(&filter, &page)).unwrap().items.len()
    }

    /// To half a minute past the next whole hour, and some hours more.
    fn to_hour(&self, more: u32) {
        let past = Duration::from_millis(u64::try_from(self.clock.now().millis() % 3_600_000).unwrap());
        self.clock.advance(HOUR - past + HOUR * more + Duration::from_secs(30));
    }
}

#[tokio::test]
async fn each_due_tick_has_one_row_and_no_other_time_has() {
    let lab = Lab::new();
    let id = lab.schedule("0 * * * *", |_| {}).await;
    let next = lab.row(id).next_at.unwrap();
    assert_eq!(lab.tick(id).await, Ticked::default());
    lab.to_hour(0);
    assert_eq!(lab.tick(id).await, Ticked { begun: 1, disabled: false });
    assert_eq!(lab.tick(id).await, Ticked::default(), "once");
    let runs = lab.runs(id);
    assert_eq!(runs.keys().copied().collect::<Vec<_>>(), [next]);
    let run = &runs[&next];
    assert_eq!(run.status, RunStatus::Running);
    assert!(run.fired_at.unwrap().since(next) >= Duration::from_secs(29), "the actual time beside it");
    let row = lab.row(id);
    assert_eq!((row.last_run_at, row.next_at), (run.fired_at, Some(next.after(HOUR))));
}

#[tokio::test]
async fn three_days_off_are_made_up_once_or_dropped_and_every_tick_says_why() {
    let lab = Lab::new();
    lab.to_hour(0);
    let once = lab.schedule("0 * * * *", |_| {}).await;
    let skip = lab.schedule("0 * * * *", |row| row.misfire = Misfire::Skip).await;
    let short = lab.schedule("0 * * * *", |row| row.catch_up_sec = 60).await;
    lab.clock.advance(3 * DAY + 10 * MINUTE);
    assert_eq!(
        (lab.tick(once).await.begun, lab.tick(skip).await.begun, lab.tick(short).await.begun),
        (1, 0, 0)
    );
    for (id, skipped) in [(once, 71), (skip, 72), (short, 72)] {
        let runs = lab.runs(id);
        assert_eq!(runs.len(), 72);
        assert_eq!(lab.count(id, RunStatus::SkippedMisfire), skipped);
        let reasons: BTreeSet<_> = runs.values().filter_map(|run| run.message.clone()).collect();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
    }
    let newest = lab.runs(once).into_values().next_back().unwrap();
    assert_eq!(newest.status, RunStatus::Running);
    assert!(lab.runs(skip).values().all(|run| run.message.as_deref().unwrap().contains("misfire is skip")));
    assert!(lab.runs(short).values().all(|run| run.message.as_deref().unwrap().contains("catchUpSeconds")));
}

#[tokio::test]
async fn an_hour_back_and_forth_fires_nothing_twice() {
    let lab = Lab::new();
    let id = lab.schedule("* * * * *", |row| row.misfire = Misfire::Skip).await;
    let mut fired = BTreeSet::new();
    for _ in 0..5 {
        lab.clock.advance(MINUTE);
        lab.tick(id).await;
        if lab.count(id, RunStatus::Running) > 0 {
            lab.end(id).await;
        }
        fired.extend(lab.runs(id).into_keys());
    }
    let before = lab.runs(id).len();
    assert_eq!(before, 5);
    // Back by an hour: what has a row does not come again, the hour before that does.
    let is_stale = || lab.org.read(|tx| service::is_stale(tx, &lab.row(id))).unwrap();
    assert!(!is_stale());
    lab.clock.set_wall(-3_600_000);
    assert!(is_stale());
    let back = lab.org.write(move |tx| service::reconcile(tx, id));
    assert!(!back.await.unwrap());
    let row = lab.row(id);
    assert!(row.decided_until <= lab.clock.now() && row.next_at.unwrap() > lab.clock.now());
    lab.clock.advance(HOUR + MINUTE / 2);
    lab.tick(id).await;
    let runs = lab.runs(id);
    assert!(fired.iter().all(|tick| runs[tick].status == RunStatus::Completed), "those that ran stand");
    // Forward by a year, and back.
    lab.clock.set_wall(YEAR_MS);
    let right = lab.runs(id).len();
    lab.tick(id).await;
    let wrong = lab.runs(id).len();
    assert!(wrong > right + 50 && lab.row(id).runs as usize == wrong);
    lab.clock.set_wall(-YEAR_MS);
    lab.org.write(move |tx| service::reconcile(tx, id)).await.unwrap();
    assert!(lab.row(id).next_at.unwrap().since(lab.clock.now()) <= MINUTE, "it goes on today");
    // What was dropped a year too early is still to come; the one that ran has run.
    assert_eq!((lab.runs(id).len(), lab.row(id).runs), (right + 1, right as u32 + 1));
    lab.clock.advance(MINUTE);
    lab.tick(id).await;
    assert_eq!(lab.runs(id).len(), right + 2);
}

#[tokio::test]
async fn what_waits_ends_with_the_terms_that_let_it_wait() {
    let lab = Lab::new();
    let id = lab.schedule("* * * * *", |row| row.overlap = Overlap::Queue).await;
    for _ in 0..4 {
        lab.clock.advance(MINUTE);
        lab.tick(id).await;
    }
    lab.org.write(move |tx| service::trigger(tx, id)).await.unwrap();
    assert_eq!((lab.count(id, RunStatus::Running), lab.count(id, RunStatus::Queued)), (1, 4));
    lab.org.write(move |tx| service::drop_waiting(tx, id, "it was switched off")).await.unwrap();
    assert_eq!((lab.count(id, RunStatus::Running), lab.count(id, RunStatus::SkippedOverlap)), (1, 3));
    let said = lab.runs(id).into_values().filter(|run| run.message.as_deref() == Some("it was switched off"));
    assert_eq!(said.count(), 3);
    // A person asked for this one.
    assert!(lab.end(id).await && !lab.end(id).await);
}

#[tokio::test]
async fn the_oldest_runs_go_also_behind_those_that_are_open() {
    let lab = Lab::new();
    let id = lab.schedule("* * * * *", |row| row.overlap = Overlap::Queue).await;
    for _ in 0..QUEUED_MAX + 6 {
        lab.clock.advance(MINUTE);
        lab.tick(id).await;
    }
    // One runs, a hundred wait, five were left out; and as many are kept.
    let full = lab.org.write(move |tx| {
        let mut row = tx.require(&SCHEDULES, &id)?;
        row.runs = service::RUNS_KEPT;
        tx.put(&SCHEDULES, &id, &row)
    });
    full.await.unwrap();
    for _ in 0..4 {
        lab.clock.advance(MINUTE);
        lab.tick(id).await;
    }
    assert!(lab.row(id).runs <= service::RUNS_KEPT, "{}", lab.row(id).runs);
    assert_eq!(lab.count(id, RunStatus::Queued), QUEUED_MAX);
}

#[tokio::test]
async fn a_damaged_run_does_not_stand_in_the_way_of_the_next() {
    let lab = Lab::new();
    let id = lab.schedule("* * * * *", |_| {}).await;
    lab.clock.advance(MINUTE);
    lab.tick(id).await;
    let run = lab.runs(id).into_values().next().unwrap().id;
    lab.org.write(move |tx| damage_row(tx, &RUNS, &run)).await.unwrap();
    lab.clock.advance(MINUTE);
    assert_eq!(lab.tick(id).await, Ticked { begun: 1, disabled: false });
}

#[tokio::test]
async fn what_one_has_due_at_many_times_hides_nothing_of_another() {
    let lab = Lab::new();
    let other = lab.store.system().org(OrgId::new());
    for n in 0..1_100 {
        let second = n % 60;
        lab.schedule(&format!("{second} * * * * *"), |_| {}).await;
    }
    lab.clock.advance(2 * MINUTE);
    let small = lab.schedule_of(&other, "* * * * * *", |_| {}).await;
    lab.clock.advance(Duration::from_secs(2));
    let now = lab.clock.now();
    let found = lab.store.system().read(|tx| entries(tx, &SCHEDULES, &DUE, Some(now))).unwrap();
    assert_eq!(found.iter().filter(|(org, ..)| *org == lab.org.id()).count(), 1_000, "its share of a look");
    assert!(found.iter().any(|(_, id, _)| *id == small));
}

#[tokio::test]
async fn a_run_that_goes_on_lets_the_next_wait_or_be_left_out() {
    let lab = Lab::new();
    let skip = lab.schedule("* * * * *", |_| {}).await;
    let queue = lab.schedule("* * * * *", |row| row.overlap = Overlap::Queue).await;
    for _ in 0..3 {
        lab.clock.advance(MINUTE);
        lab.tick(skip).await;
        lab.tick(queue).await;
    }
    assert_eq!((lab.count(skip, RunStatus::Running), lab.count(skip, RunStatus::SkippedOverlap)), (1, 2));
    assert_eq!((lab.count(queue, RunStatus::Running), lab.count(queue, RunStatus::Queued)), (1, 2));
    let order: Vec<_> = lab.runs(queue).into_keys().collect();
    // One after the other, the oldest tick first.
    assert!(lab.end(queue).await);
    let runs = lab.runs(queue);
    assert_eq!(runs[&order[0]].status, RunStatus::Completed);
    assert_eq!(runs[&order[1]].status, RunStatus::Running);
    assert_eq!(runs[&order[2]].status, RunStatus::Queued);
    assert!(lab.end(queue).await && !lab.end(queue).await);
    assert!(!lab.end(skip).await);
    // A queue has an end.
    for _ in 0..QUEUED_MAX + 5 {
        lab.clock.advance(MINUTE);
        lab.tick(queue).await;
    }
    assert_eq!(
        (lab.count(queue, RunStatus::Queued), lab.count(queue, RunStatus::SkippedOverlap)),
        (QUEUED_MAX, 4)
    );
}

#[tokio::test]
async fn one_that_cannot_be_read_any_more_is_switched_off_alone() {
    let lab = Lab::new();
    let broken = lab.schedule("* * * * *", |row| row.timezone = "Mars/Utopia".to_owned()).await;
    let strange = lab.schedule("not a cron", |_| {}).await;
    let sound = lab.schedule("* * * * *", |_| {}).await;
    lab.clock.advance(MINUTE);
    let tick = |id| lab.tick(id);
    assert!(tick(broken).await.disabled && tick(strange).await.disabled);
    assert_eq!(tick(sound).await.begun, 1);
    let row = lab.row(broken);
    assert!(!row.is_enabled && row.due_at.is_none());
    assert!(row.disabled_reason.unwrap().starts_with("timezone: \"Mars/Utopia\" is no IANA time zone"));
    assert!(lab.row(strange).disabled_reason.unwrap().starts_with("cron: has 3 fields"));
    assert_eq!(tick(broken).await, Ticked::default(), "it is not looked at again");
    assert_eq!(lab.logged(Action::ScheduleDisabled), 2);
}

#[tokio::test]
async fn a_damaged_row_keeps_no_other_schedule_from_its_tick() {
    let (lab, scheduler) = (Lab::new(), Scheduler::new(1));
    let broken = lab.schedule("* * * * *", |_| {}).await;
    let sound = lab.schedule("* * * * *", |_| {}).await;
    lab.org.write(move |tx| damage_row(tx, &SCHEDULES, &broken)).await.unwrap();
    lab.clock.advance(MINUTE);
    assert_eq!(tick_some(&lab.org, &scheduler, vec![broken, sound]).await, 1);
    assert_eq!(lab.count(sound, RunStatus::Running), 1);
    assert!(scheduler.is_known_unreadable((lab.org.id(), broken)));
    assert!(!scheduler.is_known_unreadable((lab.org.id(), sound)));
    assert_eq!(tick_some(&lab.org, &scheduler, vec![broken]).await, 0);
    assert_eq!(
        (scheduler.unreadable().len(), lab.logged(Action::ScheduleDisabled)),
        (1, 1),
        "it is told once"
    );
    scheduler.forget(lab.org.id());
    assert!(scheduler.unreadable().is_empty());
}

#[tokio::test]
async fn who_has_much_due_at_once_comes_in_turns_with_the_others() {
    let lab = Lab::new();
    let other = lab.store.system().org(OrgId::new());
    let mut all = BTreeSet::new();
    for _ in 0..150 {
        all.insert(lab.schedule("* * * * *", |_| {}).await);
    }
    let small = lab.schedule_of(&other, "* * * * *", |_| {}).await;
    lab.clock.advance(MINUTE);
    let now = lab.clock.now();
    let found = lab.store.system().read(|tx| entries(tx, &SCHEDULES, &DUE, Some(now))).unwrap();
    assert_eq!(found.len(), 151);
    let mut turns = turns(found);
    let first = next_turn(&mut turns, 20);
    assert_eq!(first.len(), 2);
    let of = |org: OrgId| first.iter().find(|(owner, _)| *owner == org).unwrap().1.clone();
    assert_eq!((of(lab.org.id()).len(), of(other.id())), (20, vec![small]));
    let mut seen: BTreeSet<_> = of(lab.org.id()).into_iter().collect();
    let mut rounds = 1;
    while !turns.is_empty() {
        rounds += 1;
        seen.extend(next_turn(&mut turns, 20).into_iter().flat_map(|(_, ids)| ids));
    }
    assert_eq!((rounds, seen), (8, all));
    let early = Some(now.before(2 * MINUTE));
    assert!(lab.store.system().read(|tx| entries(tx, &SCHEDULES, &DUE, early)).unwrap().is_empty());
}

#[test]
fn what_is_overdue_is_reported_once_and_by_the_boxes_own_time() {
    let (scheduler, clock) = (Scheduler::new(1), Clock::system());
    let which = (OrgId::new(), ScheduleId::new());
    let look = |due: i64| scheduler.overdue(vec![(which, Some(Timestamp(due)))], clock.moment(), MINUTE);
    assert!(look(1).is_empty(), "it may be decided any moment");
    // Whoever sets the clock makes nothing overdue.
    clock.set_wall(YEAR_MS);
    assert!(look(1).is_empty());
    clock.advance(MINUTE);
    assert_eq!(look(1), [which]);
    assert_eq!((look(1).len(), scheduler.overdue_count(), scheduler.missed()), (0, 1, 1));
    // Another tick of it is another matter.
    assert!(look(2).is_empty());
    clock.advance(MINUTE);
    assert_eq!((look(2).len(), scheduler.missed()), (1, 2));
    assert!(scheduler.overdue(Vec::new(), clock.moment(), MINUTE).is_empty());
    assert_eq!(scheduler.overdue_count(), 0);
    assert!(scheduler.seen.is_new(Timestamp(5)), "at a start");
    assert!(!scheduler.seen.is_new(Timestamp(6)) && scheduler.seen.is_new(Timestamp(5)));
}

/// Random days of a schedule: time goes on in steps of any length, the clock is set, runs end or go on, the schedule is
/// switched off and on. Beside it a plain count of minutes says which of them must have a row.
#[tokio::test]
async fn random_days_agree_with_a_plain_count_of_minutes() {
    let mut seed = 0x5EED_0D0A_u64;
    let mut dice = |limit: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit
    };
    for round in 0..6 {
        let lab = Lab::new();
        let misfire = if round % 2 == 0 { Misfire::RunOnce } else { Misfire::Skip };
        let overlap = if round % 3 == 0 { Overlap::Queue } else { Overlap::Skip };
        let id = lab.schedule("* * * * *", |row| (row.misfire, row.overlap) = (misfire, overlap)).await;
        let mut due = BTreeSet::new();
        let mut since = lab.row(id).decided_until;
        let mut is_on = true;
        for _ in 0..120 {
            match dice(12) {
                0 => {
                    lab.clock.set_wall(-i64::try_from(dice(7_200)).unwrap() * 1_000 - 60_000);
                    // Ticks that were dropped too early are still to come.
                    let (now, runs) = (lab.clock.now(), lab.runs(id));
                    let is_dropped = |tick: &Timestamp| runs[tick].status == RunStatus::SkippedMisfire;
                    due.retain(|tick| !is_on || *tick <= now || !is_dropped(tick));
                    lab.org.write(move |tx| service::reconcile(tx, id)).await.unwrap();
                    since = lab.row(id).decided_until;
                }
                1 => {
                    is_on = !is_on;
                    let set = lab.org.write(move |tx| {
                        let mut row = tx.require(&SCHEDULES, &id)?;
                        let times = Times::read(&row.cron, &row.timezone).unwrap();
                        service::from_now(tx, &mut row, &times)?;
                        row.is_enabled = is_on;
                        tx.put(&SCHEDULES, &id, &row)
                    });
                    set.await.unwrap();
                    since = lab.row(id).decided_until;
                }
                2 | 3 if lab.count(id, RunStatus::Running) > 0 => drop(lab.end(id).await),
                // At most what is listed one by one.
                4 => lab.clock.advance(Duration::from_secs(dice(5_400))),
                _ => lab.clock.advance(Duration::from_secs(dice(100))),
            }
            let ticked = lab.org.write(move |tx| service::tick(tx, id).map(|_| tx.now()));
            let now = ticked.await.unwrap();
            let first = since.millis().div_euclid(60_000) + 1;
            let minutes = first..=now.millis().div_euclid(60_000);
            if is_on {
                due.extend(minutes.map(|minute| Timestamp(minute * 60_000)));
            }
            since = now;
            assert!(lab.count(id, RunStatus::Running) <= 1);
        }
        let runs: BTreeSet<_> = lab.runs(id).into_keys().collect();
        assert_eq!(runs, due, "round {round}");
    }
}
