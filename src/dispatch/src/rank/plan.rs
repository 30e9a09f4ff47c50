//! In which order providers are tried, where, and how much of the traffic finds out about the others.
//!
//! A [`Plan`] is what a smart workflow is drawn from. It changes only for a reason: a provider passes another when its
//! score is better by a margin ([`MARGIN`]), so a ranking does not flap between two that are alike; a domain has an order
//! of its own when it has been tried there often enough and that order is another than everybody's.

use super::board::Board;
use super::estimate::{Estimate, SAMPLES_MIN, Strategy, estimate};
use base::ids::ProviderId;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// By how much a score must be better than the one before it in the present order.
pub const MARGIN: f64 = 0.015;
/// The same for those behind the first, whose order matters less.
const MARGIN_BEHIND: f64 = 0.04;
/// Attempts at a domain before it can have an order of its own.
pub const DOMAIN_SAMPLES_MIN: u64 = 20;
/// Providers that a job tries one after the other.
pub const CHAIN_MAX: usize = 8;
/// Domains with an order of their own; those with most traffic.
pub const DOMAINS_MAX: usize = 100;
/// Parts of a thousand jobs that try another provider first, at most, while every provider is known.
pub const EXPLORE_PERMILLE: u32 = 15;
/// The same while there are providers about which little is known.
pub const EXPLORE_PERMILLE_COLD: u32 = 200;
/// What a provider gets that seems to have no chance: even so it may have changed.
const HOPELESS: f64 = 0.15;

/// A domain and what is known of it.
pub struct DomainBoard<'a> {
    pub domain: &'a str,
    pub board: &'a Board,
}

/// Orders for everybody, for some domains, and for finding out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The order of a domain without one of its own.
    pub overall: Vec<ProviderId>,
    /// Orders of domains, those with most traffic first.
    pub domains: Vec<(String, Vec<ProviderId>)>,
    /// Who is tried first by so many of a thousand jobs, whatever the order.
    pub explore: Vec<(ProviderId, u32)>,
}

/// What a plan is made from.
pub struct Evidence<'a> {
    /// The connected providers and what a delivery costs, in the order of their creation.
    pub providers: &'a [(ProviderId, u64)],
    pub overall: &'a Board,
    pub places: &'a [DomainBoard<'a>],
    pub strategy: Strategy,
    /// Attempts at a domain before it can have an order of its own; [`DOMAIN_SAMPLES_MIN`] for what jobs have taught.
    pub domain_samples_min: u64,
}

impl Evidence<'_> {
    /// What is believed of every provider, at a domain or anywhere, in the order of their creation.
    pub fn estimates(&self, place: Option<&Board>) -> Vec<Estimate> {
        let of = |(id, price): &(ProviderId, u64)| estimate(*id, self.overall, place, self.strategy, *price);
        self.providers.iter().map(of).collect()
    }

    /// The plan that follows `current`.
    pub fn plan(&self, current: &Plan) -> Plan {
        let overall = order(&self.estimates(None), &current.overall);
        let mut busiest: Vec<_> =
            self.places.iter().filter(|place| place.board.count >= self.domain_samples_min).collect();
        busiest.sort_by(|a, b| b.board.count.cmp(&a.board.count).then_with(|| a.domain.cmp(b.domain)));
        busiest.truncate(DOMAINS_MAX);
        let mut domains = Vec::new();
        let mut hopes: BTreeMap<ProviderId, (f64, f64)> = BTreeMap::new();
        for place in &busiest {
            let estimates = self.estimates(Some(place.board));
            let before = current.of(place.domain).unwrap_or(&overall);
            let here = order(&estimates, before);
            add_hopes(&estimates, &here, place.board.count, &mut hopes);
            if here != overall {
                domains.push((place.domain.to_owned(), here));
            }
        }
        // Of a domain of which too little is known the order stays that somebody gave it, a benchmark say.
        for (domain, order) in &current.domains {
            if domains.len() >= DOMAINS_MAX || busiest.iter().any(|place| place.domain == *domain) {
                continue;
            }
            let mut kept: Vec<_> = order.iter().copied().filter(|id| overall.contains(id)).collect();
            let rest: Vec<_> = overall.iter().copied().filter(|id| !kept.contains(id)).collect();
            kept.extend(rest);
            if kept != overall {
                domains.push((domain.clone(), kept));
            }
        }
        if busiest.is_empty() {
            add_hopes(&self.estimates(None), &overall, 1, &mut hopes);
        }
        // Most traffic first would reorder with every job; by name the same plan is the same plan.
        domains.sort();
        Plan { explore: self.explore(&overall, &hopes), overall, domains }
    }

    /// Shares for finding out: equal parts for those of whom little is known, else by what is hoped from them.
    fn explore(
        &self,
        overall: &[ProviderId],
        hopes: &BTreeMap<ProviderId, (f64, f64)>,
    ) -> Vec<(ProviderId, u32)> {
        if self.providers.len() < 2 {
            return Vec::new();
        }
        let unknown: Vec<_> = self
            .estimates(None)
            .into_iter()
            .filter(|estimate| estimate.samples_overall < 2 * SAMPLES_MIN)
            .map(|estimate| estimate.provider)
            .filter(|id| overall.first() != Some(id))
            .collect();
        if !unknown.is_empty() {
            let share = EXPLORE_PERMILLE_COLD / unknown.len() as u32;
            return unknown.into_iter().take(CHAIN_MAX).map(|id| (id, share.max(1))).collect();
        }
        let shares = hopes.iter().map(|(id, (hope, weight))| (*id, (hope / weight).max(HOPELESS)));
        let mut shares: Vec<_> = shares.collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        shares.truncate(CHAIN_MAX);
        let each = f64::from(EXPLORE_PERMILLE) / self.providers.len() as f64;
        // In steps, so that a share which moves by a hair does not make another plan.
        let step = |share: f64| ((share * 4.0).round() / 4.0).clamp(0.25, 1.0);
        let mut shares: Vec<_> = shares
            .into_iter()
            .map(|(id, share)| (id, (each * step(share)).round().max(1.0) as u32))
            .collect();
        shares.sort();
        shares
    }
}

