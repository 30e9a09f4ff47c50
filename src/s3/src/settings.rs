//! What a storage is described by, and what of it can be judged without asking anybody.

use base::web::WebUrl;

/// The longest access key id; AWS's own have 20 to 128 characters.
pub const ACCESS_KEY_BYTES_MAX: usize = 256;
/// The longest secret.
pub const SECRET_BYTES_MAX: usize = 1_024;
/// The longest name of a region.
pub const REGION_BYTES_MAX: usize = 64;
/// The longest prefix: keys have 1,024 bytes, and what is kept below needs a part of them.
pub const PREFIX_BYTES_MAX: usize = 512;
/// Names of buckets (S3's own rule; older ones and other systems' take capitals and `_`, too).
const BUCKET_BYTES: std::ops::RangeInclusive<usize> = 3..=63;

/// A checksum that is sent with each object beside its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum S3Checksum {
    Sha256,
    Crc64Nvme,
}

/// One bucket of one account, and how its server is spoken to.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Settings {
    /// Where the server is; none means Amazon's own of the region.
    pub endpoint: Option<WebUrl>,
    pub region: String,
    pub bucket: String,
    /// What every key begins with, without a `/` at either end; may be empty.
    pub prefix: String,
    pub access_key_id: String,
    pub secret_access_key: String,
    /// Whether the bucket is named in the path and not in the host.
    pub path_style: bool,
    /// Whether the server knows `If-None-Match: *` when it takes an object.
    pub conditional_puts: bool,
    pub checksum: Option<S3Checksum>,
}

/// A setting that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The setting, as it is called on the wire.
    pub field: &'static str,
    pub reason: &'static str,
}

impl S3Settings {
    /// Judges everything that can be judged without asking anybody.
    pub fn check(&self) -> Result<(), SettingError> {
        let refuse = |field, reason| Err(SettingError { field, reason });
        if let Some(reason) = bad_bucket(&self.bucket) {
            return refuse("bucket", reason);
        }
        if !self.path_style && self.bucket.contains(|c: char| c.is_ascii_uppercase() || c == '_') {
            return refuse("bucket", "has characters that no host name has; set pathStyle");
        }
        if self.region.is_empty() || self.region.len() > REGION_BYTES_MAX || !is_plain(&self.region) {
            return refuse("region", "must have 1 to 64 letters, digits and -");
        }
        if let Some(reason) = bad_prefix(&self.prefix) {
            return refuse("prefix", reason);
        }
        let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let (id, secret) = (&self.access_key_id, &self.secret_access_key);
        if id.is_empty() || id.len() > ACCESS_KEY_BYTES_MAX || !visible(id) || id.contains(['/', ',']) {
            return refuse("accessKeyId", "must have 1 to 256 visible ASCII characters without / and ,");
        }
        if secret.is_empty() || secret.len() > SECRET_BYTES_MAX || !visible(secret) {
            return refuse("secretAccessKey", "must have 1 to 1024 visible ASCII characters");
        }
        match &self.endpoint {
            Some(endpoint) if endpoint.path_and_query() != "/" => {
                refuse("endpoint", "must have no path and no query")
            }
            Some(endpoint) if !self.path_style && base::web::is_address(endpoint.host()) => {
                refuse("endpoint", "is an address, before which no bucket can be written; set pathStyle")
            }
            _ => Ok(()),
        }
    }

    /// The URL before which or behind which the bucket is written, without a `/` at its end.
    pub(crate) fn origin(&self) -> String {
        match &self.endpoint {
            Some(endpoint) if self.path_style => endpoint.origin().to_owned(),
            Some(endpoint) => {
                let scheme = if endpoint.is_https() { "https" } else { "http" };
                format!("{scheme}://{}.{}", self.bucket, endpoint.authority())
            }
            None if self.path_style => format!("https://s3.{}.amazonaws.com", self.region),
            None => format!("https://{}.s3.{}.amazonaws.com", self.bucket, self.region),
        }
    }
}

