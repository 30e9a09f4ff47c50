//! One message as bytes.
//!
//! Everything that identifies it comes from its row: the Message-ID, the date, the boundary. So a message that is sent
//! again after a crash is the same one, and mail programs show it once.

use lettre::Message;
use lettre::address::{Address, Envelope};
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use std::time::SystemTime;
use uuid::Uuid;

/// A message to one person.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub id: Uuid,
    /// An address in its ASCII form.
    pub to: String,
    pub subject: String,
    pub text: String,
    /// Empty: the text is all there is.
    pub html: String,
    pub written_at: SystemTime,
    /// The address at which one click unsubscribes (RFC 8058): one that is asked with POST does it, without a question.
    pub unsubscribe: Option<String>,
}

/// A message ready to be handed over.
pub(super) struct Written {
    pub(super) envelope: Envelope,
    pub(super) bytes: Vec<u8>,
}

impl Outgoing {
    /// Writes the message. A reason when it cannot be: no address, a control character where a line would end.
    pub(super) fn write(&self, from: &Mailbox, reply_to: Option<&Mailbox>) -> Result<Written, String> {
        if self.subject.chars().any(char::is_control) {
            return Err("the subject has a control character".to_owned());
        }
        let to: Address = self.to.parse().map_err(|e| format!("\"{}\" is no address: {e}", self.to))?;
        let domain = from.email.domain();
        let mut message = Message::builder()
            .from(from.clone())
            .to(Mailbox::new(None, to))
            .subject(self.subject.as_str())
            .date(self.written_at)
            .message_id(Some(format!("<{}@{domain}>", self.id)))
            // Out-of-office notices shall not answer it (RFC 3834, section 5).
            .raw_header(HeaderValue::new(
                HeaderName::new_from_ascii_str("Auto-Submitted"),
                "auto-generated".to_owned(),
            ));
        if let Some(address) = &self.unsubscribe {
            if !address.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>')) {
                return Err("the address to unsubscribe at cannot stand in a header".to_owned());
            }
            message = message
                .raw_header(plain_header("List-Unsubscribe", format!("<{address}>")))
                .raw_header(plain_header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()));
        }
        if let Some(reply_to) = reply_to {
            message = message.reply_to(reply_to.clone());
        }
        let text = SinglePart::plain(self.text.clone());
        let written = if self.html.is_empty() {
            message.singlepart(text)
        } else {
            // Mail programs show the last alternative that they can (RFC 2046, section 5.1.4).
            let alternatives = MultiPart::alternative().boundary(format!("=_{}", self.id.simple()));
            message.multipart(alternatives.singlepart(text).singlepart(SinglePart::html(self.html.clone())))
        };
        let written = written.map_err(|e| format!("the message cannot be written: {e}"))?;
        Ok(Written { envelope: written.envelope().clone(), bytes: dot_stuffed(&written.formatted()) })
    }
}

/// A header that stands as it is: an address in it must not be folded or encoded, and RFC 5322 takes lines of 998.
fn plain_header(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::dangerous_new_pre_encoded(HeaderName::new_from_ascii_str(name), value.clone(), value)
}

/// The message as DATA wants it: a line that begins with a dot gets another one, and a line with a dot alone is the end
/// (RFC 5321, section 4.5.2).
fn dot_stuffed(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 64);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        if line.first() == Some(&b'.') {
            bytes.push(b'.');
        }
        bytes.extend_from_slice(line);
    }
    if !bytes.ends_with(b"\r\n") {
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b".\r\n");
    bytes
}
