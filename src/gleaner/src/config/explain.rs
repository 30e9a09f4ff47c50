//! The configuration explained to an operator: every fault at once (`gleaner config check`), and what is in force, with where
//! each value is from (`gleaner config show`).

use super::{Config, DEFAULTS, ENV_PREFIX, OTHER_VARIABLES, layered};
use base::{Error, Result};
use serde::Serialize;
use std::fmt;
use toml::{Table, Value};

/// Faults that are looked for one after another.
const FAULTS_MAX: usize = 200;
/// What stands for a secret that is set.
const HIDDEN: &str = "(hidden)";
/// Keys whose values are for nobody's eyes.
const SECRETS: [&str; 5] =
    ["server.metrics_token", "mail.password", "llm.key", "oidc.client_secret", "telemetry.headers"];

/// Whether a configuration's text has a secret in it; one that cannot be read may have.
pub(crate) fn has_secrets(text: &str) -> bool {
    let Ok(table) = text.parse::<Table>() else { return true };
    SECRETS.iter().any(|key| {
        let mut parts = key.split('.');
        let first = parts.next().and_then(|part| table.get(part));
        match parts.fold(first, |value, part| value?.get(part)) {
            None => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(values)) => !values.is_empty(),
            Some(_) => true,
        }
    })
}

/// Something that is wrong.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The file, or the variable of the environment, that it stands in.
    pub place: String,
    /// The key in full; empty where it is the file as a whole.
    pub key: String,
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() && self.key != self.place {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.reason)
    }
}

/// Where a value is from.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Default,
    File,
    /// The variable.
    Environment(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File => f.write_str("file"),
            Origin::Environment(name) => write!(f, "environment: {name}"),
        }
    }
}

/// A key with the value that is in force.
#[derive(Debug, Serialize)]
pub struct Setting {
    pub key: String,
    pub value: Value,
    pub origin: Origin,
}

/// Every fault of the text `given`, which is called `name`, and of the environment; `read` is how they are read. After each
/// fault what is at fault is taken out and the rest read again, so a fault that hides behind another is found as well.
pub(crate) fn faults(
    name: &str,
    given: &str,
    mut env: Vec<(String, String)>,
    read: impl Fn(&str, Vec<(String, String)>) -> Result<Config>,
) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut text = given.to_owned();
    while let Err(error) = read(&text, env.clone()) {
        let told = error.for_operator();
        let (key, reason) = told.split_once(": ").unwrap_or(("", &told));
        let key = &in_full(key, reason);
        let mut table: Option<Table> = text.parse().ok();
        let places = take_out(key, table.as_mut(), &mut env);
        let is_whole = key == name || key.is_empty();
        let place = match &*places {
            [] => name.to_owned(),
            places => {
                places.iter().map(|place| place.as_deref().unwrap_or(name)).collect::<Vec<_>>().join(", ")
            }
        };
        let key = if is_whole { String::new() } else { key.to_owned() };
        found.push(Fault { place, key, reason: reason.trim().to_owned() });
        let rest = table.and_then(|table| toml::to_string(&table).ok());
        match rest {
            Some(rest) if !places.is_empty() && found.len() < FAULTS_MAX => text = rest,
            // A file that is no TOML, or a default that does not hold on this machine.
            _ => break,
        }
    }
    found
}

/// A key with the name that its section does not know, where that is the fault.
fn in_full(key: &str, reason: &str) -> String {
    let unknown = reason.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    match unknown.filter(|name| key.rsplit('.').next() != Some(name)) {
        Some(name) => format!("{key}.{name}"),
        None => key.to_owned(),
    }
}

