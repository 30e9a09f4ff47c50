//! A machine whose clock is set, by seconds and by years, forward and back, while the box runs and between two runs: nothing
//! is left open, no period begins twice, a balance is the sum of its ledger, new ids are the greatest, and what lasts for a
//! while lasts for that while.

use crate::harness::Request;
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, PASSWORD, ended, eventually, expect, get, member, post, text};
use gleaner::admin;
use serde_json::{Value, json};
use server::client::Client;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const JUMPS: u64 = 200;
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR_SEC: i64 = 365 * 86_400;
/// How long an access token lives.
const TOKEN_TIME: Duration = Duration::from_secs(15 * 60);
/// Hosts of the town: one that fails again and again would be left alone.
const HOSTS: u64 = 64;
/// Credits of the plan's period.
const MONTHLY: i64 = 1_000_000;

/// Numbers from a seed (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Seconds between eleven and three years, as likely of each order of magnitude, forward or back.
    fn jump_sec(&mut self) -> i64 {
        let most = [60, 3_600, 86_400, 40 * 86_400, 3 * YEAR_SEC][self.below(5) as usize];
        let sec = 11 + self.below(most as u64) as i64;
        if self.below(2) == 0 { sec } else { -sec }
    }
}

fn seed() -> u64 {
    let given = std::env::var("GLEANER_CLOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or(20_261_122);
    println!("GLEANER_CLOCK_SEED={seed}");
    seed
}

/// Pages that are there, pages that are not, one that takes its time, and pages that are there at the second try.
async fn town() -> Web {
    let seen = Mutex::new(HashSet::new());
    Web::open(move |path| {
        Some(match path.split('/').nth(1)? {
            "robots.txt" => return None,
            "good" => Answer::html(format!("<title>{path}</title>")),
            "slow" => Answer::html("late").after_ms(400),
            "again" if seen.lock().unwrap().insert(path.to_owned()) => {
                let mut answer = Answer::status(429);
                answer.headers.push(("retry-after".to_owned(), "1".to_owned()));
                answer
            }
            "again" => Answer::html("here"),
            _ => Answer::status(503),
        })
    })
    .await
}

fn settings(web: &Web) -> Vec<(&'static str, String)> {
    let hosts: Vec<String> = (0..HOSTS).map(|n| format!("\"h{n}.test\" = [\"127.0.0.1\"]")).collect();
    vec![
        ("NETWORK__ALLOW", web.allow()),
        ("NETWORK__HOSTS", format!("{{ {} }}", hosts.join(", "))),
        ("DISPATCH__MIN_DELAY_MS", "0".to_owned()),
        ("DISPATCH__ROBOTS", "false".to_owned()),
    ]
}

/// What an organization has seen so far.
struct Org {
    member: Member,
    newest: String,
    /// Jobs that were submitted and not looked at again.
    open: Vec<String>,
    /// The newest row of the ledger that was read, and the sum up to it.
    ledger: (Option<String>, i64),
    grants: u64,
    charged: i64,
}

impl Org {
    fn new(member: Member) -> Org {
        Org { member, newest: String::new(), open: Vec::new(), ledger: (None, 0), grants: 0, charged: 0 }
    }

    /// Submits a job: its id is greater than every one before, and it stands in front of the list.
    async fn submit(&mut self, client: &Client, url: &str) -> String {
        let job = expect(post(client, "/api/v1/jobs", &json!({ "url": url })).await, 201);
        let id = text(&job, "id").to_owned();
        assert!(id > self.newest, "{id} does not come after {}", self.newest);
        let list = expect(get(client, "/api/v1/jobs?limit=1").await, 200);
        assert_eq!(list["items"][0]["id"], id.as_str(), "the newest job is the first");
        self.newest.clone_from(&id);
        self.open.push(id.clone());
        id
    }

    /// Everything that was submitted ends, and costs what it brought.
    async fn settle(&mut self, client: &Client) {
        for id in std::mem::take(&mut self.open) {
            let job = ended(client, &id).await;
            let charged = job["creditsCharged"].as_i64().unwrap();
            match text(&job, "status") {
                "succeeded" => assert!(charged > 0, "{job}"),
                "failed" | "canceled" => assert_eq!(charged, 0, "{job}"),
                other => panic!("{other}: {job}"),
            }
            self.charged += charged;
        }
    }

    /// Reads on in the ledger: each row's balance is the sum up to it. Gives what is left; with jobs under way that is
    /// another moment's.
    async fn balance(&mut self, client: &Client) -> i64 {
        let plan = expect(get(client, "/api/v1/plans/current").await, 200);
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        'pages: loop {
            let page = format!("/api/v1/plans/transactions?limit=200{cursor}");
            let page = expect(get(client, &page).await, 200);
            for row in page["items"].as_array().unwrap() {
                if self.ledger.0.as_deref() == row["id"].as_str() {
                    break 'pages;
                }
                rows.push(row.clone());
            }
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        for row in rows.iter().rev() {
            self.ledger.1 += row["amount"].as_i64().unwrap();
            assert_eq!(row["balanceAfter"].as_i64(), Some(self.ledger.1), "{row}");
            self.grants += u64::from(text(row, "kind") == "grant");
            self.ledger.0 = Some(text(row, "id").to_owned());
        }
        plan["remainingCredits"].as_i64().unwrap()
    }

    /// The same when nothing is open: what is left of the period is what was not charged in it.
    async fn check(&mut self, client: &Client, grants: u64) {
        self.settle(client).await;
        let left = self.balance(client).await;
        assert_eq!(left, self.ledger.1, "the balance is the sum of its transactions");
        assert_eq!(self.grants, grants, "periods begin by themselves and not by the clock");
        assert_eq!(left, MONTHLY - self.charged);
    }
}

/// An access token, and how much time has passed since it was issued.
struct Token {
    token: String,
    client: Client,
    issued: Instant,
    passed: Duration,
}

impl Token {
    async fn login(client: &Client, member: &Member) -> Token {
        let person = json!({ "email": member.email, "password": PASSWORD });
        let issued = Instant::now();
        let login = expect(post(client, "/api/v1/auth/login", &person).await, 200);
        let token = text(&login, "accessToken").to_owned();
        Token { client: client.bearer(&token), token, issued, passed: Duration::ZERO }
    }

    /// The box listens elsewhere.
    fn at(&mut self, client: &Client) {
        self.client = client.bearer(&self.token);
    }

    /// It is good for its fifteen minutes, and not for longer.
    async fn check(&self, what: &str) {
        let status = get(&self.client, "/api/v1/jobs?limit=1").await.status.as_u16();
        if self.passed >= TOKEN_TIME {
            assert_eq!(status, 401, "{what}: after {:?}", self.passed);
        } else if self.passed + self.issued.elapsed() < TOKEN_TIME {
            assert_eq!(status, 200, "{what}: after {:?}", self.passed);
        }
    }
}

fn url(port: u16, kind: &str, page: u64) -> String {
    format!("http://h{}.test:{port}/{kind}/{page}", page % HOSTS)
}

/// What the test does with one box.
struct Walk {
    at: Appliance,
    random: Random,
    port: u16,
    orgs: [Org; 2],
    tokens: Vec<Token>,
    grants: u64,
    pages: u64,
}

impl Walk {
    fn url(&mut self, kind: &str) -> String {
        self.pages += 1;
        url(self.port, kind, self.pages)
    }

    /// The wall under the box is set, and the box goes on.
    async fn jump(&mut self, n: u64) {
        let sec = self.random.jump_sec();
        self.at.clock.set_wall(sec * 1_000);
        for who in 0..2 {
            let kind = ["good", "good", "bad", "slow", "again"][self.random.below(5) as usize];
            let url = self.url(kind);
            let client = self.orgs[who].member.api.clone();
            let id = self.orgs[who].submit(&client, &url).await;
            if self.random.below(8) == 0 {
                // One that has ended meanwhile cannot be canceled.
                let canceled = post(&client, &format!("/api/v1/jobs/{id}/cancel"), &json!({})).await;
                assert!(canceled.status.is_success() || canceled.status == 409, "{}", canceled.text());
            }
            self.orgs[who].balance(&client).await;
        }
        for token in &self.tokens {
            token.check(&format!("jump {n} by {sec} s")).await;
        }
    }

    fn pass(&mut self, time: Duration) {
        self.at.clock.advance(time);
        self.tokens.iter_mut().for_each(|token| token.passed += time);
    }

    async fn check(&mut self) {
        for org in &mut self.orgs {
            let client = org.member.api.clone();
            org.check(&client, self.grants).await;
        }
    }

    /// The box, or the machine under it, is off for a while; its clock is set meanwhile.
    async fn restart(&mut self) {
        self.at.pause().await;
        let sec = self.random.jump_sec();
        match self.random.below(3) {
            0 => {}
            1 => self.at.clock.set_wall(sec * 1_000),
            // A machine that comes up in the wrong year, which is mended before it is believed.
            _ => {
                self.at.clock.reboot();
                self.at.clock.set_wall(YEAR_SEC * 1_000);
            }
        }
        self.at.restart().await;
        let client = self.at.client();
        for org in &mut self.orgs {
            org.member.api = client.bearer(&org.member.key);
        }
        self.tokens.iter_mut().for_each(|token| token.at(&client));
        self.check().await;
        for token in &self.tokens {
            token.check("a restart").await;
        }
        if self.at.clock.report().doubted.is_some() {
            self.at.clock.set_wall(-YEAR_SEC * 1_000);
            self.check().await;
        }
    }

    /// A month goes by: the period is over, once.
    async fn month(&mut self) {
        self.check().await;
        self.pass(DAY * 31);
        self.grants += 1;
        for org in &mut self.orgs {
            org.charged = 0;
        }
        self.check().await;
        for token in &self.tokens {
            token.check("a month").await;
        }
        self.tokens.clear();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_jumps_leave_nothing_open_and_begin_no_period_twice() {
    let random = Random(seed());
    let web = town().await;
    let settings = settings(&web);
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let at = Appliance::start_with(&settings).await;
    let orgs = [Org::new(at.member("ada").await), Org::new(at.member("eve").await)];
    let port = web.address.port();
    let mut walk = Walk { at, random, port, orgs, tokens: Vec::new(), grants: 1, pages: 0 };
    walk.check().await;
    for n in 1..=JUMPS {
        walk.jump(n).await;
        match walk.random.below(12) {
            0..3 => {
                let minutes = 1 + walk.random.below(6) as u32;
                walk.pass(MINUTE * minutes);
            }
            3 => {
                let whose = &walk.orgs[walk.random.below(2) as usize].member;
                let token = Token::login(&walk.at.client(), whose).await;
                walk.tokens.push(token);
            }
            4 => walk.check().await,
            _ => {}
        }
        walk.tokens.retain(|token| token.passed < TOKEN_TIME * 2);
        if n % 25 == 0 {
            walk.restart().await;
        }
        if n == 70 || n == 140 {
            walk.month().await;
        }
    }
    walk.check().await;
    let status = walk.at.operator(Request::Status).await;
    assert!(status["clock"]["jumps"].as_u64().unwrap() >= JUMPS, "{}", status["clock"]);
    assert!(status["clock"]["lastJump"]["bySec"].is_number(), "{}", status["clock"]);
    for org in &walk.orgs {
        for state in ["queued", "running"] {
            let open = expect(get(&org.member.api, &format!("/api/v1/jobs?status={state}")).await, 200);
            assert_eq!(open["items"], json!([]));
        }
    }
    // Each job is there once, the newest in front.
    let list = expect(get(&walk.orgs[1].member.api, "/api/v1/jobs?limit=200").await, 200);
    let ids: Vec<&str> = list["items"].as_array().unwrap().iter().map(|job| text(job, "id")).collect();
    assert!(ids.len() as u64 == JUMPS && ids.is_sorted_by(|newer, older| newer > older));
    walk.at.stop().await;
}

#[tokio::test]
async fn a_machine_that_was_off_for_long_is_believed_when_the_operator_says_so() {
    let mut at = Appliance::start().await;
    let mut ada = Org::new(at.member("ada").await);
    ada.check(&ada.member.api.clone(), 1).await;
    let login = Token::login(&at.client(), &ada.member).await;
    at.pause().await;
    at.clock.reboot();
    at.clock.set_wall(40 * 86_400_000);
    at.restart().await;
    let client = at.client().bearer(&ada.member.key);
    let token = at.client().bearer(&login.token);
    let doubted = at.operator(Request::Status).await["clock"]["offTimeInDoubtSec"].as_u64().unwrap();
    assert!((39..=40).contains(&(doubted / 86_400)), "{doubted}");
    ada.check(&client, 1).await;
    assert_eq!(get(&token, "/api/v1/jobs").await.status, 200);
    assert_eq!(at.operator(Request::ClockAccept).await, json!({ "acceptedOffSec": doubted }));
    ada.check(&client, 2).await;
    assert_eq!(get(&token, "/api/v1/jobs").await.status, 401);
    assert_eq!(at.operator(Request::ClockAccept).await, json!({ "acceptedOffSec": null }));
    ada.check(&client, 2).await;
    let audit = at.operator(Request::Audit { org: None, limit: 5 }).await;
    assert_eq!(
        (&audit[0]["action"], &audit[0]["details"]["offSec"]),
        (&json!("clock.accepted"), &json!(doubted))
    );
    at.stop().await;
}

/// The library that sets the clock of one process (clock.c).
pub(crate) struct SetClock {
    folder: TempDir,
    /// Seconds that are added.
    pub(super) sec: i64,
}

impl SetClock {
    /// None, with a word about it, where it cannot be compiled.
    pub(crate) fn new() -> Option<SetClock> {
        let folder = TempDir::new().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("tests/it/machine/clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(folder.path().join("clock.so")).arg(source);
        match compiler.arg("-ldl").output() {
            Ok(output) if output.status.success() => {}
            failed => {
                println!("skipped: no C compiler for the clock: {failed:?}");
                return None;
            }
        }
        let clock = SetClock { folder, sec: 0 };
        fs::write(clock.offset(), 0i64.to_ne_bytes()).unwrap();
        Some(clock)
    }

    fn offset(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    pub(crate) fn jump(&mut self, sec: i64) {
        self.sec += sec;
        // In place: the process has it mapped.
        use std::os::unix::fs::FileExt;
        let file = fs::OpenOptions::new().write(true).open(self.offset()).unwrap();
        file.write_all_at(&self.sec.to_ne_bytes(), 0).unwrap();
    }

    pub(crate) fn start(&self, settings: &[(&str, &str)]) -> Process {
        let environment: [(&str, OsString); 2] = [
            ("LD_PRELOAD", self.folder.path().join("clock.so").into()),
            ("CLOCK_SHIM", self.offset().into()),
        ];
        Process::start_under(&self.folder.path().join("data"), settings, &environment)
    }
}

async fn clock_of(at: &Process) -> Value {
    admin::call(&at.socket(), &Request::Status).await.unwrap()["clock"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shipped_binary_takes_a_clock_that_is_set() {
    let Some(mut clock) = SetClock::new() else { return };
    let mut random = Random(seed());
    let web = town().await;
    let settings = settings(&web);
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let mut at = clock.start(&settings);
    let ada = member(&at.client(), &at.socket(), "ada").await;
    let eve = member(&at.client(), &at.socket(), "eve").await;
    let mut orgs = [Org::new(ada), Org::new(eve)];
    let mut session = Token::login(&at.client(), &orgs[0].member).await;
    let mut pages = 0;
    // A day, a year and whatever else: forward and back, with the box killed, stopped or running.
    let jumps = [86_400, -86_400, YEAR_SEC, -YEAR_SEC, -3_600, 7_200, -4 * YEAR_SEC, 5 * YEAR_SEC];
    let more: Vec<i64> = (0..12).map(|_| random.jump_sec()).collect();
    let mut seen = 0;
    for (n, sec) in jumps.into_iter().chain(more).enumerate() {
        for who in 0..2 {
            pages += 1;
            let kind = ["good", "again", "bad"][(n + who) % 3];
            let client = at.client().bearer(&orgs[who].member.key);
            orgs[who].submit(&client, &url(web.address.port(), kind, pages)).await;
        }
        clock.jump(sec);
        match n % 5 {
            3 => {
                at.kill();
                at = clock.start(&settings);
            }
            4 => {
                assert_eq!(at.terminate(), Some(0));
                at = clock.start(&settings);
            }
            _ => {}
        }
        session.at(&at.client());
        session.check(&format!("jump {n} by {sec} s")).await;
        for org in &mut orgs {
            let client = at.client().bearer(&org.member.key);
            org.check(&client, 1).await;
        }
        let told = eventually("the jump is told of", MINUTE, || async {
            let told = clock_of(&at).await;
            (told["jumps"].as_u64().unwrap() > seen).then_some(told)
        })
        .await;
        seen = told["jumps"].as_u64().unwrap();
        let by = told["lastJump"]["bySec"].as_f64().unwrap();
        assert!((by - sec as f64).abs() < 10.0, "{by} for {sec}");
        let metrics = get(&at.client(), "/metrics").await;
        assert!(metrics.text().contains(&format!("gleaner_clock_jumps {seen}")), "{}", metrics.text());
    }
    assert_eq!(seen, 20);
    assert_eq!(at.terminate(), Some(0));
}
