//! What happened in the organization: a list, or a stream that goes on where it broke off.

use crate::commands::Events;
use crate::failure::{Exit, Failure, Outcome};
use crate::http::{Answer, Payload, with_query};
use crate::output::{Column, Sink, cell, say, visible};
use crate::session::{Rows, Session, ends_after};
use crate::sse::{Event, Reader};
use http::Method;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How long a box that is away is waited for, while a stream is followed, and how soon it is asked again.
const AWAY_MAX: Duration = Duration::from_secs(120);
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(15);

const EVENTS: [Column; 6] = [
    ("SEQ", "/seq"),
    ("AT", "/at"),
    ("KIND", "/kind"),
    ("SUBJECT", "/subject/id"),
    ("DOMAIN", "/domain"),
    ("DATA", "/data"),
];

pub async fn events(session: &Session, given: &Events) -> Outcome<()> {
    let query = [
        ("kind", joined(&given.kind)),
        ("domain", given.domain.clone()),
        ("after", given.after.map(|after| after.to_string())),
    ];
    let tags = given.tag.iter().map(|tag| ("tag", Some(tag.clone())));
    let query: Vec<_> = query.into_iter().chain(tags).collect();
    if !given.follow {
        let rows = Rows { limit: given.limit, all: false };
        return session.list("/api/v1/events", &query, &rows, &EVENTS).await;
    }
    let mut follow = Follow::new(session, with_query("/api/v1/events", &query), given.timeout);
    let mut sink = Sink::open(None)?;
    let mut left = given.count.unwrap_or(u64::MAX);
    while left > 0 {
        let event = follow.next().await?;
        match session.json {
            true => sink.line(&event.to_string())?,
            false => {
                let cells: Vec<_> = EVENTS.iter().map(|(_, place)| cell(event.pointer(place))).collect();
                sink.line(cells.join("  ").trim_end())?;
            }
        }
        sink.flush()?;
        left -= 1;
    }
    sink.end()
}

pub fn joined(kinds: &[String]) -> Option<String> {
    (!kinds.is_empty()).then(|| kinds.join(","))
}

/// A stream of events that is followed.
pub struct Follow<'s> {
    session: &'s Session,
    path: String,
    reader: Reader,
    answer: Option<Answer>,
    waiting: VecDeque<Event>,
    /// Since when the box is away, and how long it was last waited for.
    away: Option<(Instant, Duration)>,
    /// Whether there was a stream already: a box that is away at first is told at once.
    begun: bool,
    ends: Option<Instant>,
}

impl<'s> Follow<'s> {
    pub fn new(session: &'s Session, path: String, timeout_sec: Option<u64>) -> Follow<'s> {
        Follow {
            session,
            path,
            reader: Reader::default(),
            answer: None,
            waiting: VecDeque::new(),
            away: None,
            begun: false,
            ends: ends_after(timeout_sec),
        }
    }

    /// The next event.
    pub async fn next(&mut self) -> Outcome<Value> {
        match self.ends {
            None => self.read_on().await,
            Some(ends) => match timeout_at(ends, self.read_on()).await {
                Ok(event) => event,
                Err(_) => Err(Failure::new(Exit::InVain, "the time is over")),
            },
        }
    }

    async fn read_on(&mut self) -> Outcome<Value> {
        loop {
            while let Some(event) = self.waiting.pop_front() {
                let data: Value = serde_json::from_str(&event.data).unwrap_or(Value::Null);
                match event.name.as_str() {
                    "stream.position" => {}
                    "stream.gap" => {
                        say(&format!(
                            "gleaner: {}",
                            visible(data["message"].as_str().unwrap_or("events were missed"))
                        ));
                    }
                    _ => return Ok(data),
                }
            }
            match self.part().await {
                Ok(()) => {}
                Err(failure) if failure.exit() == Exit::Away && self.begun => self.come_back(failure).await?,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Reads a part of the stream, which is opened if there is none.
    async fn part(&mut self) -> Outcome<()> {
        if self.answer.is_none() {
            let mut headers = vec![("accept", "text/event-stream".to_owned())];
            headers.extend(self.reader.last_id.clone().map(|id| ("last-event-id", id)));
            let opened = self.session.remote.send(Method::GET, &self.path, &headers, Payload::None).await;
            self.answer = Some(opened?.good().await?);
            self.begun = true;
        }
        let part = match &mut self.answer {
            Some(answer) => answer.part().await,
            None => Ok(None),
        };
        match part {
            Ok(Some(part)) => {
                self.away = None;
                let events = self.reader.take(&part);
                self.waiting.extend(
                    events.ok_or_else(|| Failure::failed("an event is larger than any that there is"))?,
                );
                Ok(())
            }
            Ok(None) => Err(Failure::new(Exit::Away, "the stream has ended")),
            Err(failure) => Err(failure),
        }
    }

    /// Waits until the box is asked again.
    async fn come_back(&mut self, failure: Failure) -> Outcome<()> {
        self.answer = None;
        self.reader.broke_off();
        let asked = Duration::from_millis(self.reader.retry_ms.unwrap_or(0)).clamp(RETRY_MIN, RETRY_MAX);
        let (since, pause) = match self.away {
            None => (Instant::now(), asked),
            Some((since, _)) if since.elapsed() > AWAY_MAX => return Err(failure),
            Some((since, pause)) => (since, (pause * 2).min(RETRY_MAX)),
        };
        self.away = Some((since, pause));
        sleep(pause).await;
        Ok(())
    }
}
