use super::*;
use base::clock::Clock;
use base::ids::OrgId;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use store::fault::FaultyDisk;
use store::{MIGRATIONS, Store};

/// What the tasks of these tests did.
#[derive(Default)]
struct Diary {
    lines: Mutex<Vec<&'static str>>,
    at_once: AtomicU32,
    at_once_max: AtomicU32,
}

impl Diary {
    fn write(&self, line: &'static str) {
        self.lines.lock().unwrap().push(line);
    }

    fn count(&self, line: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|l| **l == line).count()
    }
}

const HOUR: Duration = Duration::from_secs(3600);

static WORK: TaskSpec = TaskSpec::new("work", HOUR, |cx| {
    Box::pin(async move {
        let diary = cx.service::<Diary>();
        let now = diary.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        diary.at_once_max.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
        diary.at_once.fetch_sub(1, Ordering::SeqCst);
        diary.write("work");
        Ok(())
    })
});
static DERIVE: TaskSpec = TaskSpec::new("derive", HOUR, |cx| {
    Box::pin(async move {
        cx.service::<Diary>().write("derive");
        Ok(())
    })
})
.stage(Stage::Derive);
static PANICS: TaskSpec = TaskSpec::new("panics", HOUR, |cx| {
    cx.service::<Diary>().write("panics");
    panic!("on purpose")
});
static LOOPS: TaskSpec = TaskSpec::new("loops", HOUR, |cx| {
    Box::pin(async move {
        cx.stopped().await;
        cx.service::<Diary>().write("looped");
        Ok(())
    })
});
static HASTY: TaskSpec = TaskSpec::new("hasty", HOUR, |cx| {
    Box::pin(async move {
        cx.service::<Diary>().write("hasty");
        Err(base::Error::internal("be hasty", "a test"))
    })
})
.tried_again_within(Duration::from_millis(1));
static DEAF: TaskSpec = TaskSpec::new("deaf", HOUR, |_| Box::pin(std::future::pending()));

