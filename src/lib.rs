//! Gleaner: a web data collection appliance in one binary.
//!
//! # The map
//! Layered below, feature-sliced above; a layer imports only those before it.
//!
//! | module | what it is |
//! |---|---|
//! | [`base`] | ids, errors, codecs, limits, cursors, clocks, web addresses: no I/O, imports nobody |
//! | [`disk`] | files and folders that outlive a power cut, and the room on a disk: imports nobody |
//! | [`store`] | redb behind organizations: the writer thread, indexes, change records, migrations |
//! | [`engine`] | fetch, html, xpath, extract, search, sql, blob, mail, keyring: work that knows no HTTP and no resource |
//! | [`http`] | accept loop, route table, gates, inputs, envelopes, OpenAPI: knows no resource |
//! | [`task`] | the supervisor of background work |
//! | [`features`] | one slice a capability: its rows, rules, routes, tasks and console tables |
//! | [`app`] | wires the parts, serves, drains; [`config`], [`admin`], [`doctor`], [`log`] and [`demo`] stand beside it |
//!
//! # How a page goes through
//! `POST /jobs` writes job, credit reserve and change records in one operation and answers when they are durable. The
//! dispatcher claims the job under a lease, fetches the page through the address guard, stores it by its content,
//! extracts values, and writes result, settlement, URL and job in one operation again. Search index and SQL snapshots
//! follow the change records at their own pace, each with its own durable position.
//!
//! # Invariants
//! - redb, tantivy, DataFusion, object_store and bincode are each named in one folder only.
//! - A row of an organization is reached through an `OrgStore`; nothing takes an organization id and a row id together.
//! - Nobody is answered before the commit that makes the answer true.
//! - Whatever is derived (index, snapshots) can be deleted and is rebuilt from the store.
//! - A statement of the SQL console runs in a process of its own, never in the server.
//! - A 401 comes from the gate; an error becomes bytes in the envelope; both in one place.
//!
//! `tests/it/tidy.rs` reads the sources and holds the first two, and the import rules.

pub mod admin;
pub mod app;
pub mod base;
pub mod config;
pub mod demo;
pub mod disk;
pub mod doctor;
pub mod engine;
pub mod features;
pub mod http;
pub mod log;
pub mod store;
pub mod task;
