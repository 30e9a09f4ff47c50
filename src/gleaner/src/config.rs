//! `appliance.toml` and the environment, as one typed configuration.
//!
//! The file in the repository is compiled in: it is the documentation of every key and the source of every default, so
//! the two cannot differ. What the box itself needs is read here; each slice declares the sections that are its own
//! ([`Section`]), with the bounds of their numbers. An operator's file is laid over it, the environment over both; an unknown key is refused
//! with its name, because a misspelt one that is silently ignored costs somebody an evening.

use base::web::WebUrl;
use base::{Error, Result};
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use server::{Certificates, ListenAddress, TlsSettings};
use std::any::Any;
use std::fmt::Debug;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toml::{Table, Value};

pub mod explain;
mod listen;
pub(crate) mod paths;
mod reached;

/// The documented defaults.
pub const DEFAULTS: &str = include_str!("../../../appliance.toml");

/// A shorter token could be guessed.
const METRICS_TOKEN_BYTES_MIN: usize = 16;

/// Variables of the environment that are meant for the box.
pub(crate) const ENV_PREFIX: &str = "GLEANER_";

/// Variables that the interface names without the prefix, and the keys that they set.
const OTHER_VARIABLES: [(&str, &str); 1] = [("SCHEDULER_MAX_URLS_PER_RUN", "SCHEDULES__MAX_URLS_PER_RUN")];

/// The whole configuration; the meaning of each key stands in `appliance.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub server: ServerConfig,
    pub storage: StorageConfig,
    pub log: LogConfig,
    /// The file that it was read from, if any.
    #[serde(skip)]
    file: Option<PathBuf>,
    /// The sections of the slices.
    #[serde(skip)]
    sections: Vec<Arc<dyn AnySection>>,
}

/// What each number of a section may be, by its key there.
pub type Bounds = &'static [(&'static str, RangeInclusive<i64>)];

/// A section of the configuration that a slice declares, by the type that it is read into. Its keys, what they mean and
/// their defaults stand in `appliance.toml`.
pub trait Section: DeserializeOwned + AnySection {
    const NAME: &'static str;
    const BOUNDS: Bounds = &[];

    /// What the section asks of its keys beyond their types, and of others'.
    fn check(&self, _whole: &Config) -> Result<()> {
        Ok(())
    }

    /// What it asks of the files that it names: they are read when the box starts, and when a configuration is checked.
    fn check_files(&self) -> Result<()> {
        Ok(())
    }
}

/// A section that was read, of whatever type.
pub trait AnySection: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> AnySection for T {}

/// A [`Section`] as a slice lists it.
pub struct SectionSpec {
    name: &'static str,
    bounds: Bounds,
    read: fn(Value) -> Result<Arc<dyn AnySection>>,
    check: fn(&Config) -> Result<()>,
    check_files: fn(&Config) -> Result<()>,
}

impl SectionSpec {
    pub const fn of<T: Section>() -> SectionSpec {
        SectionSpec {
            name: T::NAME,
            bounds: T::BOUNDS,
            read: |value| Ok(Arc::new(read::<T>(T::NAME, value)?)),
            check: |config| config.section::<T>().check(config),
            check_files: |config| config.section::<T>().check_files(),
        }
    }
}

/// Reads what stands at a place of the configuration; an error names the key in full.
fn read<T: DeserializeOwned>(place: &str, value: Value) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|e| {
        let key = match (place, e.path().to_string().as_str()) {
            ("", inside) => inside.to_owned(),
            (place, ".") => place.to_owned(),
            (place, inside) => format!("{place}.{inside}"),
        };
        Error::invalid(&key, e.inner().message().trim())
    })
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    #[serde(deserialize_with = "listen::addresses")]
    pub listen: Vec<ListenAddress>,
    #[serde(deserialize_with = "listen::mode")]
    pub socket_mode: u32,
    pub public_url: String,
    pub trusted_proxies: Vec<Network>,
    pub metrics_from: Vec<Network>,
    pub metrics_token: String,
    pub max_connections: usize,
    pub connections_per_address: usize,
    pub bodies_mb: usize,
    pub shutdown_sec: u64,
    pub tls: TlsConfig,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    #[serde(deserialize_with = "paths::absolute")]
    pub cert: PathBuf,
    #[serde(deserialize_with = "paths::absolute")]
    pub key: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageConfig {
    #[serde(deserialize_with = "paths::absolute")]
    pub data_dir: PathBuf,
    #[serde(deserialize_with = "paths::absolute")]
    pub key_file: PathBuf,
    pub cache_mb: usize,
    pub reserve_mb: u64,
    pub upload_after_sec: u64,
    /// Make a new, empty store although something of an earlier one is there (`gleaner serve --new`); no key of the file.
    #[serde(skip)]
    pub begin_anew: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    pub level: String,
    pub format: LogFormat,
    pub slow_request_ms: u64,
}

