//! Schedules on a machine that is killed and whose clock is set, beside a plain simulation: no tick twice, none lost outside
//! its policy, and one job for each URL of each run.

use super::clock::{Random, SetClock};
use crate::audit::patch;
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Member, eventually, expect, get, member, post, text};
use crate::workflows::put;
use base::clock::Timestamp;
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SCHEDULES: &str = "/api/v1/schedules";
const PATIENCE: Duration = Duration::from_secs(60);
/// Seconds between two ticks of the schedule that has most.
const GRID_SEC: i64 = 600;
/// How a schedule's cron says its ticks, and how many steps of the grid lie between them.
const CRONS: [(&str, i64); 4] =
    [("*/10 * * * *", 1), ("0,20,40 * * * *", 2), ("0-59/30 * * * *", 3), ("0 * * * *", 6)];
const SHAPES: [(&str, &str, usize); 5] = [
    ("run_once", "queue", 2),
    ("skip", "queue", 1),
    ("run_once", "skip", 1),
    ("skip", "skip", 3),
    // Of more than one part, so that kills come between parts.
    ("run_once", "queue", 130),
];

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    println!("{name}={given}");
    given
}

/// A schedule as it must be. Times are steps of the grid since 1970.
#[derive(Debug)]
struct Expected {
    id: String,
    body: Value,
    every: i64,
    is_on: bool,
    is_made_up: bool,
    urls: u64,
    decided_until: i64,
    /// What has a row, and whether it fired.
    ticks: BTreeMap<i64, bool>,
}

impl Expected {
    /// What is due by now, when the newest step of the grid is `now`, which was `is_fresh` less than a minute ago.
    fn decide(&mut self, now: i64, is_fresh: bool) {
        if !self.is_on {
            return;
        }
        if now < self.decided_until {
            // What was dropped because the clock stood too far ahead is still to come.
            self.ticks.retain(|step, fired| *step <= now || *fired);
        }
        self.decided_until = self.decided_until.min(now);
        let due: Vec<i64> = (self.decided_until + 1..=now).filter(|step| step % self.every == 0).collect();
        let Some(newest) = due.last().copied() else { return };
        for step in due {
            let is_late = step < now || !is_fresh;
            let fires = if self.is_made_up { step == newest } else { !is_late };
            self.ticks.entry(step).or_insert(fires);
        }
        self.decided_until = newest;
    }

    fn next(&self) -> Option<i64> {
        let mut steps = (self.decided_until + 1..).filter(|step| step % self.every == 0);
        steps.find(|step| !self.ticks.contains_key(step)).filter(|_| self.is_on)
    }
}

fn step_of(date: &Value) -> i64 {
    let at: Timestamp = date.as_str().unwrap().parse().unwrap();
    assert_eq!(at.millis() % (GRID_SEC * 1_000), 0, "{date} is a tick");
    at.millis() / (GRID_SEC * 1_000)
}

