//! The console's files: one shell, and the scripts and styles that it names by their hashes.
//!
//! They are built from `ui/` by `build.rs` when Node.js and npm are there, or taken from the folder that
//! `GLEANER_CONSOLE_DIST` names. A box that was built without either has none of them, and everything else.

/// One file as it is served, in each of its codings.
pub struct File {
    /// Its name below the console's folder; with a hash of its bytes, except for the shell.
    pub name: &'static str,
    pub plain: &'static [u8],
    pub gzip: &'static [u8],
    pub brotli: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// What the shell is called.
const SHELL: &str = "index.html";

impl File {
    /// What it is, by its name.
    pub fn media_type(&self) -> &'static str {
        match self.name.rsplit_once('.') {
            Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }
}

/// The page that everything begins with; none where the box was built without a console.
pub fn shell() -> Option<&'static File> {
    find(SHELL)
}

/// A file that the shell, or one of its scripts, asks for.
pub fn asset(name: &str) -> Option<&'static File> {
    find(name).filter(|file| file.name != SHELL)
}

/// Every file.
pub fn all() -> &'static [File] {
    FILES
}

fn find(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}
