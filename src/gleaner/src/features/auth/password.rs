//! Passwords: which ones are taken, and how they are hashed.
//!
//! Argon2id with 19 MiB, two passes, one lane (OWASP's first choice; 19-32 ms on the reference machine, data/docs/engines.md,
//! "Keys, passwords and tokens"). A hash is a PHC string that carries its own parameters, so they can grow. Where
//! it is computed, and how many at a time, is in `hashers.rs`.

use super::email::Email;
use super::hashers::Hashers;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use base::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrets::random_bytes;
use std::collections::HashSet;
use std::sync::LazyLock;

/// See data/docs/api.md, "People, organizations and keys".
pub const PASSWORD_CHARS_MIN: usize = 12;
/// See data/docs/api.md, "People, organizations and keys".
pub const PASSWORD_CHARS_MAX: usize = 256;

const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// A password that may be chosen. Not printable, on purpose.
pub struct NewPassword(String);

impl NewPassword {
    /// Checks the rules for the person with this address; a refusal names the field `password`.
    pub fn parse(text: &str, email: &Email) -> Result<NewPassword> {
        let refused = |reason: &str| Err(Error::invalid("password", reason));
        check_length(text)?;
        if text.chars().count() < PASSWORD_CHARS_MIN {
            return refused("must have at least 12 characters");
        }
        let lower = text.to_lowercase();
        if lower.trim() == email.as_str() || lower.trim() == email.local() {
            return refused("must not be the email address");
        }
        if is_common(&lower) {
            return refused("is among the most common ones; choose another");
        }
        Ok(NewPassword(text.to_owned()))
    }
}

impl NewPassword {
    /// A password that nobody knows, for an account whose owner chooses one later.
    pub fn nobodys() -> Result<NewPassword> {
        let bytes = random_bytes::<32>().map_err(|e| Error::internal("make a password", e))?;
        Ok(NewPassword(URL_SAFE_NO_PAD.encode(bytes)))
    }
}

/// Refuses what no password of this box can be, before any work is spent on it.
pub fn check_length(text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid("password", "must not be empty"));
    }
    if text.chars().count() > PASSWORD_CHARS_MAX {
        return Err(Error::invalid("password", "must have at most 256 characters"));
    }
    Ok(())
}

static COMMON: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    include_str!("../../../../../data/passwords.txt")
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
});

/// Digits and signs that people hang on a word; more than this many make a password of their own.
const DECORATION_CHARS_MAX: usize = 10;

/// Whether a password (in lower case) is a common one, or one in disguise: with look-alike digits, with digits and
/// signs before or after it, repeated, or a mere sequence.
fn is_common(lower: &str) -> bool {
    let chars = lower.chars().count();
    let at_end = lower.trim_end_matches(|c: char| !c.is_alphabetic());
    let at_both = at_end.trim_start_matches(|c: char| !c.is_alphabetic());
    let bare = [at_end, at_both]
        .into_iter()
        .filter(|part| !part.is_empty() && chars - part.chars().count() <= DECORATION_CHARS_MAX);
    std::iter::once(lower).chain(bare).any(|part| {
        let plain: String = part.chars().map(without_disguise).collect();
        [part, &plain].into_iter().any(|text| {
            let unit = unit(text);
            unit.len() <= 3 || COMMON.contains(text) || COMMON.contains(unit.as_str()) || is_sequence(text)
        })
    })
}

fn without_disguise(c: char) -> char {
    match c {
        '0' => 'o',
        '1' | '!' | '|' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' | '+' => 't',
        '8' => 'b',
        other => other,
    }
}

/// The shortest text that `text` is a repetition of, perhaps broken off: "abcabcab" is "abc".
fn unit(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let period = (1..=chars.len() / 2)
        .find(|&period| chars.iter().zip(&chars[period..]).all(|(a, b)| a == b))
        .unwrap_or(chars.len());
    chars[..period].iter().collect()
}

/// Whether each character follows the one before it, up or down: "abcdefghijkl", "890123456789".
fn is_sequence(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let follows = |a: char, b: char| match (a.to_digit(10), b.to_digit(10)) {
        (Some(a), Some(b)) => (a + 1) % 10 == b,
        _ => a as u32 + 1 == b as u32,
    };
    chars.windows(2).all(|pair| follows(pair[0], pair[1]))
        || chars.windows(2).all(|pair| follows(pair[1], pair[0]))
}

/// Hashes and checks passwords, a few at a time.
pub struct Passwords {
    hashers: Hashers,
    /// The hash of a password that nobody has, checked where there is no account so that it takes the same time.
    dummy: String,
}

