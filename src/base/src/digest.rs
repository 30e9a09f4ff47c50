//! SHA-256, where a layer below the engines needs it too.

use ring::digest::{Context, SHA256, digest};

/// A SHA-256.
pub type Digest = [u8; 32];

/// The SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> Digest {
    copied(digest(&SHA256, bytes))
}

/// The SHA-256 of `parts` one after the other. What tells them apart is the caller's to see to.
pub fn sha256_of(parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    copied(context.finish())
}

fn copied(digest: ring::digest::Digest) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest.as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha_256() {
        let abc = sha256(b"abc");
        assert_eq!(abc[..4], [0xba, 0x78, 0x16, 0xbf], "FIPS 180-2, appendix B.1");
        assert_eq!(sha256_of(&[b"a", b"", b"bc"]), abc);
    }
}
