//! The ledger on a real store with a clock that moves.

use super::ledger::{change_plan, effective_balance, recharge, renew};
use super::rows::AccountV1;
use super::*;
use base::clock::{Clock, Moment};
use base::codec;
use base::ids::OrgId;
use std::time::Duration;
use store::fault::FaultyDisk;
use store::{MIGRATIONS, Order, OrgStore, Store};

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Ledger {
    org: OrgStore,
    plans: Plans,
    clock: Clock,
}

/// A reserve that is not settled.
#[derive(Clone, Copy)]
struct Held {
    job: JobId,
    made: Moment,
    credits: u64,
}

impl Ledger {
    async fn on(plan: &str) -> Ledger {
        let (disk, clock) = (FaultyDisk::new(), Clock::system());
        let store = Store::open_backend(move || disk.backend(), clock.clone(), MIGRATIONS).unwrap();
        let org = store.system().org(OrgId::new());
        let plans = Plans::built_in().unwrap();
        let opened = plans.get(plan).unwrap().clone();
        org.write(move |tx| open_account(tx, &opened)).await.unwrap();
        Ledger { org, plans, clock }
    }

    fn plan(&self) -> Plan {
        let account = self.org.read(account).unwrap();
        plan_of(&self.plans, &account).unwrap().clone()
    }

    async fn reserve(&self, credits: u64) -> Result<Held> {
        let plan = self.plan();
        self.org
            .write(move |tx| {
                let held = Held { job: JobId::new(), made: tx.moment(), credits };
                reserve(tx, &plan, &[(held.job, credits)])?;
                Ok(held)
            })
            .await
    }

    async fn settle(&self, held: Held, charged: u64) {
        self.org.write(move |tx| settle(tx, held.job, held.made, held.credits, charged)).await.unwrap();
        self.agrees();
    }

    async fn recharge(&self, credits: u64) {
        let plan = self.plan();
        self.org.write(move |tx| recharge(tx, &plan, credits, None).map(drop)).await.unwrap();
        self.agrees();
    }

    async fn renew(&self) -> bool {
        let plans = self.plans.clone();
        self.org.write(move |tx| renew(tx, &plans)).await.unwrap()
    }

    async fn change_plan(&self, plan: &str) -> u64 {
        let plan = self.plans.get(plan).unwrap().clone();
        self.org.write(move |tx| change_plan(tx, &plan)).await.unwrap()
    }

    /// Balance, and of it what was recharged; also what is reserved, and of it what was recharged.
    fn stands(&self) -> [u64; 4] {
        self.agrees();
        let account = self.org.read(account).unwrap();
        [account.balance, account.recharged, account.held, account.held_recharged]
    }

    fn kinds(&self) -> Vec<(&'static str, i64)> {
        let rows = self.org.read(|tx| tx.scan(&TRANSACTIONS, None, Order::Ascending, 10_000)).unwrap();
        rows.into_iter().map(|(_, row)| (row.kind.name(), row.amount)).collect()
    }

    /// The balance is the sum of its transactions, and no part is larger than the whole.
    fn agrees(&self) {
        let account = self.org.read(account).unwrap();
        let sum: i64 = self.kinds().iter().map(|(_, amount)| amount).sum();
        assert_eq!(i64::try_from(account.balance), Ok(sum));
        assert!(account.recharged <= account.balance, "{account:?}");
        assert!(account.held_recharged <= account.held, "{account:?}");
    }
}

#[tokio::test]
async fn what_a_job_does_not_cost_returns() {
    let at = Ledger::on("trial").await;
    let held = at.reserve(75).await.unwrap();
    assert_eq!(at.stands(), [925, 0, 75, 0]);
    at.settle(held, 10).await;
    assert_eq!(at.stands(), [990, 0, 0, 0]);
    let refused = at.reserve(991).await.err().unwrap();
    assert_eq!((refused.code(), refused.status()), (Code::QuotaExceeded, 402));
    let held = at.reserve(990).await.unwrap();
    assert_eq!(at.reserve(1).await.err().unwrap().code(), Code::QuotaExceeded);
    at.settle(held, 0).await;
    assert_eq!(at.stands(), [990, 0, 0, 0]);
    assert_eq!(at.org.read(account).unwrap().used, 10);
}

