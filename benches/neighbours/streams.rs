//! Listeners that have a whole log told to them and take nothing of it.

use crate::Stage;
use crate::aim::Outcome;
use harness::{expect, get, post};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// As many as an organization may have, as shipped.
const STREAMS: usize = 200;
/// Jobs whose events are told; four of each.
const JOBS: usize = 4_000;
/// How long one round of listeners is there: they have what their sockets take long before.
const ROUND: Duration = Duration::from_secs(3);
/// Half of the rounds wait for events that never come, so that the box looks through the whole log.
const QUERIES: [&str; 2] = ["after=0", "after=0&tag=nobody-has-it"];

pub async fn streams(stage: Arc<Stage>) -> Outcome {
    for part in 0..JOBS / 1_000 {
        let path = |n: usize| stage.page(&format!("a{}", n % 200), &format!("/quick/{}", part * 1_000 + n));
        let jobs: Vec<_> = (0..1_000).map(|n| json!({ "url": path(n) })).collect();
        expect(post(&stage.hostile.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    }
    // The log goes on while they listen, at first; what counts is there before.
    let open = "/api/v1/jobs?status=queued&limit=1";
    while expect(get(&stage.hostile.api, open).await, 200)["items"]
        .as_array()
        .is_some_and(|jobs| !jobs.is_empty())
    {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    stage.prepared();
    let (mut opened, mut refused) = (0, 0);
    for query in QUERIES.iter().cycle() {
        if stage.is_over() {
            break;
        }
        let mut listeners = Vec::new();
        for _ in 0..STREAMS {
            match listen(&stage, query).await {
                Ok(listener) => listeners.push(listener),
                Err(_) => refused += 1,
            }
        }
        opened += listeners.len();
        tokio::time::sleep(ROUND).await;
    }
    Outcome::did(format!("{opened} streams opened, {refused} refused"))
        .must(opened >= STREAMS, "there were fewer than 200 streams")
}

/// A stream whose beginning has come, and of which no more is read.
async fn listen(stage: &Stage, query: &str) -> std::io::Result<TcpStream> {
    let address = stage.process.url.trim_start_matches("http://").parse().map_err(std::io::Error::other)?;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    let mut stream = socket.connect(address).await?;
    let key = &stage.hostile.key;
    let request = format!(
        "GET /api/v1/events?{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nAccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut status = [0; 12];
    tokio::time::timeout(ROUND, stream.read_exact(&mut status)).await??;
    if &status == b"HTTP/1.1 200" { Ok(stream) } else { Err(std::io::Error::other("refused")) }
}
