//! What strangers do at the door, without a credential.

use crate::Stage;
use crate::aim::Outcome;
use bytes::Bytes;
use http::Method;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

pub async fn connections(stage: Arc<Stage>) -> Outcome {
    let address = stage.process.url.trim_start_matches("http://").to_owned();
    let (mut open, mut opened) = (Vec::new(), 0u32);
    stage.prepared();
    while !stage.is_over() {
        open.retain(|stream: &TcpStream| {
            let mut byte = [0];
            // A closed one says so at once; one that waits would block.
            !matches!(stream.try_read(&mut byte), Ok(0))
                && !matches!(stream.try_read(&mut byte), Err(e) if e.kind() != std::io::ErrorKind::WouldBlock)
        });
        while open.len() < 1_000 && !stage.is_over() {
            let connecting = TcpStream::connect(&address);
            let Ok(Ok(mut stream)) = tokio::time::timeout(Duration::from_millis(200), connecting).await
            else {
                break;
            };
            if stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-").await.is_ok() {
                open.push(stream);
                opened += 1;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Outcome::did(format!("{opened} connections, {} of them open in the end", open.len()))
        .must(opened >= 1_000, "fewer than 1,000 connections were opened")
}

pub async fn bodies(stage: Arc<Stage>) -> Outcome {
    let mut all = JoinSet::new();
    stage.prepared();
    for _ in 0..10 {
        all.spawn(unfinished(stage.clone()));
    }
    let mut sum = 0;
    while let Some(sent) = all.join_next().await {
        sum += sent.expect("a stranger");
    }
    Outcome::did(format!("{} MiB sent", sum >> 20)).must(sum >> 20 > 0, "next to nothing could be sent")
}

/// One connection whose streams send all but the end of a body; gives the bytes that it could send.
async fn unfinished(stage: Arc<Stage>) -> usize {
    let address = stage.process.url.trim_start_matches("http://").to_owned();
    let mut bytes = 0;
    while !stage.is_over() {
        let Ok(stream) = TcpStream::connect(&address).await else { continue };
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let Ok((mut sender, connection)) = handshake else { continue };
        let connection = tokio::spawn(connection);
        let mut streams = JoinSet::new();
        for _ in 0..250 {
            let (feed, body) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
            let body = StreamBody::new(futures::stream::unfold(body, |mut body| async {
                body.recv().await.map(|frame| (frame, body))
            }));
            let request = http::Request::builder()
                .method(Method::POST)
                .uri(format!("{}/api/v1/auth/login", stage.process.url))
                .header("content-type", "application/json")
                .body(Box::pin(body))
                .expect("a request");
            if sender.ready().await.is_err() {
                break;
            }
            let answer = sender.send_request(request);
            let stage = stage.clone();
            streams.spawn(async move {
                let sending = async {
                    let mut sent = 0;
                    for _ in 0..60 {
                        let chunk = Bytes::from(vec![b' '; 16 << 10]);
                        if feed.send(Ok(Frame::data(chunk))).await.is_err() {
                            break;
                        }
                        sent += 16 << 10;
                    }
                    while !stage.is_over() && !feed.is_closed() {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    sent
                };
                tokio::select! {
                    sent = sending => sent,
                    _ = answer => 0,
                }
            });
        }
        let limit = tokio::time::sleep(Duration::from_secs(20));
        tokio::pin!(limit);
        loop {
            tokio::select! {
                sent = streams.join_next() => match sent {
                    Some(sent) => bytes += sent.unwrap_or_default(),
                    None => break,
                },
                () = &mut limit => break,
            }
        }
        connection.abort();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bytes
}
