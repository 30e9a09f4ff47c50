//! The box's secrets: one file, made at the first boot, beside the data folder and never inside it.
//!
//! Whoever copies the data folder (a backup, a stolen disk image) must not hold the keys to it, so the keys live in a
//! file of their own (data/docs/engines.md, "Keys, passwords and tokens"). Invariants:
//! - the file is created whole or not at all: written under another name, synced, then linked to its name, and the
//!   folder synced; two processes that race for the first boot end with the same keys;
//! - a file that its group or others may read is refused, and so is one that is not exactly what this release wrote:
//!   a box that guesses about its keys would lose what they seal;
//! - each kind of secret is a list, newest first: the first makes, all of them check and open, so a key is replaced by
//!   putting a new one in front and removing the old one when nothing of it lives any more;
//! - what is signed for one purpose never passes for another, because each purpose has a key of its own, derived from
//!   the signing key by HKDF (RFC 5869).

mod error;

pub use error::KeyringError;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{hkdf, hmac};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The layout of the file; a release that changes it reads the older ones.
const FILE_VERSION: u32 = 1;
/// Larger files are not key files.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Keys of one kind that a file may hold.
const KEYS_MAX: usize = 16;
/// A key of HMAC-SHA256 and of AES-256.
const SECRET_BYTES: usize = 32;
/// A key's name in front of what it sealed.
const KEY_ID_BYTES: usize = 4;
const TAG_BYTES: usize = 16;

const FILE_HEAD: &str = "\
# The secrets of this Gleaner box: keep this file with your backups of the data folder, but not in them.
# Without it every access token ends and what was sealed (credentials of providers, site sessions) cannot be opened again.
# Only the user that runs the box may read it (mode 0600); the box refuses to start otherwise.
#
# signing   signs access tokens and links      sealing   encrypts secrets in the store
# The first key of a kind is used for what is new, the others still check and open what is old. To replace a key, put a
# new one in front; remove the old one when nothing that it signed or sealed is left.

";

/// The name of a key: eight hexadecimal digits in text, four bytes in front of what it sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyId([u8; KEY_ID_BYTES]);

impl KeyId {
    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<KeyId> {
        let well_formed = text.len() == 8 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        u32::from_str_radix(text, 16).ok().filter(|_| well_formed).map(|n| KeyId(n.to_be_bytes()))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// What a signature is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Access tokens of people.
    AccessToken,
    /// Links to something stored that work without a credential for a short while.
    Link,
    /// The ends of audit chains.
    AuditHead,
    /// Marks that tell whether an address was there before, for as long as a period of a plan.
    PastUse,
}

impl Purpose {
    const COUNT: usize = 4;

    /// Part of the derived key: never change one.
    fn label(self) -> &'static [u8] {
        match self {
            Purpose::AccessToken => b"gleaner/v1/access-token",
            Purpose::Link => b"gleaner/v1/link",
            Purpose::AuditHead => b"gleaner/v1/audit-head",
            Purpose::PastUse => b"gleaner/v1/past-use",
        }
    }
}

/// What a stamp is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampCheck {
    /// Of the key that signs now.
    Newest,
    /// Of another key of this box.
    Older,
    /// The key that it names is not in the key file.
    UnknownKey(KeyId),
    /// This key has not signed this.
    Wrong,
}

/// Where a sealed value belongs. It opens there and nowhere else, so a value that somebody copies to another row,
/// field or organization is worthless.
#[derive(Clone, Copy, Debug)]
pub struct SealContext<'a> {
    /// The organization's id as bytes; empty for rows without one.
    pub org: &'a [u8],
    pub table: &'a str,
    pub id: &'a [u8],
    pub field: &'a str,
}

impl SealContext<'_> {
    /// Each part behind its length, so that no two places have the same bytes.
    fn associated_data(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        for part in [self.org, self.table.as_bytes(), self.id, self.field.as_bytes()] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }
}

struct SigningKey {
    id: KeyId,
    /// In the order of [`Purpose`].
    keys: [hmac::Key; Purpose::COUNT],
}

struct SealingKey {
    id: KeyId,
    key: LessSafeKey,
}

/// The open keys. Neither printed nor cloned: share it behind an `Arc`.
pub struct Keyring {
    signing: Vec<SigningKey>,
    sealing: Vec<SealingKey>,
    random: SystemRandom,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    version: u32,
    signing: Vec<KeyEntry>,
    sealing: Vec<KeyEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    id: String,
    secret: String,
}

