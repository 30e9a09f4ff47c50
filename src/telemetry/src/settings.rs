//! What the exporter is told.

use base::web::WebUrl;
use http::HeaderMap;
use std::path::PathBuf;
use std::time::Duration;

/// Where spans go, and how they are told.
#[derive(Clone)]
pub struct Settings {
    /// Where traces are taken: the whole address, as in `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: WebUrl,
    /// Sent with each batch: what the collector knows the box by.
    pub headers: HeaderMap,
    /// A PEM file with certificate authorities that are trusted beside the machine's.
    pub ca_file: Option<PathBuf>,
    /// How long one try may take.
    pub timeout: Duration,
    /// What the spans are of: names and values (`service.name` among them).
    pub resource: Vec<(&'static str, String)>,
}
