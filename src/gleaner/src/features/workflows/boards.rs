//! What was learned about providers, as it is stored: a board for each domain, and one for all together.
//!
//! A job that ends leaves a [`LessonV1`] in the same transaction. The optimization worker takes lessons off that pile, and
//! adds them to the boards in one transaction again, so an attempt counts once, whenever the process dies.
//!
//! An organization keeps boards of [`DOMAINS_MAX`] domains. When another one comes, the one goes that was used longest ago;
//! a board with enough attempts for an order of its own counts as used [`PROVEN_FOR`] later than it was, so that a crawl
//! through thousands of domains that nobody comes back to does not wipe out what is known of those that count.

use base::Result;
use base::clock::Moment;
use base::codec::Record;
use base::ids::{JobId, OrgId, ProviderId};
use dispatch::rank::board::{Arm, BUCKETS, Board, Sample};
use dispatch::rank::plan::DOMAIN_SAMPLES_MIN;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{Index, OrgRead, OrgTable, OrgWrite, SysRead, readable};

/// The key of the board that all domains share; no domain is empty.
pub const OVERALL: &str = "";
/// Domains that an organization's learning keeps.
pub const DOMAINS_MAX: usize = 2_000;
/// How much longer a board is kept that has enough attempts for an order of its own.
const PROVEN_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How often it is written down that a board is in use.
const USE_NOTED_EVERY: Duration = Duration::from_secs(60 * 60);

/// A board.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoardV1 {
    pub count: u64,
    pub arms: Vec<ArmV1>,
}

impl Record for BoardV1 {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmV1 {
    pub provider: ProviderId,
    pub weight: f64,
    pub good: f64,
    pub time_ms: f64,
    pub credits: f64,
    pub latency: Vec<f32>,
    pub recent: u32,
    pub recent_len: u32,
    pub samples: u64,
    pub at: u64,
    pub changed_at: u64,
}

impl From<&Board> for BoardV1 {
    fn from(board: &Board) -> BoardV1 {
        let arms = board.arms.iter().map(|(provider, arm)| ArmV1 {
            provider: *provider,
            weight: arm.weight,
            good: arm.good,
            time_ms: arm.time_ms,
            credits: arm.credits,
            latency: arm.latency.to_vec(),
            recent: arm.recent,
            recent_len: arm.recent_len,
            samples: arm.samples,
            at: arm.at,
            changed_at: arm.changed_at,
        });
        BoardV1 { count: board.count, arms: arms.collect() }
    }
}

impl From<BoardV1> for Board {
    fn from(row: BoardV1) -> Board {
        let arms = row.arms.into_iter().map(|arm| {
            let mut latency = [0.0; BUCKETS];
            latency.iter_mut().zip(arm.latency).for_each(|(bucket, count)| *bucket = count);
            let read = Arm {
                weight: arm.weight,
                good: arm.good,
                time_ms: arm.time_ms,
                credits: arm.credits,
                latency,
                recent: arm.recent,
                recent_len: arm.recent_len,
                samples: arm.samples,
                at: arm.at,
                changed_at: arm.changed_at,
            };
            (arm.provider, read)
        });
        Board { count: row.count, arms: arms.collect() }
    }
}

/// By domain; [`OVERALL`] for all together.
pub static BOARDS: OrgTable<String, BoardV1> = OrgTable::new("provider_boards", "Board");

/// When a domain's board may go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardUseV1 {
    pub domain: String,
    /// The boards with the earliest moment go first.
    pub until: Moment,
}

impl Record for BoardUseV1 {}

static BY_UNTIL: Index<Moment, BoardUseV1> =
    Index::new("board_uses.by_until", |row, keys| keys.add(row.until));

/// By domain, as the boards are; the board of all together has none and never goes.
pub static BOARD_USES: OrgTable<String, BoardUseV1> =
    OrgTable::new("board_uses", "Board").indexed(&[&BY_UNTIL]);

/// Everything that was learned in an organization, or in one benchmark.
#[derive(Clone, Debug)]
pub struct Learned {
    pub overall: Board,
    pub domains: BTreeMap<String, Board>,
    /// Attempts at a domain before it can have an order of its own.
    pub domain_samples_min: u64,
}

impl Default for Learned {
    fn default() -> Learned {
        Learned {
            overall: Board::default(),
            domains: BTreeMap::new(),
            domain_samples_min: DOMAIN_SAMPLES_MIN,
        }
    }
}

impl Learned {
    pub fn load(tx: &OrgRead<'_>) -> Result<Learned> {
        let rows = tx.readable(&BOARDS, None, DOMAINS_MAX + 1)?.rows;
        let mut learned = Learned::default();
        for (domain, row) in rows {
            if domain == OVERALL {
                learned.overall = row.into();
            } else {
                learned.domains.insert(domain, row.into());
            }
        }
        Ok(learned)
    }

