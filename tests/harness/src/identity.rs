//! A provider of sign-ins that says what a test wants, true or not: its document, its keys, its tokens.

use crate::web::{Answer, Web};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use ring::{hmac, rsa};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const RSA: &[u8] = include_bytes!("../../data/oidc/rsa.p8");

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// With the provider's key.
    Well,
    /// The same, and then one byte is another.
    Changed,
    /// Not at all, `alg` being "none".
    Not,
    /// With HS256, the provider's public key being the secret.
    ByPublicKey,
    /// With a key of somebody else's, under the name of the provider's.
    ByAnother,
}

struct State {
    issuer: String,
    /// Which key is the newest; it signs, and is the only one that is shown.
    generation: u32,
    signed: Signed,
    /// What the next ID token says beside what it must.
    claims: Map<String, Value>,
    /// Answers in the place of the provider's own, by path.
    instead: HashMap<String, Answer>,
    document: Map<String, Value>,
    asked: Vec<String>,
}

/// A running provider.
pub struct Identity {
    pub web: Web,
    state: Arc<Mutex<State>>,
}

/// The name of the client at this provider.
pub const CLIENT: &str = "gleaner";

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(since.as_secs()).expect("it is before the end of time")
}

fn rsa_pair() -> RsaKeyPair {
    RsaKeyPair::from_pkcs8(RSA).expect("the key of the tests")
}

fn rsa_jwk(id: &str) -> Value {
    let public = rsa::PublicKeyComponents::<Vec<u8>>::from(rsa_pair().public());
    json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": id, "n": b64(public.n), "e": b64(public.e) })
}

impl State {
    fn key(&self) -> String {
        format!("key-{}", self.generation)
    }

    fn document(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let mut document = json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "jwks_uri": at("/keys"),
            "end_session_endpoint": at("/end"),
        });
        for (name, value) in &self.document {
            document[name] = value.clone();
        }
        document
    }

    fn token(&self, claims: &Value) -> String {
        let random = SystemRandom::new();
        let alg = match self.signed {
            Signed::Not => "none",
            Signed::ByPublicKey => "HS256",
            _ => "RS256",
        };
        let header = json!({ "alg": alg, "kid": self.key() });
        let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let by_rsa = || {
            let pair = rsa_pair();
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).expect("it signs");
            signature
        };
        let signature = match self.signed {
            Signed::Well => by_rsa(),
            Signed::Changed => {
                let mut signature = by_rsa();
                signature[7] ^= 1;
                signature
            }
            Signed::Not => Vec::new(),
            Signed::ByPublicKey => {
                let secret = rsa_jwk(&self.key()).to_string();
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
                hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
            }
            Signed::ByAnother => {
                let how = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let made = EcdsaKeyPair::generate_pkcs8(how, &random).expect("a key");
                let pair = EcdsaKeyPair::from_pkcs8(how, made.as_ref(), &random).expect("a key");
                assert!(!pair.public_key().as_ref().is_empty());
                pair.sign(&random, message.as_bytes()).expect("it signs").as_ref().to_vec()
            }
        };
        format!("{message}.{}", b64(signature))
    }

    fn answer(&mut self, path: &str) -> Option<Answer> {
        self.asked.push(path.to_owned());
        if let Some(instead) = self.instead.get(path) {
            return Some(instead.clone());
        }
        let body = match path {
            "/.well-known/openid-configuration" => self.document(),
            "/keys" => json!({ "keys": [rsa_jwk(&self.key())] }),
            "/token" => {
                let mut claims =
                    json!({ "iss": self.issuer, "aud": CLIENT, "exp": now() + 300, "iat": now() });
                for (name, value) in &self.claims {
                    claims[name] = value.clone();
                }
                json!({ "id_token": self.token(&claims), "access_token": "at", "token_type": "Bearer" })
            }
            _ => return None,
        };
        Some(Answer::html(body.to_string()))
    }
}

impl Identity {
    pub async fn open() -> Identity {
        let state = State {
            issuer: String::new(),
            generation: 1,
            signed: Signed::Well,
            claims: Map::new(),
            instead: HashMap::new(),
            document: Map::new(),
            asked: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let web = Web::open(move |path| shared.lock().answer(path)).await;
        let issuer = web.url("");
        state.lock().issuer = issuer.trim_end_matches('/').to_owned();
        Identity { web, state }
    }

    pub fn issuer(&self) -> String {
        self.state.lock().issuer.clone()
    }

    /// What the next ID tokens say, beside or in the place of what they say anyway.
    pub fn says(&self, claims: Value) {
        let Value::Object(claims) = claims else { panic!("claims are an object") };
        self.state.lock().claims = claims;
    }

    pub fn signs(&self, signed: Signed) {
        self.state.lock().signed = signed;
    }

    /// From now on another key signs, and is the only one that is shown.
    pub fn rotate(&self) {
        self.state.lock().generation += 1;
    }

    /// What a path answers in the place of what the provider would say; none takes that back.
    pub fn answers(&self, path: &str, answer: Option<Answer>) {
        let mut state = self.state.lock();
        match answer {
            Some(answer) => state.instead.insert(path.to_owned(), answer),
            None => state.instead.remove(path),
        };
    }

    /// Something else in the discovery document.
    pub fn documents(&self, name: &str, value: Value) {
        self.state.lock().document.insert(name.to_owned(), value);
    }

    /// A token of these claims, signed as the provider signs.
    pub fn token(&self, claims: &Value) -> String {
        self.state.lock().token(claims)
    }

    /// How often a path was asked for.
    pub fn times_asked(&self, path: &str) -> usize {
        self.state.lock().asked.iter().filter(|asked| *asked == path).count()
    }
}
