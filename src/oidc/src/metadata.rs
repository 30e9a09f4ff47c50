//! The discovery document: where a provider is asked for what (OpenID Connect Discovery 1.0, section 3).

use crate::{Fault, malformed};
use serde::Deserialize;
use url::Url;

/// What of a provider's document is used. Addresses in it are `http` or `https`; whether they may be asked is the caller's to judge.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// As configured, byte for byte.
    pub issuer: String,
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub jwks_uri: Url,
    pub userinfo_endpoint: Option<Url>,
    pub end_session_endpoint: Option<Url>,
    /// Whether the client's name and secret go into the body of the request for tokens and not into its header.
    pub secret_in_body: bool,
    /// Whether each answer by way of the browser names its issuer (RFC 9207).
    pub names_issuer: bool,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    /// Where the document of an issuer is.
    pub fn place(issuer: &str) -> String {
        format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
    }

    /// Reads a document that was fetched for `issuer`. One of another issuer is refused, as is one without what a sign-in needs.
    pub fn parse(issuer: &str, json: &[u8]) -> Result<Metadata, Fault> {
        let document: Document = serde_json::from_slice(json).map_err(malformed)?;
        if document.issuer != issuer {
            let other: String = document.issuer.chars().take(200).collect();
            return Err(malformed(format!("it is the document of the issuer \"{other}\", not \"{issuer}\"")));
        }
        if document.code_challenge_methods_supported.is_some_and(|all| all.iter().all(|one| one != "S256")) {
            return Err(malformed("the provider does not take code challenges (PKCE) of the kind S256"));
        }
        let address = |name: &str, text: &str| {
            let url = Url::parse(text)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            url.filter(|url| {
                url.fragment().is_none() && url.username().is_empty() && url.password().is_none()
            })
            .ok_or_else(|| malformed(format!("{name} is not an address")))
        };
        let or_none =
            |name: &str, text: &Option<String>| text.as_deref().map(|text| address(name, text)).transpose();
        // Without a list the protocol means the header.
        let ways = document.token_endpoint_auth_methods_supported.unwrap_or_default();
        let takes = |way: &str| ways.iter().any(|one| one == way);
        Ok(Metadata {
            authorization_endpoint: address("authorization_endpoint", &document.authorization_endpoint)?,
            token_endpoint: address("token_endpoint", &document.token_endpoint)?,
            jwks_uri: address("jwks_uri", &document.jwks_uri)?,
            userinfo_endpoint: or_none("userinfo_endpoint", &document.userinfo_endpoint)?,
            end_session_endpoint: or_none("end_session_endpoint", &document.end_session_endpoint)?,
            secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
            names_issuer: document.authorization_response_iss_parameter_supported,
            issuer: document.issuer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn document() -> Value {
        json!({
            "issuer": "https://id.example/realms/a",
            "authorization_endpoint": "https://id.example/auth?tenant=a",
            "token_endpoint": "https://id.example/token",
            "jwks_uri": "https://keys.example/jwks",
            "code_challenge_methods_supported": ["plain", "S256"],
        })
    }

    fn parse(document: &Value) -> Result<Metadata, Fault> {
        Metadata::parse("https://id.example/realms/a", document.to_string().as_bytes())
    }

    #[test]
    fn the_least_document_is_enough() {
        let read = parse(&document()).unwrap();
        assert_eq!(read.jwks_uri.as_str(), "https://keys.example/jwks");
        assert!(!read.secret_in_body && !read.names_issuer && read.end_session_endpoint.is_none());
        assert_eq!(
            Metadata::place("https://id.example/realms/a/"),
            "https://id.example/realms/a/.well-known/openid-configuration"
        );
        let mut other = document();
        other["token_endpoint_auth_methods_supported"] = json!(["private_key_jwt", "client_secret_post"]);
        assert!(parse(&other).unwrap().secret_in_body);
    }

    #[test]
    fn what_no_sign_in_can_be_made_with_is_refused() {
        for (key, value) in [
            ("issuer", json!("https://id.example/realms/a/")),
            ("issuer", json!("https://id.example/realms/b")),
            ("issuer", json!(null)),
            ("token_endpoint", json!(null)),
            ("token_endpoint", json!("file:///etc/passwd")),
            ("jwks_uri", json!("/jwks")),
            ("jwks_uri", json!("https://user:secret@id.example/jwks")),
            ("authorization_endpoint", json!("javascript:alert(1)")),
            ("end_session_endpoint", json!("data:text/html,x")),
            ("code_challenge_methods_supported", json!(["plain"])),
        ] {
            let mut wrong = document();
            wrong[key] = value;
            assert!(matches!(parse(&wrong), Err(Fault::Malformed(_))), "{wrong}");
        }
        assert!(Metadata::parse("https://id.example", b"<html>").is_err());
    }
}
