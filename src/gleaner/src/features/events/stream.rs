//! Events as Server-Sent Events: the log, read on from where the listener is.
//!
//! Nothing is handed to listeners: each reads the log behind its own place, when its organization's bell has rung and the
//! client has taken what came before. So a slow client holds one part in memory and no more, and what was missed meanwhile, or
//! while it was away, comes in order and once.

use super::log;
use super::rows::EventV1;
use super::streams::StreamPlace;
use super::wire::{EventFilter, EventView};
use base::Result;
use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};
use server::{Accept, Call, EVENT_STREAM, Operation, Output, Response, Standing, event_stream};
use std::fmt::Write;
use std::time::{Duration, Instant};
use store::{Bell, OrgStore};

/// Rows that are read at once.
const ROWS_PER_READ: usize = 100;
/// A part of the stream is sent when it has so many bytes.
const PART_BYTES: usize = 64 << 10;
/// How soon after a look at the log the next one is: what comes in between goes out together.
const PACE: Duration = Duration::from_millis(100);
/// How often it is asked whether the credential is still good while nothing happens.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How often an idle stream says that it is there, so that nobody on the way takes it for dead.
const BEAT_EVERY: Duration = Duration::from_secs(15);
/// How soon a client is to come back, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// Whether the caller wants a stream: they accept it, or anything, before JSON. Who says nothing gets a list.
pub(super) fn wants_stream(accept: &Accept) -> bool {
    let known = ["application/json", "application/*", EVENT_STREAM, "text/*", "*/*"];
    let place = |media: &str| known.iter().position(|known| media.eq_ignore_ascii_case(known));
    accept.media_types().find_map(place).is_some_and(|place| place >= 2)
}

/// A listener's stream.
pub(super) struct EventStream(Listener);

impl EventStream {
    /// A stream of what `filter` accepts, from the place on that the caller comes back with, else from the one that `after`
    /// names, else from now on.
    pub fn open(
        org: OrgStore,
        standing: Standing,
        filter: EventFilter,
        place: StreamPlace,
    ) -> Result<EventStream> {
        // Before the log is read: what comes between is heard.
        let bell = org.bell();
        let log = org.read(log::log)?;
        let at = match (standing.last_event_id(), filter.after) {
            // Who comes back has missed what is not kept any more, also who had seen no event yet.
            (Some(last), _) => last,
            // The oldest that there is: nothing was missed.
            (None, Some(0)) => log.trimmed,
            (None, Some(after)) => after,
            (None, None) => log.last,
        };
        let now = Instant::now();
        Ok(EventStream(Listener {
            org,
            standing,
            filter,
            bell,
            at,
            told: at,
            opening: Some(opening(at)),
            is_behind: true,
            sent: now,
            looked: now,
            checked: now,
            _place: place,
        }))
    }
}

impl Output for EventStream {
    fn respond(self, _: &Call) -> Result<Response> {
        let parts = stream::unfold(self.0, |mut listener| async move {
            let part = listener.next().await?;
            Some((part, listener))
        });
        Ok(event_stream(parts))
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.also_as(EVENT_STREAM);
    }
}

struct Listener {
    org: OrgStore,
    standing: Standing,
    filter: EventFilter,
    bell: Bell,
    /// Everything up to here was looked at.
    at: u64,
    /// The last place that the client knows of.
    told: u64,
    opening: Option<Bytes>,
    /// Whether there is more in the log than was read.
    is_behind: bool,
    /// When something was last sent.
    sent: Instant,
    /// When the log was last looked at.
    looked: Instant,
    /// When the credential was last good.
    checked: Instant,
    _place: StreamPlace,
}

/// What a look at the log found.
struct Part {
    text: String,
    at: u64,
    is_behind: bool,
}

