//! Gleaner: a web data collection appliance in one binary.
//!
//! This is the map of the source. The pages for whoever carries on are in `data/docs`: architecture, engines, the API's
//! decisions, and how a slice is added.
//!
//! # The map
//! One crate a layer under `src/`, feature-sliced above. What a crate may use stands in its `Cargo.toml`, so the compiler
//! refuses an import upwards.
//!
//! | crate | what it is | stands on |
//! |---|---|---|
//! | [`base`] | ids, errors, codecs, limits, cursors, clocks, web addresses: no I/O | |
//! | [`disk`] | files and folders that outlive a power cut, and the room on a disk | |
//! | `backup` | backups: objects named by their content, one manifest a backup; knows neither store nor pages | base, disk |
//! | [`page`] | HTML, XPath over it, typed values out of it: bytes in memory, usable alone | |
//! | [`content`] | the main content of a page as Markdown or text: bytes in memory, usable alone | page (its tree) |
//! | `induce` | XPaths learned from labelled pages, or from pages' own structured data: no I/O | page |
//! | `feeds` | sitemaps and feeds, from bytes to the URLs that they announce: no I/O | base, page (HTML's names) |
//! | `crawl` | what a crawl makes of a page: links, doubles, traps; bytes in memory: no I/O | base, page |
//! | `outputs` | what leaves by itself: conditions, signed webhooks, when they are tried again; bytes in memory: no I/O | |
//! | `ask` | plain questions about tables, read by a closed grammar into structured queries: no I/O | |
//! | [`store`] | redb behind organizations: the writer thread, indexes, change records, migrations | base, disk |
//! | [`blob`] | stored pages, kept once by their content | disk |
//! | [`secrets`] | the box's keys, what is sealed with them, links that carry their own permission | base, disk |
//! | [`fetch`] | pages through the address guard: connections, proxies, templates, the browser | base |
//! | [`oidc`] | sign-in with OpenID Connect: a provider's document, keys and tokens | |
//! | [`smtp`] | letters over SMTP | base, fetch (its TLS) |
//! | [`telemetry`] | spans of traces to a collector, by OTLP | base, fetch (its TLS) |
//! | `sinks` | rows of results into PostgreSQL servers and files, a batch at a time, each once | base, disk, fetch (its connector), s3, sql (cells) |
//! | `s3` | objects in S3-compatible storage, over the box's own connections | base, fetch (its connector) |
//! | [`search`] | full-text search over readings | disk |
//! | [`sql`] | SQL over snapshots of an organization's tables, in a process of its own | base, disk |
//! | [`dispatch`] | which provider a job asks next: workflow graphs and what is learned | base, fetch (its outcomes) |
//! | [`server`] | accept loop, route table, gates, inputs, envelopes, OpenAPI, background tasks: knows no resource | base, store |
//! | `cli` | the command line for a box's users, over its API | base, fetch (its TLS), outputs (messages, signatures) |
//! | `webui` | the console's files for browsers, built from `src/console/ui` and embedded | |
//! | `gleaner` | this one: [`features`], one slice a capability; [`app`] wires the parts, serves, drains; [`config`], [`admin`], [`backups`], [`doctor`], [`log`] and [`demo`] stand beside it | all |
//!
//! The crates between `disk` and `dispatch` know no HTTP and no resource. Each has an error type of its own, in words a
//! customer may read; the slices turn it into the API's.
//!
//! # How a page goes through
//! `POST /jobs` writes job, credit reserve and change records in one operation and answers when they are durable. The
//! dispatcher claims the job under a lease, fetches the page through the address guard, stores it by its content,
//! extracts values, and writes result, settlement, URL and job in one operation again. Search index and SQL snapshots
//! follow the change records at their own pace, each with its own durable position.
//!
//! # Invariants
//! - redb, tantivy, DataFusion and object_store are each a dependency of one crate, and bincode is named in one file.
//! - A row of an organization is reached through an `OrgStore`; nothing takes an organization id and a row id together.
//! - Nobody is answered before the commit that makes the answer true.
//! - Whatever is derived (index, snapshots) can be deleted and is rebuilt from the store.
//! - A statement of the SQL console runs in a process of its own, never in the server.
//! - A 401 comes from the gate; an error becomes bytes in the envelope; both in one place.
//!
//! The manifests hold the first; `tests/it/tidy.rs` reads the sources and holds which slice may use which other.

pub mod admin;
pub mod app;
pub mod backups;
pub mod config;
pub mod console;
pub mod demo;
pub mod doctor;
pub mod features;
pub mod log;
pub mod mcp_stdio;
pub mod service_manager;
pub mod top;
pub mod trunk;
pub mod upgrade;
