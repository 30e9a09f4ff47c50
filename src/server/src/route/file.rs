//! A file on the disk as a download that can be taken up again: whole, or one range of it (RFC 9110, sections 13 and 14).
//!
//! A range is served only of the file that the caller has begun with: `If-Range` must name the present entity tag or
//! time, else the whole file comes. Several ranges at once, and units other than bytes, are ignored, which the RFC
//! allows. The body goes out as it is: compressing it on the way would make its ranges another's.

use crate::call::request::Call;
use crate::route::input::header::Accept;
use crate::route::operation::OCTETS;
use crate::wire::body::{Response, ResponseBody};
use crate::wire::etag::Etag;
use base::clock::Timestamp;
use base::{Error, Result};
use bytes::Bytes;
use futures::stream::try_unfold;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE,
};
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::StreamBody;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, SeekFrom};

/// What is read at once.
const READ_BYTES: u64 = 256 << 10;

/// An open file on its way to a caller.
#[derive(Debug)]
pub struct FileDownload {
    file: File,
    bytes: u64,
    content_type: &'static str,
    name: String,
    tag: Etag,
    modified: Timestamp,
}

impl FileDownload {
    /// Opens the file at `path`, which must not change any more: `identity` tells it from every other file under the same
    /// address, `modified` says since when it is as it is. `name` is what it is saved under.
    pub async fn open(
        path: &Path,
        content_type: &'static str,
        name: String,
        identity: &[u8],
        modified: Timestamp,
    ) -> io::Result<FileDownload> {
        let file = File::open(path).await?;
        let bytes = file.metadata().await?.len();
        Ok(FileDownload { file, bytes, content_type, name, tag: Etag::of_bytes(identity), modified })
    }

    /// How long the file is. Whoever knows how long it was made tells by this whether it is whole.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives it another name to be saved under.
    pub(crate) fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// The first and last byte that are asked for; none for the whole file.
    fn range(&self, call: &Call) -> Result<Option<(u64, u64)>> {
        let headers = call.headers();
        if *call.method() != Method::GET || !self.may_resume(headers) {
            return Ok(None);
        }
        let mut given = headers.get_all(RANGE).iter();
        let Some(text) =
            given.next().filter(|_| given.next().is_none()).and_then(|value| value.to_str().ok())
        else {
            return Ok(None);
        };
        match parse(text, self.bytes) {
            RequestedRange::Range(first, last) => Ok(Some((first, last))),
            RequestedRange::Nothing => Ok(None),
            RequestedRange::Beyond => {
                Err(Error::invalid("Range", format!("the file has {} bytes", self.bytes))
                    .with_status(StatusCode::RANGE_NOT_SATISFIABLE.as_u16())
                    .header("content-range", format!("bytes */{}", self.bytes)))
            }
        }
    }

    /// Whether what the caller has already is a part of this file (RFC 9110, 13.1.5).
    fn may_resume(&self, headers: &HeaderMap) -> bool {
        let Some(condition) = headers.get(IF_RANGE) else { return true };
        let text = condition.to_str().unwrap_or_default().trim();
        text == self.tag.as_str() || text == self.modified_text()
    }

    fn modified_text(&self) -> String {
        let ms = u64::try_from(self.modified.millis()).unwrap_or(0);
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(ms))
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let lists = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        lists.into_iter().any(|list| self.tag.is_in(list, true))
    }
}

impl FileDownload {
    /// The file, or the part of it that is asked for. What is described is the business of whoever knows which media types
    /// there are ([`Operation::file_response`](crate::Operation::file_response)).
    pub fn respond(self, call: &Call) -> Result<Response> {
        let is_known = self.is_known(call.headers());
        let range = if is_known { None } else { self.range(call)? };
        let (first, length) = match range {
            Some((first, last)) => (first, last - first + 1),
            None => (0, self.bytes),
        };
        let (tag, modified, all) = (self.tag.header(), self.modified_text(), self.bytes);
        let body = if is_known {
            ResponseBody::empty()
        } else {
            ResponseBody::stream(SizedBody {
                inner: Box::pin(StreamBody::new(read(self.file, first, length))),
                left: length,
            })
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        let content_type = if wants_octets(call.headers()) { OCTETS } else { self.content_type };
        attachment(headers, content_type, Some(&self.name))?;
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(ETAG, tag);
        if let Ok(modified) = HeaderValue::from_str(&modified) {
            headers.insert(LAST_MODIFIED, modified);
        }
        if let Some((first, last)) = range {
            let place = HeaderValue::from_str(&format!("bytes {first}-{last}/{all}"));
            headers.insert(CONTENT_RANGE, place.map_err(|e| Error::internal("name the range", e))?);
        }
        *response.status_mut() = match (is_known, range) {
            (true, _) => StatusCode::NOT_MODIFIED,
            (false, Some(_)) => StatusCode::PARTIAL_CONTENT,
            (false, None) => StatusCode::OK,
        };
        Ok(response)
    }
}

/// The headers of a file to save: its media type, which a browser must neither guess nor run as ours (a collected page is
/// somebody else's HTML), and its name without the characters that a header cannot carry.
pub(crate) fn attachment(headers: &mut HeaderMap, content_type: &str, name: Option<&str>) -> Result<()> {
    let content_type =
        HeaderValue::from_str(content_type).map_err(|e| Error::internal("name the media type", e))?;
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; frame-ancestors 'none'"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Some(name) = name {
        let plain = |c: &char| c.is_ascii_graphic() && !"\"\\/;%".contains(*c) || *c == ' ';
        let name: String = name.chars().filter(plain).collect();
        let value = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""))
            .map_err(|e| Error::internal("name the download", e))?;
        headers.insert(CONTENT_DISPOSITION, value);
    }
    Ok(())
}

