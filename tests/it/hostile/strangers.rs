//! Strangers at the door of a box in a process of its own: connections that say nothing, bodies that never come. People
//! with a credential are answered meanwhile, from the strangers' own address as well.

use super::raw;
use crate::harness::process::Process;
use crate::harness::{PASSWORD, binary, expect, get, member, post, ready, text};
use bytes::Bytes;
use futures::stream;
use http::Request;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use server::client::Client;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const REGISTER: &str = "POST /api/v1/auth/register HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
/// Six new connections of people and their requests take no longer, whatever strangers do. Where strangers kept their places
/// as long as they may say nothing, 10 seconds, each of the six waited behind 140 of them: two minutes and more.
const ROUND_TIME_MAX: Duration = Duration::from_secs(60);
/// How soon a stranger that was sent away comes again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

fn address(process: &Process) -> SocketAddr {
    process.url.trim_start_matches("http://").parse().unwrap()
}

/// A connection from 127.0.0.`last`.
async fn connect(to: SocketAddr, last: u8) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    let connected = tokio::time::timeout(Duration::from_secs(5), socket.connect(to)).await;
    connected.ok()?.ok()
}

/// Strangers who send these bytes and then nothing, and come again when they are sent away.
struct Crowd(Vec<JoinHandle<()>>);