    /// The board of one domain, if it was kept.
    pub fn load_board(tx: &OrgRead<'_>, domain: &str) -> Result<Option<Board>> {
        Ok(tx.get(&BOARDS, &domain.to_owned())?.map(Board::from))
    }

    /// Stores a board.
    pub fn store_board(tx: &OrgWrite<'_>, domain: &str, board: &Board) -> Result<()> {
        tx.put(&BOARDS, &domain.to_owned(), &BoardV1::from(board))
    }
}

/// What the attempts of one job say about their providers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LessonV1 {
    pub domain: String,
    pub samples: Vec<SampleV1>,
}

impl Record for LessonV1 {}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleV1 {
    pub provider: ProviderId,
    pub good: bool,
    pub duration_ms: u64,
    pub credits: u64,
}

/// Lessons that nobody has taken in yet, by their job.
pub static LESSONS: OrgTable<JobId, LessonV1> = OrgTable::new("lessons", "Lesson");

/// Leaves what a job's attempts say for the optimization worker.
pub fn teach(tx: &OrgWrite<'_>, job: JobId, domain: &str, samples: &[Sample]) -> Result<()> {
    let samples = samples.iter().map(|sample| SampleV1 {
        provider: sample.provider,
        good: sample.good,
        duration_ms: sample.duration_ms,
        credits: sample.credits,
    });
    let lesson = LessonV1 { domain: domain.to_owned(), samples: samples.collect() };
    tx.put(&LESSONS, &job, &lesson)
}

/// The first organization after `after` that has lessons waiting.
pub fn next_to_learn(tx: &SysRead<'_>, after: Option<OrgId>) -> Result<Option<OrgId>> {
    tx.next_org(LESSONS.name(), after)
}

/// A board that new lessons are added to; one that cannot be read begins anew.
fn board_at_hand(tx: &OrgRead<'_>, domain: &str) -> Result<Option<Board>> {
    Ok(readable("what was learned of a domain", domain, Learned::load_board(tx, domain))?.flatten())
}

/// Takes in up to `limit` lessons behind a place, oldest first: adds them to the boards and removes them. Gives where to go
/// on, if there may be more.
pub fn learn(tx: &OrgWrite<'_>, after: Option<&[u8]>, limit: usize) -> Result<Option<Vec<u8>>> {
    let step = tx.readable(&LESSONS, after, limit)?;
    let (lessons, more) = (&step.rows, step.more());
    if lessons.is_empty() {
        return Ok(more);
    }
    let mut overall = board_at_hand(tx, OVERALL)?.unwrap_or_default();
    let mut free = None;
    let mut boards: BTreeMap<&str, Board> = BTreeMap::new();
    for (_, lesson) in lessons {
        if !boards.contains_key(lesson.domain.as_str()) {
            let known = board_at_hand(tx, &lesson.domain)?;
            if known.is_none() {
                make_room(tx, &boards, &mut free)?;
            }
            boards.insert(&lesson.domain, known.unwrap_or_default());
        }
        for sample in &lesson.samples {
            let sample = Sample {
                provider: sample.provider,
                good: sample.good,
                duration_ms: sample.duration_ms,
                credits: sample.credits,
            };
            overall.observe(&sample);
            if let Some(board) = boards.get_mut(lesson.domain.as_str()) {
                board.observe(&sample);
            }
        }
    }
    for (domain, board) in &boards {
        Learned::store_board(tx, domain, board)?;
        note_use(tx, domain, board)?;
    }
    Learned::store_board(tx, OVERALL, &overall)?;
    for (job, _) in lessons {
        tx.delete(&LESSONS, job)?;
    }
    Ok(more)
}

/// Makes room for the board of one more domain. `held` are those that are at hand and will be stored; `free` is how many
/// may still be made, once that is known.
fn make_room(tx: &OrgWrite<'_>, held: &BTreeMap<&str, Board>, free: &mut Option<usize>) -> Result<()> {
    let left = match *free {
        Some(left) => left,
        // The board of all together is one of them, there or about to be.
        None => DOMAINS_MAX.saturating_sub(tx.count(&BOARDS, DOMAINS_MAX + 1)?.saturating_sub(1)),
    };
    let made = if left == 0 { usize::from(evict(tx, held)?) } else { left };
    *free = Some(made.saturating_sub(1));
    Ok(())
}

