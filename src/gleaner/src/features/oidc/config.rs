//! The section `oidc`: the company's provider, whom it lets in, and what they are here. The meaning of each key stands in
//! `appliance.toml`; a mistake is found at the start and by `gleaner config check`, and named.

use crate::config::{Bounds, Config, Section, paths};
use base::permission::Role;
use base::web::WebUrl;
use base::{Error, Result};
use serde::Deserialize;
use server::ListenAddress;
use smtp::is_loopback;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Groups that the configuration knows.
const GROUPS_MAX: usize = 1_000;
/// Characters on the button.
const LABEL_CHARS_MAX: usize = 80;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Secret,
    #[serde(deserialize_with = "paths::absolute")]
    pub client_secret_file: PathBuf,
    pub scopes: Vec<String>,
    pub label: String,
    pub hide_passwords: bool,
    #[serde(deserialize_with = "paths::absolute")]
    pub ca_file: PathBuf,
    pub allow_plaintext: bool,
    pub trusted_origins: Vec<String>,
    pub organization: String,
    pub role: String,
    pub groups_claim: String,
    pub groups: BTreeMap<String, Place>,
    pub email_domains: Vec<String>,
    pub trust_email: bool,
    pub join_accounts: bool,
    pub session_hours: u64,
}

/// Where a group leads: to a role in the organization of the section, or in another one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Place {
    Role(Role),
    Elsewhere(Elsewhere),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// Its id or name.
    pub organization: String,
    pub role: Role,
}

/// What the provider knows the box by.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "***" })
    }
}

impl OidcConfig {
    /// Whether people sign in through a provider.
    pub fn is_on(&self) -> bool {
        !self.issuer.is_empty()
    }

    /// The role of everybody whom the provider lets in; none where a group is needed.
    pub fn everybody(&self) -> Option<Role> {
        role(&self.role)
    }

    /// How long a login through the provider lasts.
    pub fn session_time(&self) -> Duration {
        Duration::from_secs(self.session_hours * 3_600)
    }