impl Crowd {
    /// Returns when each has come, or found no room.
    async fn come(to: SocketAddr, count: u32, addresses: u32, sent: &str) -> Crowd {
        let came = Arc::new(Semaphore::new(0));
        let mut all = Vec::new();
        for number in 0..count {
            let (sent, came) = (sent.to_owned(), came.clone());
            let last = 10 + u8::try_from(number % addresses).unwrap();
            all.push(tokio::spawn(async move {
                loop {
                    let stream = connect(to, last).await;
                    if let Some(mut stream) = stream {
                        let _ = stream.write_all(sent.as_bytes()).await;
                        came.add_permits(1);
                        let _ = stream.read_to_end(&mut Vec::new()).await;
                    } else {
                        came.add_permits(1);
                    }
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            }));
        }
        drop(came.acquire_many(count).await.unwrap());
        Crowd(all)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Connections that send these bytes and then nothing.
async fn silent(to: SocketAddr, count: usize, addresses: u8, sent: &str) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for number in 0..count {
        let last = 10 + u8::try_from(number % usize::from(addresses)).unwrap();
        // A server that has no room lets none in.
        let Some(mut stream) = connect(to, last).await else { continue };
        let _ = stream.write_all(sent.as_bytes()).await;
        all.push(stream);
    }
    all
}

async fn serves(client: &Client, path: &str, times: usize) {
    for _ in 0..times {
        expect(get(client, path).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_strangers_do_not_keep_people_out() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(&folder.path().join("data"), &[("SERVER__MAX_CONNECTIONS", "60")]);
    let ada = member(&process.client(), &process.socket(), "ada").await;
    let unfinished = format!("{REGISTER}Content-Length: 1000\r\n\r\n{{");
    for (addresses, sent) in
        [(1, ""), (1, "GET /healthz HTTP/1.1\r\nHo"), (1, &unfinished), (200, &unfinished)]
    {
        let strangers = Crowd::come(address(&process), 200, addresses, sent).await;
        // A new person, too: each of these is a connection of its own, from the strangers' address.
        let client = process.client();
        let login = json!({ "email": ada.email, "password": PASSWORD });
        let begun = Instant::now();
        expect(post(&client, "/api/v1/auth/login", &login).await, 200);
        for _ in 0..5 {
            serves(&process.client().bearer(&ada.key), "/api/v1/jobs", 3).await;
        }
        let took = begun.elapsed();
        println!("{addresses} addresses, {sent:?}: {took:?}");
        assert!(took < ROUND_TIME_MAX, "{took:?}");
        drop(strangers);
    }
    assert_eq!(process.terminate(), Some(0));
}

/// What one address may have of the room for strangers' large bodies.
const ROOM_OF_ADDRESS: u64 = 4 << 20;

/// Bytes of strangers' large bodies that the box has given room to.
async fn room_bytes(process: &Process) -> u64 {
    let metrics = get(&process.client(), "/metrics").await.text();
    let name = "gleaner_http_body_bytes{room=\"strangers_large\"} ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("it is measured");
    value.parse::<f64>().unwrap() as u64
}

/// As a body is sent that goes on for ever.
fn endless(
    bytes: usize,
) -> StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, std::convert::Infallible>>> {
    let first = Bytes::from(vec![b' '; bytes]);
    let sent = stream::iter([Ok(Frame::data(first))]);
    StreamBody::new(futures::StreamExt::chain(sent, stream::pending()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_never_end_take_little_memory() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(&folder.path().join("data"), &[]);
    let ada = member(&process.client(), &process.socket(), "ada").await;
    serves(&process.client().bearer(&ada.key), "/api/v1/jobs", 10).await;
    let before = process.counted("VmRSS") << 10;
    let mut hanging = Vec::new();
    for _ in 0..10 {
        let stream = TcpStream::connect(address(&process)).await.unwrap();
        let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.unwrap();
        hanging.push(tokio::spawn(async move { drop(connection.await) }));
        for _ in 0..250 {
            let request =
                Request::post("http://x/api/v1/auth/register").header("content-type", "application/json");
            let answer = sender.send_request(request.body(endless(900 << 10)).unwrap());
            hanging.push(tokio::spawn(async move { drop(answer.await) }));
        }
    }
    let (begun, mut most, mut held) = (Instant::now(), before, 0);
    while begun.elapsed() < Duration::from_secs(8) || held == 0 {
        most = most.max(process.counted("VmRSS") << 10);
        held = held.max(room_bytes(&process).await);
        assert!(begun.elapsed() < Duration::from_secs(60), "no body has come: the test shows nothing");
        serves(&process.client().bearer(&ada.key), "/api/v1/jobs", 1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let login = json!({ "email": ada.email, "password": PASSWORD });
    expect(post(&process.client(), "/api/v1/auth/login", &login).await, 200);
    let grown = most.saturating_sub(before) >> 20;
    println!("10 connections with 250 unfinished bodies each: room for {held} bytes, {grown} MiB grown");
    assert!(held <= ROOM_OF_ADDRESS, "{held} bytes");
    // What an allocator keeps is its own affair; without bounds the bodies alone are 2.3 GB.
    assert!(grown < 640, "{grown} MiB");
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_never_comes_is_the_clients_time_out() {
    let folder = TempDir::new().unwrap();
    let process = Process::start(&folder.path().join("data"), &[]);
    let ada = member(&process.client(), &process.socket(), "ada").await;
    let job = format!("POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n", ada.key);
    let waits = [REGISTER, &job].map(|head| {
        let request = format!("{head}Content-Length: 1000\r\n\r\n{{\"url\":");
        hears(address(&process), request)
    });
    for answer in futures::future::join_all(waits).await {
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("connection: close") && answer.contains("Nothing was done"), "{answer}");
        assert!(answer.contains("\"The body did not come\""), "{answer}");
    }
    let jobs = expect(get(&ada.api, "/api/v1/jobs").await, 200);
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(0));
    assert_eq!(process.terminate(), Some(0));
}

/// Sends bytes, keeps its side open, and reads until the other side ends.
async fn hears(to: SocketAddr, sent: String) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    read.expect("the server ends the connection").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The box under a limit of open files.
fn limited(folder: &TempDir, ulimit: &str, settings: &[(&str, &str)]) -> Process {
    let script = folder.path().join("gleaner");
    let text = format!("#!/bin/sh\n{ulimit}\nexec {} \"$@\"\n", binary().display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    Process::start_binary(&script, &folder.path().join("data"), settings)
}

/// The soft and the hard limit of open files.
fn open_files(process: &Process) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut words = line.split_whitespace().skip(3).map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_leave_descriptors_for_the_work() {
    let folder = TempDir::new().unwrap();
    let process = limited(&folder, "ulimit -Sn 200", &[]);
    let (soft, hard) = open_files(&process);
    assert!(soft == hard || soft == (1 << 20).to_string(), "{soft} of {hard}");
    assert_eq!(process.terminate(), Some(0));

    let folder = TempDir::new().unwrap();
    let process = limited(&folder, "ulimit -n 450", &[("BI__CONCURRENCY", "2")]);
    assert_eq!(open_files(&process), ("450".to_owned(), "450".to_owned()));
    let ada = member(&process.client(), &process.socket(), "ada").await;
    let strangers = silent(address(&process), 600, 100, "").await;
    let open = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count();
    assert!(open < 400, "{open} of 450 descriptors");
    let sql = json!({ "sql": "SELECT count(*) AS n FROM jobs", "waitMs": 10000 });
    let answer = expect(post(&process.client().bearer(&ada.key), "/api/v1/bi/queries", &sql).await, 200);
    assert_eq!(answer["results"]["rows"][0]["n"], 0, "{answer}");
    drop(strangers);
    let answer =
        raw(address(&process), b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(text(&ready(&process.client()).await, "status"), "ready");
}