impl Passwords {
    pub fn new() -> Result<Passwords> {
        let nobodys = random_bytes::<16>().map_err(|e| Error::internal("make the dummy password", e))?;
        Ok(Passwords { hashers: Hashers::start()?, dummy: hash(&nobodys)? })
    }

    /// The PHC string of a new password.
    pub async fn hash(&self, password: NewPassword) -> Result<String> {
        self.hashers.run(move || hash(password.0.as_bytes())).await?
    }

    /// Whether `password` is the one that was hashed; without a hash it is not, after the same work.
    pub async fn verify(&self, password: String, hash: Option<String>) -> Result<bool> {
        let known = hash.is_some();
        let hash = hash.unwrap_or_else(|| self.dummy.clone());
        self.hashers.run(move || verify(password.as_bytes(), &hash)).await?.map(|matches| matches && known)
    }
}

fn hash(password: &[u8]) -> Result<String> {
    let failed = |e: &dyn std::fmt::Display| Error::internal("hash a password", e.to_string());
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|e| failed(&e))?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash: PasswordHash = argon2.hash_password(password).map_err(|e| failed(&e))?;
    Ok(hash.to_string())
}

/// The parameters are those in the hash.
fn verify(password: &[u8], hash: &str) -> Result<bool> {
    match Argon2::default().verify_password(password, hash) {
        Ok(()) => Ok(true),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
        Err(e) => Err(Error::internal("check a password", e.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(password: &str) -> Option<String> {
        let email = Email::parse("ada.lovelace.1815@example.com").unwrap();
        NewPassword::parse(password, &email).err().map(|e| e.detail().unwrap().to_owned())
    }

    #[test]
    fn lengths_count_characters() {
        assert!(refusal("kurz bündig").unwrap().contains("at least 12"));
        assert_eq!(refusal("größer bündig"), None);
        assert_eq!(refusal(&"ab cß".repeat(51)), None);
        assert!(refusal(&"ü7".repeat(129)).unwrap().contains("at most 256"));
        assert!(refusal("").unwrap().contains("empty"));
    }

    #[test]
    fn the_email_and_common_passwords_are_refused_in_every_disguise() {
        for email in ["ada.lovelace.1815@example.com", " ADA.Lovelace.1815@Example.com", "Ada.Lovelace.1815"]
        {
            assert!(refusal(email).unwrap().contains("email"), "{email}");
        }
        for common in [
            "password1234",
            "P@ssw0rd2024!",
            "passwordpassword",
            "Welcome12345",
            "qwertyuiop[]",
            "letmeinletmein",
            "aaaaaaaaaaaa",
            "123456789012",
            "098765432109",
            "abcdefghijklm",
            "zyxwvutsrqpo",
            "121212121212",
            "correcthorsebatterystaple",
            "!!!administrator!!!",
            "$ecur1ty2024",
            "iloveyouiloveyou",
            "1qaz2wsx3edc4rfv",
        ] {
            assert!(refusal(common).is_some_and(|said| said.contains("common")), "{common}");
        }
    }

    #[test]
    fn others_are_taken() {
        for good in [
            "twelve chars",
            "tr0ubador & 3 lanterns",
            "violet-anvil-reads-7",
            "dragon 9f3k20c8w1mz7",
            "8392017465829301",
            "пароль не угадать",
        ] {
            assert_eq!(refusal(good), None, "{good}");
        }
    }

    #[test]
    fn the_list_is_in_the_form_it_is_compared_in() {
        assert!(COMMON.len() > 300);
        for entry in COMMON.iter() {
            assert_eq!(*entry, entry.to_lowercase());
            assert!(entry.len() > 3, "{entry} would refuse too much");
        }
    }

    #[tokio::test]
    async fn a_hash_carries_its_parameters_and_nobody_has_the_dummy() {
        let passwords = Passwords::new().unwrap();
        let email = Email::parse("ada@example.com").unwrap();
        let chosen = NewPassword::parse("violet-anvil-reads-7", &email).unwrap();
        let hash = passwords.hash(chosen).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        let check = async |text: &str, hash: Option<&String>| {
            passwords.verify(text.to_owned(), hash.cloned()).await.unwrap()
        };
        assert!(check("violet-anvil-reads-7", Some(&hash)).await);
        assert!(!check("violet-anvil-reads-8", Some(&hash)).await);
        assert!(!check("violet-anvil-reads-7", None).await);
        assert!(passwords.verify("x".to_owned(), Some("no hash".to_owned())).await.is_err());
    }
}
