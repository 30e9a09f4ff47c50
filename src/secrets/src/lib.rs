//! Random bytes and digests: how secrets that are handed out come to be, and how they are kept.
//!
//! A secret of at least 128 random bits is kept as its plain SHA-256: nobody can guess it back, so the slow hashes that
//! passwords need would buy nothing.

pub mod keyring;
pub mod link;

use keyring::KeyringError;
use ring::rand::{SecureRandom, SystemRandom};

pub use base::digest::{Digest, sha256};

/// `N` bytes from the operating system's generator.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], KeyringError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyringError::NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_differ() {
        assert_ne!(random_bytes::<16>().unwrap(), random_bytes::<16>().unwrap());
    }
}