/// A network, or a single address, which is the network of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(pub IpNet);

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        net.map(Network)
            .map_err(|_| format!("\"{text}\" is neither an address nor a network such as 10.0.0.0/8"))
    }
}

impl Config {
    /// The defaults under the text `given`, which is called `name` where it is wrong, under the environment `env`; with these
    /// sections beside those of the box itself. Relative paths are made absolute, from the working directory.
    pub(crate) fn with_sections(
        sections: &[&'static SectionSpec],
        name: &str,
        given: &str,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config> {
        let mut table = layered(name, given, env)?;
        check_names(&table, sections)?;
        check_bounds(&table, sections)?;
        let mut read_sections = Vec::new();
        for section in sections {
            let given = table.remove(section.name).unwrap_or_else(|| Value::Table(Table::new()));
            read_sections.push((section.read)(given)?);
        }
        let config: Config = read("", Value::Table(table))?;
        Config { sections: read_sections, ..config }.check(sections)
    }

    fn check(self, sections: &[&'static SectionSpec]) -> Result<Config> {
        if self.storage.data_dir.as_os_str().is_empty() {
            return Err(Error::invalid("storage.data_dir", "must not be empty; the default is data/var"));
        }
        let tls = &self.server.tls;
        if tls.cert.as_os_str().is_empty() != tls.key.as_os_str().is_empty() {
            return Err(Error::invalid("server.tls", "cert and key belong together; one of them is empty"));
        }
        let public_url = &self.server.public_url;
        if !public_url.is_empty() && (WebUrl::parse(public_url).is_err() || public_url.contains(['?', '#'])) {
            let reason = "must be a URL such as https://gleaner.example or https://tools.example/gleaner";
            return Err(Error::invalid("server.public_url", reason));
        }
        if public_url.is_empty() && !self.server.listen.iter().any(reached::is_tcp) {
            let reason =
                "must be set where the box listens at Unix sockets only: nothing else says how it is reached";
            return Err(Error::invalid("server.public_url", reason));
        }
        let token = &self.server.metrics_token;
        if !token.is_empty()
            && (token.len() < METRICS_TOKEN_BYTES_MIN || !token.bytes().all(|b| b.is_ascii_graphic()))
        {
            let reason =
                format!("must be {METRICS_TOKEN_BYTES_MIN} or more characters of ASCII without spaces");
            return Err(Error::invalid("server.metrics_token", reason));
        }
        for section in sections {
            (section.check)(&self)?;
        }
        Ok(self)
    }

    /// What a start would say of the files that are named.
    pub(crate) fn check_files(&self, sections: &[&'static SectionSpec]) -> Result<()> {
        if let Some(TlsConfig { cert, key }) = self.tls().cloned() {
            Certificates::read(&TlsSettings { cert, key }).map_err(|e| Error::invalid("server.tls", e))?;
        }
        sections.iter().try_for_each(|section| (section.check_files)(self))
    }

    /// A slice's section.
    ///
    /// # Panics
    /// When no slice declares it, which is an error of the program.
    pub fn section<T: Section>(&self) -> &T {
        let mut found = self.sections.iter().filter_map(|section| (&**section as &dyn Any).downcast_ref());
        found.next().unwrap_or_else(|| panic!("no slice declares the section {}", T::NAME))
    }

    /// Certificate chain and key, when TLS is on.
    pub fn tls(&self) -> Option<&TlsConfig> {
        Some(&self.server.tls).filter(|tls| !tls.cert.as_os_str().is_empty())
    }

    /// The same, read from this file.
    #[must_use]
    pub(crate) fn read_from(self, file: Option<&Path>) -> Config {
        Config { file: file.map(Path::to_owned), ..self }
    }

    /// The file that it was read from, if any.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Where the secrets are.
    pub fn key_file(&self) -> PathBuf {
        if !self.storage.key_file.as_os_str().is_empty() {
            return self.storage.key_file.clone();
        }
        // Without a slash at its end, which would make this a file in the folder.
        let folder: PathBuf = self.storage.data_dir.components().collect();
        let mut name = folder.into_os_string();
        name.push(".key");
        PathBuf::from(name)
    }

    /// The store's file.
    pub fn store_file(&self) -> PathBuf {
        self.storage.data_dir.join("gleaner.redb")
    }

    /// The operator's socket.
    pub fn socket(&self) -> PathBuf {
        self.storage.data_dir.join("admin.sock")
    }

    pub fn shutdown_grace(&self) -> Duration {
        Duration::from_secs(self.server.shutdown_sec)
    }
}

/// Whether a variable of the environment may be meant for the box.
pub(crate) fn may_be_ours(variable: &str) -> bool {
    variable.starts_with(ENV_PREFIX) || OTHER_VARIABLES.iter().any(|(name, _)| *name == variable)
}

/// The defaults under the text `given`, which is called `name` where it is wrong, under the environment.
fn layered(name: &str, given: &str, env: impl IntoIterator<Item = (String, String)>) -> Result<Table> {
    let mut table: Table = DEFAULTS
        .parse()
        .map_err(|e: toml::de::Error| Error::internal("read the built-in configuration", e))?;
    let over: Table = given.parse().map_err(|e: toml::de::Error| Error::invalid(name, e))?;
    overlay(&mut table, over);
    for (key, text) in env {
        if let Some((_, path)) = OTHER_VARIABLES.iter().find(|(name, _)| *name == key) {
            set(&mut table, &key, path, &text)?;
        }
        match key.strip_prefix(ENV_PREFIX) {
            Some(path) if path.contains("__") => set(&mut table, &key, path, &text)?,
            Some(path) => refuse_one_underscore(&table, &key, path)?,
            None => {}
        }
    }
    Ok(table)
}

/// The sections of the trunk.
const TRUNK: [&str; 3] = ["server", "storage", "log"];

/// What every number may be, so that a slip of the hand (a zero too many, bytes where mebibytes are meant) is refused at
/// the start and not found out by a box that takes no connection or fills its disk. The slices' are in their sections; a
/// test finds keys without an entry.
const BOUNDS: Bounds = &[
    ("server.max_connections", 1..=1_000_000),
    ("server.connections_per_address", 1..=1_000_000),
    ("server.bodies_mb", 8..=1 << 20),
    ("server.shutdown_sec", 0..=3_600),
    ("storage.cache_mb", 1..=1 << 20),
    ("storage.reserve_mb", 0..=1 << 20),
    ("storage.upload_after_sec", 0..=86_400),
    ("log.slow_request_ms", 0..=86_400_000),
];

/// Every number of the configuration, by its key in full.
fn all_bounds(
    sections: &[&'static SectionSpec],
) -> impl Iterator<Item = (String, &'static RangeInclusive<i64>)> {
    let of_slices = sections.iter().flat_map(|section| {
        section.bounds.iter().map(|(key, bounds)| (format!("{}.{key}", section.name), bounds))
    });
    BOUNDS.iter().map(|(key, bounds)| ((*key).to_owned(), bounds)).chain(of_slices)
}

/// A section that there is not is refused by its name.
fn check_names(table: &Table, sections: &[&'static SectionSpec]) -> Result<()> {
    let known: Vec<_> = TRUNK.into_iter().chain(sections.iter().map(|section| section.name)).collect();
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
            let reason = format!("unknown field `{unknown}`, expected one of {}", known.join(", "));
            Err(Error::invalid(unknown, reason))
        }
    }
}

fn check_bounds(table: &Table, sections: &[&'static SectionSpec]) -> Result<()> {
    for (key, bounds) in all_bounds(sections) {
        let mut parts = key.split('.');
        let first = parts.next().and_then(|section| table.get(section));
        // What is no number is refused by its type.
        let number = parts.fold(first, |value, part| value?.get(part)).and_then(Value::as_integer);
        if let Some(number) = number.filter(|number| !bounds.contains(number)) {
            let reason = format!("must be {} to {}, not {number}", bounds.start(), bounds.end());
            return Err(Error::invalid(&key, reason));
        }
    }
    Ok(())
}

/// Lays `over` upon `base`, table by table. A table of free keys (`network.hosts`) is replaced whole.
fn overlay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) if !below.is_empty() => overlay(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Sets one key from the environment: `SERVER__TLS__CERT` is `server.tls.cert`. A value that is TOML is read as such
/// where the default is no text.
fn set(table: &mut Table, variable: &str, path: &str, text: &str) -> Result<()> {
    let lower = path.to_ascii_lowercase();
    let parts: Vec<_> = lower.split("__").collect();
    let unknown = || Error::invalid(variable, format!("there is no key {}", parts.join(".")));
    let (last, sections) = parts.split_last().ok_or_else(unknown)?;
    let mut place = table;
    for section in sections {
        place = place.get_mut(*section).and_then(Value::as_table_mut).ok_or_else(unknown)?;
    }
    let present = place.get_mut(*last).ok_or_else(unknown)?;
    *present = match present {
        Value::String(_) => Value::String(text.to_owned()),
        _ => format!("value = {text}")
            .parse::<Table>()
            .ok()
            .and_then(|mut table| table.remove("value"))
            .ok_or_else(|| {
                Error::invalid(variable, format!("\"{text}\" is not a value for {}", parts.join(".")))
            })?,
    };
    Ok(())
}

/// A variable that names a section and has one underscore where two belong is meant for the box. What names no section
/// (`GLEANER_HOME`) is somebody else's.
fn refuse_one_underscore(table: &Table, variable: &str, path: &str) -> Result<()> {
    let lower = path.to_ascii_lowercase();
    let names_section = |name: &String| lower.strip_prefix(&**name).is_some_and(|rest| rest.starts_with('_'));
    let Some(section) = table.keys().find(|name| names_section(name)) else { return Ok(()) };
    let form = match spelled(table, &lower) {
        Some(path) => format!("is this {ENV_PREFIX}{path}?"),
        None => format!(
            "a key of the section {section} is set by {ENV_PREFIX}{}__KEY",
            section.to_ascii_uppercase()
        ),
    };
    Err(Error::invalid(variable, format!("two underscores stand between a section and its key: {form}")))
}

/// The key that was meant, as a variable spells it.
fn spelled(table: &Table, path: &str) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let rest = path.strip_prefix(key.as_str())?;
        let key = key.to_ascii_uppercase();
        match (rest.strip_prefix('_'), value) {
            (Some(rest), Value::Table(inner)) => Some(format!("{key}__{}", spelled(inner, rest)?)),
            (None, _) if rest.is_empty() => Some(key),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::auth::{AuthConfig, Registration};
    use crate::features::bi::BiConfig;
    use crate::features::providers::{DispatchConfig, NetworkConfig};
    use crate::features::schedules::SchedulesConfig;
    use crate::features::wiring::sections;

    fn load(file: &str, env: &[(&str, &str)]) -> Result<Config> {
        Config::merge("test.toml", file, env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
    }

    fn refusal(file: &str, env: &[(&str, &str)]) -> String {
        load(file, env).unwrap_err().detail().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_documented_file_is_the_defaults() {
        let config = load("", &[]).unwrap();
        assert_eq!(config.server.listen, [ListenAddress::Tcp(([127, 0, 0, 1], 8420).into())]);
        assert_eq!(config.server.socket_mode, 0o660);
        assert_eq!(config.key_file(), std::env::current_dir().unwrap().join("data/var.key"));
        assert!(config.tls().is_none());
        assert_eq!(config.section::<BiConfig>().max_query_sec, 30);
    }

    #[test]
    fn the_environment_wins_over_the_file() {
        let file = "[dispatch]\nconcurrency = 7\n[network]\nhosts = { \"a.test\" = [\"10.0.0.1\"] }";
        let config = load(file, &[]).unwrap();
        assert_eq!(config.section::<DispatchConfig>().concurrency, 7);
        assert_eq!(config.section::<NetworkConfig>().hosts.len(), 1);
        let env = [
            ("GLEANER_DISPATCH__CONCURRENCY", "9"),
            ("GLEANER_SERVER__LISTEN", "127.0.0.1:0"),
            ("GLEANER_NETWORK__ALLOW", "[\"127.0.0.1/32:8000\"]"),
            ("GLEANER_AUTH__REGISTRATION", "closed"),
            ("GLEANER_HOME", "ignored: it names no section"),
            ("SCHEDULER_MAX_URLS_PER_RUN", "7"),
        ];
        let config = load(file, &env).unwrap();
        assert_eq!(config.section::<DispatchConfig>().concurrency, 9);
        assert_eq!(config.server.listen, [ListenAddress::Tcp(([127, 0, 0, 1], 0).into())]);
        assert_eq!(config.section::<SchedulesConfig>().max_urls_per_run, 7);
        assert_eq!(config.section::<NetworkConfig>().allow.len(), 1);
        assert_eq!(config.section::<AuthConfig>().registration, Registration::Closed);
    }

    #[test]
    fn one_underscore_where_two_belong_is_refused_with_the_right_form() {
        for (variable, form) in [
            ("GLEANER_SERVER_LISTEN", "is this GLEANER_SERVER__LISTEN?"),
            ("GLEANER_SERVER_TLS_CERT", "is this GLEANER_SERVER__TLS__CERT?"),
            ("GLEANER_DISPATCH_PER_DOMAIN_CONCURRENCY", "is this GLEANER_DISPATCH__PER_DOMAIN_CONCURRENCY?"),
            ("GLEANER_auth_registration", "is this GLEANER_AUTH__REGISTRATION?"),
            ("GLEANER_STORAGE_DIR", "a key of the section storage is set by GLEANER_STORAGE__KEY"),
        ] {
            let refused = refusal("", &[(variable, "1")]);
            assert!(refused.starts_with(&format!("{variable}: two underscores")), "{refused}");
            assert!(refused.ends_with(form), "{refused}");
        }
        // Names of no section are somebody else's.
        for variable in ["GLEANER_HOME", "GLEANER_SERVERS_LISTEN", "GLEANER_", "GLEANER_LOG", "SERVER_LISTEN"]
        {
            assert!(load("", &[(variable, "1")]).is_ok(), "{variable}");
        }
    }

    #[test]
    fn every_number_has_bounds_that_are_kept() {
        let mut numbers = Vec::new();
        collect("", &DEFAULTS.parse().unwrap(), &mut numbers);
        let bounded: Vec<_> = all_bounds(&sections()).map(|(key, _)| key).collect();
        for key in &numbers {
            assert!(bounded.contains(key), "{key} has no bounds");
        }
        assert_eq!(numbers.len(), bounded.len(), "an entry for a key that is gone");
        for (key, bounds) in all_bounds(&sections()) {
            let variable = format!("GLEANER_{}", key.replace('.', "__").to_uppercase());
            let with = |number: i64| load("", &[(variable.as_str(), &number.to_string())]);
            assert!(with(*bounds.start()).is_ok() && with(*bounds.end()).is_ok(), "{key}");
            for number in [bounds.start() - 1, bounds.end() + 1, i64::MAX, i64::MIN] {
                let refused = with(number).unwrap_err().detail().unwrap().to_owned();
                assert!(refused.starts_with(&format!("{key}: must be ")), "{refused}");
            }
        }
    }

    /// The paths of all numbers in `table`.
    fn collect(path: &str, table: &Table, numbers: &mut Vec<String>) {
        for (key, value) in table {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match value {
                Value::Table(inner) => collect(&path, inner, numbers),
                Value::Integer(_) | Value::Float(_) => numbers.push(path),
                _ => {}
            }
        }
    }

    #[test]
    fn a_mistake_is_named() {
        let misspelt = refusal("[dispatch]\nconcurency = 7", &[]);
        assert!(
            misspelt.starts_with("dispatch.concurency: unknown field `concurency`, expected"),
            "{misspelt}"
        );
        let misspelt = refusal("[dispach]\nconcurrency = 7", &[]);
        assert!(
            misspelt.starts_with("dispach: unknown field `dispach`, expected one of `server`"),
            "{misspelt}"
        );
        let misspelt = refusal("[server]\nlisten_at = 7", &[]);
        assert!(misspelt.starts_with("server.listen_at: unknown field `listen_at`, expected"), "{misspelt}");
        assert!(refusal("bi = 7", &[]).starts_with("bi: invalid type"));
        for listen in ["localhost:8420", "8420", "127.0.0.1", ""] {
            let refused = refusal("", &[("GLEANER_SERVER__LISTEN", listen)]);
            let reason =
                format!("server.listen: \"{listen}\" is not an address with a port, such as 127.0.0.1:8420");
            assert!(refused.starts_with(&reason), "{refused}");
        }
        assert!(refusal("[dispatch]\nconcurrency = \"many\"", &[]).starts_with("dispatch.concurrency"));
        assert!(refusal("[dispatch]\nconcurrency = 0", &[]).starts_with("dispatch.concurrency"));
        assert!(refusal("not toml", &[]).starts_with("test.toml"));
        assert!(refusal("", &[("GLEANER_SERVER__PORT", "1")]).contains("there is no key server.port"));
        assert!(refusal("", &[("GLEANER_BI__MAX_ROWS", "lots")]).contains("GLEANER_BI__MAX_ROWS"));
        assert!(refusal("[server.tls]\ncert = \"a.pem\"", &[]).starts_with("server.tls"));
        let refused = refusal("[browser]\nexecutable = \"/nonexistent\"", &[]);
        assert_eq!(refused, "browser.executable: /nonexistent is no program that can be run");
        assert!(
            refusal("[server]\nmetrics_token = \"short\"", &[])
                .starts_with("server.metrics_token: must be 16")
        );
        assert!(refusal("[server]\ntrusted_proxies = [\"nobody\"]", &[]).contains("nobody"));
    }
}