    /// The secret, from the file where one is named.
    pub fn secret(&self) -> Result<String> {
        if self.client_secret_file.as_os_str().is_empty() {
            return Ok(self.client_secret.0.clone());
        }
        let text = std::fs::read_to_string(&self.client_secret_file)
            .map_err(|e| unreadable("client_secret_file", &self.client_secret_file, e))?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Authorities that are trusted for the provider beside the machine's own.
    pub fn roots(&self) -> Result<Vec<CertificateDer<'static>>> {
        if self.ca_file.as_os_str().is_empty() {
            return Ok(Vec::new());
        }
        CertificateDer::pem_file_iter(&self.ca_file)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|e| unreadable("ca_file", &self.ca_file, e))
    }

    /// Whether what goes to this address can be read by nobody on the way, or the operator has said that it may be.
    pub fn is_private_way(&self, url: &WebUrl) -> bool {
        url.is_https() || self.allow_plaintext || is_loopback(url.host().trim_matches(['[', ']']))
    }

    fn check_provider(&self) -> Result<()> {
        let url = WebUrl::parse(&self.issuer).map_err(|e| invalid("issuer", e))?;
        if self.issuer.contains(['?', '#', '@']) {
            return Err(invalid("issuer", "must be the provider's address alone, without ?, # or a login"));
        }
        if self.issuer.contains("/.well-known/") {
            let reason = "must be what stands before /.well-known/openid-configuration";
            return Err(invalid("issuer", reason));
        }
        if !self.is_private_way(&url) {
            let reason = "is plain http, so that whoever is on the way signs in as anybody; use https, or set \
                          oidc.allow_plaintext = true";
            return Err(invalid("issuer", reason));
        }
        if self.client_id.is_empty() {
            return Err(invalid("client_id", "must be set where there is an issuer"));
        }
        let has_file = !self.client_secret_file.as_os_str().is_empty();
        if has_file && !self.client_secret.0.is_empty() {
            let reason = "is set beside oidc.client_secret; one of them must be empty";
            return Err(invalid("client_secret_file", reason));
        }
        if !self.scopes.iter().any(|scope| scope == "openid") {
            return Err(invalid("scopes", "must have \"openid\" among them"));
        }
        let is_scope =
            |scope: &String| !scope.is_empty() && scope.bytes().all(|b| b.is_ascii_graphic() && b != b'"');
        if let Some(wrong) = self.scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(invalid("scopes", format!("\"{wrong}\" is none: a scope is one word")));
        }
        for origin in &self.trusted_origins {
            let url = WebUrl::parse(origin).ok().filter(|url| url.path_and_query() == "/");
            let url = url.ok_or_else(|| {
                invalid("trusted_origins", format!("\"{origin}\" must be like https://keys.example.com:8443"))
            })?;
            if !self.is_private_way(&url) {
                return Err(invalid("trusted_origins", format!("\"{origin}\" is plain http")));
            }
        }
        let label = self.label.chars().count();
        if label == 0 || label > LABEL_CHARS_MAX || self.label.chars().any(char::is_control) {
            return Err(invalid(
                "label",
                format!("must have 1 to {LABEL_CHARS_MAX} characters, in one line"),
            ));
        }
        Ok(())
    }

    fn check_people(&self) -> Result<()> {
        if !self.role.is_empty() && self.everybody().is_none() {
            let known = ROLES.map(Role::name).join(", ");
            return Err(invalid("role", format!("\"{}\" is none of {known}, or empty", self.role)));
        }
        if self.role.is_empty() && self.groups.is_empty() {
            let reason = "is empty, and so is oidc.role: nobody would be let in";
            return Err(invalid("groups", reason));
        }
        let needs_home =
            !self.role.is_empty() || self.groups.values().any(|place| matches!(place, Place::Role(_)));
        if needs_home && self.organization.trim().is_empty() {
            let reason = "must be set: people whose groups name no organization become members of it";
            return Err(invalid("organization", reason));
        }
        if self.groups.len() > GROUPS_MAX {
            return Err(invalid("groups", format!("has more than {GROUPS_MAX} entries")));
        }
        if self.groups_claim.trim().is_empty() && !self.groups.is_empty() {
            return Err(invalid("groups_claim", "must be set where groups lead somewhere"));
        }
        for (group, place) in &self.groups {
            if let Place::Elsewhere(place) = place
                && place.organization.trim().is_empty()
            {
                return Err(invalid("groups", format!("\"{group}\" names an organization that is empty")));
            }
        }
        if let Some(domain) = self.email_domains.iter().find(|domain| !is_domain(domain)) {
            return Err(invalid("email_domains", format!("\"{domain}\" must be like example.com")));
        }
        Ok(())
    }
}

const ROLES: [Role; 5] = [Role::Owner, Role::Admin, Role::Editor, Role::Analyst, Role::Viewer];

fn role(name: &str) -> Option<Role> {
    ROLES.into_iter().find(|role| role.name() == name)
}

fn is_domain(text: &str) -> bool {
    let parts = text.split('.').count();
    parts >= 2 && text.split('.').all(|part| !part.is_empty()) && !text.contains(['@', '/', ' ', '*', ':'])
}

impl Section for OidcConfig {
    const NAME: &'static str = "oidc";
    const BOUNDS: Bounds = &[("session_hours", 1..=168)];

    fn check(&self, whole: &Config) -> Result<()> {
        if !self.is_on() {
            return Ok(());
        }
        self.check_provider()?;
        self.check_people()?;
        // The provider leads browsers back there, and nobody reaches the one that is listened at on all interfaces.
        let is_named =
            |place: &ListenAddress| matches!(place, ListenAddress::Tcp(at) if !at.ip().is_unspecified());
        if whole.server.public_url.is_empty() && !whole.server.listen.iter().any(is_named) {
            let reason =
                "must be set where people sign in through a provider (oidc.issuer): it leads them back there";
            return Err(Error::invalid("server.public_url", reason));
        }
        Ok(())
    }
}

fn invalid(key: &str, reason: impl Display) -> Error {
    Error::invalid(&format!("oidc.{key}"), reason)
}

