//! The way to the provider and back: the request that a browser carries, what it brings back, and the request for the tokens.

use crate::metadata::Metadata;
use crate::{Fault, malformed};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use url::form_urlencoded::{self, Serializer};

/// Characters of a code; those of providers have some hundred, those that are tokens themselves some thousand.
const CODE_CHARS_MAX: usize = 8 << 10;

/// What the box is to the provider.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    pub id: &'a str,
    /// Empty for one without (a public client), whose proof is the code verifier alone.
    pub secret: &'a str,
    pub redirect_uri: &'a str,
}

/// One sign-in that was begun. Each text is 32 random bytes in base64url.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Comes back with the browser.
    pub state: &'a str,
    /// Comes back in the ID token.
    pub nonce: &'a str,
    /// Is shown where the code is turned into tokens.
    pub verifier: &'a str,
}

/// What a browser brought from the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    Code(String),
    /// The provider's code of an error, such as `access_denied`; letters and underscores only.
    Refused(String),
}

/// The parameters that a browser comes back with; unknown ones do not count.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Answer {
    pub state: Option<String>,
    pub code: Option<String>,
    pub iss: Option<String>,
    pub error: Option<String>,
}

/// What the provider gives for a code.
#[derive(Debug, Deserialize)]
pub struct TokenAnswer {
    pub id_token: String,
    pub access_token: Option<String>,
}

#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
}

/// Where the browser is sent.
pub fn authorization_url(
    metadata: &Metadata,
    client: &Client<'_>,
    attempt: &Attempt<'_>,
    scopes: &str,
) -> String {
    let mut url = metadata.authorization_endpoint.clone();
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", client.id)
        .append_pair("redirect_uri", client.redirect_uri)
        .append_pair("scope", scopes)
        .append_pair("state", attempt.state)
        .append_pair("nonce", attempt.nonce)
        .append_pair("code_challenge", &challenge(attempt.verifier))
        .append_pair("code_challenge_method", "S256");
    url.into()
}

fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
}

/// Where the browser is sent to end the provider's session, too (OpenID Connect RP-Initiated Logout 1.0); none where the provider
/// has no such place.
pub fn logout_url(metadata: &Metadata, client: &Client<'_>, back_to: &str) -> Option<String> {
    let mut url = metadata.end_session_endpoint.clone()?;
    url.query_pairs_mut()
        .append_pair("client_id", client.id)
        .append_pair("post_logout_redirect_uri", back_to);
    Some(url.into())
}

impl Answer {
    /// What came, once its `state` was found to be right. Whoever it is from must be the provider that was asked.
    pub fn read(self, metadata: &Metadata) -> Result<Arrived, Fault> {
        match &self.iss {
            Some(issuer) if *issuer != metadata.issuer => {
                return Err(malformed("the answer is of another issuer than the one that was asked"));
            }
            None if metadata.names_issuer => {
                return Err(malformed("the answer does not name its issuer, as this provider's do"));
            }
            _ => {}
        }
        match (self.code, self.error) {
            (_, Some(error)) => Ok(Arrived::Refused(plain(&error))),
            (Some(code), None) if !code.is_empty() && code.len() <= CODE_CHARS_MAX => Ok(Arrived::Code(code)),
            _ => Err(malformed("the answer has neither a code nor an error")),
        }
    }
}

/// A code of an error as it may stand in a log and in an audit row.
fn plain(error: &str) -> String {
    let kept: String = error.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(64).collect();
    if kept.is_empty() { "unnamed".to_owned() } else { kept }
}

/// The request for tokens: the body of a form, and the value of `Authorization`, if there is one.
pub fn token_request(
    metadata: &Metadata,
    client: &Client<'_>,
    attempt: &Attempt<'_>,
    code: &str,
) -> (String, Option<String>) {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", client.redirect_uri)
        .append_pair("code_verifier", attempt.verifier);
    if client.secret.is_empty() {
        form.append_pair("client_id", client.id);
        return (form.finish(), None);
    }
    if metadata.secret_in_body {
        form.append_pair("client_id", client.id).append_pair("client_secret", client.secret);
        return (form.finish(), None);
    }
    // Both are encoded as in a form before they are put together (RFC 6749, section 2.3.1).
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let login = format!("{}:{}", encoded(client.id), encoded(client.secret));
    (form.finish(), Some(format!("Basic {}", STANDARD.encode(login))))
}

