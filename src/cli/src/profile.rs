//! Boxes that somebody has signed in to: `credentials.toml` in the user's folder of configurations, for their eyes only.

use crate::failure::{Exit, Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where a box is looked for when nothing says where it is; as `gleaner mcp` does.
pub const USUAL_URL: &str = "http://127.0.0.1:8420";
/// The name of a profile that is given none.
pub const USUAL_NAME: &str = "default";
const FILE: &str = "credentials.toml";
const NAME_CHARS_MAX: usize = 64;

/// A box, and a key of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    pub url: String,
    pub key: String,
    /// Whose key it is, as it was said at the login.
    #[serde(default)]
    pub organization: String,
    /// A file with certificate authorities beside the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

/// All profiles of a user.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Profiles {
    /// The one that is used when none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(default)]
    pub profiles: BTreeMap<String, Profile>,
}

/// `$XDG_CONFIG_HOME/gleaner`, or `~/.config/gleaner`.
pub fn folder() -> Outcome<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let configurations = of("XDG_CONFIG_HOME").or_else(|| Some(of("HOME")?.join(".config")));
    let configurations = configurations
        .ok_or_else(|| Failure::failed("neither XDG_CONFIG_HOME nor HOME says where credentials are kept"))?;
    Ok(configurations.join("gleaner"))
}

impl Profiles {
    /// Those of this user; none where there is no file yet.
    pub fn load() -> Outcome<Profiles> {
        Profiles::load_from(&folder()?)
    }

    pub fn load_from(folder: &Path) -> Outcome<Profiles> {
        let file = folder.join(FILE);
        let wrong = |reason: String| Failure::failed(format!("{}: {reason}", file.display()));
        let metadata = match std::fs::metadata(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Profiles::default()),
            metadata => metadata.map_err(|e| wrong(e.to_string()))?,
        };
        if metadata.mode() & 0o077 != 0 {
            return Err(wrong(format!("others can read it; chmod 600 {}", file.display())));
        }
        let text = std::fs::read_to_string(&file).map_err(|e| wrong(e.to_string()))?;
        toml::from_str(&text).map_err(|e| wrong(e.message().to_owned()))
    }

    pub fn save(&self) -> Outcome<()> {
        self.save_in(&folder()?)
    }

    /// Writes them beside the old file and puts them in its place, so that there is always a whole one.
    pub fn save_in(&self, folder: &Path) -> Outcome<()> {
        let failed =
            |e: std::io::Error| Failure::failed(format!("{} cannot be written: {e}", folder.display()));
        prepare(folder).map_err(failed)?;
        let text = toml::to_string(self)
            .map_err(|e| Failure::failed(format!("credentials cannot be written: {e}")))?;
        let new = folder.join(format!("{FILE}.{}", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| {
                // Also where a file of that name was left behind.
                file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&new, folder.join(FILE)));
        written.inspect_err(|_| drop(std::fs::remove_file(&new))).map_err(failed)
    }

    /// The one of this name, or the one that is used when none is named.
    pub fn named(&self, name: Option<&str>) -> Outcome<Option<(&str, &Profile)>> {
        let wanted = name.or(self.default.as_deref());
        let Some(wanted) = wanted else { return Ok(None) };
        match (self.profiles.get_key_value(wanted), name) {
            (Some((name, profile)), _) => Ok(Some((name, profile))),
            (None, None) => Ok(None),
            (None, Some(name)) => {
                let known: Vec<_> = self.profiles.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(Failure::new(Exit::Forbidden, format!("no profile \"{name}\"; known: {known}")))
            }
        }
    }

    pub fn put(&mut self, name: &str, profile: Profile) {
        self.profiles.insert(name.to_owned(), profile);
        if self.default.is_none() {
            self.default = Some(name.to_owned());
        }
    }

    /// Takes one out; another becomes the one that is used when none is named only where it is the last.
    pub fn remove(&mut self, name: &str) -> Option<Profile> {
        let removed = self.profiles.remove(name)?;
        if self.default.as_deref() == Some(name) {
            self.default = match self.profiles.len() {
                1 => self.profiles.keys().next().cloned(),
                _ => None,
            };
        }
        Some(removed)
    }
}

/// Makes the user's folder, for nobody else.
pub fn prepare(folder: &Path) -> std::io::Result<()> {
    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
        }
        made => made,
    }
}

/// A name that a profile may have.
pub fn check_name(name: &str) -> Outcome<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(is_plain) {
        true => Ok(()),
        false => {
            Err(Failure::usage("--profile", "a name has 1 to 64 letters of ASCII, digits, '-', '_' and '.'"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn profile(url: &str) -> Profile {
        Profile { url: url.to_owned(), key: "k".to_owned(), organization: "ada".to_owned(), ca: None }
    }

    #[test]
    fn credentials_are_for_their_users_eyes() {
        let home = TempDir::new().unwrap();
        let folder = home.path().join("new/gleaner");
        let mut profiles = Profiles::load_from(&folder).unwrap();
        assert!(profiles.profiles.is_empty());
        profiles.put("work", profile("https://a"));
        profiles.put("home", profile("https://b"));
        profiles.save_in(&folder).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(FILE))), (0o700, 0o600));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        let read = Profiles::load_from(&folder).unwrap();
        assert_eq!(read.named(None).unwrap().unwrap().0, "work");
        assert_eq!(read.named(Some("home")).unwrap().unwrap().1, &profile("https://b"));
        assert_eq!(read.named(Some("x")).unwrap_err().to_string(), "no profile \"x\"; known: home, work");
        std::fs::set_permissions(folder.join(FILE), std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Profiles::load_from(&folder).unwrap_err().to_string();
        assert!(refused.contains("others can read it; chmod 600"), "{refused}");
        read.save_in(&folder).unwrap();
        assert_eq!(mode(&folder.join(FILE)), 0o600);
    }

    #[test]
    fn the_usual_profile_is_never_one_that_has_gone() {
        let mut profiles = Profiles::default();
        for name in ["a", "b", "c"] {
            profiles.put(name, profile("https://x"));
        }
        assert!(profiles.remove("a").is_some() && profiles.remove("a").is_none());
        assert!(profiles.default.is_none() && profiles.named(None).unwrap().is_none());
        profiles.default = Some("b".to_owned());
        profiles.remove("b");
        assert_eq!(profiles.default.as_deref(), Some("c"));
        for name in ["", "a b", "a/b", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
