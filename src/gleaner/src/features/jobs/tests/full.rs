//! An organization that has used all its room, beside one that has not.

use super::*;
use crate::features::jobs::cancel_job;
use crate::features::jobs::view::JobView;
use base::ids::RequestId;
use store::Origin;

/// Plans on which an organization may store two megabytes.
fn small_plans() -> Arc<Plans> {
    let text =
        include_str!("../../../../../../data/plans.toml").replace("storage_mb = 100_000", "storage_mb = 2");
    Arc::new(Plans::parse(&text).unwrap())
}

/// Submits as a request does.
async fn ask(lab: &Lab, org: &OrgStore, n: usize) -> base::Result<JobId> {
    let headers: serde_json::Map<_, _> =
        (0..4).map(|i| (format!("x-filler-{i}"), json!("f".repeat(4_000)))).collect();
    let request =
        json!({ "url": format!("http://a.test:{}/{n}", lab.web.port), "options": { "headers": headers } });
    let checked = submit::check("", serde_json::from_value(request).unwrap(), &lab.guard)?;
    let context = lab.context.clone();
    let asked = org.write(move |tx| {
        tx.unaudited("a test");
        submit::submit(tx, &context, vec![checked], None)
    });
    let origin = Origin::request(IpAddr::V4(Ipv4Addr::LOCALHOST), RequestId::accept(None));
    origin.scope(asked).await.map(|made| made[0].job.id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_organization_is_refused_by_name_ends_what_it_has_and_troubles_nobody() {
    let mut lab = Lab::new(4, 4, Duration::ZERO).await;
    lab.store.limit_room(billing::room(small_plans()));
    let neighbour = lab.neighbour().await;
    let mut made = Vec::new();
    let refused = loop {
        match ask(&lab, &lab.org, made.len()).await {
            Ok(id) => made.push(id),
            Err(refused) => break refused,
        }
        assert!(made.len() < 1_000, "nothing is refused");
    };
    assert_eq!((refused.code(), refused.status()), (Code::QuotaExceeded, 402));
    assert!(refused.detail().unwrap().contains("2000000 bytes (storageBytes)"), "{refused}");
    let fields: Vec<_> = refused.fields().iter().map(|(name, _)| *name).collect();
    assert!(["plan", "remainingCredits", "isTrialExpired"].iter().all(|name| fields.contains(name)));
    // Some 16 KB each: the cap is where it is said to be, and a refusal leaves nothing behind.
    assert!((100..130).contains(&made.len()), "{}", made.len());
    let used = || lab.org.read(|tx| tx.used_in_all()).unwrap();
    let full = used();
    assert!(full.bytes <= 2_000_000 && full.bytes > 1_980_000, "{full:?}");
    ask(&lab, &lab.org, 0).await.unwrap_err();
    assert_eq!(used(), full);
    // Somebody else's room is their own.
    let other = ask(&lab, &neighbour, 0).await.unwrap();
    // Ending goes on, as a request.
    let (first, context) = (made[0], lab.context.clone());
    let cancel = lab.org.write(move |tx| {
        tx.unaudited("a test");
        tx.needs_no_room();
        cancel_job(tx, &context, first)
    });
    let origin = Origin::request(IpAddr::V4(Ipv4Addr::LOCALHOST), RequestId::accept(None));
    assert_eq!(origin.scope(cancel).await.unwrap().status, JobStatus::Canceled);
    // Jobs in the queue of a full organization wait, with the reason, and nobody is visited for them; the neighbour's runs.
    lab.org
        .write(|tx| {
            let big = json!({ "padding": "p".repeat(60_000) });
            let url = UrlV1 {
                id: UrlId::new(),
                url: "http://a.test/big".to_owned(),
                domain: "a.test".to_owned(),
                tags: Vec::new(),
                metadata: Json(big),
                page_type: None,
                workflow_id: None,
                last_job_id: None,
                last_scraped_at: None,
                last_status: None,
                created_at: tx.now(),
            };
            tx.put(&URLS, &url.id, &url)
        })
        .await
        .unwrap();
    lab.start();
    lab.until("the neighbour's job ends", |_| {
        let job = neighbour.read(|tx| tx.require(&JOBS, &other)).unwrap();
        job.status.has_ended() && !job.attempts.is_empty()
    })
    .await;
    lab.until("it is seen that there is no room", |lab| lab.dispatcher.is_full(lab.org.id())).await;
    let view = |lab: &Lab, id: JobId| {
        let job = lab.job(id);
        let view = lab.org.read(|tx| JobView::new(job, tx, &lab.dispatcher)).unwrap();
        serde_json::to_value(view).unwrap()
    };
    let waits = json!({ "until": null, "reason": "no_room", "askedBy": null });
    for id in &made[1..] {
        let seen = view(&lab, *id);
        assert_eq!((&seen["status"], &seen["waiting"]), (&json!("queued"), &waits), "{seen}");
    }
    let own = || lab.web.log().len();
    assert_eq!((own(), lab.spent()), (1, i64::try_from(made.len() - 1).unwrap()), "only the neighbour's");
    // They go on by themselves when there is room again.
    let (stay, gone) = made[1..].split_at(20);
    let gone = gone.to_vec();
    lab.org.write(move |tx| gone.iter().try_for_each(|id| tx.delete(&JOBS, id).map(drop))).await.unwrap();
    for id in stay {
        assert_eq!(lab.ended(*id).await.status, JobStatus::Succeeded);
    }
    assert!(!lab.dispatcher.is_full(lab.org.id()));
    assert_eq!(view(&lab, stay[0])["waiting"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_organization_takes_nobodys_turn_at_a_host_that_wants_pauses() {
    let mut lab = Lab::new(4, 1, Duration::ZERO).await;
    let (full, neighbour) = (lab.org.id(), lab.neighbour().await);
    lab.store.limit_room(Box::new(move |tx, _| match tx.org_id() == full {
        true => Err(Error::new(Code::QuotaExceeded)),
        false => Ok(()),
    }));
    // A pause between two visits that is longer than anything is waited for here, and over for the first of them.
    let pause = 2 * PATIENCE;
    let before = Instant::now().checked_sub(pause).expect("the machine runs for minutes");
    lab.dispatcher.parts.politeness.set_crawl_delay("a.test", before, pause);
    let own = lab.submit("a.test/own").await;
    let theirs = lab.submit_for(&neighbour, "a.test/theirs", json!({})).await;
    lab.start();
    lab.until_ended(&neighbour, &[theirs]).await;
    lab.until("it is seen that there is no room", |lab| lab.dispatcher.is_full(full)).await;
    assert_eq!((lab.web.log(), lab.job(own).status), (vec!["a.test/theirs".to_owned()], JobStatus::Queued));
}
