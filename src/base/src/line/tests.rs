use super::*;
use tokio::task::JoinHandle;

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
const D: u8 = 4;

/// A line whose kept places can be had at once.
fn line(places: usize, kept: usize, waiting_max: usize) -> Arc<FairSemaphore<u8>> {
    FairSemaphore::new(FairnessRules { places, kept, kept_after: Duration::ZERO, waiting_max })
}

/// Lets one of the organization wait, and returns when it stands in the line.
async fn waits(
    line: &Arc<FairSemaphore<u8>>,
    organization: u8,
) -> JoinHandle<Result<FairPermit<u8>, AcquireError>> {
    let (own, before) = (Arc::clone(line), line.waiting());
    let waiting = tokio::spawn(async move { own.enter(organization).await });
    while line.waiting() <= before {
        tokio::task::yield_now().await;
    }
    waiting
}

#[tokio::test]
async fn the_one_who_runs_least_is_next() {
    let line = line(2, 0, 10);
    let (first, second) = (line.enter(A).await.expect("free"), line.enter(A).await.expect("free"));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for (index, organization) in [A, A, B].into_iter().enumerate() {
        let (line, order) = (Arc::clone(&line), Arc::clone(&order));
        let before = index;
        tasks.push(tokio::spawn({
            let line = Arc::clone(&line);
            async move {
                let slot = line.enter(organization).await.expect("a turn");
                order.lock().push((organization, index));
                drop(slot);
            }
        }));
        while line.waiting() <= before {
            tokio::task::yield_now().await;
        }
    }
    drop(first);
    for task in tasks {
        task.await.expect("it ends");
    }
    assert_eq!(*order.lock(), [(B, 2), (A, 0), (A, 1)]);
    drop(second);
    assert_eq!((line.taken(), line.waiting()), (0, 0));
}

/// Lets statements in one after the other, one of each given organization, frees the slot that is taken and gives the
/// order in which they have their turns.
async fn order_of(line: &Arc<FairSemaphore<u8>>, taken: FairPermit<u8>, arrivals: &[u8]) -> Vec<u8> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for (before, organization) in arrivals.iter().copied().enumerate() {
        let (own, order) = (Arc::clone(line), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let slot = own.enter(organization).await.expect("a turn");
            order.lock().push(organization);
            drop(slot);
        }));
        while line.waiting() <= before {
            tokio::task::yield_now().await;
        }
    }
    drop(taken);
    for task in tasks {
        task.await.expect("it ends");
    }
    order.lock().clone()
}

#[tokio::test]
async fn more_busy_organizations_than_slots_take_turns() {
    // One slot, and three organizations that have more to run: whoever came with one statement, and last, has its turn
    // when every other has had one, and not when all of theirs have ended.
    let line = line(1, 0, 100);
    let taken = line.enter(D).await.expect("free");
    let arrivals = [A, A, A, A, B, B, B, C, C, D];
    let order = order_of(&line, taken, &arrivals).await;
    assert_eq!(order, [A, B, C, D, A, B, C, A, B, A]);
    let state = line.state.lock();
    assert!(state.unserved_since.is_empty() && state.held.is_empty(), "nothing is remembered of them");
}

#[tokio::test]
async fn who_comes_again_at_once_does_not_go_before_those_that_wait() {
    let line = line(1, 0, 100);
    let taken = line.enter(A).await.expect("free");
    let served = Arc::new(Mutex::new(Vec::new()));
    let comes_again = |organization: u8, times: usize| {
        let (line, served) = (Arc::clone(&line), Arc::clone(&served));
        tokio::spawn(async move {
            for _ in 0..times {
                let slot = line.enter(organization).await.expect("a turn");
                served.lock().push(organization);
                drop(slot);
            }
        })
    };
    let many = comes_again(A, 20);
    while line.waiting() < 1 {
        tokio::task::yield_now().await;
    }
    let waits = comes_again(B, 2);
    while line.waiting() < 2 {
        tokio::task::yield_now().await;
    }
    drop(taken);
    many.await.expect("it ends");
    waits.await.expect("it ends");
    let order = served.lock().clone();
    // B came second and is served second, and whenever it waits again it has the turn after the next.
    assert_eq!(order.iter().position(|organization| *organization == B), Some(1));
    assert!(order[..6].iter().filter(|organization| **organization == B).count() == 2, "{order:?}");
}

