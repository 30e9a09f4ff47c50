//! The list: whose turn it is, and who is left alone.

use super::*;
use crate::PageHeaders;
use base::web::WebUrl;

fn list(count: usize, rotation: Rotation) -> ProxyList {
    let proxy = |i| Proxy::parse(&format!("http://10.0.0.{i}:3128"), None).unwrap();
    ProxyList::new((0..count).map(proxy).collect(), rotation)
}

fn report(trouble: Option<ProxyFailure>, status: Option<u16>) -> FetchReport {
    let url = WebUrl::parse("http://shop.test/").unwrap();
    FetchReport {
        outcome: trouble.map_or(Outcome::Success, ProxyFailure::outcome),
        rule: None,
        status,
        final_url: url,
        headers: PageHeaders::default(),
        body: Default::default(),
        bytes_received: 0,
        duration: Duration::ZERO,
        error: trouble.map(|trouble| format!("{trouble:?}")),
        retry_after: None,
        crawl_delays: Vec::new(),
        is_beyond_limits: false,
        lack: None,
        left_alone_until: None,
        redirects: Vec::new(),
        trouble,
    }
}

/// The proxy that a page of `domain` takes first.
fn first(list: &ProxyList, domain: &str) -> Result<usize, Fault> {
    let order = list.order(domain, &mut list.state.lock());
    match list.next(&order, &[]) {
        NextProxy::Try(index) => Ok(index),
        NextProxy::None { fault, until, .. } => {
            assert!(until > Instant::now());
            Err(fault)
        }
    }
}

#[test]
fn each_page_takes_the_next() {
    let list = list(3, Rotation::EachPage);
    let taken: Vec<usize> = (0..7).map(|_| first(&list, "a.test").unwrap()).collect();
    assert_eq!(taken, [0, 1, 2, 0, 1, 2, 0]);
    list.report(1, &report(Some(ProxyFailure::BadLogin), None));
    let taken: Vec<usize> = (0..6).map(|_| first(&list, "a.test").unwrap()).collect();
    assert!(!taken.contains(&1), "{taken:?}");
    assert!(taken.contains(&0) && taken.contains(&2), "{taken:?}");
    let cooling = list.cooling();
    assert_eq!((cooling.len(), cooling[0].proxy.as_str()), (1, "http://10.0.0.1:3128"));
    assert_eq!(cooling[0].error, "BadLogin");
}

#[test]
fn a_domain_keeps_its_proxy_as_long_as_it_works() {
    let list = list(5, Rotation::PerDomain);
    let domains: Vec<String> = (0..40).map(|i| format!("d{i}.test")).collect();
    let before: Vec<usize> = domains.iter().map(|domain| first(&list, domain).unwrap()).collect();
    let again: Vec<usize> = domains.iter().map(|domain| first(&list, domain).unwrap()).collect();
    assert_eq!(before, again);
    assert!((0..5).all(|index| before.contains(&index)), "everybody has some: {before:?}");
    list.report(2, &report(Some(ProxyFailure::BadLogin), None));
    let after: Vec<usize> = domains.iter().map(|domain| first(&list, domain).unwrap()).collect();
    for (before, after) in before.iter().zip(&after) {
        assert!(*after != 2 && (before == after || *before == 2), "only its own domains move");
    }
}

#[test]
fn doubts_come_slowly_and_leave_nobody_without() {
    let list = list(2, Rotation::EachPage);
    for index in [0, 1] {
        for _ in 0..4 {
            list.report(index, &report(Some(ProxyFailure::Unreachable), None));
        }
    }
    assert!(list.cooling().is_empty(), "four targets that cannot be reached are a clump");
    list.report(0, &report(Some(ProxyFailure::Silent), None));
    assert_eq!(list.cooling().len(), 1);
    list.report(1, &report(Some(ProxyFailure::Silent), None));
    assert_eq!(list.cooling().len(), 2);
    assert!(first(&list, "a.test").is_ok(), "better one of them than nobody");
    list.report(0, &report(None, Some(404)));
    assert_eq!(list.cooling().len(), 1, "the target's answer came through, whatever it is worth");
}

#[test]
fn troubles_of_its_own_close_a_proxy_at_once() {
    let list = list(2, Rotation::EachPage);
    list.report(0, &report(Some(ProxyFailure::Unsupported), None));
    assert!(list.cooling().is_empty(), "a refused target says nothing");
    list.report(0, &report(Some(ProxyFailure::BadLogin), None));
    assert_eq!((first(&list, "a.test"), first(&list, "a.test")), (Ok(1), Ok(1)));
    list.report(1, &report(Some(ProxyFailure::Down), None));
    assert_eq!(first(&list, "a.test"), Err(Fault::Down), "one of them may come back by itself");
    list.report(1, &report(None, Some(200)));
    assert_eq!(first(&list, "a.test"), Ok(1));
    list.report(1, &report(Some(ProxyFailure::NoCredits), None));
    assert!(first(&list, "a.test").unwrap_err().needs_somebody());
}
