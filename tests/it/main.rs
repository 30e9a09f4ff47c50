//! The one integration binary: the real server on port 0 with a temporary folder, and real pages on loopback.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod account;
mod api_keys;
mod audit;
mod auth;
mod auth_model;
mod batches;
mod benchmarks;
mod bi;
mod billing;
mod cli_auth;
mod clients;
mod contract;
mod crash;
mod crawl;
mod demo;
mod dispatch;
mod documented;
mod events;
mod extraction;
mod fair;
mod forged;
mod graphs;
mod hostile;
mod http;
mod ignored;
mod input_edges;
mod input_runs;
mod inputs;
mod jobs;
mod letter;
mod licences;
mod machine;
mod mail;
mod main_content;
mod operator;
mod orgs;
mod pages;
mod people;
mod providers;
mod readme;
mod schedules;
mod shipped;
mod site_sessions;
mod sql;
mod storage;
mod tenancy;
mod tidy;
mod uploads;
mod urls;
mod workflows;

use ::harness;