fn unreadable(key: &str, path: &Path, error: impl Display) -> Error {
    invalid(key, format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "issuer = \"https://id.example.com\"\nclient_id = \"gleaner\"\norganization = \"Acme\"\n";

    fn load(lines: &str) -> Result<Config, String> {
        Config::merge("test.toml", &format!("[oidc]\n{lines}"), [])
            .map_err(|error| error.detail().unwrap_or_default().to_owned())
    }

    #[test]
    fn an_issuer_a_client_and_whom_to_let_in_are_enough() {
        assert!(!load("").unwrap().section::<OidcConfig>().is_on());
        let config = load(&format!("{GOOD}role = \"viewer\"")).unwrap();
        assert_eq!(config.section::<OidcConfig>().everybody(), Some(Role::Viewer));
        let groups = "groups = { admins = \"admin\", lab = { organization = \"Lab\", role = \"editor\" } }";
        let config = load(&format!("{GOOD}{groups}")).unwrap();
        let config: &OidcConfig = config.section();
        assert!(matches!(config.groups["admins"], Place::Role(Role::Admin)));
        assert!(matches!(&config.groups["lab"], Place::Elsewhere(place) if place.role == Role::Editor));
        assert!(load("issuer = \"http://127.0.0.1:9000\"\nclient_id = \"a\"\norganization = \"b\"\nrole = \"viewer\"").is_ok());
        let secret = load(&format!("{GOOD}role = \"viewer\"\nclient_secret = \"sesame\"")).unwrap();
        assert!(!format!("{secret:?}").contains("sesame"));
    }

    #[test]
    fn a_mistake_is_named_by_its_key() {
        let good = format!("{GOOD}role = \"viewer\"\n");
        for (lines, key) in [
            ("issuer = \"id.example.com\"".to_owned(), "oidc.issuer"),
            ("issuer = \"http://id.example.com\"".to_owned(), "oidc.issuer"),
            ("issuer = \"https://id.example.com/?a\"".to_owned(), "oidc.issuer"),
            (
                "issuer = \"https://id.example.com/.well-known/openid-configuration\"".to_owned(),
                "oidc.issuer",
            ),
            ("issuer = \"https://id.example.com\"".to_owned(), "oidc.client_id"),
            (GOOD.to_owned(), "oidc.groups"),
            (format!("{GOOD}role = \"root\""), "oidc.role"),
            (format!("{GOOD}groups = {{ a = \"root\" }}"), "oidc.groups"),
            (
                format!("{GOOD}groups = {{ a = {{ organization = \" \", role = \"viewer\" }} }}"),
                "oidc.groups",
            ),
            (good.replace("Acme", ""), "oidc.organization"),
            (format!("{good}groups_claim = \"\"\ngroups = {{ a = \"admin\" }}"), "oidc.groups_claim"),
            (format!("{good}scopes = [\"email\"]"), "oidc.scopes"),
            (format!("{good}scopes = [\"openid email\"]"), "oidc.scopes"),
            (format!("{good}label = \"\""), "oidc.label"),
            (format!("{good}email_domains = [\"@example.com\"]"), "oidc.email_domains"),
            (format!("{good}trusted_origins = [\"https://a.example/path\"]"), "oidc.trusted_origins"),
            (format!("{good}trusted_origins = [\"http://a.example\"]"), "oidc.trusted_origins"),
            (format!("{good}session_hours = 0"), "oidc.session_hours"),
            (format!("{good}client_secret = \"a\"\nclient_secret_file = \"b\""), "oidc.client_secret_file"),
            (format!("{good}isuer = \"a\""), "oidc"),
            (format!("{good}[server]\nlisten = \"0.0.0.0:8420\""), "server.public_url"),
        ] {
            let refusal = load(&lines).unwrap_err();
            assert!(refusal.starts_with(key), "{lines}: {refusal}");
        }
        let config = load(&format!("{good}client_secret_file = \"/none\"\nca_file = \"/none.pem\"")).unwrap();
        let config: &OidcConfig = config.section();
        for error in [config.secret().unwrap_err(), config.roots().map(|_| ()).unwrap_err()] {
            assert!(error.detail().unwrap().contains("cannot be read"), "{error}");
        }
    }
}
