//! The keys of an output: made, sealed for its row and no other place, and opened to sign.

use super::rows::{KeyInfoV1, OUTPUTS, SignatureScheme, WebhookV1};
use base::clock::Moment;
use base::ids::{OrgId, OutputId};
use base::{Error, Result};
use outputs::webhook::{self, Key};
use secrets::keyring::{Keyring, SealContext};
use secrets::random_bytes;

/// Characters of a secret that are shown again.
const SHOWN_CHARS: usize = 4;

fn place<'a>(org: &'a OrgId, id: &'a OutputId) -> SealContext<'a> {
    SealContext { org: org.0.as_bytes(), table: OUTPUTS.name(), id: id.0.as_bytes(), field: "keys" }
}

/// A new key.
pub(super) fn make(scheme: SignatureScheme) -> Result<Key> {
    let no_bytes = |e| Error::internal("make a key", e);
    Ok(match scheme {
        SignatureScheme::V1 => {
            Key::Secret(random_bytes::<{ webhook::SECRET_BYTES }>().map_err(no_bytes)?.into())
        }
        SignatureScheme::V1a => Key::Seed(random_bytes().map_err(no_bytes)?),
    })
}

/// What is said of a key for good. Of a secret, no more than shows which one it is.
pub(super) fn info(key: &Key) -> KeyInfoV1 {
    let verifying = key.verifying().unwrap_or_default();
    let (scheme, shown) = match key {
        Key::Secret(_) => {
            let skipped = verifying.chars().count().saturating_sub(SHOWN_CHARS);
            (SignatureScheme::V1, verifying.chars().skip(skipped).collect())
        }
        Key::Seed(_) => (SignatureScheme::V1a, verifying),
    };
    KeyInfoV1 { scheme, shown, until: None }
}

pub(super) fn seal(keyring: &Keyring, (org, id): (OrgId, OutputId), keys: &[Key]) -> Result<Vec<u8>> {
    let written: Vec<_> = keys.iter().map(Key::written).collect();
    keyring
        .seal(&place(&org, &id), written.join("\n").as_bytes())
        .map_err(|e| Error::internal("seal the keys of an output", e))
}

/// All keys of an output, also those that are over.
pub(super) fn open(keyring: &Keyring, (org, id): (OrgId, OutputId), row: &WebhookV1) -> Result<Vec<Key>> {
    let damaged = |why: &str| Error::internal("open the keys of an output", why.to_owned());
    let plain = keyring
        .open(&place(&org, &id), &row.sealed_keys)
        .map_err(|e| Error::internal("open the keys of an output", e))?;
    let text = std::str::from_utf8(&plain).map_err(|_| damaged("no text"))?;
    let keys: Vec<_> = text.lines().filter_map(|line| Key::of_written(line).ok()).collect();
    if keys.len() == row.keys.len() { Ok(keys) } else { Err(damaged("not as many as there were")) }
}

/// Those that sign at a moment.
pub(super) fn signing(
    keyring: &Keyring,
    of: (OrgId, OutputId),
    row: &WebhookV1,
    now: Moment,
) -> Result<Vec<Key>> {
    let keys = open(keyring, of, row)?.into_iter().zip(&row.keys);
    Ok(keys.filter(|(_, info)| info.until.is_none_or(|end| end > now)).map(|(key, _)| key).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_its_end_and_a_public_key_itself() {
        let (secret, seed) = (make(SignatureScheme::V1).unwrap(), make(SignatureScheme::V1a).unwrap());
        let shown = info(&secret).shown;
        assert_eq!(shown.len(), SHOWN_CHARS);
        assert!(secret.written().ends_with(&shown) && info(&seed).shown.starts_with("whpk_"));
        assert!(!info(&seed).shown.contains(&seed.written()[5..]));
    }
}