#[tokio::test]
async fn a_trial_ends_and_is_not_renewed() {
    let at = Ledger::on("trial").await;
    at.clock.advance(DAY * 14);
    let refused = at.reserve(1).await.err().unwrap();
    assert_eq!(refused.code(), Code::PaymentRequired);
    assert!(refused.fields().contains(&("isTrialExpired", true.into())));
    at.recharge(50).await;
    assert_eq!(at.reserve(1).await.err().unwrap().code(), Code::PaymentRequired, "credits do not prolong it");
    at.clock.advance(DAY * 16);
    let now = at.clock.moment();
    assert_eq!(effective_balance(&at.org.read(account).unwrap(), &at.plan(), now), 50);
    assert!(at.renew().await);
    assert_eq!(at.stands(), [50, 50, 0, 0]);
    at.change_plan("team").await;
    assert_eq!(at.stands(), [100_050, 50, 0, 0]);
    assert!(at.reserve(1).await.is_ok());
}

#[tokio::test]
async fn a_period_renews_once_however_long_the_box_was_off() {
    let at = Ledger::on("team").await;
    at.reserve(100_000).await.unwrap();
    assert!(at.reserve(1).await.is_err());
    assert!(!at.renew().await);
    at.clock.advance(DAY * 75);
    assert_eq!(effective_balance(&at.org.read(account).unwrap(), &at.plan(), at.clock.moment()), 100_000);
    assert!(at.renew().await && !at.renew().await);
    assert_eq!(at.stands(), [100_000, 0, 100_000, 0]);
    let row = at.org.read(account).unwrap();
    assert!(row.period_starts_at <= at.clock.moment() && at.clock.moment() < row.period_ends_at);
    assert_eq!(row.period_ends_at.since(row.period_starts_at), DAY * 30);
    at.reserve(1).await.unwrap();
    assert_eq!(at.stands()[0], 99_999);
}

/// The month rolls over while a job runs: it was paid for by the old month.
#[tokio::test]
async fn what_was_reserved_last_month_comes_back_to_last_month() {
    for renewed_first in [true, false] {
        let at = Ledger::on("team").await;
        let held = at.reserve(80).await.unwrap();
        at.clock.advance(DAY * 30);
        if renewed_first {
            at.reserve(1).await.unwrap();
            at.settle(held, 30).await;
        } else {
            at.settle(held, 30).await;
            at.reserve(1).await.unwrap();
        }
        assert_eq!(at.stands(), [99_999, 0, 1, 0], "nothing of it is carried over");
        assert_eq!(at.org.read(account).unwrap().used, 0, "nor charged to the new month");
        let lapsed: i64 =
            at.kinds().iter().filter(|(kind, _)| *kind == "adjust").map(|(_, amount)| amount).sum();
        assert_eq!(lapsed, -(100_000 - 80) - 50);
    }
}

#[tokio::test]
async fn recharged_credits_are_spent_last_come_back_first_and_do_not_lapse() {
    let at = Ledger::on("trial").await;
    at.recharge(500).await;
    assert_eq!(at.stands(), [1_500, 500, 0, 0]);
    let first = at.reserve(900).await.unwrap();
    let second = at.reserve(300).await.unwrap();
    assert_eq!(at.stands(), [300, 300, 1_200, 200]);
    at.settle(second, 250).await;
    assert_eq!(at.stands(), [350, 350, 900, 150], "of what it gave back all was recharged");
    at.settle(first, 850).await;
    assert_eq!(at.stands(), [400, 400, 0, 0]);

    let at = Ledger::on("team").await;
    at.recharge(500).await;
    let held = at.reserve(100_400).await.unwrap();
    assert_eq!(at.stands(), [100, 100, 100_400, 400]);
    at.clock.advance(DAY * 30);
    assert!(at.renew().await);
    assert_eq!(at.stands(), [100_100, 100, 100_400, 400]);
    at.settle(held, 100).await;
    assert_eq!(at.stands(), [100_500, 500, 0, 0], "the recharged part is back, the month's has lapsed");
}

