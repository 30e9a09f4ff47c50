//! Which server, as whom, and by which key it is known.

use russh::keys::ssh_key::Fingerprint;
use russh::keys::{Algorithm, HashAlg, PrivateKey, PublicKey, decode_secret_key};
use std::str::FromStr;

/// Characters of a host key, of a private key, and bytes of a folder's path.
pub const HOST_KEY_CHARS_MAX: usize = 1_000;
pub const PRIVATE_KEY_CHARS_MAX: usize = 16_000;
pub const FOLDER_BYTES_MAX: usize = 500;

/// How we are let in. It has no `Debug`: it is for nobody's eyes.
#[derive(Clone)]
pub enum Login {
    Password(String),
    /// A private key in OpenSSH's form or in PEM, without a passphrase.
    Key(String),
}

/// Where files go, and as whom.
#[derive(Clone)]
pub struct Settings {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub login: Login,
    /// As [`Pin`] takes it.
    pub host_key: String,
    /// Absolute, or below that of the login.
    pub folder: String,
}

/// By what a server is known: its key, or the SHA-256 of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Pin {
    Key(Box<PublicKey>),
    Fingerprint(Fingerprint),
}

impl Pin {
    /// Of `ssh-ed25519 AAAA…`, as a server has it in a file and `ssh-keyscan` prints it behind a name, or of `SHA256:…`.
    pub fn parse(text: &str) -> Result<Pin, String> {
        let text = text.trim();
        if text.len() > HOST_KEY_CHARS_MAX {
            return Err(format!("has {HOST_KEY_CHARS_MAX} characters at most"));
        }
        if text.starts_with("SHA256:") {
            let read = Fingerprint::from_str(text);
            return read.map(Pin::Fingerprint).map_err(|_| "is no SHA-256 of a key (SHA256:…)".to_owned());
        }
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        // A line of `ssh-keyscan`, or of known_hosts, begins with the host.
        let at = words.iter().position(|word| Algorithm::new(word).is_ok());
        let key = at.and_then(|at| Some(format!("{} {}", words[at], words.get(at + 1)?)));
        let key = key.and_then(|key| PublicKey::from_openssh(&key).ok());
        let key = key.ok_or("is a server's public key (ssh-ed25519 AAAA…) or its fingerprint (SHA256:…)")?;
        match key.algorithm() {
            Algorithm::Ed25519 | Algorithm::Ecdsa { .. } => Ok(Pin::Key(Box::new(key))),
            other => Err(format!(
                "is of the kind {other}; taken are ssh-ed25519 and ecdsa-sha2-nistp256, 384 and 521"
            )),
        }
    }

    pub(super) fn is(&self, key: &PublicKey) -> bool {
        match self {
            Pin::Key(pinned) => pinned.key_data() == key.key_data(),
            Pin::Fingerprint(pinned) => *pinned == key.fingerprint(HashAlg::Sha256),
        }
    }

    /// The kinds of keys that the server may show; none where any may be the one.
    pub(super) fn algorithm(&self) -> Option<Algorithm> {
        match self {
            Pin::Key(key) => Some(key.algorithm()),
            Pin::Fingerprint(_) => None,
        }
    }
}

/// A private key that can be used.
pub(super) fn private_key(text: &str) -> Result<PrivateKey, String> {
    if text.len() > PRIVATE_KEY_CHARS_MAX {
        return Err(format!("has {PRIVATE_KEY_CHARS_MAX} characters at most"));
    }
    let is_taken = |line: &str| {
        matches!(
            line.trim_end(),
            "-----BEGIN OPENSSH PRIVATE KEY-----"
                | "-----BEGIN PRIVATE KEY-----"
                | "-----BEGIN EC PRIVATE KEY-----"
        )
    };
    if !text.trim_start().lines().next().is_some_and(is_taken) {
        return Err("is a private key of OpenSSH (-----BEGIN OPENSSH PRIVATE KEY-----) or in PEM, of the kind Ed25519 or \
                    ECDSA, without a passphrase"
            .to_owned());
    }
    // Lines with other ends, as some editors write them.
    let lines: Vec<_> = text.trim().lines().map(str::trim_end).collect();
    // Nothing is deciphered: how long that takes is said by the key itself.
    let key = decode_secret_key(&lines.join("\n"), None);
    let key = key
        .map_err(|_| "cannot be read: it is damaged, has a passphrase, or is of a kind that is not taken")?;
    match key.algorithm() {
        _ if key.is_encrypted() => Err("has a passphrase; give a key without one".to_owned()),
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. } => Ok(key),
        other => Err(format!("is of the kind {other}; taken are Ed25519 and ECDSA")),
    }
}

/// Whether a text is a private key that can be used.
pub fn check_private_key(text: &str) -> Result<(), String> {
    private_key(text).map(|_| ())
}

/// Whether a text is a folder's path.
pub fn check_folder(text: &str) -> Result<(), String> {
    let is_part = |part: &str| part != ".." && part != "." && !part.is_empty();
    let below = text.strip_prefix('/').unwrap_or(text);
    let is_plain = text.len() <= FOLDER_BYTES_MAX && !text.contains(|c: char| c.is_control());
    match text.is_empty() || below.is_empty() || (is_plain && below.split('/').all(is_part)) {
        true => Ok(()),
        false => Err(format!(
            "is a path of up to {FOLDER_BYTES_MAX} bytes, absolute or below the folder of the login, without . and .. and a / at \
             its end"
        )),
    }
}
