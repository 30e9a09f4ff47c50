//! Ordinary requests of an organization, in an open loop.

use harness::{get, post};
use serde_json::json;
use server::client::Client;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

/// One is due each time this is over: fifty a second.
const BEAT: Duration = Duration::from_millis(20);
/// Requests that may be under way; what is due beyond that is counted and not sent.
const UNDER_WAY_MAX: usize = 1_000;
const PATHS: [&str; 4] =
    ["/api/v1/urls?limit=5", "/api/v1/jobs?limit=5", "/api/v1/plans/current", "/api/v1/workflows"];
/// Each tenth registers a URL: a durable write.
const WRITE_EACH: usize = 10;

/// What came of them.
pub struct Ordinary {
    took: Vec<Duration>,
    failed: Vec<String>,
    unsent: usize,
}

impl Ordinary {
    /// Sends them for some time over several clients, each with connections of its own.
    pub async fn measure(clients: Vec<Client>, lasts: Duration) -> Ordinary {
        let under_way = Arc::new(Semaphore::new(UNDER_WAY_MAX));
        let (mut requests, mut unsent) = (JoinSet::new(), 0);
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let end = Instant::now() + lasts;
        for turn in 0.. {
            let due = beat.tick().await;
            if due >= end {
                break;
            }
            let Ok(place) = Arc::clone(&under_way).try_acquire_owned() else {
                unsent += 1;
                continue;
            };
            let client = clients[turn % clients.len()].clone();
            requests.spawn(async move {
                let reply = if turn % WRITE_EACH == 0 {
                    let url = format!("https://shop.example/{turn}");
                    post(&client, "/api/v1/urls", &json!({ "urls": [url] })).await
                } else {
                    get(&client, PATHS[turn % PATHS.len()]).await
                };
                drop(place);
                let failure = (reply.status != 200).then(|| format!("{} {}", reply.status, reply.text()));
                (due.elapsed(), failure)
            });
        }
        let mut seen = Ordinary { took: Vec::new(), failed: Vec::new(), unsent };
        while let Some(request) = requests.join_next().await {
            match request {
                Ok((took, failure)) => {
                    seen.took.push(took);
                    seen.failed.extend(failure);
                }
                // No answer at all: the harness fails the request's task.
                Err(broken) => seen.failed.push(broken.to_string()),
            }
        }
        seen
    }
}

impl Ordinary {
    pub fn spread(&self) -> Spread {
        Spread::of(&mut self.took.clone())
    }

    /// How many failed, or could not even be sent.
    pub fn lost(&self) -> usize {
        self.failed.len() + self.unsent
    }
}

impl fmt::Display for Ordinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, spread) = (self.took.len(), self.spread());
        write!(f, "{count}, {spread}; {} failed, {} unsent", self.failed.len(), self.unsent)?;
        match self.failed.first() {
            Some(first) => write!(f, " ({})", first.chars().take(160).collect::<String>()),
            None => Ok(()),
        }
    }
}

/// Percentiles in milliseconds.
pub struct Spread {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(times: &mut [Duration]) -> Spread {
        times.sort_unstable();
        let at = |share: f64| {
            let index = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len().max(1)) - 1;
            times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
        };
        Spread { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms", self.p50, self.p99, self.max)
    }
}