/// Takes what sets `key` out of the file's table and of the environment; gives what was there: the variables' names, and none
/// for the file. Where nothing sets the key itself, what sets the section that it is in.
fn take_out(
    key: &str,
    mut table: Option<&mut Table>,
    env: &mut Vec<(String, String)>,
) -> Vec<Option<String>> {
    if let Some(at) = env.iter().position(|(name, _)| name == key) {
        return vec![Some(env.remove(at).0)];
    }
    let key = key.split('[').next().unwrap_or(key);
    let mut parts: Vec<_> = key.split('.').collect();
    while !parts.is_empty() {
        let mut places = Vec::new();
        env.retain(|(name, _)| {
            let sets = path_of(name).is_some_and(|path| {
                path.len() >= parts.len() && path.iter().zip(&parts).all(|(one, other)| one == other)
            });
            if sets {
                places.push(Some(name.clone()));
            }
            !sets
        });
        if table.as_deref_mut().is_some_and(|table| remove(table, &parts)) {
            places.push(None);
        }
        if !places.is_empty() {
            return places;
        }
        parts.pop();
    }
    Vec::new()
}

fn remove(table: &mut Table, path: &[&str]) -> bool {
    let Some((last, sections)) = path.split_last() else { return false };
    let mut place = table;
    for section in sections {
        match place.get_mut(*section).and_then(Value::as_table_mut) {
            Some(inner) => place = inner,
            None => return false,
        }
    }
    place.remove(*last).is_some()
}

/// The key that a variable sets.
fn path_of(variable: &str) -> Option<Vec<String>> {
    let other = OTHER_VARIABLES.iter().find(|(name, _)| *name == variable).map(|(_, path)| *path);
    let path = other.or_else(|| variable.strip_prefix(ENV_PREFIX).filter(|path| path.contains("__")))?;
    Some(path.to_ascii_lowercase().split("__").map(str::to_owned).collect())
}

/// Every key with what is in force, as the defaults have them in order. What is secret is hidden.
pub(crate) fn settings(name: &str, given: &str, env: Vec<(String, String)>) -> Result<Vec<Setting>> {
    let defaults: Table = DEFAULTS
        .parse()
        .map_err(|e: toml::de::Error| Error::internal("read the built-in configuration", e))?;
    let file: Table = given.parse().map_err(|e: toml::de::Error| Error::invalid(name, e))?;
    let whole = layered(name, given, env.clone())?;
    let mut settings = Vec::new();
    let layers = Layers { file: &file, env: &env };
    layers.walk(&mut Vec::new(), &whole, Some(&defaults), &mut settings);
    Ok(settings)
}

struct Layers<'l> {
    file: &'l Table,
    env: &'l [(String, String)],
}

impl Layers<'_> {
    fn walk(
        &self,
        path: &mut Vec<String>,
        table: &Table,
        defaults: Option<&Table>,
        settings: &mut Vec<Setting>,
    ) {
        for (key, value) in table {
            path.push(key.clone());
            let below = defaults.and_then(|table| table.get(key)).and_then(Value::as_table);
            match value.as_table() {
                // A table of free keys is one value.
                Some(inner) if below.is_some_and(|below| !below.is_empty()) => {
                    self.walk(path, inner, below, settings);
                }
                _ => settings.push(self.setting(path, value)),
            }
            path.pop();
        }
    }

    fn setting(&self, path: &[String], value: &Value) -> Setting {
        let variable = self.env.iter().rev().find(|(name, _)| path_of(name).is_some_and(|of| of == path));
        let origin = match variable {
            Some((name, _)) => Origin::Environment(name.clone()),
            None if stands_in(self.file, path) => Origin::File,
            None => Origin::Default,
        };
        let key = path.join(".");
        let value = shown(&key, value);
        Setting { key, value, origin }
    }
}

fn stands_in(table: &Table, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match table.get(first) {
        None => false,
        Some(Value::Table(inner)) if !rest.is_empty() => stands_in(inner, rest),
        Some(_) => rest.is_empty(),
    }
}

/// A value without what is secret in it.
fn shown(key: &str, value: &Value) -> Value {
    match value {
        Value::String(text) if SECRETS.contains(&key) && !text.is_empty() => HIDDEN.into(),
        Value::String(text) => without_login(text).into(),
        Value::Array(items) => items.iter().map(|item| shown(key, item)).collect::<Vec<_>>().into(),
        Value::Table(inner) => {
            inner.iter().map(|(name, value)| (name.clone(), shown(name, value))).collect::<Table>().into()
        }
        other => other.clone(),
    }
}

