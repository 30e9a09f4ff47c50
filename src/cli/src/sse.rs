//! Server-Sent Events as they come in parts: the format of the WHATWG's specification, as far as a client without a page
//! needs it.

/// Bytes of an event that is not whole yet. What the box sends is much smaller.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// An event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    pub name: String,
    pub data: String,
}

/// Makes events of what comes.
#[derive(Debug, Default)]
pub struct Reader {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_return: bool,
    /// The id that came last, which may be of an event that is not whole yet.
    id: Option<String>,
    /// The id of the last whole event that had one: what is gone on from.
    pub last_id: Option<String>,
    /// How soon to come back, in milliseconds, as the box asks for.
    pub retry_ms: Option<u64>,
}

impl Reader {
    /// The events that are whole with this part. None: one is larger than any that there is.
    pub fn take(&mut self, part: &[u8]) -> Option<Vec<Event>> {
        let mut events = Vec::new();
        for &byte in part {
            let ends_pair = byte == b'\n' && std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if ends_pair => {}
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.line_ended(&String::from_utf8_lossy(&line), &mut events);
                }
                _ => {
                    self.after_return = false;
                    self.line.push(byte);
                }
            }
            if self.line.len() + self.event.data.len() > EVENT_BYTES_MAX {
                return None;
            }
        }
        Some(events)
    }

    /// What came of an event that broke off is forgotten, its id too: it is sent once more.
    pub fn broke_off(&mut self) {
        self.line.clear();
        self.id.clone_from(&self.last_id);
        self.event = Event::default();
        (self.has_data, self.after_return) = (false, false);
    }

    fn line_ended(&mut self, line: &str, events: &mut Vec<Event>) {
        if line.is_empty() {
            self.last_id.clone_from(&self.id);
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                events.push(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.name = value.to_owned(),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "retry: 2000\nid: 4\nevent: stream.position\ndata: {\"seq\":4}\n\n: beat\n\
                          id: 5\r\nevent: job.failed\r\ndata: a\r\ndata: b\r\n\r\nid: 6\ndata: half";

    #[test]
    fn events_are_the_same_in_whatever_parts_they_come() {
        let expected = [("stream.position", "{\"seq\":4}"), ("job.failed", "a\nb")]
            .map(|(name, data)| Event { name: name.to_owned(), data: data.to_owned() });
        for size in [1, 2, 3, 7, 1_000] {
            let mut reader = Reader::default();
            let parts = STREAM.as_bytes().chunks(size);
            let events: Vec<_> = parts.flat_map(|part| reader.take(part).unwrap()).collect();
            assert_eq!(events, expected, "parts of {size}");
            assert_eq!((reader.last_id.as_deref(), reader.retry_ms), (Some("5"), Some(2000)));
            reader.broke_off();
            assert_eq!(reader.take(b"\ndata: new\n\n").unwrap()[0].data, "new");
        }
    }

    #[test]
    fn an_event_without_an_end_ends_it() {
        let mut reader = Reader::default();
        assert!(reader.take(&vec![b'x'; EVENT_BYTES_MAX]).is_some() && reader.take(b"xx").is_none());
    }
}
