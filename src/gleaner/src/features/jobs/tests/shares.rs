//! Shares of the box's slots, in a time of the test's own: the fair queue over a real store, and runs that are nothing but
//! when they end.

use super::*;
use crate::features::jobs::finish::claim;
use crate::features::jobs::queue::{DueJob, FairQueue, Inbox, QueuedJob, runs_max};

const SLOTS: usize = 32;
const STEP: Duration = Duration::from_millis(100);
/// A run that never ends.
const NEVER: usize = usize::MAX;

struct Run {
    org: OrgId,
    ends: usize,
    /// Slot and leave.
    _due: DueJob,
}

/// A queue, and who runs.
struct Play {
    lab: Lab,
    inbox: Arc<Inbox>,
    queue: FairQueue,
    polite: Politeness,
    begun: Instant,
    /// Steps that are over.
    step: usize,
    runs: Vec<Run>,
    /// How many steps a run of an organization takes.
    takes: HashMap<OrgId, usize>,
    /// In which step each run of an organization began.
    begins: HashMap<OrgId, Vec<usize>>,
}

impl Play {
    async fn open() -> Play {
        let inbox = Arc::new(Inbox::default());
        Play {
            lab: Lab::new(1, 1, Duration::ZERO).await,
            queue: FairQueue::new(SLOTS, inbox.clone()),
            inbox,
            polite: Politeness::new(VisitLimits::new(1_000, Duration::ZERO)),
            begun: Instant::now(),
            step: 0,
            runs: Vec::new(),
            takes: HashMap::new(),
            begins: HashMap::new(),
        }
    }

    /// An organization that queues so many jobs now, of which each takes so many steps.
    async fn comes(&mut self, jobs: usize, takes: usize) -> OrgId {
        let org = self.lab.neighbour().await;
        let jobs = self.lab.fill_domains(&org, jobs, Moment(0)).await;
        self.inbox.queued(jobs.iter().map(|job| QueuedJob::of(org.id(), job)));
        self.takes.insert(org.id(), takes);
        org.id()
    }

    fn running(&self, org: OrgId) -> usize {
        self.runs.iter().filter(|run| run.org == org).count()
    }

    /// What ends now ends, and what may begin begins.
    async fn step(&mut self) {
        self.runs.retain(|run| run.ends > self.step);
        let now = self.begun + STEP * u32::try_from(self.step).unwrap();
        let system = self.lab.store.system();
        loop {
            self.queue.listen(self.lab.store.clock().moment());
            let round = system.read(|tx| self.queue.round(tx, &self.polite, now)).unwrap();
            if round.due.is_empty() && !round.is_cut {
                break;
            }
            for due in round.due {
                self.begin(due).await;
            }
        }
        self.step += 1;
    }

    async fn begin(&mut self, due: DueJob) {
        let (org, job) = (due.queued.org, due.job);
        let taken = self.lab.store.system().org(org).write(move |tx| claim(tx, job)).await.unwrap();
        assert!(taken.job().is_some(), "a job is taken once");
        let (in_use, own) = (self.runs.len(), self.running(org));
        let busy: HashSet<_> = self.runs.iter().map(|run| run.org).chain([org]).collect();
        if in_use >= SLOTS {
            assert!(own < (SLOTS / busy.len()).max(1), "{own} of {in_use} among {}", busy.len());
        }
        assert!(in_use < runs_max(SLOTS));
        let ends = self.step.saturating_add(self.takes[&org]);
        self.runs.push(Run { org, ends, _due: due });
        self.begins.entry(org).or_default().push(self.step);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_begin_within_twice_their_fair_share_beside_slots_that_never_come_free() {
    for hoarders in 1..=3 {
        let mut play = Play::open().await;
        let mut held = Vec::new();
        for _ in 0..hoarders {
            let hoarder = play.comes(100, NEVER).await;
            play.step().await;
            held.push((hoarder, play.running(hoarder)));
        }
        let counts: Vec<_> = held.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [32, 16, 8][..hoarders]);
        let (came, takes, jobs) = (play.step, 5, 64);
        let newcomer = play.comes(jobs, takes).await;
        while play.begins.get(&newcomer).is_none_or(|begins| begins.len() < jobs) {
            assert!(play.step < came + 200, "beside {hoarders} it is kept out");
            play.step().await;
        }
        let share = SLOTS as f64 / (hoarders + 1) as f64;
        for (n, at) in play.begins[&newcomer].iter().enumerate() {
            let fair = takes as f64 * n as f64 / share;
            assert!(
                (at - came) as f64 <= 2.0 * fair,
                "beside {hoarders} the {n}th began in step {}",
                at - came
            );
        }
        assert!(held.iter().all(|(org, count)| play.running(*org) == *count), "nobody else has gained by it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_that_hold_slots_for_ever_leaves_one_for_the_next() {
    let mut play = Play::open().await;
    let mut held = Vec::new();
    for _ in 0..9 {
        let org = play.comes(40, NEVER).await;
        play.step().await;
        held.push(org);
    }
    let counts = |play: &Play| held.iter().map(|org| play.running(*org)).collect::<Vec<_>>();
    assert_eq!(counts(&play), [32, 16, 8, 4, 2, 1, 1, 0, 0]);
    assert_eq!(play.queue.free(), 0);
    // Whatever ends, whose ever it is, goes to who has nothing.
    for begun in 1..=2 {
        play.runs[0].ends = 0;
        play.step().await;
        assert_eq!(counts(&play)[7..].iter().sum::<usize>(), begun, "{:?}", counts(&play));
    }
    play.runs[0].ends = 0;
    play.step().await;
    assert_eq!(counts(&play), [29, 16, 8, 4, 2, 1, 1, 1, 1], "who has a share waits for the slots of all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_runs_end_shares_are_soon_equal_and_nothing_runs_beside_the_slots() {
    let mut play = Play::open().await;
    let mut all = Vec::new();
    for takes in [20, 7, 3] {
        all.push(play.comes(700, takes).await);
        play.step().await;
    }
    assert!(play.runs.len() > SLOTS, "those that came later did not wait for the first one's ends");
    for _ in 0..30 {
        play.step().await;
    }
    for _ in 0..60 {
        play.step().await;
        let counts: Vec<_> = all.iter().map(|org| play.running(*org)).collect();
        assert!(counts.iter().all(|count| *count >= SLOTS / 3), "{counts:?}");
        assert_eq!(play.runs.len(), SLOTS, "{counts:?}");
    }
}
