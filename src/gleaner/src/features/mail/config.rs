//! The section `mail`: which server takes the box's messages. A mistake in it is found at start and named.

use crate::config::{Bounds, Config, Section, paths};
use base::web::WebUrl;
use base::{Error, Result};
use serde::Deserialize;
use server::ListenAddress;
use smtp::{Mailbox, Password, Security, SmtpSettings, is_loopback};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use url::Host;

/// How messages to people go out; the meaning of each key stands in `appliance.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailConfig {
    pub host: String,
    pub port: u16,
    pub security: Security,
    pub allow_plaintext: bool,
    pub username: String,
    pub password: Password,
    #[serde(deserialize_with = "paths::absolute")]
    pub password_file: PathBuf,
    #[serde(deserialize_with = "paths::absolute")]
    pub ca_file: PathBuf,
    pub from: String,
    pub reply_to: String,
    pub operator: String,
    pub timeout_sec: u64,
}

impl MailConfig {
    /// Whether there is a mail server.
    pub fn is_on(&self) -> bool {
        !self.host.is_empty()
    }

    fn check_keys(&self) -> Result<()> {
        let invalid = |key: &str, reason: &str| Err(Error::invalid(&format!("mail.{key}"), reason));
        if self.host.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/') {
            return invalid("host", "must be a name or an address, such as mail.example.com");
        }
        if !self.is_on() {
            return Ok(());
        }
        if self.security == Security::None && !is_loopback(&self.host) && !self.allow_plaintext {
            let reason = "is \"none\", so tokens and the password would cross the network for everybody to read; use \
                          \"starttls\" or \"tls\", or set mail.allow_plaintext = true";
            return invalid("security", reason);
        }
        if self.from.is_empty() {
            return invalid(
                "from",
                "must be set where mail is sent, such as \"Gleaner <gleaner@example.com>\"",
            );
        }
        mailbox("mail.from", &self.from)?;
        if !self.reply_to.is_empty() {
            mailbox("mail.reply_to", &self.reply_to)?;
        }
        if !self.operator.is_empty() {
            mailbox("mail.operator", &self.operator)?;
        }
        let has_file = !self.password_file.as_os_str().is_empty();
        if has_file && !self.password.0.is_empty() {
            return invalid("password_file", "is set beside mail.password; one of them must be empty");
        }
        let has_password = has_file || !self.password.0.is_empty();
        match (self.username.is_empty(), has_password) {
            (true, true) => invalid("username", "is empty, but there is a password"),
            (false, false) => {
                invalid("password", "is empty, but there is a user name; or set mail.password_file")
            }
            _ => Ok(()),
        }
    }

    /// How mail goes out, with the files read that are named; none without a mail server. `public_url` is the box's
    /// address, whose name it greets the server with.
    pub fn smtp(&self, public_url: &str) -> Result<Option<SmtpSettings>> {
        if !self.is_on() {
            return Ok(None);
        }
        let password = if self.password_file.as_os_str().is_empty() {
            self.password.clone()
        } else {
            let text = std::fs::read_to_string(&self.password_file)
                .map_err(|e| unreadable("mail.password_file", &self.password_file, e))?;
            Password(text.trim_end_matches(['\r', '\n']).to_owned())
        };
        let extra_roots = if self.ca_file.as_os_str().is_empty() {
            Vec::new()
        } else {
            CertificateDer::pem_file_iter(&self.ca_file)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|e| unreadable("mail.ca_file", &self.ca_file, e))?
        };
        let hello = WebUrl::parse(public_url).ok().filter(|url| matches!(url.host_kind(), Host::Domain(_)));
        Ok(Some(SmtpSettings {
            host: self.host.clone(),
            port: if self.port == 0 { self.security.usual_port() } else { self.port },
            security: self.security,
            login: (!self.username.is_empty()).then(|| (self.username.clone(), password)),
            extra_roots,
            from: mailbox("mail.from", &self.from)?,
            reply_to: Some(&self.reply_to)
                .filter(|text| !text.is_empty())
                .map(|text| mailbox("mail.reply_to", text))
                .transpose()?,
            hello: hello.map(|url| url.host().to_owned()),
            timeout: Duration::from_secs(self.timeout_sec),
        }))
    }
}

impl Section for MailConfig {
    const NAME: &'static str = "mail";
    const BOUNDS: Bounds = &[("port", 0..=65_535), ("timeout_sec", 1..=600)];

    fn check(&self, whole: &Config) -> Result<()> {
        self.check_keys()?;
        // Links in messages lead to this address, and nobody reaches the one that is listened at on all interfaces.
        let first = whole.server.listen.iter().find_map(|address| match address {
            ListenAddress::Tcp(address) => Some(address.ip()),
            ListenAddress::Unix(_) => None,
        });
        let is_everywhere = first.is_some_and(|ip| ip.is_unspecified());
        if self.is_on() && whole.server.public_url.is_empty() && is_everywhere {
            let reason = "must be set where mail is sent (mail.host): links in messages lead there";
            return Err(Error::invalid("server.public_url", reason));
        }
        Ok(())
    }

