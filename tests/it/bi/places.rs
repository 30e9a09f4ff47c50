//! Whom a statement keeps a place of the box from, and for how long.

use super::submit;
use crate::harness::{Appliance, Member, eventually, expect};
use std::sync::mpsc;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(20);

/// Results of a member's organization on the disk, whether a row tells of them or not.
fn results(appliance: &Appliance, member: &Member) -> usize {
    let folder = appliance.data_dir().join("results").join(&member.org_id);
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "arrow")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_disk_that_takes_its_time_with_an_end_keeps_no_place_from_others() {
    let appliance = Appliance::start_with(&[("BI__CONCURRENCY", "1")]).await;
    let (first, second) = (appliance.member("first").await, appliance.member("second").await);
    // Sessions of theirs are warm, and all of them have come to rest.
    for member in [&first, &second] {
        expect(submit(&member.api, "SELECT 1 AS one").await, 200);
    }
    let (release, held) = mpsc::channel::<()>();
    let (told, begun) = mpsc::channel();
    let system = appliance.app().services().system().clone();
    let holds = tokio::spawn(async move {
        let hold = move |_: &store::SysWrite<'_>| {
            let _ = told.send(());
            // Until the test has seen what it wants, or has failed.
            let _ = held.recv_timeout(Duration::from_secs(60));
            Ok(())
        };
        system.write(hold).await
    });
    tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();

    let ask = |member: &Member| {
        let client = member.api.clone();
        tokio::spawn(async move { submit(&client, "SELECT 2 AS two").await })
    };
    let of_first = ask(&first);
    eventually("the first one's rows are there", WAIT, || async {
        (results(&appliance, &first) == 2).then_some(())
    })
    .await;
    // One has the place, and the other the one that is kept for those who have none.
    let of_second = [ask(&second), ask(&second)];
    eventually("two of the second run while the end of the first is written", WAIT, || async {
        (results(&appliance, &second) == 3).then_some(())
    })
    .await;
    assert!(!of_first.is_finished() && !of_second.iter().any(|asked| asked.is_finished()));
    release.send(()).unwrap();
    holds.await.unwrap().unwrap();
    for asked in of_second.into_iter().chain([of_first]) {
        let execution = expect(asked.await.unwrap(), 200);
        assert_eq!(execution["status"], "success", "{execution}");
    }
}
