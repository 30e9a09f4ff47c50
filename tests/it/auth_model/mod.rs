//! Credentials against a model: random lives of small organizations at real appliances, over HTTP. After every step that
//! ends something, each access token and key that was ever handed out is shown again, and at the end each refresh token:
//! what the model calls dead is refused, what it calls alive is let in, with exactly the permissions it should have.
//!
//! Lives of one box go on side by side under one clock, in rounds, between which the clock moves (and the box restarts),
//! so that their writes share commits as those of real callers do. `GLEANER_MODEL_SEED` repeats a failure, with
//! `GLEANER_MODEL_LIVES` there are more of them.

mod life;
mod model;

use crate::harness::Appliance;
use crate::harness::random::Random;
use base::permission::Role;
use gleaner::features::auth::{Auth, USERS, UserV1};
use life::{Life, Way};
use std::collections::BTreeMap;
use std::time::Duration;

const SEED: u64 = 20_261_121;
const LIVES: usize = 200;
const STEPS: usize = 60;
const BOXES: usize = 4;
/// Rounds between two looks at everything, beside those after a step that ends something.
const LOOK_EVERY: usize = 12;
/// The round before which a box restarts.
const RESTART_AT: usize = 35;

/// Moves of the clock in seconds: within, about and beyond the lives of access tokens (15 min), reset tokens (1 h), and
/// refresh tokens (7 days).
const MOVES: &[u64] = &[20, 170, 170, 440, 440, 1_000, 1_000, 2_900, 3_800, 93_000, 260_000, 700_000];

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number, and is {text}")),
        Err(_) => default,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_dead_credential_is_accepted_and_no_living_one_refused() {
    let seed = setting("GLEANER_MODEL_SEED", SEED);
    let lives = usize::try_from(setting("GLEANER_MODEL_LIVES", LIVES as u64)).unwrap();
    let boxes: Vec<_> =
        (0..BOXES).map(|number| tokio::spawn(one_box(seed, number, lives.div_ceil(BOXES)))).collect();
    // All of them first: an appliance cannot drain in a runtime that is being torn down.
    let (mut shown, mut events) = (0, BTreeMap::new());
    for (number, one) in futures::future::join_all(boxes).await.into_iter().enumerate() {
        for life in one.unwrap_or_else(|_| panic!("box {number} failed: GLEANER_MODEL_SEED={seed}")) {
            shown += life.shown;
            life.events.iter().for_each(|(what, count)| *events.entry(*what).or_insert(0) += count);
        }
    }
    // A run in which little happened proves little.
    assert!(shown > lives * STEPS * 2, "only {shown} credentials were shown");
    assert!(events.len() == 7 && events.values().all(|count| *count >= lives / 10), "{events:?}");
}

/// Lets `lives` lives go by at one appliance.
async fn one_box(seed: u64, number: usize, lives: usize) -> Vec<Life> {
    let mut at = Appliance::start_with(&[("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")]).await;
    let mut random = Random(seed ^ (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut all = Vec::new();
    for life in 0..lives {
        let way = Way::of(&at, &network(number, life));
        all.push(Life::new(format!("box {number}, life {life}"), random.number(), way));
    }
    people(&at, &mut all).await;
    futures::future::join_all(all.iter_mut().map(Life::begin)).await;
    for round in 0..STEPS {
        if round == RESTART_AT {
            at.restart().await;
            for (life, of) in all.iter_mut().enumerate() {
                of.way = Way::of(&at, &network(number, life));
            }
        }
        futures::future::join_all(all.iter_mut().map(Life::step)).await;
        if random.below(3) == 0 {
            at.clock.advance(Duration::from_secs(MOVES[random.below(MOVES.len())]));
        }
        if round % LOOK_EVERY == 0 {
            all.iter_mut().for_each(Life::look);
        }
    }
    futures::future::join_all(all.iter_mut().map(Life::end)).await;
    at.stop().await;
    all
}

/// Each life has a network of its own, so that the limits of one do not lock out another.
fn network(number: usize, life: usize) -> String {
    format!("10.{number}.{}.{}", life / 250, life % 250 + 1)
}

/// Writes the people that the lives begin with, with passwords whose hashes cost nothing: the cost is a part of a hash,
/// and ten thousand logins at the real one would take minutes.
async fn people(at: &Appliance, lives: &mut [Life]) {
    let auth = at.app().services().service::<Auth>();
    let rows: Vec<UserV1> = lives.iter_mut().flat_map(Life::people).collect();
    let write = move |tx: &store::SysWrite<'_>| {
        rows.iter().try_for_each(|row| {
            tx.insert(&USERS, &row.id, &UserV1 { email_verified_at: Some(tx.now()), ..row.clone() })
        })
    };
    auth.system().write(write).await.unwrap();
}

/// What somebody may be made by the owner.
const ROLES: &[Role] = &[Role::Admin, Role::Admin, Role::Editor, Role::Analyst, Role::Viewer];
