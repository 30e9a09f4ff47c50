//! What hyper refuses by itself, dressed like every other refusal.
//!
//! A head that is not HTTP/1.1, or is too large, never becomes a request: hyper answers with a bare status and closes. A
//! person who has sent a header too many should learn as much from that as from any other error, and find the answer in
//! the log by its id. So [`RefusalIo`] stands between hyper and the socket and writes an envelope in the bare answer's
//! place.
//!
//! Only bytes that no request has caused are looked at: those that come when everything of every response so far has
//! been flushed and no request has begun since. What a response carries can therefore never be taken for a refusal.
//!
//! After a refusal the rest of what the client sends is read and dropped for a moment: closing a socket with unread bytes
//! resets it, and a reset overtakes the answer (RFC 9112, 9.6).

use crate::wire::activity::Activity;
use crate::wire::envelope;
use crate::wire::framing::Framing;
use base::ids::RequestId;
use base::limits::{HEAD_BYTES_MAX, HEAD_LINES_MAX};
use base::{Code, Error};
use std::fmt::Write as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long and how much is read after a refusal.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// A connection's bytes, with hyper's own answers replaced.
pub(crate) struct RefusalIo<I> {
    io: I,
    activity: Arc<Activity>,
    framing: Framing,
    /// Requests whose answers are flushed.
    answered: u64,
    /// What is written before anything else.
    due: Vec<u8>,
    linger: Option<Linger>,
}

