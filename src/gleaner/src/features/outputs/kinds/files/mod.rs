//! `files`: rows of results go into files: of a folder on the box, which the operator chooses, of a bucket ([`s3`]), or of a server
//! ([`sftp`]).

mod s3;
mod sftp;

use self::s3::{S3Terms, S3View};
use self::sftp::{SftpTerms, SftpView};
use super::super::places::{FilesAwayV1, FilesV1, PlaceV1};
use super::super::rows::{OUTPUTS, TargetV1};
use super::{Made, Within};
use ::s3::S3Settings;
use base::ids::{OrgId, OutputId};
use base::limits::NAME_CHARS_MAX;
use base::{Error, Result};
use schemars::JsonSchema;
use secrets::keyring::{Keyring, SealContext};
use serde::{Deserialize, Serialize};
use sinks::files::FileFormat;
use sinks::sftp::Settings;
use std::ops::RangeInclusive;
use uuid::Uuid;

/// Characters of a path, and folders in it.
const PATH_CHARS_MAX: usize = 200;
const PATH_FOLDERS_MAX: usize = 5;
const EVERY: RangeInclusive<u32> = 1..=1_440;
const EVERY_DEFAULT: u32 = 15;
const ROWS: RangeInclusive<u32> = 1..=20_000;
const ROWS_DEFAULT: u32 = 10_000;

/// Files: in a folder of the box, unless `s3` or `sftp` says where else. It has no `Debug`: its secrets are for nobody's eyes.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "FilesOfOutput")]
pub(in super::super) struct FilesTerms {
    /// `parquet` unless said otherwise.
    format: Option<FileFormat>,
    /// Whether the files of each table have a Delta Lake log; of Parquet only. False unless said otherwise, and it stays as it was
    /// made.
    delta: Option<bool>,
    /// Folders below that of the organization, or below the prefix of `s3` or the folder of `sftp`: letters, digits, `_`, `-` and
    /// `/`. The output's id unless said otherwise.
    #[schemars(length(min = 1, max = PATH_CHARS_MAX))]
    path: Option<String>,
    /// A file is whole after so many minutes; 15 unless said otherwise.
    #[schemars(range(min = 1, max = 1440))]
    every_minutes: Option<u32>,
    /// Or with so many results; 10,000 unless said otherwise.
    #[schemars(range(min = 1, max = 20000))]
    max_rows: Option<u32>,
    /// A bucket that they go into. Whether an output has one stays as it was made.
    s3: Option<S3Terms>,
    /// A server that they go onto. Whether an output has one stays as it was made.
    sftp: Option<SftpTerms>,
}

/// Files as they are shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct FilesView {
    format: FileFormat,
    delta: bool,
    path: String,
    every_minutes: u32,
    max_rows: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    s3: Option<S3View>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sftp: Option<SftpView>,
}

impl FilesView {
    pub fn away(row: FilesAwayV1) -> FilesView {
        let view = FilesView::from(row.files);
        match row.place {
            PlaceV1::S3(place) => FilesView { s3: Some(S3View::from(place)), ..view },
            PlaceV1::Sftp(place) => FilesView { sftp: Some(SftpView::from(place)), ..view },
        }
    }
}

impl From<FilesV1> for FilesView {
    fn from(row: FilesV1) -> FilesView {
        FilesView {
            format: row.format,
            delta: row.is_delta,
            path: row.path,
            every_minutes: row.every_minutes,
            max_rows: row.rows_max,
            s3: None,
            sftp: None,
        }
    }
}

fn wrong(field: &str, why: impl Into<String>) -> Error {
    Error::invalid(&format!("files.{field}"), why.into())
}

