//! `files`: rows of results go into files of a folder on the box, which the operator chooses.

use super::super::rows::{FilesV1, TargetV1};
use super::Made;
use base::ids::OutputId;
use base::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sinks::files::FileFormat;
use std::ops::RangeInclusive;
use uuid::Uuid;

/// Characters of a path, and folders in it.
const PATH_CHARS_MAX: usize = 200;
const PATH_FOLDERS_MAX: usize = 5;
const EVERY: RangeInclusive<u32> = 1..=1_440;
const EVERY_DEFAULT: u32 = 15;
const ROWS: RangeInclusive<u32> = 1..=20_000;
const ROWS_DEFAULT: u32 = 10_000;

/// Files in a folder of the box.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "FilesOfOutput")]
pub(in super::super) struct FilesTerms {
    /// `parquet` unless said otherwise.
    format: Option<FileFormat>,
    /// Whether the files of each table have a Delta Lake log; of Parquet only. False unless said otherwise, and it stays as it was
    /// made.
    delta: Option<bool>,
    /// Folders below that of the organization: letters, digits, `_`, `-` and `/`. The output's id unless said otherwise.
    #[schemars(length(min = 1, max = PATH_CHARS_MAX))]
    path: Option<String>,
    /// A file is whole after so many minutes; 15 unless said otherwise.
    #[schemars(range(min = 1, max = 1440))]
    every_minutes: Option<u32>,
    /// Or with so many results; 10,000 unless said otherwise.
    #[schemars(range(min = 1, max = 20000))]
    max_rows: Option<u32>,
}

/// Files in a folder of the box as they are shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct FilesView {
    format: FileFormat,
    delta: bool,
    path: String,
    every_minutes: u32,
    max_rows: u32,
}

impl From<FilesV1> for FilesView {
    fn from(row: FilesV1) -> FilesView {
        FilesView {
            format: row.format,
            delta: row.is_delta,
            path: row.path,
            every_minutes: row.every_minutes,
            max_rows: row.rows_max,
        }
    }
}

fn wrong(field: &str, why: impl Into<String>) -> Error {
    Error::invalid(&format!("files.{field}"), why.into())
}

pub(super) fn made(id: OutputId, terms: Option<FilesTerms>) -> Result<Made> {
    let blank = FilesV1 {
        format: FileFormat::Parquet,
        is_delta: false,
        path: Uuid::from(id).to_string(),
        every_minutes: EVERY_DEFAULT,
        rows_max: ROWS_DEFAULT,
    };
    let terms = terms.unwrap_or_default();
    let is_delta = terms.delta.unwrap_or_default();
    let target = with(FilesV1 { is_delta, ..blank }, terms)?;
    let name = format!("{} files", target.format.name());
    Ok(Made { target: TargetV1::Files(target), name, secrets: Vec::new() })
}

pub(super) fn changed(target: FilesV1, terms: Option<FilesTerms>) -> Result<TargetV1> {
    let terms = terms.unwrap_or_default();
    if terms.delta.is_some_and(|is_delta| is_delta != target.is_delta) {
        return Err(wrong("delta", "stays as the output was made"));
    }
    with(target, terms).map(TargetV1::Files)
}

fn with(mut target: FilesV1, terms: FilesTerms) -> Result<FilesV1> {
    target.format = terms.format.unwrap_or(target.format);
    target.path = terms.path.map(path).transpose()?.unwrap_or(target.path);
    target.every_minutes = terms.every_minutes.unwrap_or(target.every_minutes);
    target.rows_max = terms.max_rows.unwrap_or(target.rows_max);
    if target.is_delta && target.format != FileFormat::Parquet {
        return Err(wrong("format", "of a table with a Delta Lake log is parquet"));
    }
    for (field, given, bounds) in
        [("everyMinutes", target.every_minutes, EVERY), ("maxRows", target.rows_max, ROWS)]
    {
        if !bounds.contains(&given) {
            return Err(wrong(field, format!("is {} to {}", bounds.start(), bounds.end())));
        }
    }
    Ok(target)
}

/// A path that leads down and nowhere else.
fn path(given: String) -> Result<String> {
    let folders: Vec<_> = given.split('/').collect();
    let is_plain = |folder: &&str| {
        !folder.is_empty() && folder.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    match given.len() <= PATH_CHARS_MAX && folders.len() <= PATH_FOLDERS_MAX && folders.iter().all(is_plain) {
        true => Ok(given),
        false => Err(wrong(
            "path",
            format!("is up to {PATH_FOLDERS_MAX} names of letters, digits, _ and -, joined by /"),
        )),
    }
}
