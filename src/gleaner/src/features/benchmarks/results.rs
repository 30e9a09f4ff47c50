//! What probes say: counts while a benchmark runs, and rollups by domain and over all.

use super::rows::{BenchmarkStatus, BenchmarkV1};
use crate::features::jobs::{AttemptV1, BY_BENCHMARK, JOBS, JobV2, NOT_ASKED};
use crate::features::workflows::Learned;
use base::Result;
use base::clock::Timestamp;
use base::ids::{BenchmarkId, ProviderId};
use base::terms::JobStatus;
use dispatch::rank::board::{Board, Sample};
use dispatch::rank::{Strategy, estimate::estimate};
use fetch::Outcome;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use store::OrgRead;

/// Probes of one benchmark: 20 URLs and 50 providers.
pub const PROBES_MAX: usize = 1_000;

/// A benchmark's probes, in the order in which they were made.
pub fn probes(tx: &OrgRead<'_>, id: BenchmarkId) -> Result<Vec<JobV2>> {
    // One that cannot be read has shown nothing.
    let probes = tx.readable_by(&JOBS, &BY_BENCHMARK, id, None, None, PROBES_MAX)?;
    Ok(probes.rows.into_iter().map(|(_, probe)| probe).collect())
}

/// A probe that has ended with an attempt.
struct Probe<'a> {
    job: &'a JobV2,
    provider: ProviderId,
    attempt: &'a AttemptV1,
}

impl Probe<'_> {
    fn is_good(&self) -> bool {
        self.attempt.outcome == Outcome::Success
    }

    /// Whether its provider was asked at all: one that was left alone has shown nothing.
    fn was_asked(&self) -> bool {
        self.attempt.rule.as_deref() != Some(NOT_ASKED)
    }
}

fn ended(jobs: &[JobV2]) -> impl Iterator<Item = Probe<'_>> {
    jobs.iter().filter(|job| job.status.has_ended()).filter_map(|job| {
        let attempt = job.attempts.last()?;
        Some(Probe { job, provider: attempt.provider_id.parse().ok()?, attempt })
    })
}

/// What a benchmark has come to.
pub struct Count {
    pub completed: u32,
    pub failed: u32,
    pub has_begun: bool,
    pub is_over: bool,
    /// Providers without a probe that brought a page.
    pub skipped: Vec<ProviderId>,
}

pub fn count(benchmark: &BenchmarkV1, jobs: &[JobV2]) -> Count {
    let over = jobs.iter().filter(|job| job.status.has_ended());
    let completed = over.clone().count();
    let failed = over.filter(|job| job.status != JobStatus::Succeeded).count();
    let worked: BTreeSet<_> = ended(jobs).filter(Probe::is_good).map(|probe| probe.provider).collect();
    let all = benchmark.providers.iter().map(|(id, _)| *id);
    Count {
        completed: u32::try_from(completed).unwrap_or(u32::MAX),
        failed: u32::try_from(failed).unwrap_or(u32::MAX),
        has_begun: jobs.iter().any(|job| job.status != JobStatus::Queued || job.started_at.is_some()),
        is_over: completed == jobs.len(),
        skipped: all.filter(|id| !worked.contains(id)).collect(),
    }
}

/// Brings the row up to date with its probes; ends it when all have ended. Says the same whenever it is asked: what is
/// known about the times stands in the probes.
pub fn follow(benchmark: &mut BenchmarkV1, jobs: &[JobV2]) {
    if !benchmark.status.is_open() {
        return;
    }
    let count = count(benchmark, jobs);
    benchmark.completed_probes = count.completed;
    benchmark.failed_probes = count.failed;
    if count.has_begun {
        benchmark.status = BenchmarkStatus::Running;
        let began = jobs.iter().filter_map(|job| job.started_at.or(job.finished_at)).min();
        // A probe that runs again says when it did; the benchmark began when it was first seen to.
        benchmark.started_at = benchmark.started_at.min(began).or(began);
    }
    if count.is_over {
        end(benchmark, count.skipped, jobs);
    }
}

fn end(benchmark: &mut BenchmarkV1, skipped: Vec<ProviderId>, jobs: &[JobV2]) {
    benchmark.finished_at = jobs.iter().filter_map(|job| job.finished_at).max();
    benchmark.status = if skipped.len() == benchmark.providers.len() {
        benchmark.error = Some("no probe brought a page through any provider".to_owned());
        BenchmarkStatus::Failed
    } else {
        BenchmarkStatus::Completed
    };
    benchmark.skipped_providers = skipped;
}

/// How one provider did at one domain, or over all.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rollup {
    /// Null is over all domains.
    domain: Option<String>,
    provider_id: ProviderId,
    provider_name: String,
    /// Probes that have ended.
    probes: u32,
    successes: u32,
    /// From 0 to 1.
    success_rate: f64,
    /// Of the successful ones.
    p50_ms: Option<u64>,
    p95_ms: Option<u64>,
    /// Of the successful ones.
    avg_credits: Option<f64>,
    avg_bytes: Option<f64>,
    /// From 0 to 1: success, latency and cost together, careful where probes are few.
    score: f64,
    /// 1 is the best.
    rank: u32,
}

