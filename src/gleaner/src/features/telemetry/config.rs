//! The section `telemetry`. The meaning of each key stands in `appliance.toml`.

use crate::config::{Bounds, Config, Section, paths};
use base::web::WebUrl;
use base::{Error, Result};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;

/// Headers that are the request's own.
const OWN_HEADERS: [HeaderName; 5] = [HOST, CONTENT_TYPE, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetryConfig {
    pub endpoint: String,
    pub headers: Vec<HeaderLine>,
    #[serde(deserialize_with = "paths::absolute")]
    pub ca_file: PathBuf,
    pub sample_per_mille: u32,
    pub service_name: String,
    pub timeout_sec: u64,
}

/// `name: value`; the value may be a secret.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct HeaderLine(String);

impl fmt::Debug for HeaderLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl HeaderLine {
    /// An error shows nothing of the line: it may be the secret.
    fn parse(&self) -> Result<(HeaderName, HeaderValue)> {
        let wrong = |reason: String| Error::invalid("telemetry.headers", reason);
        let form = || wrong("each must be text such as \"name: value\"".to_owned());
        let (name, value) = self.0.split_once(':').ok_or_else(form)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| wrong("a name is none".to_owned()))?;
        if OWN_HEADERS.contains(&name) {
            return Err(wrong(format!("{name} is the request's own")));
        }
        let mut value = HeaderValue::try_from(value.trim())
            .map_err(|_| wrong(format!("the value of {name} has characters that no header has")))?;
        value.set_sensitive(true);
        Ok((name, value))
    }
}

impl TelemetryConfig {
    /// Where traces go; none where no endpoint is set.
    pub fn traces(&self) -> Result<Option<WebUrl>> {
        if self.endpoint.is_empty() {
            return Ok(None);
        }
        // What OpenTelemetry calls the base: each kind of signals has a path of its own below it.
        let url = match self.endpoint.ends_with("/v1/traces") {
            true => self.endpoint.clone(),
            false => format!("{}/v1/traces", self.endpoint.trim_end_matches('/')),
        };
        let url = WebUrl::parse(&url).map_err(|e| Error::invalid("telemetry.endpoint", e))?;
        if url.as_url().password().is_some() || !url.as_url().username().is_empty() {
            let reason = "must have no login in it; telemetry.headers has one for that";
            return Err(Error::invalid("telemetry.endpoint", reason));
        }
        Ok(Some(url))
    }

    pub fn header_map(&self) -> Result<HeaderMap> {
        self.headers.iter().map(HeaderLine::parse).collect()
    }
}

impl Section for TelemetryConfig {
    const NAME: &'static str = "telemetry";
    const BOUNDS: Bounds = &[("sample_per_mille", 0..=1_000), ("timeout_sec", 1..=60)];

    fn check(&self, _: &Config) -> Result<()> {
        self.traces()?;
        self.header_map()?;
        if self.service_name.trim().is_empty() {
            return Err(Error::invalid("telemetry.service_name", "must not be empty"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(file: &str) -> String {
        let refused = Config::merge("test.toml", &format!("[telemetry]\n{file}"), []);
        refused.unwrap_err().detail().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_mistake_is_named_and_no_secret_is_told() {
        for (file, told) in [
            ("endpoint = \"collector:4318\"", "telemetry.endpoint: "),
            ("endpoint = \"http://ada:geheim@127.0.0.1:4318\"", "telemetry.endpoint: "),
            ("headers = [\"geheim\"]", "telemetry.headers: each must be text such as"),
            ("headers = [\"ge heim: x\"]", "telemetry.headers: a name is none"),
            ("headers = [\"authorization: geheim\\u0001\"]", "telemetry.headers: the value of authorization"),
            ("headers = [\"Host: geheim\"]", "telemetry.headers: host is the request's own"),
            ("sample_per_mille = 1001", "telemetry.sample_per_mille: must be 0 to 1000"),
            ("service_name = \" \"", "telemetry.service_name: "),
        ] {
            let refused = refusal(file);
            assert!(refused.starts_with(told) && !refused.contains("geheim"), "{file}: {refused}");
        }
    }

    #[test]
    fn an_endpoint_is_a_base_or_the_whole_address() {
        for (given, whole) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/base/", "https://otel.example/base/v1/traces"),
            ("https://otel.example/api/otlp/v1/traces", "https://otel.example/api/otlp/v1/traces"),
        ] {
            let file = format!("[telemetry]\nendpoint = \"{given}\"");
            let config = Config::merge("test.toml", &file, []).unwrap();
            let url = config.section::<TelemetryConfig>().traces().unwrap().unwrap();
            assert_eq!(url.as_str(), whole);
        }
    }
}