pub(super) fn made(id: OutputId, terms: Option<FilesTerms>, within: &Within<'_>) -> Result<Made> {
    let blank = FilesV1 {
        format: FileFormat::Parquet,
        is_delta: false,
        path: Uuid::from(id).to_string(),
        every_minutes: EVERY_DEFAULT,
        rows_max: ROWS_DEFAULT,
    };
    let mut terms = terms.unwrap_or_default();
    let is_delta = terms.delta.unwrap_or_default();
    let (s3, sftp) = (terms.s3.take(), terms.sftp.take());
    let files = with(FilesV1 { is_delta, ..blank }, terms)?;
    let format = files.format.name();
    let (target, name) = match (s3, sftp) {
        (None, None) => (TargetV1::Files(files), format!("{format} files")),
        (Some(_), Some(_)) => return Err(wrong("sftp", "is given as well as s3: files go to one place")),
        (Some(terms), None) => {
            let place = s3::made(id, terms, &files.path, within)?;
            let name = format!("{format} files ({})", place.bucket);
            (TargetV1::FilesAway(FilesAwayV1 { files, place: PlaceV1::S3(place) }), name)
        }
        (None, Some(terms)) => {
            let place = sftp::made(id, terms, within)?;
            let name = format!("{format} files ({})", place.host);
            (TargetV1::FilesAway(FilesAwayV1 { files, place: PlaceV1::Sftp(place) }), name)
        }
    };
    Ok(Made { target, name: name.chars().take(NAME_CHARS_MAX).collect(), secrets: Vec::new() })
}

/// Why an output that has its files in one place cannot have them in another.
const STAYS: &str = "is not for this output: where its files go stays as it was made. Make another one";

pub(super) fn changed(target: FilesV1, terms: Option<FilesTerms>) -> Result<TargetV1> {
    let terms = terms.unwrap_or_default();
    for (field, is_given) in [("s3", terms.s3.is_some()), ("sftp", terms.sftp.is_some())] {
        if is_given {
            return Err(wrong(field, STAYS));
        }
    }
    same(target, terms).map(TargetV1::Files)
}

pub(super) fn changed_away(
    id: OutputId,
    target: FilesAwayV1,
    terms: Option<FilesTerms>,
    within: &Within<'_>,
) -> Result<TargetV1> {
    let mut terms = terms.unwrap_or_default();
    let (s3, sftp) = (terms.s3.take(), terms.sftp.take());
    let files = same(target.files, terms)?;
    let place = match (target.place, s3, sftp) {
        (PlaceV1::S3(_), _, Some(_)) => return Err(wrong("sftp", STAYS)),
        (PlaceV1::Sftp(_), Some(_), _) => return Err(wrong("s3", STAYS)),
        (PlaceV1::S3(place), terms, None) => {
            PlaceV1::S3(s3::changed(id, place, terms.unwrap_or_default(), &files.path, within)?)
        }
        (PlaceV1::Sftp(place), None, terms) => {
            PlaceV1::Sftp(sftp::changed(id, place, terms.unwrap_or_default(), within)?)
        }
    };
    Ok(TargetV1::FilesAway(FilesAwayV1 { files, place }))
}

/// With other terms; what makes a table of files stays.
fn same(target: FilesV1, terms: FilesTerms) -> Result<FilesV1> {
    if terms.delta.is_some_and(|is_delta| is_delta != target.is_delta) {
        return Err(wrong("delta", "stays as the output was made"));
    }
    with(target, terms)
}

/// Where files go that leave the box, with what opens it.
pub(in super::super) enum Away {
    Bucket(S3Settings),
    Server(Settings),
}

/// What a place is opened with.
pub(in super::super) fn settings(
    keyring: &Keyring,
    of: (OrgId, OutputId),
    target: &FilesAwayV1,
) -> Result<Away> {
    match &target.place {
        PlaceV1::S3(place) => s3::settings(keyring, of, place, &target.files.path).map(Away::Bucket),
        PlaceV1::Sftp(place) => sftp::settings(keyring, of, place, &target.files.path).map(Away::Server),
    }
}

/// Seals a secret of an output's place.
fn seal(id: OutputId, field: &'static str, secret: &str, within: &Within<'_>) -> Result<Vec<u8>> {
    let sealed = within.keyring.seal(&sealed_at(&within.org, &id, field), secret.as_bytes());
    sealed.map_err(|e| Error::internal("seal a secret of an output", e))
}

fn open(
    keyring: &Keyring,
    (org, id): (OrgId, OutputId),
    field: &'static str,
    sealed: &[u8],
) -> Result<String> {
    let plain = keyring.open(&sealed_at(&org, &id, field), sealed);
    let plain = plain.map_err(|e| Error::internal("open a secret of an output", e))?;
    String::from_utf8(plain).map_err(|e| Error::internal("open a secret of an output", e.utf8_error()))
}

fn sealed_at<'a>(org: &'a OrgId, id: &'a OutputId, field: &'a str) -> SealContext<'a> {
    SealContext { org: org.0.as_bytes(), table: OUTPUTS.name(), id: id.0.as_bytes(), field }
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
