//! Where a repository lies.

use base::Result;

/// A file of a repository, as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Names with `/` between, below the repository.
    pub key: String,
    pub bytes: u64,
}

/// What is held while a repository is written to; letting it go lets others write.
pub trait Held: Send {}

/// A place for a repository. Errors name the place and what is wrong with it.
pub trait Target: Send + Sync {
    /// What it is called in messages: a path, `s3://bucket/prefix`.
    fn name(&self) -> String;

    /// Puts a file, whole or not at all; what stood under the key is replaced.
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()>;

    /// Makes what was put durable, as far as the place can say.
    fn settle(&self) -> Result<()>;

    /// A file of at most `bytes_max` bytes; none where there is none.
    fn get(&self, key: &str, bytes_max: u64) -> Result<Option<Vec<u8>>>;

    /// Every file below a folder. A folder that is not there has none.
    fn list(&self, folder: &str) -> Result<Vec<Listed>>;

    /// Removes a file; one that is not there is no error.
    fn remove(&self, key: &str) -> Result<()>;

    /// Keeps others from writing to the repository, as far as the place can; an error when somebody does.
    fn hold(&self) -> Result<Box<dyn Held>>;

    /// Removes what writes that were cut off left behind. Only while it is held.
    fn sweep(&self) -> Result<()>;
}
