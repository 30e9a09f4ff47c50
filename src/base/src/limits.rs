//! Every limit that is not a setting, with its unit last in its name. Where a page states the number, it is named.

/// Rows of a list page unless asked otherwise (data/docs/api.md, "Lists").
pub const PAGE_ROWS_DEFAULT: usize = 50;
/// Rows of a list page at most; larger values are clamped (data/docs/api.md, "Lists").
pub const PAGE_ROWS_MAX: usize = 200;
/// Rows a filtered list looks at before it answers with what it has and a cursor to go on: some 10 ms of a thread
/// that others' requests wait for.
pub const PAGE_SCAN_ROWS_MAX: usize = 5_000;
/// Stored bytes of the rows on a list page: with the row that reaches it the page ends early, with a cursor to go on.
pub const LIST_BYTES_MAX: usize = 1 << 20;
/// Stored bytes of the rows that a filtered list looks at, likewise.
pub const LIST_SCAN_BYTES_MAX: usize = 16 << 20;
/// Request body (data/docs/api.md, "Conventions").
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Request body of `POST /urls` (data/docs/api.md, "Conventions").
pub const BODY_BYTES_MAX_LARGE: usize = 8 << 20;
/// JSON values of a request's body (texts, numbers, lists, objects), of an ordinary and of a large one.
pub const JSON_VALUES_MAX: usize = 250_000;
pub const JSON_VALUES_MAX_LARGE: usize = 1_000_000;
/// A body that is larger is read into values apart from the threads that answer.
pub const BODY_BYTES_AT_ONCE: usize = 32 << 10;
/// Request head, all header lines together.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Header lines of a request.
pub const HEAD_LINES_MAX: usize = 100;
/// URLs of one `POST /urls` (data/docs/api.md, "Limits").
pub const URLS_PER_REQUEST_MAX: usize = 10_000;
/// Bytes of a file of URLs on the wire.
pub const UPLOAD_BYTES_MAX: usize = 64 << 20;
/// What such a file may become when it is unpacked.
pub const UPLOAD_UNPACKED_BYTES_MAX: u64 = 256 << 20;
/// From so much on it may not be more than [`UPLOAD_RATIO_MAX`] times what came: lists of URLs shrink to a tenth or a fiftieth.
pub const UPLOAD_RATIO_FROM_BYTES: u64 = 8 << 20;
pub const UPLOAD_RATIO_MAX: u64 = 200;
/// Lines of such a file.
pub const UPLOAD_LINES_MAX: usize = 1_000_000;
/// Bytes of a line, or of a CSV record over several: more than every field at its limit takes.
pub const UPLOAD_LINE_BYTES_MAX: usize = 64 << 10;
/// Jobs of one batch (data/docs/api.md, "Limits").
pub const JOBS_PER_BATCH_MAX: usize = 1_000;
/// Ids of one poll (data/docs/api.md, "Limits").
pub const JOBS_PER_POLL_MAX: usize = 500;
/// Ids of one deletion of results.
pub const RESULTS_PER_DELETE_MAX: usize = 1_000;
/// URLs of one benchmark (data/docs/api.md, "Limits").
pub const URLS_PER_BENCHMARK_MAX: usize = 20;
/// URLs that a schedule names (data/docs/api.md, "Limits").
pub const URLS_PER_SCHEDULE_MAX: usize = 1_000;
/// How long a submitted statement is waited for unless its request says otherwise, and at most (data/docs/api.md, "Limits").
pub const STATEMENT_WAIT_MS_DEFAULT: u64 = 2_000;
pub const STATEMENT_WAIT_MS_MAX: u64 = 10_000;
/// Rows on a page of a statement's result, likewise.
pub const RESULT_PAGE_ROWS_DEFAULT: u64 = 200;
pub const RESULT_PAGE_ROWS_MAX: u64 = 1_000;
/// Bytes of all header lines together that a job may add: what web servers commonly take in a request's head.
pub const JOB_HEADERS_BYTES_MAX: usize = 16 << 10;
/// Site sessions of an organization (data/docs/api.md, "Limits").
pub const SITE_SESSIONS_PER_ORG_MAX: usize = 100;
/// Cookies of one, or headers.
pub const SITE_SESSION_COOKIES_MAX: usize = 100;
pub const SITE_SESSION_HEADERS_MAX: usize = 32;
/// Bytes of names and values of one, with the hosts and paths of cookies.
pub const SITE_SESSION_BYTES_MAX: usize = 32 << 10;
/// Pages that a discovery names.
pub const DISCOVERY_PAGES_MAX: usize = 20;
/// Examples that a lesson has.
pub const LESSON_EXAMPLES_MAX: usize = 10;
/// Attributes that a lesson teaches.
pub const LESSON_ATTRIBUTES_MAX: usize = 50;
/// Texts of one list that a lesson tells.
pub const LESSON_TEXTS_MAX: usize = 200;
/// Storages of an organization that pages go to or still lie in (data/docs/api.md, "Limits").
pub const PAGE_STORAGES_MAX: usize = 4;
/// Domains of an organization whose drift is watched, and pairs of a domain and a page type: the first so many of each.
pub const DRIFT_WATCHED_MAX: usize = 2_000;
/// Outputs of an organization (data/docs/api.md, "Limits").
pub const OUTPUTS_PER_ORG_MAX: usize = 100;
/// Deliveries of an output that wait for a try; with so many it looks no further (data/docs/api.md, "Limits").
pub const DELIVERIES_PENDING_MAX: usize = 1_000;
/// Recipients of one output's letters (data/docs/api.md, "Limits").
pub const RECIPIENTS_PER_OUTPUT_MAX: usize = 50;
/// People whom an organization asks in a day whether they want letters (data/docs/api.md, "Limits").
pub const RECIPIENTS_ASKED_PER_DAY_MAX: u32 = 100;
/// Monitors of an organization (data/docs/api.md, "Limits").
pub const MONITORS_PER_ORG_MAX: usize = 200;
/// Dashboards of an organization, tiles of one, and rows that a tile keeps (data/docs/api.md, "Limits").
pub const DASHBOARDS_PER_ORG_MAX: usize = 100;
pub const DASHBOARD_TILES_MAX: usize = 24;
pub const TILE_ROWS_MAX: u64 = 1_000;
/// Tags of a URL or job.
pub const TAGS_MAX: usize = 32;
/// Characters of a tag.
pub const TAG_CHARS_MAX: usize = 64;
/// Bytes of a metadata object as JSON.
pub const METADATA_BYTES_MAX: usize = 16 << 10;
/// Characters of a name a person gives to something.
pub const NAME_CHARS_MAX: usize = 200;
/// Operations that may wait for the writer thread; one more is a 503 (data/docs/engines.md, "Store").
pub const WRITER_QUEUE_MAX: usize = 4_096;
/// Operations of one commit (data/docs/engines.md, "Store").
pub const WRITER_BATCH_MAX: usize = 1_024;
/// A stored value; larger ones belong in the blob store (data/docs/engines.md, "Store").
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Time a read transaction may live (data/docs/engines.md, "Store").
pub const READ_TX_MS_MAX: u64 = 1_000;
/// Page of HTML that is parsed (data/docs/api.md, "Limits").
pub const HTML_BYTES_MAX: usize = 5 << 20;