impl TokenAnswer {
    /// Reads the provider's answer to the request for tokens.
    pub fn parse(status: u16, json: &[u8]) -> Result<TokenAnswer, Fault> {
        if status == 200 {
            return serde_json::from_slice(json).map_err(malformed);
        }
        let refusal = serde_json::from_slice::<TokenRefusal>(json);
        let why = refusal.map_or_else(|_| format!("status {status}"), |refusal| plain(&refusal.error));
        Err(malformed(format!("the provider gave no tokens: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(more: &str) -> Metadata {
        let document = format!(
            r#"{{"issuer":"https://id.example","authorization_endpoint":"https://id.example/a?t=1",
                "token_endpoint":"https://id.example/t","jwks_uri":"https://id.example/k"{more}}}"#
        );
        Metadata::parse("https://id.example", document.as_bytes()).unwrap()
    }

    const CLIENT: Client<'static> =
        Client { id: "box:1", secret: "s&cret", redirect_uri: "https://box.example/back?x=1" };
    const ATTEMPT: Attempt<'static> =
        Attempt { state: "st", nonce: "no", verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" };

    #[test]
    fn a_browser_carries_what_the_answer_is_bound_to() {
        let url = authorization_url(&metadata(""), &CLIENT, &ATTEMPT, "openid email");
        // The challenge is that of RFC 7636, appendix B.
        assert_eq!(
            url,
            "https://id.example/a?t=1&response_type=code&client_id=box%3A1&redirect_uri=https%3A%2F%2Fbox.example%2Fback%3Fx%3D1\
             &scope=openid+email&state=st&nonce=no&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
        );
        assert_eq!(logout_url(&metadata(""), &CLIENT, "https://box.example/console"), None);
        let ending = metadata(r#","end_session_endpoint":"https://id.example/end""#);
        assert_eq!(
            logout_url(&ending, &CLIENT, "https://b/c").unwrap(),
            "https://id.example/end?client_id=box%3A1&post_logout_redirect_uri=https%3A%2F%2Fb%2Fc"
        );
    }

    #[test]
    fn the_secret_goes_where_the_provider_wants_it() {
        let (form, header) = token_request(&metadata(""), &CLIENT, &ATTEMPT, "c/1");
        assert!(form.contains("code=c%2F1") && !form.contains("cret"), "{form}");
        assert_eq!(header.unwrap(), format!("Basic {}", STANDARD.encode("box%3A1:s%26cret")));
        let posting = metadata(r#","token_endpoint_auth_methods_supported":["client_secret_post"]"#);
        let (form, header) = token_request(&posting, &CLIENT, &ATTEMPT, "c");
        assert!(form.ends_with("client_id=box%3A1&client_secret=s%26cret") && header.is_none(), "{form}");
        let public = Client { secret: "", ..CLIENT };
        let (form, header) = token_request(&metadata(""), &public, &ATTEMPT, "c");
        assert!(form.ends_with("&client_id=box%3A1") && header.is_none(), "{form}");
    }

    #[test]
    fn an_answer_is_of_who_was_asked() {
        let answer = |iss: Option<&str>, code: Option<&str>, error: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            Answer { state: None, code: own(code), iss: own(iss), error: own(error) }
        };
        let silent = metadata("");
        let naming = metadata(r#","authorization_response_iss_parameter_supported":true"#);
        let code = Ok(Arrived::Code("c".to_owned()));
        assert_eq!(answer(None, Some("c"), None).read(&silent), code);
        assert_eq!(answer(Some("https://id.example"), Some("c"), None).read(&naming), code);
        assert!(answer(Some("https://evil.example"), Some("c"), None).read(&silent).is_err());
        assert!(answer(None, Some("c"), None).read(&naming).is_err());
        assert!(answer(None, None, None).read(&silent).is_err());
        assert!(answer(None, Some(&"c".repeat(CODE_CHARS_MAX + 1)), None).read(&silent).is_err());
        let refused = answer(None, Some("c"), Some("access_denied\r\n<script>")).read(&silent);
        assert_eq!(refused, Ok(Arrived::Refused("access_deniedscript".to_owned())));
    }

    #[test]
    fn a_refusal_of_tokens_is_told_by_its_code() {
        let refusal =
            TokenAnswer::parse(400, br#"{"error":"invalid_grant","error_description":"<b>"}"#).unwrap_err();
        assert!(refusal.to_string().ends_with("no tokens: invalid_grant"), "{refusal}");
        assert!(TokenAnswer::parse(503, b"<html>").unwrap_err().to_string().ends_with("status 503"));
        assert!(TokenAnswer::parse(200, br#"{"access_token":"a"}"#).is_err());
        assert_eq!(TokenAnswer::parse(200, br#"{"id_token":"i"}"#).unwrap().id_token, "i");
    }
}