impl Keyring {
    /// The keys in the file at `path`; makes the file when there is none. Only for a box whose store is new as well:
    /// one with data must [`load`](Keyring::load), because fresh keys cannot open what older ones sealed.
    pub fn load_or_create(path: &Path) -> Result<Keyring, KeyringError> {
        match Keyring::load(path) {
            Err(KeyringError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                create(path)?;
                Keyring::load(path)
            }
            // Of a start that failed behind the link, whose name may not be on the disk yet.
            Ok(keyring) => match disk::sync_name(path) {
                Err(source) if source.kind() != io::ErrorKind::PermissionDenied => {
                    Err(KeyringError::Io { doing: "sync the folder of", path: path.to_owned(), source })
                }
                _ => Ok(keyring),
            },
            other => other,
        }
    }

    /// The keys in the file at `path`, which must exist.
    pub fn load(path: &Path) -> Result<Keyring, KeyringError> {
        let failed = |doing| move |source| KeyringError::Io { doing, path: path.to_owned(), source };
        let malformed = |reason: String| KeyringError::Malformed { path: path.to_owned(), reason };
        let file = File::open(path).map_err(failed("open the key file"))?;
        // Asked of the open file and not of the path: what is checked is what is read.
        let about = file.metadata().map_err(failed("look at the key file"))?;
        if !about.is_file() {
            return Err(malformed("it is not a regular file".to_owned()));
        }
        let mode = about.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyringError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed("read the key file"))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(malformed("it is too large".to_owned()));
        }
        // The parser's own message would quote the line, and with it a secret.
        let parsed: KeyFile = toml::from_str(&text)
            .map_err(|e| malformed(format!("not the expected TOML{}", line_of(&text, &e))))?;
        Keyring::from_file(&parsed).map_err(malformed)
    }

    fn from_file(file: &KeyFile) -> Result<Keyring, String> {
        if file.version != FILE_VERSION {
            return Err(format!("version {} is unknown to this release", file.version));
        }
        let signing = secrets("signing", &file.signing)?
            .into_iter()
            .map(|(id, secret)| SigningKey {
                id,
                keys: [Purpose::AccessToken, Purpose::Link, Purpose::AuditHead, Purpose::PastUse]
                    .map(|purpose| derived(&secret, purpose)),
            })
            .collect();
        let sealing = secrets("sealing", &file.sealing)?
            .into_iter()
            .map(|(id, secret)| {
                let key = UnboundKey::new(&AES_256_GCM, &secret).map_err(|_| "a sealing key does not fit")?;
                Ok(SealingKey { id, key: LessSafeKey::new(key) })
            })
            .collect::<Result<_, String>>()?;
        Ok(Keyring { signing, sealing, random: SystemRandom::new() })
    }

    /// The names of the signing keys, the one that signs first.
    pub fn signing_ids(&self) -> impl Iterator<Item = KeyId> {
        self.signing.iter().map(|key| key.id)
    }

    /// Signs with the newest key: its name and the HMAC-SHA256 of `message`.
    pub fn sign(&self, purpose: Purpose, message: &[u8]) -> (KeyId, [u8; 32]) {
        let newest = &self.signing[0];
        let tag = hmac::sign(&newest.keys[purpose as usize], message);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(tag.as_ref());
        (newest.id, bytes)
    }

    /// Whether `tag` is this box's signature of `message` for `purpose` under the key named `id`; in constant time.
    pub fn verify(&self, purpose: Purpose, id: KeyId, message: &[u8], tag: &[u8]) -> bool {
        self.signing
            .iter()
            .find(|key| key.id == id)
            .is_some_and(|key| hmac::verify(&key.keys[purpose as usize], message, tag).is_ok())
    }

    /// A signature that carries the name of its key: key id, then the tag, 36 bytes.
    pub fn stamp(&self, purpose: Purpose, message: &[u8]) -> Vec<u8> {
        let (id, tag) = self.sign(purpose, message);
        [id.0.as_slice(), &tag].concat()
    }

    /// What `stamp` is for the same message and purpose.
    pub fn check_stamp(&self, purpose: Purpose, message: &[u8], stamp: &[u8]) -> StampCheck {
        let Some((id, tag)) = stamp.split_first_chunk::<KEY_ID_BYTES>() else { return StampCheck::Wrong };
        let id = KeyId(*id);
        match self.signing.iter().position(|key| key.id == id) {
            None => StampCheck::UnknownKey(id),
            Some(_) if !self.verify(purpose, id, message, tag) => StampCheck::Wrong,
            Some(0) => StampCheck::Newest,
            Some(_) => StampCheck::Older,
        }
    }

    /// Encrypts `plain` so that it opens at `place` only: key id, nonce, AES-256-GCM text and tag, 32 bytes more than
    /// it had. Nonces are random, which is safe for 2^32 values a key (NIST SP 800-38D, 8.3).
    pub fn seal(&self, place: &SealContext<'_>, plain: &[u8]) -> Result<Vec<u8>, KeyringError> {
        let newest = &self.sealing[0];
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| KeyringError::NoRandomness)?;
        let mut sealed = Vec::with_capacity(KEY_ID_BYTES + NONCE_LEN + plain.len() + TAG_BYTES);
        sealed.extend_from_slice(&newest.id.0);
        sealed.extend_from_slice(&nonce);
        let mut text = plain.to_vec();
        newest
            .key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(place.associated_data()),
                &mut text,
            )
            .map_err(|_| KeyringError::CannotOpen)?;
        sealed.append(&mut text);
        Ok(sealed)
    }

    /// What [`seal`](Keyring::seal) was given for the same place.
    pub fn open(&self, place: &SealContext<'_>, sealed: &[u8]) -> Result<Vec<u8>, KeyringError> {
        let damaged = || KeyringError::CannotOpen;
        let (id, rest) = sealed.split_first_chunk::<KEY_ID_BYTES>().ok_or_else(damaged)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(damaged)?;
        let key = self.sealing.iter().find(|key| key.id.0 == *id).ok_or_else(damaged)?;
        let mut text = text.to_vec();
        let plain = key
            .key
            .open_in_place(
                Nonce::assume_unique_for_key(*nonce),
                Aad::from(place.associated_data()),
                &mut text,
            )
            .map_err(|_| damaged())?
            .len();
        text.truncate(plain);
        Ok(text)
    }

    /// Whether `sealed` was sealed by the newest key; an older one's values are sealed anew when they are next written.
    pub fn is_current(&self, sealed: &[u8]) -> bool {
        sealed.starts_with(&self.sealing[0].id.0)
    }
}

