//! What was learned about providers, as it is stored: a board for each domain, and one for all together.
//!
//! A job that ends leaves a [`LessonV1`] in the same transaction. The optimization worker takes lessons off that pile, and
//! adds them to the boards in one transaction again, so an attempt counts once, whenever the process dies.

use crate::base::Result;
use crate::base::codec::Record;
use crate::base::ids::{JobId, OrgId, ProviderId};
use crate::engine::rank::board::{Arm, BUCKETS, Board, Sample};
use crate::engine::rank::plan::DOMAIN_SAMPLES_MIN;
use crate::store::{Order, OrgRead, OrgTable, OrgWrite, SysRead};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The key of the board that all domains share; no domain is empty.
pub const OVERALL: &str = "";
/// Domains that an organization's learning keeps; those that come later are judged by all together.
pub const DOMAINS_MAX: usize = 2_000;

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
        let rows = tx.scan(&BOARDS, None, Order::Ascending, DOMAINS_MAX + 1)?;
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

/// Takes in up to `limit` lessons, oldest first: adds them to the boards and removes them. Gives how many there were.
pub fn learn(tx: &OrgWrite<'_>, limit: usize) -> Result<usize> {
    let lessons = tx.scan(&LESSONS, None, Order::Ascending, limit)?;
    let Some(mut overall) = (match lessons.is_empty() {
        true => None,
        false => Some(Learned::load_board(tx, OVERALL)?.unwrap_or_default()),
    }) else {
        return Ok(0);
    };
    let mut boards: BTreeMap<&str, Option<Board>> = BTreeMap::new();
    for (_, lesson) in &lessons {
        if !boards.contains_key(lesson.domain.as_str()) {
            boards.insert(&lesson.domain, board_for(tx, &lesson.domain)?);
        }
        for sample in &lesson.samples {
            let sample = Sample {
                provider: sample.provider,
                good: sample.good,
                duration_ms: sample.duration_ms,
                credits: sample.credits,
            };
            overall.observe(&sample);
            if let Some(Some(board)) = boards.get_mut(lesson.domain.as_str()) {
                board.observe(&sample);
            }
        }
    }
    for (domain, board) in &boards {
        if let Some(board) = board {
            Learned::store_board(tx, domain, board)?;
        }
    }
    Learned::store_board(tx, OVERALL, &overall)?;
    for (job, _) in &lessons {
        tx.delete(&LESSONS, job)?;
    }
    Ok(lessons.len())
}

/// The board of a domain, or a new one as long as there is room.
fn board_for(tx: &OrgRead<'_>, domain: &str) -> Result<Option<Board>> {
    if let Some(board) = Learned::load_board(tx, domain)? {
        return Ok(Some(board));
    }
    // The board of all together is one of them. Boards of one batch that are new themselves may go over by as many.
    let room = tx.count(&BOARDS, DOMAINS_MAX + 1)? <= DOMAINS_MAX;
    Ok(room.then(Board::default))
}
