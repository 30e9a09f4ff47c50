//! Bytes on the wire that are hardly HTTP: framing that two servers would read differently, heads without end, bad hosts.

use super::{Findings, address, raw, unhurt};
use crate::harness::Appliance;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request that must not be answered by anyone: it hides behind another one.
const HIDDEN: &str = "GET /api/v1/hidden HTTP/1.1\r\nHost: x\r\n\r\n";
const REGISTER: &str = "POST /api/v1/auth/register HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

fn answers(text: &str) -> usize {
    text.matches("HTTP/1.1 ").count() + text.matches("HTTP/1.0 ").count()
}

/// What must be refused by a 4xx and the end of the connection, or by the end of the connection alone.
fn refused() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = [
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: user@a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: <script>\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: [::1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n Host: a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX\u{fc}: a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET  /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /health z HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /healthz\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET \\healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http:///healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://[::1/healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /healthz HTTP/3.7\r\nHost: a\r\n\r\n",
        "GET /healthz FTP/1.1\r\nHost: a\r\n\r\n",
        "GET /healthz\r\n\r\n",
        "G\u{fc}T /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}",
        "\r\n\r\n\r\n\0\0\0\0",
        "GET /healthz HTTP/1.1\nHost: a\n\n",
        "GET /healthz HTTP/1.1\r\nHost: a\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX: y\n\r\n",
        "GET /healthz HTTP/1.1\nHost: a\r\n\r\n",
        "\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    .into_iter()
    .map(|text| (text.to_owned(), text.as_bytes().to_vec()))
    .collect();
    for framing in [
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: -1",
        "Content-Length: +4",
        "Content-Length: 4, 5",
        "Content-Length: 0x4",
        "Content-Length: 99999999999999999999",
        "Content-Length: 4 4",
        "Content-Length: four",
        "Content-Length:",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Content-Length: 2\nX: y",
        "X: y\nTransfer-Encoding: chunked",
    ] {
        let text = format!("{REGISTER}{framing}\r\n\r\n{HIDDEN}");
        all.push((text.clone(), text.into_bytes()));
    }
    for chunks in [
        "zz\r\nhello",
        "-1\r\nhello",
        "fffffffffffffffff\r\nhello",
        "5hello\r\n0\r\n\r\n",
        "2\r\nhello\r\n0\r\n\r\n",
        "\r\n",
    ] {
        let text = format!("{REGISTER}Transfer-Encoding: chunked\r\n\r\n{chunks}{HIDDEN}");
        all.push((text.clone(), text.into_bytes()));
    }
    // Longer than a line is looked at: whoever reads another number finds another request.
    let zeros = "0".repeat(200);
    for text in [
        format!("{REGISTER}Content-Length: {zeros}4\r\n\r\n{{}}\r\n{HIDDEN}"),
        format!("{REGISTER}Transfer-Encoding: chunked\r\n\r\n{zeros}2\r\n{{}}\r\n0\r\n\r\n{HIDDEN}"),
    ] {
        all.push((text.clone(), text.into_bytes()));
    }
    let long = "x".repeat(100 << 10);
    let many: String = (0..200).map(|i| format!("X-{i}: a\r\n")).collect();
    all.extend([
        (
            "a long header".to_owned(),
            format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n").into_bytes(),
        ),
        (
            "a long header name".to_owned(),
            format!("GET /healthz HTTP/1.1\r\nHost: a\r\n{long}: x\r\n\r\n").into_bytes(),
        ),
        ("a long path".to_owned(), format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()),
        ("a long method".to_owned(), format!("{long} /healthz HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()),
        ("many headers".to_owned(), format!("GET /healthz HTTP/1.1\r\nHost: a\r\n{many}\r\n").into_bytes()),
        ("noise".to_owned(), noise(40_000)),
    ]);
    all
}

/// Bytes without sense, the same at every run (xorshift64).
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..bytes).map(|_| next()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_hardly_http_is_refused_once() {
    let appliance = Appliance::start().await;
    let at = address(&appliance);
    let mut findings = Findings::default();
    let requests = refused();
    let heard = futures::future::join_all(requests.iter().map(|(_, request)| raw(at, request))).await;
    for ((name, _), answer) in requests.iter().zip(heard) {
        let is_refusal =
            answer.is_empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.0 4");
        // The h2 preface is answered in frames.
        let is_frames = name.starts_with("PRI") && !answer.contains("HTTP/1.1 2");
        findings.check(is_refusal || is_frames, name, &answer);
        findings.check(answers(&answer) <= 1, name, &answer);
        findings.check(answer.is_empty() || is_frames || is_dressed(&answer), name, &answer);
    }
    unhurt(&appliance, &mut findings).await;
    findings.report(100);
}

/// Whether an answer wears the flat envelope and carries a request id, also where no request was made out.
fn is_dressed(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let has = |begin: &str| head.lines().any(|line| line.starts_with(begin));
    body["error"].is_string() && has("x-request-id: 0") && has("content-type: application/json")
}

/// What hyper refuses before there is a request says what was wrong, and arrives although the rest was never read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_is_refused_is_told_why() {
    let appliance = Appliance::start().await;
    let at = address(&appliance);
    let mut findings = Findings::default();
    let long = "x".repeat(400 << 10);
    let many: String = (0..200).map(|i| format!("X-{i}: a\r\n")).collect();
    for (request, status, part) in [
        ("GET /healthz HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), 400, "malformed"),
        ("GET /healthz\r\n\r\n".to_owned(), 400, "malformed"),
        (format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), 431, "64 KiB"),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 431, "64 KiB"),
        (format!("GET /healthz HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431, "100 lines"),
    ] {
        for _ in 0..5 {
            let answer = raw(at, request.as_bytes()).await;
            let holds = answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(part);
            findings.check(holds && is_dressed(&answer), &request, &answer);
        }
    }
    unhurt(&appliance, &mut findings).await;
    findings.report(25);
}

/// A length beside chunks: the chunks count, and the connection ends with the answer (RFC 9112, 6.1).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_cannot_hide_in_a_body() {
    let appliance = Appliance::start().await;
    let at = address(&appliance);
    let mut findings = Findings::default();
    for framing in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Transfer-Encoding: chunked\r\nContent-Length: 400",
    ] {
        let text = format!("{REGISTER}{framing}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{HIDDEN}");
        let answer = raw(at, text.as_bytes()).await;
        let holds = answers(&answer) == 1 && answer.starts_with("HTTP/1.1 400");
        findings.check(holds, framing, &answer);
    }
    // Twice the same length is one length; the body of a GET is a body, and not the next request.
    let twice =
        format!("{REGISTER}Content-Length: 2\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}{HIDDEN}");
    let answer = raw(at, twice.as_bytes()).await;
    findings.check(answers(&answer) == 1 && answer.starts_with("HTTP/1.1 400"), "one length twice", &answer);
    let length = HIDDEN.len();
    let get = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{HIDDEN}");
    let answer = raw(at, get.as_bytes()).await;
    findings.check(answers(&answer) == 1 && answer.starts_with("HTTP/1.1 200"), "a GET with a body", &answer);
    unhurt(&appliance, &mut findings).await;
    findings.report(5);
}

/// Oddities that are allowed, with what they must get.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_odd_but_http_is_answered() {
    let appliance = Appliance::start().await;
    let at = address(&appliance);
    let mut findings = Findings::default();
    let register = |line: &str, body: &str| {
        format!("{REGISTER}Connection: close\r\n{line}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    for (request, begins) in [
        ("GET http://elsewhere.example/healthz HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n".to_owned(), "HTTP/1.1 200"),
        ("GET /healthz HTTP/1.0\r\n\r\n".to_owned(), "HTTP/1.0 200"),
        ("GET /healthz HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n".to_owned(), "HTTP/1.1 200"),
        ("GET /healthz HTTP/1.1\r\nhost: [::1]:80\r\nConnection: close\r\n\r\n".to_owned(), "HTTP/1.1 200"),
        ("GET /healthz?a=\u{fc} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), "HTTP/1.1 "),
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: \u{fc}\r\n\r\n".to_owned(), "HTTP/1.1 200"),
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n".to_owned(), "HTTP/1.1 200"),
        ("get /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), "HTTP/1.1 405"),
        (format!("{REGISTER}Connection: close\r\nContent-Length:{}4\r\n\r\n\n{{}}\n", " ".repeat(200)), "HTTP/1.1 400"),
        (register("Expect: 100-continue\r\n", "{}"), "HTTP/1.1 100"),
        (register("Expect: nonsense\r\n", "{}"), "HTTP/1.1 4"),
        (register("Trailer: x\r\nTE: trailers\r\n", "{}"), "HTTP/1.1 400"),
    ] {
        let answer = raw(at, request.as_bytes()).await;
        findings.check(answer.starts_with(begins), &request, &answer);
        findings.check(!answer.contains("HTTP/1.1 5"), &request, &answer);
    }
    // Who waits to be asked for a body that is too large is told so, and is not asked.
    let large = format!("{REGISTER}Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n");
    let answer = waiting(at, large.as_bytes()).await;
    findings.check(answer.starts_with("HTTP/1.1 413"), "too large, and waiting", &answer);
    unhurt(&appliance, &mut findings).await;
    findings.report(20);
}

/// Sends a head, keeps its side open, and gives what came first.
async fn waiting(at: SocketAddr, head: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(head).await.unwrap();
    let mut answer = vec![0; 4_096];
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut answer)).await;
    answer.truncate(read.map_or(0, |read| read.unwrap_or(0)));
    String::from_utf8_lossy(&answer).into_owned()
}