/// Refuses a key file inside the data folder; both may not exist yet.
pub fn refuse_inside(key_file: &Path, data_folder: &Path) -> Result<(), KeyringError> {
    // A symbolic link must not hide where the file really is, as far as the path exists.
    let real = |path: &Path| -> PathBuf {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let known = path.ancestors().find_map(|p| p.canonicalize().ok().map(|real| (p, real)));
        match known {
            Some((part, real)) => real.join(path.strip_prefix(part).unwrap_or(Path::new(""))),
            None => path,
        }
    };
    if real(key_file).starts_with(real(data_folder)) {
        return Err(KeyringError::InsideData { path: key_file.to_owned(), folder: data_folder.to_owned() });
    }
    Ok(())
}

/// The keys of one kind, checked.
fn secrets(kind: &str, entries: &[KeyEntry]) -> Result<Vec<(KeyId, [u8; SECRET_BYTES])>, String> {
    if entries.is_empty() || entries.len() > KEYS_MAX {
        return Err(format!("it needs 1 to {KEYS_MAX} {kind} keys and has {}", entries.len()));
    }
    let mut keys: Vec<(KeyId, [u8; SECRET_BYTES])> = Vec::new();
    for entry in entries {
        let id = KeyId::parse(&entry.id)
            .ok_or_else(|| format!("a {kind} key's id is not 8 hexadecimal digits"))?;
        let secret = STANDARD.decode(&entry.secret).ok().and_then(|bytes| bytes.try_into().ok());
        let secret =
            secret.ok_or_else(|| format!("{kind} key {id} is not {SECRET_BYTES} bytes in base64"))?;
        if secret == [0; SECRET_BYTES] {
            return Err(format!("{kind} key {id} is all zeros"));
        }
        if keys.iter().any(|(known, _)| *known == id) {
            return Err(format!("{kind} key {id} is there twice"));
        }
        keys.push((id, secret));
    }
    Ok(keys)
}

fn derived(secret: &[u8; SECRET_BYTES], purpose: Purpose) -> hmac::Key {
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, b"gleaner").extract(secret);
    let info = [purpose.label()];
    let expanded = extracted.expand(&info, hmac::HMAC_SHA256).expect("a digest's length is always allowed");
    hmac::Key::from(expanded)
}