/// The time after a refusal.
struct Linger {
    end: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<I: AsyncRead + AsyncWrite + Unpin> RefusalIo<I> {
    pub(crate) fn new(io: I, activity: Arc<Activity>) -> RefusalIo<I> {
        RefusalIo { io, activity, framing: Framing::new(), answered: 0, due: Vec::new(), linger: None }
    }

    /// Whether what is written now answers no request.
    fn is_unasked(&self) -> bool {
        self.activity.is_quiet_since(self.answered)
    }

    /// Takes hyper's bare refusal and keeps a dressed one to be written; whether `bytes` was such a thing.
    fn take(&mut self, bytes: &[u8]) -> bool {
        if self.linger.is_some() || !self.is_unasked() {
            return false;
        }
        let id = RequestId::accept(None);
        let Some((status, dressed)) = dress(bytes, &id) else { return false };
        tracing::info!(
            target: "gleaner::request",
            method = "-", route = "-", status, ms = 0.0, request_id = id.as_str(),
        );
        self.due = dressed;
        self.linger =
            Some(Linger { end: Box::pin(tokio::time::sleep(LINGER_TIME_MAX)), bytes_left: LINGER_BYTES_MAX });
        true
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.due.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.due))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.due.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads on until the client has ended its side, too, or the time is over.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(linger) = &mut self.linger else { return Poll::Ready(()) };
        let mut bytes = [0; 4096];
        while linger.bytes_left > 0 && linger.end.as_mut().poll(cx).is_pending() {
            let mut into = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut into)) {
                Ok(()) if !into.filled().is_empty() => {
                    linger.bytes_left = linger.bytes_left.saturating_sub(into.filled().len());
                }
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

/// The answer in place of hyper's, if `bytes` is hyper's whole answer to something that is no request, with its status.
fn dress(bytes: &[u8], id: &RequestId) -> Option<(u16, Vec<u8>)> {
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let first = lines.next()?;
    let status = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "))?;
    let status: u16 = status.get(..3)?.parse().ok()?;
    let error = reason(status)?;
    let body = envelope::flat(&error);
    let mut dressed = format!("{first}\r\n");
    let mut was_empty = false;
    for line in lines {
        if line == "content-length: 0" {
            was_empty = true;
        } else {
            let _ = write!(dressed, "{line}\r\n");
        }
    }
    let _ = write!(
        dressed,
        "content-type: application/json\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n\
         content-length: {}\r\nx-request-id: {id}\r\n\r\n{body}",
        body.len(),
    );
    was_empty.then(|| (status, dressed.into_bytes()))
}

/// The whole answer to a connection that is one too many of its address; nothing of what it sends is read.
pub(crate) fn too_many_connections() -> String {
    let error = Error::new(Code::RateLimited).title("Too many connections").message(
        "Your address has as many connections here as it may have without a credential, and all are at work.",
    );
    let body = envelope::flat(&error);
    format!(
        "HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\nretry-after: 1\r\ncontent-type: application/json\r\n\
         cache-control: no-store\r\nx-content-type-options: nosniff\r\ncontent-length: {}\r\nx-request-id: {}\r\n\r\n{body}",
        body.len(),
        RequestId::accept(None)
    )
}

/// What hyper means by its statuses.
fn reason(status: u16) -> Option<Error> {
    let (title, message) = match status {
        400 => (
            "Malformed request",
            "This is not a request of HTTP/1.1: its first line, or one of its header lines, is malformed."
                .to_owned(),
        ),
        414 => ("Path too long", "The path and the query are longer than a server takes.".to_owned()),
        431 => (
            "Request head too large",
            format!(
                "The first line and the headers may have {} KiB and {HEAD_LINES_MAX} lines together.",
                HEAD_BYTES_MAX >> 10
            ),
        ),
        _ => return None,
    };
    Some(Error::new(Code::InvalidInput).with_status(status).title(title).message(message))
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncRead for RefusalIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = into.filled().len();
        let read = Pin::new(&mut this.io).poll_read(cx, into);
        this.framing.follow(&mut into.filled_mut()[before..]);
        read
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for RefusalIo<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_due(cx))?;
        if self.take(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_due(cx))?;
        if let [only] = parts
            && self.take(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_due(cx))?;
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        self.answered = self.activity.answered().unwrap_or(self.answered);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_due(cx))?;
        ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
        ready!(self.poll_linger(cx));
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
    use hyper::body::{Frame, Incoming};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::server::conn::auto;
    use std::convert::Infallible;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// What hyper answers to nonsense.
    const BARE: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

    /// Sends `sent` in pieces to a server whose every answer is the bare refusal, in two parts and after a pause, and
    /// gives all that came back.
    async fn talk(sent: &[&str]) -> String {
        let (client, server) = tokio::io::duplex(1 << 20);
        let activity = Arc::new(Activity::new());
        let io = RefusalIo::new(server, activity.clone());
        let service = hyper::service::service_fn(move |_: Request<Incoming>| {
            let running = activity.begin();
            async move {
                let parts = futures::stream::unfold((0, running), |(n, running)| async move {
                    tokio::task::yield_now().await;
                    (n < 2).then(|| (Ok::<_, Infallible>(Frame::data(Bytes::from(BARE))), (n + 1, running)))
                });
                let body: UnsyncBoxBody<_, _> = StreamBody::new(parts).boxed_unsync();
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        let serving = tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(io), service).await;
        });
        let (mut read, mut write) = tokio::io::split(client);
        for piece in sent {
            write.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let _ = write.shutdown().await;
        let mut all = Vec::new();
        read.read_to_end(&mut all).await.unwrap();
        serving.await.unwrap();
        String::from_utf8(all).unwrap()
    }

    fn is_dressed(answer: &str) -> bool {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        head.starts_with("HTTP/1.1 400 Bad Request\r\n")
            && head.contains("x-request-id: ")
            && head.contains("connection: close")
            && head.contains(&format!("content-length: {}", body.len()))
            && body.starts_with(r#"{"error":"Malformed request","message":""#)
    }

    #[tokio::test]
    async fn nonsense_is_refused_in_an_envelope() {
        for nonsense in ["no HTTP\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "\0\0\0\0\r\n\r\n"] {
            let answer = talk(&[nonsense]).await;
            assert!(is_dressed(&answer), "{nonsense}: {answer}");
        }
    }

    #[tokio::test]
    async fn what_a_response_carries_is_left_as_it_is() {
        let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        let answer = talk(&[request, request]).await;
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
        assert_eq!(answer.matches(BARE).count(), 4, "{answer}");
    }

    #[tokio::test]
    async fn nonsense_behind_a_request_is_refused_after_its_answer() {
        let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        // Once it comes with the request, once when that has been answered.
        for sent in [
            vec![format!("{request}no HTTP\r\n\r\n")],
            vec![request.to_owned(), "no HTTP\r\n\r\n".to_owned()],
        ] {
            let sent: Vec<_> = sent.iter().map(String::as_str).collect();
            let answer = talk(&sent).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
            let (_, rest) = answer.split_once("\r\n0\r\n\r\n").unwrap();
            // Two answers that left in one piece cannot be told apart; then the refusal stays bare.
            assert!(rest.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
            assert!(sent.len() == 1 || is_dressed(rest), "{answer}");
        }
    }

    #[test]
    fn only_a_whole_bare_answer_is_dressed() {
        let id = RequestId::accept(Some("id"));
        let dressed = |text: &str| dress(text.as_bytes(), &id).map(|(status, _)| status);
        assert_eq!(dressed(BARE), Some(400));
        assert_eq!(dressed(&BARE.replace("400 Bad Request", "431 x").replace("1.1", "1.0")), Some(431));
        for other in [
            BARE.replace("content-length: 0", "content-length: 1"),
            BARE.replace("400", "404"),
            BARE.replace("400", "200"),
            BARE.replace("HTTP/1.1", "HTTP/2"),
            BARE.replace("\r\n\r\n", "\r\n"),
            format!("{BARE}more"),
            format!("x{BARE}"),
            String::new(),
        ] {
            assert_eq!(dressed(&other), None, "{other}");
        }
    }
}