#[tokio::test]
async fn who_goes_away_leaves_nothing() {
    let line = line(1, 0, 1);
    let slot = line.enter(A).await.expect("free");
    let waiting = tokio::spawn({
        let line = Arc::clone(&line);
        async move { line.enter(B).await.map(drop) }
    });
    while line.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(line.enter(B).await.expect_err("full"), AcquireError::Full);
    assert!(line.has(A) && line.has(B));
    waiting.abort();
    assert!(waiting.await.is_err());
    assert_eq!(line.waiting(), 0);
    drop(slot);
    drop(line.enter(B).await.expect("free again"));
    assert_eq!(line.taken(), 0);
    assert!(!line.has(A) && !line.has(B));
}

#[tokio::test]
async fn who_runs_nothing_has_a_place_beside_the_others() {
    let line = line(2, 1, 10);
    let long = [line.enter(A).await.expect("free"), line.enter(A).await.expect("free")];
    let enter = |organization| {
        let line = Arc::clone(&line);
        tokio::spawn(async move { line.enter(organization).await.expect("a turn") })
    };
    let own = enter(A);
    while line.waiting() < 1 {
        tokio::task::yield_now().await;
    }
    // At once, and not behind the one that came before.
    let beside = line.enter(B).await.expect("the kept place");
    let (second, third) = (enter(B), enter(C));
    while line.waiting() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(line.taken(), 3);
    drop(beside);
    // The kept place goes to one of those with nothing running; both had one of their own in the line.
    let mut served = vec![second, third];
    while !served.is_empty() {
        let at = loop {
            match served.iter().position(tokio::task::JoinHandle::is_finished) {
                Some(at) => break at,
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(line.taken(), 3);
        drop(served.remove(at).await.expect("a turn"));
    }
    assert_eq!((line.taken(), line.waiting()), (2, 1), "the place is not for who runs already");
    drop(long);
    drop(own.await.expect("a turn"));
    assert_eq!((line.taken(), line.waiting()), (0, 0));
}

#[tokio::test]
async fn one_organization_keeps_no_other_out() {
    let line = line(1, 0, 2);
    let slot = line.enter(A).await.expect("free");
    let enter = |organization| {
        let line = Arc::clone(&line);
        tokio::spawn(async move { line.enter(organization).await.map(drop) })
    };
    let own = [enter(A), enter(A)];
    while line.waiting() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(line.enter(A).await.expect_err("full"), AcquireError::Full);
    let other = enter(B);
    while line.waiting() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(line.enter(B).await.expect_err("full"), AcquireError::Full);
    drop(slot);
    for waiting in own.into_iter().chain([other]) {
        waiting.await.expect("it ends").expect("its turn");
    }
    assert_eq!((line.taken(), line.waiting()), (0, 0));
}

#[tokio::test]
async fn who_has_less_than_a_share_waits_a_while_for_a_place_beside_the_others() {
    let for_ever = Duration::from_secs(3_600);
    let line = FairSemaphore::new(FairnessRules {
        places: 4,
        kept: 2,
        kept_after: for_ever,
        waiting_max: usize::MAX,
    });
    let mut endless = Vec::new();
    for _ in 0..4 {
        endless.push(line.enter(A).await.expect("free"));
    }
    let own = waits(&line, A).await;
    // Two of B: only when they have waited may one have a place beside those of A.
    let (first, second) = (waits(&line, B).await, waits(&line, B).await);
    line.state.lock().next();
    assert_eq!((line.taken(), line.waiting()), (4, 3));
    line.state.lock().rules.kept_after = Duration::ZERO;
    line.state.lock().next();
    let first = first.await.expect("it ends").expect("a kept place");
    // B has less than its share still, but the last kept place is for those that have none.
    assert_eq!((line.taken(), line.waiting()), (5, 2));
    let third = line.enter(C).await.expect("the last kept place");
    assert_eq!((line.taken(), line.waiting()), (6, 2));
    drop(third);
    assert_eq!((line.taken(), line.waiting()), (5, 2));
    // What ends of the others makes up for the place beside them; then the kept one can be had again.
    drop(endless.pop());
    let second = second.await.expect("it ends").expect("B, with less than its share");
    assert_eq!((line.taken(), line.waiting()), (5, 1));
    drop((first, second));
    drop(own.await.expect("it ends").expect("A, as nobody else wants it"));
    assert_eq!((line.taken(), line.waiting()), (3, 0));
}

#[tokio::test]
async fn a_kept_place_is_had_after_its_time_although_nobody_leaves() {
    let kept_after = Duration::from_millis(20);
    let line = FairSemaphore::new(FairnessRules { places: 1, kept: 1, kept_after, waiting_max: usize::MAX });
    let taken = line.enter(A).await.expect("free");
    let begun = Instant::now();
    let beside = line.enter(B).await.expect("the kept place");
    assert!(begun.elapsed() >= kept_after && line.taken() == 2);
    drop((taken, beside));
}

#[tokio::test]
async fn nobody_gets_more_than_a_share_while_others_wait() {
    let line = line(4, 0, usize::MAX);
    let mut of_a = Vec::new();
    for _ in 0..4 {
        of_a.push(line.enter(A).await.expect("free"));
    }
    let mut more_of_a = Vec::new();
    let mut of_others = Vec::new();
    for organization in [B, B, B, C, C, C] {
        more_of_a.push(waits(&line, A).await);
        of_others.push((organization, waits(&line, organization).await));
    }
    for _ in 0..3 {
        drop(of_a.pop());
    }
    let held = |organization| line.state.lock().held(organization);
    // Three share four places: one each, and the fourth to who has gone unserved for longest.
    assert_eq!([A, B, C].map(held), [2, 1, 1]);
    for waiting in more_of_a.into_iter().chain(of_others.into_iter().map(|(_, waiting)| waiting)) {
        waiting.abort();
        drop(waiting.await);
    }
    drop(of_a);
    assert_eq!(
        (line.taken(), line.waiting()),
        (0, 0),
        "who goes away leaves nothing, also with its turn in hand"
    );
}

#[tokio::test]
async fn a_line_that_is_closed_turns_everybody_away() {
    let line = line(1, 0, 10);
    let slot = line.enter(A).await.expect("free");
    let waiting = waits(&line, B).await;
    line.close();
    assert_eq!(waiting.await.expect("it ends").expect_err("closed"), AcquireError::Closed);
    assert_eq!(line.enter(A).await.expect_err("closed"), AcquireError::Closed);
    assert!(line.is_closed() && line.taken() == 1);
    drop(slot);
    assert_eq!((line.taken(), line.waiting()), (0, 0));
}

/// Two may run, and two more may wait.
const TWO: Option<OrganizationLimit> = Some(OrganizationLimit { running: 2, waiting: 2 });

#[tokio::test]
async fn an_organizations_limit_is_kept_in_the_one_line() {
    let line = line(4, 0, 10);
    let join = |organization| line.join(organization, TWO);
    let [first, second, third, fourth] =
        [join(A), join(A), join(A), join(A)].map(|ticket| ticket.expect("room"));
    assert!(first.is_granted() && second.is_granted() && !third.is_granted() && !fourth.is_granted());
    assert_eq!([&first, &second, &third, &fourth].map(Ticket::position), [0, 0, 1, 2]);
    assert_eq!(join(A).expect_err("no room"), AcquireError::OverLimit);
    // Two places are free, and who is beyond its own limit leaves them to others.
    let others = [join(B).expect("room"), join(B).expect("room")];
    assert!(others.iter().all(Ticket::is_granted));
    assert_eq!((line.taken(), line.waiting()), (4, 2));
    let first = first.turn().await.expect("a place");
    drop(third);
    assert_eq!(fourth.position(), 1, "it moves up when one before it goes away");
    drop(others);
    assert_eq!(fourth.position(), 1, "what ends of others changes nothing");
    drop(first);
    let fourth = fourth.turn().await.expect("its turn");
    drop((second, fourth));
    let state = line.state.lock();
    assert!(state.counted.is_empty() && state.held.is_empty() && state.waiting.is_empty());
}

#[tokio::test]
async fn what_has_ended_counts_no_more_although_its_place_is_taken() {
    let line = line(3, 0, 10);
    let one = Some(OrganizationLimit { running: 1, waiting: 0 });
    let (place, count) = line.join(A, one).expect("room").turn().await.expect("a place").split();
    assert_eq!(line.join(A, one).expect_err("no room"), AcquireError::OverLimit);
    drop(count);
    let next = line.join(A, one).expect("the first has ended");
    assert!(next.is_granted());
    assert_eq!(line.taken(), 2, "the place of the first is not free yet");
    // What is of no limit is not counted, and counts none.
    let (own, none) = line.enter(A).await.expect("free").split();
    drop((place, own, none));
    assert_eq!(line.join(A, one).expect_err("the second runs"), AcquireError::OverLimit);
    drop(next);
    assert_eq!(line.taken(), 0);
}

#[tokio::test]
async fn what_needs_its_place_no_more_counts_and_may_have_another() {
    let line = line(1, 0, 0);
    let one = Some(OrganizationLimit { running: 1, waiting: 1 });
    let (place, count) = line.join(A, one).expect("room").turn().await.expect("a place").split();
    let own = line.join(A, one).expect("room");
    drop(place);
    assert!(!own.is_granted() && own.position() == 1, "the first has not ended");
    let other = line.enter(B).await.expect("the place is free");
    let waits = waits(&line, B).await;
    assert_eq!(line.enter(B).await.expect_err("full"), AcquireError::Full);
    // It is not turned away, however many wait, and goes first: its organization has waited since before.
    let again = tokio::spawn(async move { count.place().await.map(|place| (place, count)) });
    while line.waiting() < 3 {
        tokio::task::yield_now().await;
    }
    drop(other);
    let (place, count) = again.await.expect("it ends").expect("its turn");
    assert_eq!((line.taken(), own.position()), (1, 1));
    drop(place);
    drop(waits.await.expect("it ends").expect("its turn"));
    drop(count);
    drop(own.turn().await.expect("its turn"));
    let state = line.state.lock();
    assert!(state.counted.is_empty() && state.held.is_empty() && state.waiting.is_empty());
}

#[tokio::test]
async fn who_waits_for_its_own_organization_fills_no_line() {
    let line = line(1, 0, 1);
    let limit = Some(OrganizationLimit { running: 1, waiting: 5 });
    let running = line.join(A, limit).expect("room").turn().await.expect("a place");
    let own = [line.join(A, limit).expect("room"), line.join(A, limit).expect("room")];
    // The line has room for one that waits for a place, and for one of each organization beside.
    let others = [line.join(B, None).expect("room")];
    assert_eq!(line.join(B, None).expect_err("full"), AcquireError::Full);
    assert_eq!(line.waiting(), 3);
    drop(running);
    let [second, third] = own;
    // A waited first; then it is B, which has gone unserved for longer, and then A again.
    let second = second.turn().await.expect("its turn");
    drop(second);
    for ticket in others.into_iter().chain([third]) {
        drop(ticket.turn().await.expect("its turn"));
    }
    assert_eq!((line.taken(), line.waiting()), (0, 0));
}
