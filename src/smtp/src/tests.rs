//! Messages as bytes. The dialogue is tested against a server in `tests/it/mail.rs`.

use super::Outgoing;
use std::time::{Duration, SystemTime};
use uuid::Uuid;

fn message(subject: &str, text: &str, html: &str) -> Outgoing {
    Outgoing {
        id: Uuid::from_u128(7),
        to: "ada@xn--bcher-kva.example".to_owned(),
        subject: subject.to_owned(),
        text: text.to_owned(),
        html: html.to_owned(),
        written_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        unsubscribe: None,
    }
}

fn written(message: &Outgoing) -> Result<String, String> {
    let from = "Gleaner <box@example.com>".parse().unwrap();
    let reply_to = "help@example.com".parse().unwrap();
    message.write(&from, Some(&reply_to)).map(|made| String::from_utf8(made.bytes).unwrap())
}

#[test]
fn a_message_is_the_same_bytes_each_time_it_is_written() {
    let message = message("Verify", "Hello\n", "<p>Hello</p>");
    let made = written(&message).unwrap();
    assert_eq!(made, written(&message).unwrap());
    for line in [
        "From: Gleaner <box@example.com>\r\n",
        "Reply-To: help@example.com\r\n",
        "To: ada@xn--bcher-kva.example\r\n",
        "Subject: Verify\r\n",
        "Message-ID: <00000000-0000-0000-0000-000000000007@example.com>\r\n",
        "Auto-Submitted: auto-generated\r\n",
        "Date: Fri, 15 Jan 2027 08:00:00 +0000\r\n",
        "Content-Type: multipart/alternative;",
    ] {
        assert!(made.contains(line), "{line} is not in\n{made}");
    }
    assert!(made.is_ascii() && made.ends_with("\r\n.\r\n"));
    assert!(made.find("text/plain").unwrap() < made.find("text/html").unwrap());
}

#[test]
fn what_would_be_another_header_is_refused_and_other_letters_are_encoded() {
    for subject in ["a\r\nBcc: eve@example.com", "a\nb", "a\rb", "a\u{0}b", "a\u{85}b"] {
        assert!(
            written(&message(subject, "x", "")).unwrap_err().contains("control character"),
            "{subject:?}"
        );
    }
    let mut to = message("Hello", "x", "");
    for address in ["ada@example.com\r\nRCPT TO:<eve@example.com>", "ada", "a b@example.com", ""] {
        to.to = address.to_owned();
        assert!(written(&to).unwrap_err().contains("is no address"), "{address:?}");
    }
    let made = written(&message("Grüße aus 東京 👋", "ß\n", "<p>ß</p>")).unwrap();
    assert!(made.is_ascii() && made.contains("Subject: =?utf-8?b?"), "{made}");
}

#[test]
fn a_line_with_a_dot_does_not_end_the_message() {
    let made = written(&message("Dots", ".\n..\nend\n.\n", "")).unwrap();
    let body = made.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(body, "..\r\n...\r\nend\r\n..\r\n\r\n.\r\n");
}

#[test]
fn one_click_unsubscribes_at_an_address_that_no_header_hides() {
    let mut message = message("Digest", "Hello", "");
    let address = format!("https://box.example/mail/unsubscribe/{}", "x".repeat(150));
    message.unsubscribe = Some(address.clone());
    let made = written(&message).unwrap();
    assert!(made.contains(&format!("\r\nList-Unsubscribe: <{address}>\r\n")), "{made}");
    assert!(made.contains("\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"), "{made}");
    for bad in [
        "https://a.example/\r\nBcc: eve@example.com",
        "https://a.example/ x",
        "https://a.example/>",
        "https://ä/",
    ] {
        message.unsubscribe = Some(bad.to_owned());
        assert!(written(&message).unwrap_err().contains("cannot stand in a header"), "{bad:?}");
    }
}
