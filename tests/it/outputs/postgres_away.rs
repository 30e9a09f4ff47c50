//! PostgreSQL servers that are away, that hang, or that say what no such server says.

use super::postgres::{COLUMNS, PATIENCE, all_there, reads, server, shop, terms, visit};
use super::{OUTPUTS, deliveries, shown};
use crate::harness::{Appliance, eventually, expect, post, text};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn rules(ports: &[u16]) -> String {
    let rules: Vec<_> = ports.iter().map(|port| format!("127.0.0.1/32:{port}")).collect();
    json!(rules).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waited_for_an_hour_is_there_once_when_the_server_is_back() {
    let Some(server) = server() else { return };
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &rules(&[web.address.port(), server.port]))]).await;
    let ada = at.member("ada").await;
    reads(&ada.api, &["title", "price"]).await;
    let made = expect(post(&ada.api, OUTPUTS, &terms(&server, "append")).await, 201);
    visit(&ada.api, &web, 0..20).await;
    all_there(&ada.api, &server, 20, COLUMNS).await;
    server.kill();
    let mut waits = Vec::new();
    // An hour by the box's clock, in steps; meanwhile more comes.
    for step in 0..12 {
        visit(&ada.api, &web, 20 + step * 10..30 + step * 10).await;
        at.clock.advance(Duration::from_secs(300));
        let waiting = eventually("it is tried again, and fails", PATIENCE, || async {
            let view = shown(&ada.api, &made).await;
            let tries = tries(&deliveries(&ada.api, &made).await);
            let is_more = waits.last().is_none_or(|before| tries > *before);
            (view["state"] != "ok" && is_more).then_some(tries)
        })
        .await;
        waits.push(waiting);
    }
    let view = shown(&ada.api, &made).await;
    assert_eq!((&view["isEnabled"], &view["failed"]), (&json!(true), &json!(0)), "{view}");
    assert!(view["failingSince"].is_string() && view["pending"].as_u64() > Some(0), "{view}");
    server.again();
    at.clock.advance(Duration::from_secs(1_800));
    all_there(&ada.api, &server, 140, COLUMNS).await;
    let view = eventually("it is well again", PATIENCE, || async {
        let view = shown(&ada.api, &made).await;
        (view["pending"] == 0).then_some(view)
    })
    .await;
    assert_eq!((text(&view, "state"), &view["failed"]), ("ok", &json!(0)), "{view}");
    at.stop().await;
}

/// The attempts of all deliveries that wait.
fn tries(rows: &[Value]) -> usize {
    let waiting = rows.iter().filter(|row| row["state"] == "pending");
    waiting.map(|row| row["attempts"].as_array().unwrap().len()).sum()
}

/// A server that says this to everybody, again and again where it is to be `endless`, and then nothing.
async fn saying(bytes: &'static [u8], is_endless: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(said(stream, bytes, is_endless));
        }
    });
    address
}

async fn said(mut stream: TcpStream, bytes: &'static [u8], is_endless: bool) -> std::io::Result<()> {
    let mut asked = [0; 1_024];
    if stream.read(&mut asked).await? == 0 {
        return Ok(());
    }
    stream.write_all(bytes).await?;
    if is_endless {
        loop {
            stream.write_all(bytes).await?;
        }
    }
    // It hangs until the other side goes.
    while stream.read(&mut asked).await? > 0 {}
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_or_says_anything_is_nobody_elses_business() {
    let Some(server) = server() else { return };
    let web = shop().await;
    // Logged in at once, and then notices (`N`) without end; a message that says it has 2 GB; what is no PostgreSQL at all.
    let endless: &[u8] = b"R\0\0\0\x08\0\0\0\0N\0\0\0\x10SNOTICE\0Mx\0\0";
    let servers = [
        saying(b"", false).await,
        saying(b"HTTP/1.1 400 Bad Request\r\n\r\n", false).await,
        saying(b"R\x7f\xff\xff\xff", false).await,
        saying(b"\0\0\0\0\0\0\0\0", false).await,
        saying(endless, true).await,
    ];
    let mut ports: Vec<_> = servers.iter().map(SocketAddr::port).collect();
    ports.extend([web.address.port(), server.port]);
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &rules(&ports))]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    for member in [&ada, &eve] {
        reads(&member.api, &["title", "price"]).await;
    }
    // Six of each are more than an organization's share of what is sent at once.
    let mut odd = Vec::new();
    for port in servers.iter().map(SocketAddr::port) {
        for _ in 0..6 {
            let mut new = terms(&server, "append");
            new["postgres"]["port"] = json!(port);
            odd.push(expect(post(&eve.api, OUTPUTS, &new).await, 201));
        }
    }
    let good = expect(post(&ada.api, OUTPUTS, &terms(&server, "append")).await, 201);
    visit(&eve.api, &web, 0..20).await;
    eventually("eve's outputs are tried", PATIENCE, || async {
        let mut failing = 0;
        for made in odd.iter().step_by(6).skip(1) {
            failing += usize::from(shown(&eve.api, made).await["lastError"].is_string());
        }
        (failing == 4).then_some(())
    })
    .await;
    // While some of them hang, ada's rows come as they come to somebody who is alone.
    for round in 0..3 {
        visit(&ada.api, &web, round * 10..round * 10 + 10).await;
        let begun = std::time::Instant::now();
        all_there(&ada.api, &server, (round + 1) * 10, COLUMNS).await;
        println!("ten rows took {:?} beside 30 outputs that hang or fail", begun.elapsed());
    }
    assert_eq!(shown(&ada.api, &good).await["failed"], 0);
    for made in odd.iter().step_by(6) {
        let row = eventually("the ledger says why", Duration::from_secs(180), || async {
            let row = deliveries(&eve.api, made).await.pop()?;
            row["attempts"][0]["told"].is_string().then_some(row)
        })
        .await;
        let told = text(&row["attempts"][0], "told");
        assert!(!told.is_empty() && told.chars().count() <= 500, "{row}");
        assert_eq!(row["state"], "pending", "{row}");
        println!("told: {told}");
    }
    at.stop().await;
}
