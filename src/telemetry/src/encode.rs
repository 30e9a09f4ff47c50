//! `ExportTraceServiceRequest` as bytes (Protocol Buffers), and what an answer says of it.
//!
//! Field numbers are those of `opentelemetry/proto/trace/v1/trace.proto` and the files it uses, which are stable.

use base::trace::{EndedSpan, SpanKind, SpanValue};

/// Wire types of Protocol Buffers.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// What the box calls the library that makes its spans.
const SCOPE: &str = "gleaner";
/// STATUS_CODE_ERROR.
const FAILED: u64 = 2;

/// A batch of spans, of the box that `resource` describes.
pub(crate) fn request(resource: &[(&'static str, String)], spans: &[EndedSpan]) -> Vec<u8> {
    let described = message(|out| {
        for (name, value) in resource {
            bytes(out, 1, &attribute(name, &SpanValue::Text(value.clone())));
        }
    });
    let scope = message(|out| {
        bytes(out, 1, SCOPE.as_bytes());
        bytes(out, 2, env!("CARGO_PKG_VERSION").as_bytes());
    });
    let scoped = message(|out| {
        bytes(out, 1, &scope);
        for span in spans {
            bytes(out, 2, &encoded(span));
        }
    });
    let of_resource = message(|out| {
        bytes(out, 1, &described);
        bytes(out, 2, &scoped);
    });
    message(|out| bytes(out, 1, &of_resource))
}

fn encoded(span: &EndedSpan) -> Vec<u8> {
    message(|out| {
        bytes(out, 1, &span.trace.bytes());
        bytes(out, 2, &span.id.bytes());
        if let Some(parent) = span.parent {
            bytes(out, 4, &parent.bytes());
        }
        bytes(out, 5, span.name.as_bytes());
        let kind = match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        };
        number(out, 6, kind);
        fixed64(out, 7, span.began_ns);
        fixed64(out, 8, span.ended_ns);
        for (name, value) in &span.attributes {
            bytes(out, 9, &attribute(name, value));
        }
        if let Some(reason) = &span.failure {
            let status = message(|out| {
                bytes(out, 2, reason.as_bytes());
                number(out, 3, FAILED);
            });
            bytes(out, 15, &status);
        }
    })
}

fn attribute(name: &str, value: &SpanValue) -> Vec<u8> {
    let any = message(|out| match value {
        SpanValue::Text(text) => bytes(out, 1, text.as_bytes()),
        // A negative one is written as its two's complement, as the format has it.
        SpanValue::Number(value) => number(out, 3, value.cast_unsigned()),
    });
    message(|out| {
        bytes(out, 1, name.as_bytes());
        bytes(out, 2, &any);
    })
}

fn message(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, (field << 3) | VARINT);
    varint(out, value);
}

fn fixed64(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, (field << 3) | FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, (field << 3) | BYTES);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// How many spans the collector has refused, as its answer (`ExportTraceServiceResponse`) says. What cannot be read says nothing.
pub(crate) fn rejected(answer: &[u8]) -> u64 {
    // partial_success = 1, rejected_spans = 1
    let partial = fields(answer).find_map(|(field, value)| match value {
        Value::Bytes(inner) if field == 1 => Some(inner),
        _ => None,
    });
    let Some(partial) = partial else { return 0 };
    let count = fields(partial).find_map(|(field, value)| match value {
        Value::Number(count) if field == 1 => Some(count),
        _ => None,
    });
    count.filter(|count| i64::try_from(*count).is_ok()).unwrap_or_default()
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message, up to its end or to what is none.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Value<'_>)> {
    std::iter::from_fn(move || {
        let tag = read_varint(&mut rest)?;
        let value = match tag & 7 {
            VARINT => Value::Number(read_varint(&mut rest)?),
            FIXED64 => skip(&mut rest, 8)?,
            FIXED32 => skip(&mut rest, 4)?,
            BYTES => {
                let length = usize::try_from(read_varint(&mut rest)?).ok()?;
                let (value, behind) = rest.split_at_checked(length)?;
                rest = behind;
                Value::Bytes(value)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    })
}

fn skip<'a>(rest: &mut &'a [u8], length: usize) -> Option<Value<'a>> {
    *rest = rest.get(length..)?;
    Some(Value::Other)
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read_as_the_format_has_them() {
        for (value, written) in [
            (0, &[0][..]),
            (127, &[127]),
            (300, &[0xac, 0x02]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut out = Vec::new();
            varint(&mut out, value);
            assert_eq!(out, written);
            assert_eq!(read_varint(&mut &out[..]), Some(value));
        }
        assert_eq!(read_varint(&mut &[0x80; 20][..]), None);
        assert_eq!(read_varint(&mut &[0x80][..]), None);
    }

    #[test]
    fn an_answer_says_how_many_were_refused_or_nothing() {
        let partial = message(|out| {
            number(out, 1, 7);
            bytes(out, 2, b"too many");
        });
        let answer = message(|out| bytes(out, 1, &partial));
        assert_eq!(rejected(&answer), 7);
        assert_eq!(rejected(b""), 0);
        assert_eq!(rejected(b"<html>no collector</html>"), 0);
        assert_eq!(rejected(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]), 0);
        for cut in 0..answer.len() {
            assert_eq!(rejected(&answer[..cut]), 0);
        }
    }
}
