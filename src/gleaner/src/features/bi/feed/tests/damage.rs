//! Files that are damaged, a disk that says no, organizations that are erased meanwhile: what others see, and what is left.

use super::*;

type Spoil = fn(&Path);

/// Ruins every segment of an organization that lies in the folder.
fn ruin(world: &World, org: OrgId, spoil: Spoil) {
    let mut ruined = 0;
    for file in std::fs::read_dir(world.root().join(org.to_string())).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "arrow") {
            spoil(&path);
            ruined += 1;
        }
    }
    assert!(ruined > 0, "there was something to ruin");
}

#[test]
fn a_damaged_file_stops_nobody_and_is_made_anew() {
    let spoils: [(&str, Spoil); 3] = [
        ("gone", |path| std::fs::remove_file(path).unwrap()),
        ("empty", |path| std::fs::write(path, "").unwrap()),
        ("garbage", |path| std::fs::write(path, "no segment at all".repeat(99)).unwrap()),
    ];
    for (what, spoil) in spoils {
        let mut world = World::new();
        let orgs: Vec<OrgId> = (0..3).map(|_| OrgId::new()).collect();
        let ids: Vec<JobId> = orgs.iter().map(|_| JobId::new()).collect();
        for (org, id) in orgs.iter().zip(&ids) {
            world.put(*org, *id, plain(2));
            world.put_many(*org, (0..5).map(|n| (JobId::new(), plain(n))).collect());
        }
        catch_up(&world.feed());
        ruin(&world, orgs[1], spoil);
        let feed = world.feed();
        feed.begin().unwrap();
        for (org, id) in orgs.iter().zip(&ids) {
            world.put(*org, *id, plain(4));
        }
        while feed.pass().unwrap_or_else(|error| panic!("{what}: {}", error.for_operator())) {}
        world.assert_shown(&feed);
        // And it stays so.
        drop(feed);
        let feed = world.feed();
        catch_up(&feed);
        world.assert_shown(&feed);
    }
}

#[test]
fn a_damaged_file_that_is_found_by_a_merge_is_made_anew() {
    let mut world = World::new();
    let (ours, theirs) = (OrgId::new(), OrgId::new());
    let feed = world.feed();
    feed.begin().unwrap();
    for _ in 0..12 {
        world.put(ours, JobId::new(), plain(1));
        world.put(theirs, JobId::new(), plain(2));
        while feed.pass().unwrap() {}
    }
    drop(feed);
    ruin(&world, ours, |path| std::fs::write(path, "no segment at all").unwrap());
    let feed = world.feed();
    catch_up(&feed);
    let mut merges = 0;
    while feed.merge_next().unwrap_or_else(|error| panic!("{}", error.for_operator())) {
        merges += 1;
        assert!(merges < 100, "merging comes to an end");
    }
    assert!(merges > 1);
    world.assert_shown(&feed);
    assert!(feed.pin(ours, Vec::new()).is_ok());
}

#[test]
fn what_a_pass_that_failed_left_out_comes_with_the_next() {
    let mut world = World::new();
    let orgs: Vec<OrgId> = (0..3).map(|_| OrgId::new()).collect();
    let feed = world.feed();
    feed.begin().unwrap();
    // The middle one's folder cannot be made.
    let mut sorted = orgs.clone();
    sorted.sort();
    let blocked = world.root().join(sorted[1].to_string());
    std::fs::write(&blocked, "in the way").unwrap();
    for org in &orgs {
        world.put(*org, JobId::new(), plain(3));
    }
    for parts in 0..3 {
        assert!(feed.pass().is_err(), "the disk is everybody's");
        world.put(sorted[0], JobId::new(), plain(parts));
    }
    assert!(feed.applied() < world.newest());
    std::fs::remove_file(&blocked).unwrap();
    catch_up(&feed);
    world.assert_shown(&feed);
    drop(feed);
    let feed = world.feed();
    catch_up(&feed);
    world.assert_shown(&feed);
}

#[test]
fn an_organization_that_is_erased_under_a_batch_leaves_nothing() {
    let mut world = World::new();
    let (gone, stays) = (OrgId::new(), OrgId::new());
    let feed = Arc::new(world.feed());
    feed.begin().unwrap();
    world.put(gone, JobId::new(), plain(3));
    world.put(stays, JobId::new(), plain(3));
    catch_up(&feed);
    let (system, following) = (world.store.system(), Arc::clone(&feed));
    let (done, stop) = std::sync::mpsc::channel::<()>();
    let passes = std::thread::spawn(move || {
        // A write behind the fence is refused; the next pass sees the fence.
        while stop.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let _ = following.pass();
        }
    });
    for n in 0..40_u32 {
        let wide = ThingV1 { wide: n > 20, ..plain(n % 3) };
        let put = move |tx: &store::SysWrite<'_>| tx.org(gone).put(&THINGS, &JobId::new(), &wide);
        system.write_blocking(put).unwrap();
        world.put(stays, JobId::new(), plain(n % 2));
    }
    let fence = move |tx: &store::SysWrite<'_>| {
        tx.unaudited("a test");
        tx.fence(gone);
        Ok(())
    };
    system.write_blocking(fence).unwrap();
    world.things.remove(&gone);
    feed.remove_org(gone).unwrap();
    world.put(stays, JobId::new(), plain(1));
    done.send(()).unwrap();
    passes.join().unwrap();
    catch_up(&feed);
    world.assert_shown(&feed);
    let manifest = world.root().join(gone.to_string()).join("manifest.json");
    assert!(!manifest.exists(), "nothing of it came back");
    drop(feed);
    let feed = world.feed();
    catch_up(&feed);
    world.assert_shown(&feed);
    assert!(!manifest.exists(), "nothing of it comes back with the next start");
}
