//! Random bytes and digests: how secrets that are handed out come to be, and how they are kept.
//!
//! A secret of at least 128 random bits is kept as its plain SHA-256: nobody can guess it back, so the slow hashes that
//! passwords need would buy nothing.

use super::keyring::KeyringError;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// A SHA-256.
pub type Digest = [u8; 32];

/// `N` bytes from the operating system's generator.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], KeyringError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyringError::NoRandomness)?;
    Ok(bytes)
}

/// The SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha_256() {
        let abc = sha256(b"abc");
        assert_eq!(abc[..4], [0xba, 0x78, 0x16, 0xbf], "FIPS 180-2, appendix B.1");
        assert_ne!(random_bytes::<16>().unwrap(), random_bytes::<16>().unwrap());
    }
}
