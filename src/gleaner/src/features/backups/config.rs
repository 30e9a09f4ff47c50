//! The section `backup`: where backups go by themselves, when, and which of them stay. The meaning of each key stands in
//! `appliance.toml`.

use crate::config::{Bounds, Config, Section, paths};
use crate::features::schedules::Times;
use backup::{Keep, Passphrase};
use base::web::WebUrl;
use base::{Error, Result};
use s3::S3Settings;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a target in a bucket begins with.
pub(super) const S3: &str = "s3://";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupConfig {
    pub target: String,
    pub schedule: String,
    pub timezone: String,
    #[serde(deserialize_with = "paths::absolute")]
    pub passphrase_file: PathBuf,
    pub keep_last: u32,
    pub keep_days: u32,
    pub s3_endpoint: String,
    pub s3_region: String,
    pub s3_access_key_id: String,
    #[serde(deserialize_with = "paths::absolute")]
    pub s3_secret_file: PathBuf,
    pub s3_path_style: bool,
}

impl Section for BackupConfig {
    const NAME: &'static str = "backup";
    const BOUNDS: Bounds = &[("keep_last", 1..=10_000), ("keep_days", 0..=36_500)];

    fn check(&self, _whole: &Config) -> Result<()> {
        if self.target.starts_with(S3) {
            // Everything but the secret, whose file may be readable for the box's user only.
            self.bucket(&self.target, "-".to_owned())?;
        } else if !self.target.is_empty() && !Path::new(&self.target).is_absolute() {
            return Err(Error::invalid("backup.target", "must be an absolute path or s3://BUCKET/PREFIX"));
        }
        if self.schedule.is_empty() {
            return Ok(());
        }
        if self.target.is_empty() {
            return Err(Error::invalid("backup.target", "must be set where backup.schedule is"));
        }
        self.times().map(drop)
    }
}

impl BackupConfig {
    /// When backups are made; none where they are not by themselves.
    pub(super) fn times(&self) -> Result<Option<Times>> {
        if self.schedule.is_empty() {
            return Ok(None);
        }
        let read = Times::read(&self.schedule, &self.timezone).map_err(|unreadable| {
            let key = if unreadable.field == "timezone" { "backup.timezone" } else { "backup.schedule" };
            Error::invalid(key, unreadable.reason)
        });
        read.map(Some)
    }

    pub(super) fn keep(&self) -> Keep {
        Keep {
            last: self.keep_last as usize,
            age: Duration::from_secs(u64::from(self.keep_days) * 24 * 3_600),
        }
    }

    /// What key files are sealed with, if the configuration says.
    pub(super) fn passphrase(&self) -> Result<Option<Passphrase>> {
        let file = &self.passphrase_file;
        if file.as_os_str().is_empty() {
            return Ok(None);
        }
        read_passphrase(file).map(Some)
    }

    /// The bucket that a target names, with its secret.
    pub(super) fn s3(&self, target: &str) -> Result<S3Settings> {
        let file = &self.s3_secret_file;
        let text = std::fs::read_to_string(file).map_err(|e| {
            Error::invalid("backup.s3_secret_file", format!("{} cannot be read: {e}", file.display()))
        })?;
        self.bucket(target, text.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn bucket(&self, target: &str, secret: String) -> Result<S3Settings> {
        let named = target.strip_prefix(S3).unwrap_or(target);
        let (bucket, prefix) = named.split_once('/').unwrap_or((named, ""));
        let endpoint = match self.s3_endpoint.as_str() {
            "" => None,
            text => Some(WebUrl::parse(text).map_err(|e| Error::invalid("backup.s3_endpoint", e))?),
        };
        let settings = S3Settings {
            endpoint,
            region: self.s3_region.clone(),
            bucket: bucket.to_owned(),
            prefix: prefix.trim_end_matches('/').to_owned(),
            access_key_id: self.s3_access_key_id.clone(),
            secret_access_key: secret,
            path_style: self.s3_path_style,
            // A name says what is in an object, so putting it twice changes nothing.
            conditional_puts: false,
            checksum: None,
        };
        settings.check().map_err(|wrong| {
            let key = match wrong.field {
                "bucket" | "prefix" => "backup.target",
                "region" => "backup.s3_region",
                "endpoint" => "backup.s3_endpoint",
                "accessKeyId" => "backup.s3_access_key_id",
                _ => "backup.s3_secret_file",
            };
            Error::invalid(key, wrong.reason)
        })?;
        Ok(settings)
    }
}

/// The passphrase in a file.
pub fn read_passphrase(file: &Path) -> Result<Passphrase> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Error::invalid("passphrase_file", format!("{} cannot be read: {e}", file.display())))?;
    Passphrase::parse(&text)
}
