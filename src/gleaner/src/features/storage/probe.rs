//! Trying a storage: an object is put, read, listed and removed, and each step says what is wrong with it.

use super::service::folder;
use base::ids::OrgId;
use bytes::Bytes;
use s3::{Bucket, S3Error, S3Fault};
use schemars::JsonSchema;
use serde::Serialize;
use std::future::Future;
use std::time::Instant;
use uuid::Uuid;

base::words! {
    /// A step of a test.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum ProbeStep {
        Put "put",
        /// A second put of the same key under the condition that there is none; where `conditionalPuts` is on.
        PutIfAbsent "put_if_absent",
        Get "get",
        List "list",
        Delete "delete",
    }
}

/// What came of one step.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProbeStepView {
    step: ProbeStep,
    is_ok: bool,
    duration_ms: u64,
    /// What is at fault, in a word: `no_such_bucket`, `bad_secret`, `slow_down` …
    fault: Option<String>,
    message: Option<String>,
}

/// What came of a test; it ends with the first step that fails, but for removing what was put.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProbeView {
    is_ok: bool,
    steps: Vec<ProbeStepView>,
}

/// What is put.
const PROBE: &[u8] = b"Gleaner has put this here to see whether it can; it may be removed.\n";

struct Probe {
    steps: Vec<ProbeStepView>,
}

impl Probe {
    /// Takes a step; whether it went well.
    async fn step(&mut self, step: ProbeStep, work: impl Future<Output = Result<(), S3Error>>) -> bool {
        let began = Instant::now();
        let done = work.await;
        let error = done.err();
        self.steps.push(ProbeStepView {
            step,
            is_ok: error.is_none(),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            fault: error.as_ref().map(|error| error.fault.name().to_owned()),
            message: error.as_ref().map(ToString::to_string),
        });
        error.is_none()
    }
}

/// Tries a storage.
pub(super) async fn probe(client: &Bucket, org: OrgId, has_conditional_puts: bool) -> ProbeView {
    let at = format!("{}/probe-{}", folder(org), Uuid::now_v7());
    let mut probe = Probe { steps: Vec::new() };
    let wrong = |what: &str| S3Error::of(S3Fault::Refused, what);
    let mut goes_on = probe.step(ProbeStep::Put, client.put(&at, Bytes::from_static(PROBE))).await;
    let was_put = goes_on;
    if goes_on && has_conditional_puts {
        let put = async {
            match client.put_new(&at, Bytes::from_static(PROBE)).await? {
                false => Ok(()),
                true => Err(S3Error::of(
                    S3Fault::Unsupported,
                    "an object that was there was replaced; switch conditionalPuts off",
                )),
            }
        };
        goes_on = probe.step(ProbeStep::PutIfAbsent, put).await;
    }
    if goes_on {
        let get = async {
            match client.get(&at).await? {
                Some(found) if found == PROBE => Ok(()),
                Some(_) => Err(wrong("other bytes came back than were put")),
                None => Err(wrong("the object that was put is not there")),
            }
        };
        goes_on = probe.step(ProbeStep::Get, get).await;
    }
    if goes_on {
        let list = async {
            // More than one listing has: what is looked for begins with the last letter that there is before it.
            let before = at.strip_suffix(|_: char| true).unwrap_or(&at);
            let listed = client.list(&folder(org), Some(before), 1).await?;
            let is_listed = listed.iter().any(|object| object.key == at && object.size == PROBE.len() as u64);
            if is_listed { Ok(()) } else { Err(wrong("the object that was put is not listed")) }
        };
        probe.step(ProbeStep::List, list).await;
    }
    if was_put {
        probe.step(ProbeStep::Delete, client.delete(&at)).await;
    }
    ProbeView { is_ok: probe.steps.iter().all(|step| step.is_ok), steps: probe.steps }
}