    fn check_files(&self) -> Result<()> {
        self.smtp("").map(drop)
    }
}

fn mailbox(key: &str, text: &str) -> Result<Mailbox> {
    let reason =
        |e: &dyn Display| format!("\"{text}\" is no address such as Gleaner <gleaner@example.com>: {e}");
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(key, reason(&"it has a control character")));
    }
    text.parse().map_err(|e| Error::invalid(key, reason(&e)))
}

fn unreadable(key: &str, path: &Path, error: impl Display) -> Error {
    Error::invalid(key, format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::MailConfig;
    use crate::config::Config;
    use std::path::PathBuf;
    use std::time::Duration;

    const GOOD: &str = "host = \"mail.example.com\"\nfrom = \"Gleaner <box@example.com>\"\n";

    fn load(lines: &str) -> Result<Config, String> {
        Config::merge("test.toml", &format!("[mail]\n{lines}"), [])
            .map_err(|error| error.detail().unwrap_or_default().to_owned())
    }

    #[test]
    fn without_a_host_there_is_no_mail() {
        assert!(load("").unwrap().section::<MailConfig>().smtp("http://127.0.0.1:8420").unwrap().is_none());
        assert!(load("from = \"not looked at\"").is_ok());
    }

    #[test]
    fn a_server_and_a_sender_are_enough() {
        let smtp = load(GOOD)
            .unwrap()
            .section::<MailConfig>()
            .smtp("https://gleaner.example.com:8443")
            .unwrap()
            .unwrap();
        assert_eq!((smtp.port, smtp.hello.as_deref()), (587, Some("gleaner.example.com")));
        assert!(smtp.login.is_none() && smtp.reply_to.is_none() && smtp.timeout == Duration::from_secs(60));
        let ports = [("tls", 465), ("none\"\nallow_plaintext = true\nreply_to = \"a@b.de", 25)];
        for (security, port) in ports {
            let config = load(&format!("{GOOD}security = \"{security}\"")).unwrap();
            let smtp = config.section::<MailConfig>().smtp("http://10.0.0.1").unwrap().unwrap();
            assert_eq!((smtp.port, smtp.hello), (port, None));
        }
    }

    #[test]
    fn the_password_may_stand_in_a_file_and_never_in_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "open sesame\n").unwrap();
        let lines = format!("{GOOD}username = \"box\"\npassword_file = {file:?}");
        let config = load(&lines).unwrap();
        let smtp = config.section::<MailConfig>().smtp("http://box.test").unwrap().unwrap();
        let (user, password) = smtp.login.clone().unwrap();
        assert_eq!((user.as_str(), password.0.as_str()), ("box", "open sesame"));
        assert!(!format!("{smtp:?}").contains("sesame"));
        let inline = load(&format!("{GOOD}username = \"box\"\npassword = \"sesame\"")).unwrap();
        assert!(!format!("{inline:?}").contains("sesame"));
        std::fs::remove_file(&file).unwrap();
        let error = config.section::<MailConfig>().smtp("http://box.test").unwrap_err();
        assert!(error.detail().unwrap().starts_with("mail.password_file: "));
    }

    #[test]
    fn a_mistake_is_named_by_its_key() {
        for (lines, key) in [
            ("host = \"mail.example.com\"", "mail.from"),
            ("host = \"smtp://mail.example.com\"\nfrom = \"a@b.de\"", "mail.host"),
            ("host = \"mail.example.com\"\nfrom = \"box\"", "mail.from"),
            ("host = \"mail.example.com\"\nfrom = \"a@b.de\\r\\nBcc: c@d.ee\"", "mail.from"),
            (&format!("{GOOD}reply_to = \"box\""), "mail.reply_to"),
            (&format!("{GOOD}security = \"ssl\""), "mail.security"),
            (&format!("{GOOD}security = \"none\""), "mail.security"),
            (&format!("{GOOD}username = \"box\""), "mail.password"),
            (&format!("{GOOD}password = \"x\""), "mail.username"),
            (
                &format!("{GOOD}username = \"a\"\npassword = \"x\"\npassword_file = \"y\""),
                "mail.password_file",
            ),
            (&format!("{GOOD}timeout_sec = 0"), "mail.timeout_sec"),
            (&format!("{GOOD}port = 70000"), "mail.port"),
            (&format!("{GOOD}[server]\nlisten = \"0.0.0.0:8420\""), "server.public_url"),
        ] {
            let refusal = load(lines).unwrap_err();
            assert!(refusal.starts_with(&format!("{key}: ")), "{lines}: {refusal}");
        }
        let config = load(&format!("{GOOD}ca_file = \"/does/not/exist.pem\"")).unwrap();
        assert_eq!(config.section::<MailConfig>().ca_file, PathBuf::from("/does/not/exist.pem"));
        let error = config.section::<MailConfig>().smtp("http://box.test").unwrap_err();
        assert!(error.detail().unwrap().starts_with("mail.ca_file: /does/not/exist.pem cannot be read"));
    }
}