fn bad_bucket(bucket: &str) -> Option<&'static str> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let outer = |c: char| c.is_ascii_alphanumeric();
    if !BUCKET_BYTES.contains(&bucket.len()) || !bucket.chars().all(inner) {
        return Some("must have 3 to 63 letters, digits, -, _ and .");
    }
    let ends_well = bucket.starts_with(outer) && bucket.ends_with(outer) && !bucket.contains("..");
    (!ends_well).then_some("must begin and end with a letter or digit, and have no two . in a row")
}

fn bad_prefix(prefix: &str) -> Option<&'static str> {
    if prefix.is_empty() {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.!*'()=".contains(c);
    let is_part = |part: &str| !part.is_empty() && part.chars().all(plain) && part != "." && part != "..";
    if prefix.len() > PREFIX_BYTES_MAX {
        return Some("must have at most 512 characters");
    }
    (!prefix.split('/').all(is_part))
        .then_some("must be names of letters, digits and -_.!*'()= with one / between, none at its ends")
}

/// Whether a text can stand in a host name.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn settings() -> S3Settings {
        S3Settings {
            endpoint: Some(WebUrl::parse("https://s3.example.com").unwrap()),
            region: "eu-central-1".into(),
            bucket: "pages".into(),
            prefix: "gleaner/one".into(),
            access_key_id: "AKIA0".into(),
            secret_access_key: "secret/+=".into(),
            path_style: true,
            conditional_puts: true,
            checksum: None,
        }
    }

    type Change = fn(&mut S3Settings);

    #[test]
    fn names_the_setting_that_cannot_be() {
        settings().check().unwrap();
        let wrong: &[(&str, Change)] = &[
            ("bucket", |it| it.bucket = "ab".into()),
            ("bucket", |it| it.bucket = "a".repeat(64)),
            ("bucket", |it| it.bucket = "-pages".into()),
            ("bucket", |it| it.bucket = "pa..ges".into()),
            ("bucket", |it| it.bucket = "pa/ges".into()),
            ("bucket", |it| (it.bucket, it.path_style) = ("Pages".into(), false)),
            ("region", |it| it.region = String::new()),
            ("region", |it| it.region = "eu central".into()),
            ("region", |it| it.region = "x.evil.example/".into()),
            ("prefix", |it| it.prefix = "/one".into()),
            ("prefix", |it| it.prefix = "one/".into()),
            ("prefix", |it| it.prefix = "one//two".into()),
            ("prefix", |it| it.prefix = "one/../two".into()),
            ("prefix", |it| it.prefix = "a".repeat(513)),
            ("prefix", |it| it.prefix = "ä".into()),
            ("accessKeyId", |it| it.access_key_id = String::new()),
            ("accessKeyId", |it| it.access_key_id = "a/b".into()),
            ("secretAccessKey", |it| it.secret_access_key = "a\nb".into()),
            ("secretAccessKey", |it| it.secret_access_key = "s".repeat(1_025)),
            ("endpoint", |it| it.endpoint = Some(WebUrl::parse("https://s3.example.com/x").unwrap())),
            ("endpoint", |it| {
                (it.endpoint, it.path_style) = (Some(WebUrl::parse("http://10.0.0.1:9000").unwrap()), false);
            }),
        ];
        for (field, change) in wrong {
            let mut settings = settings();
            change(&mut settings);
            assert_eq!(settings.check().map_err(|error| error.field), Err(*field));
        }
    }

    #[test]
    fn knows_where_the_bucket_is() {
        let mut settings = settings();
        assert_eq!(settings.origin(), "https://s3.example.com");
        settings.path_style = false;
        assert_eq!(settings.origin(), "https://pages.s3.example.com");
        settings.endpoint = None;
        assert_eq!(settings.origin(), "https://pages.s3.eu-central-1.amazonaws.com");
        settings.path_style = true;
        assert_eq!(settings.origin(), "https://s3.eu-central-1.amazonaws.com");
    }
}
