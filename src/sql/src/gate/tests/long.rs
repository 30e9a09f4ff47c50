//! Statements as long as they may be, which are planned in a time that does not run away with their length.

use std::time::Duration;

use super::worked;
use super::world::{World, admitted};
use crate::worker::PLAN_STACK_BYTES;

const LINKS: usize = 150;

/// How long each of the statements is planned, let through and made to run.
fn planned(statements: Vec<String>) -> Vec<Duration> {
    let planning = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let world = World::new();
        let times = statements.into_iter().map(|sql| {
            let began = worked();
            runtime.block_on(async {
                let admitted = admitted(&world.state, &sql).await;
                world.state.create_physical_plan(&admitted.plan).await.expect("a plan");
            });
            worked() - began
        });
        times.collect()
    };
    let thread = std::thread::Builder::new().stack_size(PLAN_STACK_BYTES).spawn(planning);
    thread.expect("a thread").join().expect("planned")
}

#[test]
fn chains_of_our_operators_take_no_longer_than_one_of_the_engines() {
    let joined = |link: &str, by: &str| vec![link; LINKS].join(by);
    let sums =
        |kind: &str| format!("SELECT {} FROM (SELECT length(id){kind} AS a FROM jobs) q", joined("a", " + "));
    let ours = [
        sums(""),
        sums("::float8"),
        format!("SELECT metadata{} FROM jobs", " -> 'a'".repeat(LINKS)),
        format!("SELECT {} FROM jobs", joined("metadata", " || ")),
        format!("SELECT id{} FROM jobs", "::text".repeat(LINKS)),
        format!("SELECT {}id{} FROM jobs", "coalesce(".repeat(20), ", url_id)".repeat(20)),
    ];
    let times = planned(std::iter::once(sums("::numeric")).chain(ours.clone()).collect());
    let (engines, own) = times.split_first().expect("one each");
    for (sql, took) in ours.iter().zip(own) {
        assert!(*took < *engines * 10, "{took:?} beside {engines:?}: {}", &sql[..40]);
    }
}