#[tokio::test]
async fn another_plan_begins_at_once() {
    let at = Ledger::on("appliance").await;
    at.recharge(70).await;
    let held = at.reserve(100).await.unwrap();
    at.clock.advance(DAY * 10);
    assert_eq!(at.change_plan("trial").await, 999_900);
    assert_eq!(at.stands(), [1_070, 70, 100, 0]);
    let row = at.org.read(account).unwrap();
    assert_eq!((row.plan.as_str(), row.used), ("trial", 0));
    assert_eq!(row.period_ends_at.since(row.period_starts_at), DAY * 30);
    assert_eq!(row.trial_ends_at.unwrap().since(row.period_starts_at), DAY * 14);
    at.settle(held, 40).await;
    assert_eq!(at.stands(), [1_070, 70, 0, 0], "what the old plan paid for returns to it, and lapses");
    at.change_plan("team").await;
    assert_eq!(at.stands(), [100_070, 70, 0, 0]);
    assert!(at.org.read(account).unwrap().trial_ends_at.is_none());
}

/// Whatever comes in which order: what is charged and what is left is what was granted, and no part is lost.
#[tokio::test]
async fn random_histories_keep_the_sums() {
    let mut state = 0x5EED_0005u64;
    let mut below = move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    for _ in 0..20 {
        let at = Ledger::on("team").await;
        let mut open: Vec<Held> = Vec::new();
        for _ in 0..60 {
            match below(10) {
                0 => at.clock.advance(DAY * u32::try_from(below(20)).unwrap()),
                1 => at.recharge(1 + below(5_000)).await,
                2 => drop(at.renew().await),
                3 if below(4) == 0 => drop(at.change_plan(["team", "appliance"][below(2) as usize]).await),
                4..=6 if !open.is_empty() => {
                    let held = open.swap_remove(below(open.len() as u64) as usize);
                    at.settle(held, below(held.credits + 1)).await;
                }
                _ => open.extend(at.reserve(1 + below(60_000)).await),
            }
            at.agrees();
        }
        for held in open.drain(..) {
            at.settle(held, 0).await;
        }
        let [_, _, held, held_recharged] = at.stands();
        assert_eq!((held, held_recharged), (0, 0));
    }
}

#[test]
fn an_account_of_the_release_before_is_read() {
    let old = AccountV1 {
        plan: "team".to_owned(),
        balance: 7,
        period_starts_at: Moment(1),
        period_ends_at: Moment(2),
        trial_ends_at: None,
        used: 3,
    };
    let read: AccountV2 = codec::decode(&codec::encode(&old).unwrap()).unwrap();
    assert_eq!(read, AccountV2::from(old));
    assert_eq!((read.balance, read.recharged, read.held), (7, 0, 0));
}

#[tokio::test]
async fn setting_the_clock_begins_no_period_and_lapses_nothing() {
    const YEAR_MS: i64 = 365 * 86_400_000;
    let at = Ledger::on("team").await;
    let ends_at = at.org.read(account).unwrap().period_ends_at;
    let mut charged = 0;
    for (credits, by_ms) in
        [(10, YEAR_MS), (20, -YEAR_MS), (30, -3 * YEAR_MS), (40, 5 * YEAR_MS), (50, -YEAR_MS)]
    {
        let (failed, good) = (at.reserve(credits).await.unwrap(), at.reserve(1).await.unwrap());
        at.clock.set_wall(by_ms);
        assert!(!at.renew().await, "by {by_ms}");
        at.settle(failed, 0).await;
        at.settle(good, 1).await;
        charged += 1;
        assert_eq!(at.stands(), [100_000 - charged, 0, 0, 0], "by {by_ms}");
    }
    assert_eq!(at.org.read(account).unwrap().period_ends_at, ends_at);
    at.clock.advance(ends_at.since(at.clock.moment()));
    assert!(at.renew().await && !at.renew().await, "it begins when it is time, and once");
    at.clock.set_wall(-YEAR_MS);
    assert!(!at.renew().await);
    assert_eq!(at.stands(), [100_000, 0, 0, 0]);
}