/// Lets go of the board that may go first and is not at hand; whether there was one.
fn evict(tx: &OrgWrite<'_>, held: &BTreeMap<&str, Board>) -> Result<bool> {
    let uses = tx.readable_by(&BOARD_USES, &BY_UNTIL, (), None, None, held.len() + 1)?;
    let mut first =
        uses.rows.into_iter().map(|(_, row)| row.domain).find(|domain| !held.contains_key(domain.as_str()));
    if first.is_none() {
        // Boards without a moment are older than the moments.
        let behind = tx.place(&OVERALL.to_owned());
        let rows = tx.readable(&BOARDS, Some(&behind), held.len() + 1)?.rows;
        first = rows.into_iter().map(|(domain, _)| domain).find(|domain| !held.contains_key(domain.as_str()));
    }
    let Some(domain) = first else { return Ok(false) };
    tx.delete(&BOARD_USES, &domain)?;
    tx.delete(&BOARDS, &domain)
}

/// Writes down that a board is in use, when that says something new.
fn note_use(tx: &OrgWrite<'_>, domain: &str, board: &Board) -> Result<()> {
    let extra = if board.count >= DOMAIN_SAMPLES_MIN { PROVEN_FOR } else { Duration::ZERO };
    let until = tx.moment().after(extra);
    let known = tx.get(&BOARD_USES, &domain.to_owned());
    // One that cannot be read stays as it is.
    let Some(known) = readable("when a board was used", domain, known)? else { return Ok(()) };
    if known.is_some_and(|row| until < row.until.after(USE_NOTED_EVERY)) {
        return Ok(());
    }
    tx.put(&BOARD_USES, &domain.to_owned(), &BoardUseV1 { domain: domain.to_owned(), until })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::clock::Clock;
    use store::fault::FaultyDisk;
    use store::{MIGRATIONS, OrgStore, Store};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    struct Lab {
        org: OrgStore,
        clock: Clock,
        provider: ProviderId,
    }

    impl Lab {
        fn new() -> Lab {
            let (disk, clock) = (FaultyDisk::new(), Clock::system());
            let store = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap();
            Lab { org: store.system().org(OrgId::new()), clock, provider: ProviderId::new() }
        }

        /// Takes in `attempts` attempts at each of these domains, as jobs leave them.
        async fn learn(&self, domains: impl Iterator<Item = String>, attempts: usize) {
            let domains: Vec<_> = domains.collect();
            for some in domains.chunks(500) {
                let (some, provider) = (some.to_vec(), self.provider);
                let learned = self.org.write(move |tx| {
                    let sample = Sample { provider, good: true, duration_ms: 100, credits: 1 };
                    for domain in &some {
                        teach(tx, JobId::new(), domain, &vec![sample; attempts])?;
                    }
                    let mut after = None;
                    loop {
                        after = learn(tx, after.as_deref(), 200)?;
                        if after.is_none() {
                            return Ok(());
                        }
                    }
                });
                learned.await.unwrap();
                self.clock.advance(Duration::from_secs(60));
            }
        }

        fn has(&self, domain: &str) -> bool {
            self.org.read(|tx| Learned::load_board(tx, domain)).unwrap().is_some()
        }

        fn counts(&self) -> (usize, usize) {
            self.org.read(|tx| Ok((tx.count(&BOARDS, 10_000)?, tx.count(&BOARD_USES, 10_000)?))).unwrap()
        }
    }

    fn names(begin: &'static str, count: usize) -> impl Iterator<Item = String> {
        (0..count).map(move |n| format!("{begin}{n}.test"))
    }

    #[tokio::test]
    async fn boards_that_nobody_uses_make_room() {
        let lab = Lab::new();
        lab.learn(names("often", 3), DOMAIN_SAMPLES_MIN as usize).await;
        lab.learn(names("once", DOMAINS_MAX + 700), 1).await;
        assert_eq!(lab.counts(), (DOMAINS_MAX + 1, DOMAINS_MAX), "one of all together, which has no moment");
        assert!(!lab.has("once0.test"), "the one that was used longest ago has gone");
        assert!(lab.has(&format!("once{}.test", DOMAINS_MAX + 699)), "and the newest has come");
        for domain in names("often", 3) {
            assert!(lab.has(&domain), "a crawl does not wipe out {domain}");
        }
        // One of them is used again later; the others are not for ever.
        lab.clock.advance(20 * DAY);
        lab.learn(names("often", 1), 1).await;
        lab.clock.advance(20 * DAY);
        lab.learn(names("later", DOMAINS_MAX - 1), 1).await;
        assert!(lab.has("often0.test") && !lab.has("often1.test") && !lab.has("often2.test"));
        assert_eq!(lab.counts(), (DOMAINS_MAX + 1, DOMAINS_MAX));
        let overall = lab.org.read(|tx| Learned::load_board(tx, OVERALL)).unwrap().unwrap();
        let all = 3 * DOMAIN_SAMPLES_MIN + (DOMAINS_MAX + 700 + 1 + DOMAINS_MAX - 1) as u64;
        assert_eq!(overall.count, all, "whatever goes, each attempt counted once");
    }
}
