//! The audit log as JSON lines, produced while it is sent: page by page, each in a read of its own, so that a slow reader
//! holds nothing open and the memory it takes is a page's.

use super::view::Reader;
use base::page::PageRequest;
use base::{Error, Result};
use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use server::{Accept, Call, Download, Operation, Output, Response};
use store::AuditFilter;

/// One row a line (ndjson.org).
const MEDIA_TYPE: &str = "application/x-ndjson";
/// Rows of one read.
const PAGE_ROWS: usize = 200;

/// Whether the caller asks for JSON lines before JSON.
pub fn wants_json_lines(accept: &Accept) -> bool {
    let known = [MEDIA_TYPE, "application/json", "application/*", "*/*"];
    let first =
        accept.media_types().find(|media| known.iter().any(|known| media.eq_ignore_ascii_case(known)));
    first.is_some_and(|media| media.eq_ignore_ascii_case(MEDIA_TYPE))
}

/// The rows that a filter finds, newest first.
pub struct JsonLines(Download);

struct Progress {
    reader: Reader,
    filter: AuditFilter,
    request: PageRequest,
}

impl JsonLines {
    /// Reads the first page at once, so that what is wrong with the request is an answer and not a broken stream.
    pub fn start(reader: Reader, filter: AuditFilter, cursor: Option<String>) -> Result<JsonLines> {
        let request = PageRequest { limit: PAGE_ROWS, cursor };
        let mut progress = Progress { reader, filter, request };
        let (first, ended) = progress.next()?;
        let rest = stream::try_unfold((!ended).then_some(progress), |progress| async move {
            let Some(mut progress) = progress else { return Ok::<_, Error>(None) };
            let (bytes, ended) = progress.next()?;
            Ok(Some((Frame::data(bytes), (!ended).then_some(progress))))
        });
        let all = futures::StreamExt::chain(stream::iter([Ok(Frame::data(first))]), rest);
        Ok(JsonLines(Download::stream(MEDIA_TYPE, StreamBody::new(all)).file_name("audit-logs.ndjson")))
    }
}

impl Progress {
    /// The next page's lines, and whether it is the last.
    fn next(&mut self) -> Result<(Bytes, bool)> {
        let page = self.reader.page(&self.filter, &self.request)?;
        let mut lines = Vec::with_capacity(page.items.len() * 512);
        for item in &page.items {
            serde_json::to_writer(&mut lines, item).map_err(|e| Error::internal("write an audit row", e))?;
            lines.push(b'\n');
        }
        self.request.cursor = page.next_cursor;
        Ok((lines.into(), self.request.cursor.is_none()))
    }
}

impl Output for JsonLines {
    fn respond(self, call: &Call) -> Result<Response> {
        self.0.respond(call)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.also_as(MEDIA_TYPE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;
    use http::header::ACCEPT;

    #[test]
    fn json_is_the_answer_unless_lines_are_asked_for_first() {
        let asks = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            wants_json_lines(&Accept::of(&headers))
        };
        assert!(asks("application/x-ndjson") && asks("text/plain, Application/X-NDJSON;q=1, */*"));
        assert!(!asks("*/*") && !asks("application/json, application/x-ndjson") && !asks("text/html"));
        assert!(!wants_json_lines(&Accept::default()));
    }
}