struct Walk {
    clock: SetClock,
    random: Random,
    settings: Vec<(&'static str, String)>,
    process: Option<Process>,
    /// Where the pages are.
    web: Web,
    owner: Member,
    now: i64,
    schedules: Vec<Expected>,
}

impl Walk {
    fn start(clock: &SetClock, settings: &[(&'static str, String)]) -> Process {
        let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        clock.start(&settings)
    }

    fn api(&self) -> Client {
        self.process.as_ref().unwrap().client().bearer(&self.owner.key)
    }

    /// Sets the clock to some seconds behind a step of the grid.
    fn set_to(&mut self, step: i64, past_sec: i64) {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let shown = i64::try_from(real).unwrap() + self.clock.sec;
        self.clock.jump(step * GRID_SEC + past_sec - shown);
        self.now = step;
    }

    fn restart(&mut self) {
        let process = self.process.take().unwrap();
        if self.random.below(3) == 0 {
            assert_eq!(process.terminate(), Some(0));
        } else {
            process.kill();
        }
        self.process = Some(Walk::start(&self.clock, &self.settings));
    }

    /// Waits until every schedule stands where it must.
    async fn settle(&self) {
        let api = self.api();
        for schedule in &self.schedules {
            let next = schedule.next();
            let mut last = Value::Null;
            for _ in 0..PATIENCE.as_millis() / 100 {
                last = expect(get(&api, &format!("{SCHEDULES}/{}", schedule.id)).await, 200)["nextFireAt"]
                    .clone();
                if (!last.is_null()).then(|| step_of(&last)) == next {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            assert_eq!((!last.is_null()).then(|| step_of(&last)), next, "at {}: {schedule:?}", self.now);
        }
    }

    /// Something happens to the clock, the box, or both.
    async fn machine(&mut self) {
        let far = i64::try_from(self.random.below(12)).unwrap();
        let (step, is_fresh) = match self.random.below(8) {
            0 => (self.now, false),
            1 | 2 => (self.now - far, false),
            3 | 4 => (self.now + far, false),
            // A tick of its own time, with the box awake.
            _ => (self.now + 1, true),
        };
        let past_sec = if is_fresh { 5 } else { 180 + i64::try_from(self.random.below(240)).unwrap() };
        self.set_to(step, past_sec);
        if !is_fresh && self.random.below(2) == 0 {
            let wait = Duration::from_millis(self.random.below(400));
            tokio::time::sleep(wait).await;
            self.restart();
        }
        self.schedules.iter_mut().for_each(|schedule| schedule.decide(step, is_fresh));
        self.settle().await;
        if self.random.below(3) == 0 {
            self.restart();
        }
    }

    /// Somebody edits a schedule, or switches it.
    async fn edit(&mut self) {
        let api = self.api();
        let (n, to) = (self.random.below(5) as usize, self.random.below(4) as usize);
        let is_switched = self.random.below(2) == 0;
        let now = self.now;
        let schedule = &mut self.schedules[n];
        let path = format!("{SCHEDULES}/{}", schedule.id);
        if is_switched {
            schedule.is_on = !schedule.is_on;
            let on = json!({ "isEnabled": schedule.is_on });
            expect(patch(&api, &format!("{path}/toggle"), &on).await, 200);
            if schedule.is_on {
                schedule.decided_until = now;
            }
        } else {
            let (cron, every) = CRONS[to];
            let is_new = schedule.body["cron"] != cron;
            schedule.body["cron"] = cron.into();
            expect(put(&api, &path, &schedule.body).await, 200);
            schedule.every = every;
            if is_new {
                schedule.decided_until = now;
            }
        }
        self.settle().await;
    }

    /// All runs, when all of them have ended.
    async fn runs(&self) -> Vec<Value> {
        let api = self.api();
        eventually("all runs end", PATIENCE * 5, || async {
            let (mut all, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = expect(get(&api, &format!("{SCHEDULES}/runs?limit=200{cursor}")).await, 200);
                all.extend(page["items"].as_array().unwrap().clone());
                match page["nextCursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            let is_open = |run: &Value| matches!(text(run, "status"), "queued" | "running");
            (!all.iter().any(is_open)).then_some(all)
        })
        .await
    }
}

async fn begin(clock: SetClock, seed: u64) -> Walk {
    let web = Web::open(|path| Some(Answer::html(format!("<title>{path}</title>")))).await;
    let settings = vec![
        ("NETWORK__ALLOW", web.allow()),
        ("DISPATCH__MIN_DELAY_MS", "0".to_owned()),
        ("DISPATCH__ROBOTS", "false".to_owned()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64".to_owned()),
    ];
    let process = Walk::start(&clock, &settings);
    let owner = member(&process.client(), &process.socket(), "walker").await;
    let mut walk = Walk {
        clock,
        random: Random(seed),
        settings,
        process: Some(process),
        web,
        owner,
        now: 0,
        schedules: Vec::new(),
    };
    let real = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    walk.set_to(real / GRID_SEC + 1, 300);
    make(&mut walk).await;
    walk
}

async fn make(walk: &mut Walk) {
    let api = walk.api();
    for (n, (misfire, overlap, urls)) in SHAPES.into_iter().enumerate() {
        let tag = format!("s{n}");
        let list: Vec<_> = (0..urls)
            .map(|page| json!({ "url": walk.web.url(&format!("/{tag}/{page}")), "tags": [tag] }))
            .collect();
        expect(post(&api, "/api/v1/urls", &json!({ "urls": list })).await, 200);
        let (cron, every) = CRONS[n % CRONS.len()];
        let body =
            json!({ "name": tag, "cron": cron, "misfire": misfire, "overlap": overlap, "tagFilters": [tag] });
        let made = expect(post(&api, SCHEDULES, &body).await, 201);
        walk.schedules.push(Expected {
            id: text(&made, "id").to_owned(),
            body,
            every,
            is_on: true,
            is_made_up: misfire == "run_once",
            urls: urls as u64,
            decided_until: walk.now,
            ticks: BTreeMap::new(),
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_edits_and_set_clocks_lose_no_tick_and_double_none() {
    let Some(clock) = SetClock::new() else { return };
    let mut walk = begin(clock, number("GLEANER_SCHEDULE_SEED", 20_261_123)).await;
    for _ in 0..number("GLEANER_SCHEDULE_STEPS", 30) {
        if walk.random.below(4) == 0 {
            walk.edit().await;
        } else {
            walk.machine().await;
        }
    }
    let runs = walk.runs().await;
    let mut jobs = 0;
    for schedule in &walk.schedules {
        let own: Vec<_> = runs.iter().filter(|run| run["scheduleId"] == schedule.id.as_str()).collect();
        let fired = |run: &Value| text(run, "status") != "skipped_misfire";
        let found: BTreeMap<i64, bool> =
            own.iter().map(|run| (step_of(&run["scheduledFor"]), fired(run))).collect();
        assert_eq!(found.len(), own.len(), "a tick has one row");
        assert_eq!(found, schedule.ticks, "{schedule:?}");
        for run in own {
            match text(run, "status") {
                "completed" => assert_eq!(run["jobsCreated"], schedule.urls, "{run}"),
                "skipped_misfire" => assert_eq!(run["jobsCreated"], 0, "{run}"),
                "skipped_overlap" => assert_eq!(schedule.body["overlap"], "skip", "{run}"),
                other => panic!("{other}: {run}"),
            }
            jobs += run["jobsCreated"].as_u64().unwrap();
        }
    }
    let sql = "SELECT count(*) AS jobs, count(DISTINCT schedule_run_id || url_id) AS of_runs FROM jobs";
    let api = walk.api();
    let counted = eventually("the console shows every job", PATIENCE, || async {
        let answer = post(&api, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await;
        // 202 of a busy machine, 503 of a box that has just started: asked again.
        assert!(matches!(answer.status.as_u16(), 200 | 202 | 503), "{}", answer.text());
        let row = answer.json["results"]["rows"][0].clone();
        (row["jobs"] == jobs).then_some(row)
    })
    .await;
    assert_eq!(counted["of_runs"], jobs, "one job for each URL of each run");
    assert!(jobs > 0);
    assert_eq!(walk.process.take().unwrap().terminate(), Some(0));
}