impl Listener {
    /// The next part of the stream; none at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(opening) = self.opening.take() {
            return Some(opening);
        }
        loop {
            if !self.is_behind {
                self.rest().await?;
            }
            self.bell.borrow_and_update();
            self.looked = Instant::now();
            let looked = self.standing.in_turn(async { self.look() }).await;
            let part = looked.inspect_err(|error| tracing::debug!(%error, "a stream of events ends")).ok()?;
            (self.at, self.is_behind) = (part.at, part.is_behind);
            if !part.text.is_empty() {
                return self.send(part.text);
            }
            if self.is_behind {
                tokio::task::yield_now().await;
                continue;
            }
            if let Some(beat) = self.wait().await? {
                return self.send(beat);
            }
        }
    }

    /// A part for the client, if it may still have it.
    fn send(&mut self, text: String) -> Option<Bytes> {
        if !self.standing.holds() {
            return None;
        }
        let now = Instant::now();
        (self.told, self.sent, self.checked) = (self.at, now, now);
        Some(text.into())
    }

    /// Lets some time pass since the last look, so that many events are few looks. None when the stream is to end.
    async fn rest(&self) -> Option<()> {
        let rest = PACE.saturating_sub(self.looked.elapsed());
        if rest.is_zero() {
            return Some(());
        }
        tokio::select! {
            () = tokio::time::sleep(rest) => Some(()),
            () = self.standing.drained() => None,
        }
    }

    /// Waits until there may be something; gives what is sent because nothing was. None when the stream is to end.
    async fn wait(&mut self) -> Option<Option<String>> {
        loop {
            // Also where much happens of which the client is told nothing.
            if self.checked.elapsed() >= CHECK_EVERY {
                if !self.standing.holds() {
                    return None;
                }
                self.checked = Instant::now();
                if self.sent.elapsed() >= BEAT_EVERY {
                    // One that is told of little comes back to where it was, and not to what nobody keeps any more.
                    let moved = self.at > self.told;
                    return Some(Some(if moved { position(self.at) } else { ": beat\n".to_owned() }));
                }
            }
            let until_check = CHECK_EVERY.saturating_sub(self.checked.elapsed());
            tokio::select! {
                rung = self.bell.changed() => return rung.is_ok().then_some(None),
                () = self.standing.drained() => return None,
                () = tokio::time::sleep(until_check) => {}
            }
        }
    }

    /// Reads on in the log.
    fn look(&self) -> Result<Part> {
        self.org.read(|tx| {
            let log = log::log(tx)?;
            let mut part = Part { text: String::new(), at: self.at, is_behind: false };
            if self.at > log.last {
                // Of another log: a box that was restored knows less than its listeners.
                part.text = gap(self.at, log.last);
                part.at = log.last;
                return Ok(part);
            }
            if self.at < log.trimmed {
                part.text = gap(self.at, log.trimmed);
                part.at = log.trimmed;
            }
            let (events, until) = log::behind(tx, part.at, ROWS_PER_READ)?;
            for event in events {
                if part.text.len() >= PART_BYTES {
                    part.is_behind = true;
                    return Ok(part);
                }
                part.at = event.seq;
                if self.filter.accepts(&event) {
                    frame(&mut part.text, event);
                }
            }
            // Also behind those that cannot be read.
            part.at = part.at.max(until.unwrap_or(part.at));
            part.is_behind = part.at < log.last;
            Ok(part)
        })
    }
}

fn frame(out: &mut String, event: EventV1) {
    let (seq, kind) = (event.seq, event.kind.clone());
    let data = serde_json::to_string(&EventView::from(event)).unwrap_or_default();
    write_frame(out, seq, &kind, &data);
}

fn write_frame(out: &mut String, seq: u64, name: &str, data: &str) {
    // JSON has no line ends in it, so one line of data is enough.
    let _ = write!(out, "id: {seq}\nevent: {name}\ndata: {data}\n\n");
}

fn of_stream(seq: u64, name: &str, data: &Value) -> String {
    let mut out = String::new();
    write_frame(&mut out, seq, name, &data.to_string());
    out
}

/// Where the stream begins.
fn opening(at: u64) -> Bytes {
    format!("retry: {RETRY_MS}\n{}", position(at)).into()
}

/// Where the listener stands: what it comes back with.
fn position(at: u64) -> String {
    of_stream(at, "stream.position", &json!({ "seq": at }))
}

/// Says that events between two places were missed and cannot be had any more.
fn gap(from: u64, to: u64) -> String {
    let message = if from < to {
        "Events after `from`, up to `to`, are not kept any more. Read what you follow (jobs, results, runs) anew; the \
         stream goes on behind `to`."
    } else {
        "The log ends before the place that you named: the box was restored from a backup, or the place is another \
         organization's. Read what you follow anew; the stream goes on behind `to`."
    };
    let data = json!({ "from": from, "to": to, "missed": to.saturating_sub(from), "message": message });
    of_stream(to, "stream.gap", &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;
    use http::header::ACCEPT;

    #[test]
    fn a_stream_is_for_who_accepts_one_before_json() {
        let asks = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            wants_stream(&Accept::of(&headers))
        };
        assert!(asks("text/event-stream") && asks("*/*") && asks("text/html, */*;q=0.8"));
        assert!(!asks("application/json") && !asks("application/json, */*") && !asks("text/html"));
        assert!(!wants_stream(&Accept::default()), "who says nothing does not wait for ever");
    }

    #[test]
    fn what_is_not_kept_is_said_with_what_to_do() {
        let text = gap(3, 9);
        assert!(text.starts_with("id: 9\nevent: stream.gap\ndata: {") && text.ends_with("}\n\n"), "{text}");
        assert!(text.contains("\"missed\":6"));
        assert!(gap(9, 3).contains("restored") && gap(9, 3).starts_with("id: 3\n"));
    }
}