/// One probe that has ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProbeDetail {
    url: String,
    domain: String,
    provider_id: ProviderId,
    outcome: Outcome,
    http_status: Option<u16>,
    duration_ms: u64,
    bytes: u64,
    credits: u64,
    error: Option<String>,
    started_at: Timestamp,
}

pub(super) fn details(jobs: &[JobV2]) -> Vec<ProbeDetail> {
    let detail = |probe: Probe<'_>| ProbeDetail {
        url: probe.job.url.clone(),
        domain: probe.job.domain.clone(),
        provider_id: probe.provider,
        outcome: probe.attempt.outcome,
        http_status: probe.attempt.http_status,
        duration_ms: probe.attempt.duration_ms,
        bytes: probe.attempt.bytes,
        credits: probe.attempt.credits,
        error: probe.attempt.error.clone(),
        started_at: probe.attempt.started_at,
    };
    ended(jobs).map(detail).collect()
}

/// What the probes teach, as if nothing else were known.
pub fn learned(jobs: &[JobV2]) -> Learned {
    // A benchmark was made to tell domains apart, however few URLs it was given.
    let mut learned = Learned { domain_samples_min: 1, ..Learned::default() };
    for probe in ended(jobs).filter(Probe::was_asked) {
        let sample = Sample {
            provider: probe.provider,
            good: probe.is_good(),
            duration_ms: probe.attempt.duration_ms,
            // What the provider says that it billed is in units of its own.
            credits: probe.job.credits_charged,
        };
        learned.overall.observe(&sample);
        learned.domains.entry(probe.job.domain.clone()).or_default().observe(&sample);
    }
    learned
}

/// The rollups over all domains, then domain by domain; the best provider first in each.
pub(super) fn rollups(benchmark: &BenchmarkV1, jobs: &[JobV2]) -> Vec<Rollup> {
    let learned = learned(jobs);
    let mut of: BTreeMap<(Option<&str>, ProviderId), Vec<Probe<'_>>> = BTreeMap::new();
    for probe in ended(jobs).filter(Probe::was_asked) {
        let domain = probe.job.domain.as_str();
        let (provider, job, attempt) = (probe.provider, probe.job, probe.attempt);
        of.entry((None, provider)).or_default().push(Probe { job, provider, attempt });
        of.entry((Some(domain), provider)).or_default().push(probe);
    }
    let domains: BTreeSet<Option<&str>> =
        std::iter::once(None).chain(of.keys().map(|(domain, _)| *domain)).collect();
    let mut all = Vec::new();
    for domain in domains {
        let place = domain.and_then(|domain| learned.domains.get(domain));
        let mut here: Vec<_> = benchmark
            .providers
            .iter()
            .map(|(id, name)| {
                let probes = of.get(&(domain, *id)).map_or(&[][..], Vec::as_slice);
                rollup(domain, (*id, name), probes, &learned.overall, place)
            })
            .collect();
        here.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.provider_id.cmp(&b.provider_id)));
        (1..).zip(&mut here).for_each(|(rank, rollup)| rollup.rank = rank);
        all.append(&mut here);
    }
    all
}

fn rollup(
    domain: Option<&str>,
    (provider, name): (ProviderId, &str),
    probes: &[Probe<'_>],
    overall: &Board,
    place: Option<&Board>,
) -> Rollup {
    let good: Vec<_> = probes.iter().filter(|probe| probe.is_good()).collect();
    let mut times: Vec<u64> = good.iter().map(|probe| probe.attempt.duration_ms).collect();
    times.sort_unstable();
    let mean = |of: fn(&AttemptV1) -> u64| {
        let sum: u64 = good.iter().map(|probe| of(probe.attempt)).sum();
        (!good.is_empty()).then(|| sum as f64 / good.len() as f64)
    };
    let score = match good.is_empty() {
        true => 0.0,
        false => estimate(provider, overall, place, Strategy::Balanced, 0).score,
    };
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Rollup {
        domain: domain.map(str::to_owned),
        provider_id: provider,
        provider_name: name.to_owned(),
        probes: count(probes.len()),
        successes: count(good.len()),
        success_rate: if probes.is_empty() { 0.0 } else { good.len() as f64 / probes.len() as f64 },
        p50_ms: quantile(&times, 0.5),
        p95_ms: quantile(&times, 0.95),
        avg_credits: mean(|attempt| attempt.credits),
        avg_bytes: mean(|attempt| attempt.bytes),
        score,
        rank: 0,
    }
}

/// The smallest value that at least this share of the sorted values does not exceed.
fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7], 0.95), Some(7));
        assert_eq!(quantile(&[1, 2, 3, 4], 0.5), Some(2));
        let hundred: Vec<_> = (1..=100).collect();
        assert_eq!(quantile(&hundred, 0.95), Some(95));
    }
}
