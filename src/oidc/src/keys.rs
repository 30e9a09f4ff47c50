//! The provider's keys, and signatures under them. Only public keys of signatures count: RSA, the two curves of NIST that ring
//! verifies, and Ed25519. A key of a secret kind (`oct`) is passed over, so that no token is ever checked with one.

use crate::{Fault, malformed};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

/// Keys of one provider that are looked at.
const KEYS_MAX: usize = 64;

/// How a token may be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// By its name in a token's header; none for any other, "none" and secrets (`HS256`) among them.
    pub fn named(name: &str) -> Option<Algorithm> {
        Some(match name {
            "RS256" => Algorithm::Rs256,
            "RS384" => Algorithm::Rs384,
            "RS512" => Algorithm::Rs512,
            "PS256" => Algorithm::Ps256,
            "PS384" => Algorithm::Ps384,
            "PS512" => Algorithm::Ps512,
            "ES256" => Algorithm::Es256,
            "ES384" => Algorithm::Es384,
            "EdDSA" | "Ed25519" => Algorithm::EdDsa,
            _ => return None,
        })
    }

    /// The hash that half of stands in `at_hash`.
    pub fn digest(self) -> &'static ring::digest::Algorithm {
        match self {
            Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256 => &ring::digest::SHA256,
            Algorithm::Rs384 | Algorithm::Ps384 | Algorithm::Es384 => &ring::digest::SHA384,
            Algorithm::Rs512 | Algorithm::Ps512 | Algorithm::EdDsa => &ring::digest::SHA512,
        }
    }

    fn of_rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Clone)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Clone)]
struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, where it says so.
    only: Option<Algorithm>,
    material: Material,
}

/// The keys that a provider shows.
#[derive(Clone, Default)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// Reads a set of keys. Those that are for something else, or of a kind that is not known here, are passed over.
    pub fn parse(json: &[u8]) -> Result<Keys, Fault> {
        let set: Set = serde_json::from_slice(json).map_err(malformed)?;
        let keys = set.keys.into_iter().take(KEYS_MAX);
        Ok(Keys(keys.filter_map(|key| serde_json::from_value(key).ok().and_then(usable)).collect()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `message` is signed by one of them: the one that `id` names, or, where a token names none, any. A wrong signature
    /// under a known key is a refusal; [`Fault::UnknownKey`] says that there is none to check with.
    pub fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signed: &[u8],
    ) -> Result<(), Fault> {
        let named = self.0.iter().filter(|key| id.is_none() || key.id.as_deref() == id);
        let mut fitting = named.filter(|key| key.fits(algorithm)).peekable();
        if fitting.peek().is_none() {
            return Err(Fault::UnknownKey);
        }
        if fitting.any(|key| key.verify(algorithm, message, signed)) {
            return Ok(());
        }
        // Without a name it may be by a key that is shown since.
        if id.is_none() { Err(Fault::UnknownKey) } else { Err(crate::refused("its signature is wrong")) }
    }
}

/// The key, if it is one that signatures are checked with.
fn usable(jwk: Jwk) -> Option<Key> {
    if jwk.r#use.is_some_and(|r#use| r#use != "sig") {
        return None;
    }
    if jwk.key_ops.is_some_and(|ops| ops.iter().all(|op| op != "verify")) {
        return None;
    }
    let only = jwk.alg.map(|alg| Algorithm::named(&alg).ok_or(())).transpose().ok()?;
    let bytes = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
    let point = |size: usize, x: Option<String>, y: Option<String>| {
        let (x, y) = (bytes(x)?, bytes(y)?);
        (x.len() == size && y.len() == size).then(|| [&[4], x.as_slice(), &y].concat())
    };
    let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => Material::Rsa { n: unsigned(bytes(jwk.n)?), e: unsigned(bytes(jwk.e)?) },
        ("EC", Some("P-256")) => Material::P256(point(32, jwk.x, jwk.y)?),
        ("EC", Some("P-384")) => Material::P384(point(48, jwk.x, jwk.y)?),
        ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(jwk.x).filter(|x| x.len() == 32)?),
        _ => return None,
    };
    Some(Key { id: jwk.kid, only, material })
}

/// A number without zeros in front, which ring does not take and some providers write.
fn unsigned(bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..].to_vec()
}

impl Key {
    /// Whether the algorithm is one of this kind of keys: which kind it is the provider says, and never the token.
    fn fits(&self, algorithm: Algorithm) -> bool {
        if self.only.is_some_and(|only| only != algorithm) {
            return false;
        }
        match self.material {
            Material::Rsa { .. } => algorithm.of_rsa().is_some(),
            Material::P256(_) => algorithm == Algorithm::Es256,
            Material::P384(_) => algorithm == Algorithm::Es384,
            Material::Ed25519(_) => algorithm == Algorithm::EdDsa,
        }
    }

    fn verify(&self, algorithm: Algorithm, message: &[u8], signed: &[u8]) -> bool {
        let plain = |scheme: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(scheme, key).verify(message, signed).is_ok()
        };
        match &self.material {
            Material::Rsa { n, e } => algorithm.of_rsa().is_some_and(|scheme| {
                RsaPublicKeyComponents { n, e }.verify(scheme, message, signed).is_ok()
            }),
            Material::P256(key) => plain(&signature::ECDSA_P256_SHA256_FIXED, key),
            Material::P384(key) => plain(&signature::ECDSA_P384_SHA384_FIXED, key),
            Material::Ed25519(key) => plain(&signature::ED25519, key),
        }
    }
}