/// Whether the caller accepts bytes of which nothing more is said, and nothing else.
fn wants_octets(headers: &HeaderMap) -> bool {
    let accept = Accept::of(headers);
    let mut asked = accept.media_types().peekable();
    asked.peek().is_some() && asked.all(|media_type| media_type.eq_ignore_ascii_case(OCTETS))
}

/// What a `Range` header comes to for a file of a size.
#[derive(Debug, PartialEq, Eq)]
enum RequestedRange {
    Range(u64, u64),
    /// Not one range of bytes: the whole file.
    Nothing,
    Beyond,
}

fn parse(text: &str, bytes: u64) -> RequestedRange {
    let Some(range) = text.trim().strip_prefix("bytes=").map(str::trim) else {
        return RequestedRange::Nothing;
    };
    let Some((first, last)) = range.split_once('-').filter(|_| !range.contains(',')) else {
        return RequestedRange::Nothing;
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that is too large for a file is one beyond its end.
        is_number.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    match (first.trim(), last.trim()) {
        ("", count) => match number(count) {
            None => RequestedRange::Nothing,
            Some(0) => RequestedRange::Beyond,
            Some(_) if bytes == 0 => RequestedRange::Beyond,
            Some(count) => RequestedRange::Range(bytes.saturating_sub(count), bytes - 1),
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), None) if !last.is_empty() || first >= bytes => {
                if last.is_empty() {
                    RequestedRange::Beyond
                } else {
                    RequestedRange::Nothing
                }
            }
            (Some(first), None) => RequestedRange::Range(first, bytes - 1),
            (Some(first), Some(last)) if last < first => RequestedRange::Nothing,
            (Some(first), Some(_)) if first >= bytes => RequestedRange::Beyond,
            (Some(first), Some(last)) => RequestedRange::Range(first, last.min(bytes - 1)),
            (None, _) => RequestedRange::Nothing,
        },
    }
}

/// `length` bytes from `first` on; a file that ends earlier is an error, which breaks the connection.
fn read(
    file: File,
    first: u64,
    length: u64,
) -> impl futures::Stream<Item = io::Result<Frame<Bytes>>> + Send + 'static {
    try_unfold((file, Some(first), length), |(mut file, seek, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        if let Some(first) = seek {
            file.seek(SeekFrom::Start(first)).await?;
        }
        let wanted = usize::try_from(left.min(READ_BYTES)).unwrap_or(usize::MAX);
        let mut part = vec![0; wanted];
        let bytes = file.read(&mut part).await?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        part.truncate(bytes);
        Ok(Some((Frame::data(Bytes::from(part)), (file, None, left - bytes as u64))))
    })
}

/// A body whose length is known, so that it is announced and a HEAD has it too.
struct SizedBody<B> {
    inner: Pin<Box<B>>,
    left: u64,
}

impl<B: Body<Data = Bytes>> Body for SizedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = self.inner.as_mut().poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.left = self.left.saturating_sub(data.len() as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_of_bytes_is_understood() {
        for (text, expected) in [
            ("bytes=0-0", RequestedRange::Range(0, 0)),
            ("bytes=5-", RequestedRange::Range(5, 9)),
            ("bytes=5-99", RequestedRange::Range(5, 9)),
            ("bytes=-3", RequestedRange::Range(7, 9)),
            ("bytes=-99", RequestedRange::Range(0, 9)),
            (" bytes= 2 - 3 ", RequestedRange::Range(2, 3)),
            ("bytes=10-", RequestedRange::Beyond),
            ("bytes=10-12", RequestedRange::Beyond),
            ("bytes=99999999999999999999-", RequestedRange::Beyond),
            ("bytes=-0", RequestedRange::Beyond),
            ("bytes=3-2", RequestedRange::Nothing),
            ("bytes=0-1,3-4", RequestedRange::Nothing),
            ("bytes=a-b", RequestedRange::Nothing),
            ("bytes=1-x", RequestedRange::Nothing),
            ("bytes=-", RequestedRange::Nothing),
            ("bytes=--1", RequestedRange::Nothing),
            ("bytes=", RequestedRange::Nothing),
            ("items=0-1", RequestedRange::Nothing),
            ("", RequestedRange::Nothing),
        ] {
            assert_eq!(parse(text, 10), expected, "{text}");
        }
        assert_eq!(
            (parse("bytes=0-", 0), parse("bytes=-1", 0)),
            (RequestedRange::Beyond, RequestedRange::Beyond)
        );
    }
}