impl Plan {
    /// The order that a domain has of its own.
    pub fn of(&self, domain: &str) -> Option<&Vec<ProviderId>> {
        self.domains.iter().find(|(name, _)| name == domain).map(|(_, order)| order)
    }
}

/// Notes for each provider that is not the first at a place whether it could be: the share of traffic in which its score
/// may, at best, be better than the first one's is at worst.
fn add_hopes(
    estimates: &[Estimate],
    order: &[ProviderId],
    traffic: u64,
    hopes: &mut BTreeMap<ProviderId, (f64, f64)>,
) {
    let first = estimates.iter().find(|estimate| order.first() == Some(&estimate.provider));
    let least = first.map_or(0.0, |estimate| estimate.score);
    for estimate in estimates.iter().filter(|estimate| order.first() != Some(&estimate.provider)) {
        let entry = hopes.entry(estimate.provider).or_default();
        entry.0 += if estimate.hope > least { traffic as f64 } else { 0.0 };
        entry.1 += traffic as f64;
    }
}

/// The order that follows `before`: neighbours change places when the later one is better by the margin, until none is.
///
/// The first is who is better even at worst. Behind it stand those who may be better at best: a job comes to them only
/// when the first has failed, so what they teach there costs nothing but that attempt.
pub fn order(estimates: &[Estimate], before: &[ProviderId]) -> Vec<ProviderId> {
    let of = |id: &ProviderId| estimates.iter().find(|estimate| estimate.provider == *id);
    let mut order: Vec<&Estimate> = before.iter().filter_map(of).collect();
    for estimate in estimates {
        if !order.iter().any(|known| known.provider == estimate.provider) {
            order.push(estimate);
        }
    }
    settle(&mut order, MARGIN, |estimate| estimate.score);
    if let Some((_, others)) = order.split_first_mut() {
        settle(others, MARGIN_BEHIND, |estimate| estimate.hope);
    }
    order.into_iter().map(|estimate| estimate.provider).collect()
}

fn settle(order: &mut [&Estimate], margin: f64, value: impl Fn(&Estimate) -> f64) {
    let passes = |later: &Estimate, earlier: &Estimate| match class(later).cmp(&class(earlier)) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => value(later) > value(earlier) + margin,
    };
    // Every exchange puts a better one in front by the margin, so as many rounds as there are providers are enough.
    for _ in 0..order.len() {
        let mut changed = false;
        for i in 1..order.len() {
            if passes(order[i], order[i - 1]) {
                order.swap(i, i - 1);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
}

/// Whom no score puts before another: those of whom too little is known stand behind those that are known, and those that
/// have broken down behind everybody, however cheap or quick they were.
fn class(estimate: &Estimate) -> u8 {
    if estimate.samples_overall < SAMPLES_MIN {
        1
    } else if estimate.is_broken {
        2
    } else {
        0
    }
}