fn start(specs: &[&'static TaskSpec]) -> (Supervisor, Arc<Signals>, Arc<Diary>, Metrics) {
    let store = Store::open_backend(|| FaultyDisk::new().backend(), Clock::system(), MIGRATIONS).unwrap();
    let signals = Arc::new(Signals::of(specs.iter().copied()));
    let diary = Arc::new(Diary::default());
    let services = Arc::new(Services::new(store).with(Arc::clone(&signals)).with(Arc::clone(&diary)));
    let metrics = Metrics::new();
    let supervisor = Supervisor::start(specs.iter().copied(), &services, &metrics);
    (supervisor, signals, diary, metrics)
}

async fn until(what: impl Fn() -> bool) {
    for _ in 0..500 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not happen within 2.5 s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_wakes_and_one_activation_runs_at_a_time() {
    let (supervisor, signals, diary, _) = start(&[&WORK]);
    until(|| diary.count("work") == 1).await;
    for _ in 0..50 {
        signals.wake("work");
    }
    until(|| diary.count("work") >= 2).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert!(diary.count("work") <= 10, "signals during an activation are one");
    assert_eq!(diary.at_once_max.load(Ordering::SeqCst), 1);
    assert!(supervisor.drain(HOUR).await.is_empty());
}

#[tokio::test]
async fn a_panic_is_counted_and_the_others_live() {
    let (supervisor, signals, diary, metrics) = start(&[&PANICS, &WORK]);
    let begun = Instant::now();
    until(|| diary.count("work") == 1 && diary.count("panics") == 1).await;
    signals.wake("panics");
    tokio::time::sleep(Duration::from_millis(100)).await;
    // On a machine that was busy elsewhere meanwhile the pause itself may be over.
    if begun.elapsed() < Duration::from_millis(900) {
        assert_eq!(diary.count("panics"), 1, "a signal does not shorten the pause after a failure");
    }
    until(|| diary.count("panics") == 2).await;
    assert!(metrics.render().contains("gleaner_task_failures_total{task=\"panics\"} 2"));
    assert!(supervisor.drain(HOUR).await.is_empty());
}

#[tokio::test]
async fn what_people_wait_for_is_tried_again_soon() {
    let (supervisor, _, diary, _) = start(&[&HASTY]);
    // With pauses that double the seventh would come after a minute.
    until(|| diary.count("hasty") >= 7).await;
    assert!(supervisor.drain(HOUR).await.is_empty());
}

#[tokio::test]
async fn drain_goes_in_stages_and_names_what_holds() {
    let (supervisor, _, diary, _) = start(&[&DERIVE, &LOOPS, &DEAF]);
    until(|| diary.count("derive") == 1).await;
    let unfinished = supervisor.drain(Duration::from_millis(200)).await;
    assert_eq!(unfinished, ["deaf"]);
    assert_eq!(*diary.lines.lock().unwrap(), ["derive", "looped", "derive"]);
}

#[test]
fn pauses_double_up_to_a_limit() {
    assert_eq!(backoff(1), Duration::from_secs(1));
    assert_eq!(backoff(4), Duration::from_secs(8));
    assert_eq!(backoff(u32::MAX), BACKOFF_MAX);
}

#[test]
fn what_looks_often_is_tried_again_soon() {
    fn nothing(_: TaskContext) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    let pause_max = |secs| TaskSpec::new("any", Duration::from_secs(secs), nothing).pause_max;
    assert_eq!([pause_max(1), pause_max(60)], [SOON_BACKOFF_MAX; 2]);
    assert_eq!(pause_max(61), BACKOFF_MAX);
}

/// A change of anything.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct ThingV1(u64);

impl base::codec::Record for ThingV1 {}

static THINGS: store::OrgTable<base::ids::JobId, ThingV1> = store::OrgTable::new("things", "Thing").fed();

/// A consumer that notes how far it came, or always fails.
struct Follower<const FAILS: bool> {
    store: Store,
    reached: AtomicU32,
    settled: AtomicU32,
    tries: AtomicU32,
}

impl<const FAILS: bool> Consumer for Follower<FAILS> {
    fn name(&self) -> &'static str {
        "follower"
    }

    fn durable(&self) -> u64 {
        self.settled.load(Ordering::SeqCst).into()
    }

    fn reached(&self) -> u64 {
        self.reached.load(Ordering::SeqCst).into()
    }

    fn pause(&self, _: Instant, _: Instant) -> Duration {
        Duration::from_millis(1)
    }

    fn rest(&self) -> Option<Duration> {
        (self.durable() < self.reached()).then_some(Duration::from_millis(20))
    }

    fn take(&self, _: &dyn Fn() -> bool) -> Result<bool> {
        self.tries.fetch_add(1, Ordering::SeqCst);
        if FAILS {
            return Err(Error::internal("follow", "a test"));
        }
        let next = self.store.system().read(|tx| tx.changes(self.reached(), 1))?;
        let Some(next) = next.first() else { return Ok(false) };
        self.reached.store(u32::try_from(next.sequence).unwrap(), Ordering::SeqCst);
        Ok(true)
    }

    fn settle(&self) -> Result<()> {
        self.settled.store(self.reached.load(Ordering::SeqCst), Ordering::SeqCst);
        Ok(())
    }

    fn forget(&self, _: OrgId) -> Result<u64> {
        Ok(0)
    }
}

static FOLLOWS: TaskSpec =
    TaskSpec::new("follows", HOUR, |cx| Box::pin(follow(cx.service::<Follower<false>>(), cx)))
        .stage(Stage::Derive);
static STUMBLES: TaskSpec =
    TaskSpec::new("stumbles", HOUR, |cx| Box::pin(follow(cx.service::<Follower<true>>(), cx)))
        .stage(Stage::Derive)
        .tried_again_within(Duration::from_millis(1));

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_fails_holds_back_no_other() {
    let store = Store::open_backend(|| FaultyDisk::new().backend(), Clock::system(), MIGRATIONS).unwrap();
    let specs = [&FOLLOWS, &STUMBLES];
    fn at_the_beginning<const FAILS: bool>(store: &Store) -> Arc<Follower<FAILS>> {
        let [reached, settled, tries] = [0, 0, 0].map(AtomicU32::new);
        Arc::new(Follower { store: store.clone(), reached, settled, tries })
    }
    let (good, bad) = (at_the_beginning::<false>(&store), at_the_beginning::<true>(&store));
    let services = Services::new(store.clone()).with(Arc::new(Signals::of(specs)));
    let services = Arc::new(services.with(good.clone()).with(bad.clone()));
    let supervisor = Supervisor::start(specs, &services, &Metrics::new());
    let org = OrgId::new();
    for n in 1..=5 {
        let put =
            move |tx: &store::SysWrite<'_>| tx.org(org).put(&THINGS, &base::ids::JobId::new(), &ThingV1(n));
        store.system().write(put).await.unwrap();
        let newest = *store.sequence().borrow();
        until(|| good.reached() == newest).await;
        // What it took in is stored although nothing follows.
        until(|| good.durable() == newest).await;
    }
    until(|| bad.tries.load(Ordering::SeqCst) >= 3).await;
    assert_eq!(bad.durable(), 0);
    assert!(supervisor.drain(HOUR).await.is_empty());
}