fn line_of(text: &str, error: &toml::de::Error) -> String {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    line.map_or_else(String::new, |line| format!(" at line {line}"))
}

/// Makes a file of fresh keys at `path`, unless somebody else did so meanwhile.
fn create(path: &Path) -> Result<(), KeyringError> {
    let failed = |doing| move |source| KeyringError::Io { doing, path: path.to_owned(), source };
    let random = SystemRandom::new();
    let fresh = || -> Result<KeyEntry, KeyringError> {
        let (mut id, mut secret) = ([0; KEY_ID_BYTES], [0; SECRET_BYTES]);
        random
            .fill(&mut id)
            .and_then(|()| random.fill(&mut secret))
            .map_err(|_| KeyringError::NoRandomness)?;
        Ok(KeyEntry { id: KeyId(id).to_string(), secret: STANDARD.encode(secret) })
    };
    let keys = KeyFile { version: FILE_VERSION, signing: vec![fresh()?], sealing: vec![fresh()?] };
    let body = toml::to_string(&keys)
        .map_err(|e| KeyringError::Malformed { path: path.to_owned(), reason: e.to_string() })?;

    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    disk::make_folder(folder).map_err(failed("make the folder of"))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = folder.join(format!(".{name}.{}", keys.signing[0].id));
    let made = disk::write_synced(&draft, format!("{FILE_HEAD}{body}").as_bytes(), false)
        // A link, unlike a rename, never replaces a file that is there already.
        .and_then(|()| match fs::hard_link(&draft, path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        });
    let swept = fs::remove_file(&draft);
    made.and(swept).and_then(|()| disk::sync_folder(folder)).map_err(failed("create the key file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    const PLACE: SealContext<'static> =
        SealContext { org: b"o", table: "providers", id: b"1", field: "token" };

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn the_first_boot_makes_a_private_file_and_the_second_reads_it() {
        let folder = folder();
        let path = folder.path().join("new/keys.toml");
        assert!(Keyring::load(&path).is_err(), "a box with data must not make new keys");
        let first = Keyring::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "a draft was left behind");
        let second = Keyring::load_or_create(&path).unwrap();
        let (id, tag) = first.sign(Purpose::AccessToken, b"hello");
        assert!(second.verify(Purpose::AccessToken, id, b"hello", &tag));
        let sealed = first.seal(&PLACE, b"secret").unwrap();
        assert_eq!(second.open(&PLACE, &sealed).unwrap(), b"secret");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# The secrets of this Gleaner box"));
        assert!(!format!("{first:?}").contains("secret"));
    }

    #[test]
    fn racing_first_boots_end_with_the_same_keys() {
        let folder = folder();
        let path = folder.path().join("keys.toml");
        let rings: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| Keyring::load_or_create(&path).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (id, tag) = rings[0].sign(Purpose::Link, b"x");
        assert!(rings.iter().all(|ring| ring.verify(Purpose::Link, id, b"x", &tag)));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = folder();
        let path = folder.path().join("keys.toml");
        Keyring::load_or_create(&path).unwrap();
        for mode in [0o640, 0o604, 0o660, 0o601] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let refused = Keyring::load_or_create(&path).unwrap_err();
            assert!(matches!(refused, KeyringError::Exposed { .. }), "{mode:o}");
            assert!(refused.to_string().contains("chmod 600"), "{refused}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        assert!(Keyring::load_or_create(&path).is_ok());
    }

    #[test]
    fn a_damaged_file_is_refused_without_showing_a_secret_and_is_never_replaced() {
        let folder = folder();
        let path = folder.path().join("keys.toml");
        Keyring::load_or_create(&path).unwrap();
        let good = fs::read_to_string(&path).unwrap();
        let secret = good.split("secret = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let id = good.split("id = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let damaged = [
            String::new(),
            good[..good.len() - 20].to_owned(),
            good.replace("version = 1", "version = 2"),
            good.replace(&secret, &secret[4..]),
            good.replace(&secret, &STANDARD.encode([0; 32])),
            good.replace(&id, "nothexid"),
            good.replace("[[sealing]]", "[[signing]]"),
            good.replace(
                "[[sealing]]",
                &format!("[[signing]]\nid = \"{id}\"\nsecret = \"{secret}\"\n[[sealing]]"),
            ),
            format!("extra = true\n{good}"),
            good.replace("secret = \"", "secret = "),
        ];
        for text in damaged {
            fs::write(&path, &text).unwrap();
            let refused = Keyring::load_or_create(&path).unwrap_err();
            assert!(matches!(refused, KeyringError::Malformed { .. }), "{refused} for {text}");
            assert!(!refused.to_string().contains(&secret[..12]), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_sealed_value_opens_in_its_place_only() {
        let folder = folder();
        let ring = Keyring::load_or_create(&folder.path().join("a.toml")).unwrap();
        let other = Keyring::load_or_create(&folder.path().join("b.toml")).unwrap();
        let sealed = ring.seal(&PLACE, b"token 1").unwrap();
        assert_ne!(sealed, ring.seal(&PLACE, b"token 1").unwrap(), "the nonce repeats");
        assert_eq!(ring.open(&PLACE, &sealed).unwrap(), b"token 1");
        assert!(ring.is_current(&sealed) && !other.is_current(&sealed));
        let elsewhere = [
            SealContext { org: b"p", ..PLACE },
            SealContext { table: "outputs", ..PLACE },
            SealContext { id: b"2", ..PLACE },
            SealContext { field: "user", ..PLACE },
            // The same bytes in a row, divided otherwise.
            SealContext { org: b"op", table: "roviders", ..PLACE },
        ];
        assert!(elsewhere.iter().all(|place| ring.open(place, &sealed).is_err()));
        assert!(other.open(&PLACE, &sealed).is_err());
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone();
            bytes[at] ^= 1;
            assert!(ring.open(&PLACE, &bytes).is_err(), "byte {at}");
            assert!(ring.open(&PLACE, &sealed[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_new_key_in_front_leaves_the_old_one_valid() {
        let folder = folder();
        let (old, both) = (folder.path().join("old.toml"), folder.path().join("both.toml"));
        let before = Keyring::load_or_create(&old).unwrap();
        let fresh = folder.path().join("fresh.toml");
        Keyring::load_or_create(&fresh).unwrap();
        let read = |path: &Path| toml::from_str::<KeyFile>(&fs::read_to_string(path).unwrap()).unwrap();
        let mut keys = read(&fresh);
        keys.signing.extend(read(&old).signing);
        keys.sealing.extend(read(&old).sealing);
        disk::write_synced(&both, toml::to_string(&keys).unwrap().as_bytes(), false).unwrap();
        let after = Keyring::load(&both).unwrap();

        let (id, tag) = before.sign(Purpose::AccessToken, b"m");
        assert!(after.verify(Purpose::AccessToken, id, b"m", &tag));
        let (new_id, new_tag) = after.sign(Purpose::AccessToken, b"m");
        assert_ne!(new_id, id);
        assert!(!before.verify(Purpose::AccessToken, new_id, b"m", &new_tag));
        assert!(!after.verify(Purpose::AccessToken, id, b"m", &new_tag), "a tag belongs to its key");
        assert_eq!(after.open(&PLACE, &before.seal(&PLACE, b"x").unwrap()).unwrap(), b"x");
    }

    #[test]
    fn a_signature_serves_one_purpose() {
        let folder = folder();
        let ring = Keyring::load_or_create(&folder.path().join("keys.toml")).unwrap();
        let (id, tag) = ring.sign(Purpose::Link, b"message");
        assert!(ring.verify(Purpose::Link, id, b"message", &tag));
        assert!(!ring.verify(Purpose::AccessToken, id, b"message", &tag));
        assert!(!ring.verify(Purpose::Link, id, b"massage", &tag));
        assert!(!ring.verify(Purpose::Link, id, b"message", &tag[..31]));
        assert!(!ring.verify(Purpose::Link, id, b"message", &[]));
    }

    #[test]
    fn the_data_folder_is_no_place_for_it() {
        let folder = folder();
        let data = folder.path().join("var");
        fs::create_dir(&data).unwrap();
        std::os::unix::fs::symlink(&data, folder.path().join("link")).unwrap();
        assert!(refuse_inside(&folder.path().join("keys.toml"), &data).is_ok());
        assert!(refuse_inside(&folder.path().join("variant.toml"), &data).is_ok());
        for inside in ["var/keys.toml", "var/deep/keys.toml", "link/keys.toml"] {
            assert!(refuse_inside(&folder.path().join(inside), &data).is_err(), "{inside}");
        }
    }
}