/// An address without the password that stands in it.
fn without_login(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else { return text.to_owned() };
    match url.password().is_some() && url.set_password(Some("hidden")).is_ok() {
        true => url.into(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn faults_of(given: &str, variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let read = |text: &str, env| Config::merge("a.toml", text, env);
        let found = faults("a.toml", given, env(variables), read);
        found.into_iter().map(|fault| (fault.place, fault.key)).collect()
    }

    #[test]
    fn every_fault_is_found_with_its_place() {
        assert_eq!(faults_of("", &[]), []);
        let given = "[server]\nlisten = \"nowhere\"\nlisden = \"x\"\n[server.tls]\ncert = \"a.pem\"\n\
                     [dispatch]\nconcurrency = 0\n[nonsense]\nx = 1\n";
        let variables =
            [("GLEANER_BI__MAX_ROWS", "lots"), ("GLEANER_LOG_LEVEL", "x"), ("GLEANER_LOG__FORMAT", "xml")];
        let mut found = faults_of(given, &variables);
        found.sort();
        let expected = [
            ("GLEANER_BI__MAX_ROWS", "GLEANER_BI__MAX_ROWS"),
            ("GLEANER_LOG_LEVEL", "GLEANER_LOG_LEVEL"),
            ("GLEANER_LOG__FORMAT", "log.format"),
            ("a.toml", "dispatch.concurrency"),
            ("a.toml", "nonsense"),
            ("a.toml", "server.lisden"),
            ("a.toml", "server.listen"),
            ("a.toml", "server.tls"),
        ];
        let found: Vec<_> = found.iter().map(|(place, key)| (place.as_str(), key.as_str())).collect();
        assert_eq!(found, expected);
        assert_eq!(faults_of("not toml", &[]), [("a.toml".to_owned(), String::new())]);
    }

    #[test]
    fn each_value_says_where_it_is_from() {
        let given = "[server]\nmetrics_token = \"0123456789abcdef\"\nlisten = \"127.0.0.1:1\"\n[network]\nhosts = { a = \"127.0.0.1\" }\n";
        let variables =
            env(&[("GLEANER_SERVER__LISTEN", "127.0.0.1:2"), ("SCHEDULER_MAX_URLS_PER_RUN", "7")]);
        let settings = settings("a.toml", given, variables).unwrap();
        let of = |key: &str| settings.iter().find(|setting| setting.key == key).unwrap();
        let listen = of("server.listen");
        assert_eq!(listen.value, Value::from("127.0.0.1:2"));
        assert_eq!(listen.origin, Origin::Environment("GLEANER_SERVER__LISTEN".to_owned()));
        let token = of("server.metrics_token");
        assert_eq!((&token.value, &token.origin), (&Value::from(HIDDEN), &Origin::File));
        assert_eq!(of("mail.password").value, Value::from(""), "what is not set is not hidden");
        assert_eq!(of("network.hosts").origin, Origin::File);
        assert_eq!(of("log.level").origin, Origin::Default);
        assert_eq!(of("schedules.max_urls_per_run").value, Value::from(7));
        let proxy = shown("x", &Value::from("http://user:geheim@proxy.example:3128/"));
        assert_eq!(proxy, Value::from("http://user:hidden@proxy.example:3128/"));
    }

    /// A new secret that is not in the list would be shown.
    #[test]
    fn keys_that_sound_secret_are_hidden_or_known_to_be_none() {
        let none = [
            "server.tls.key",
            "storage.key_file",
            "mail.password_file",
            "llm.key_file",
            "oidc.client_secret_file",
            "backup.s3_access_key_id",
            "backup.s3_secret_file",
        ];
        for setting in settings("", "", Vec::new()).unwrap() {
            let name = setting.key.rsplit('.').next().unwrap_or_default().to_owned();
            let sounds =
                ["password", "token", "secret", "key", "credential"].iter().any(|word| name.contains(word));
            let is_text = setting.value.is_str();
            assert!(
                !sounds || !is_text || SECRETS.contains(&&*setting.key) || none.contains(&&*setting.key),
                "{}: is it a secret?",
                setting.key
            );
        }
    }
}
