//! Files on somebody else's server, over SFTP (version 3, as OpenSSH and nearly every server speak it).
//!
//! [`settings`]: which server, checked; [`connect`]: SSH through the address guard, to the server with the pinned key and no other;
//! [`wire`]: SFTP's messages; this file: what is done with them. SSH itself is the crate `russh`.
//!
//! A file is written under a name of its own, synced where the server can (`fsync@openssh.com`), and renamed. Where the server can
//! replace a file by that (`posix-rename@openssh.com`), nobody ever sees half of it or none; where it cannot, one that is replaced
//! is missing for a moment. A name that nobody may have is given by SFTP's own rename, which fails where there is one.
//!
//! Each step has a time, and the server may say so many bytes and no more.

mod connect;
mod fault;
mod settings;
#[cfg(test)]
mod tests;
mod wire;

pub use fault::{SftpFault, SftpFaultKind};
pub use settings::{
    FOLDER_BYTES_MAX, HOST_KEY_CHARS_MAX, Login, PRIVATE_KEY_CHARS_MAX, Pin, Settings, check_folder,
    check_private_key,
};

use crate::draft_name;
use fetch::Connector;
use std::collections::HashSet;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use wire::{Open, Status, Wire};

/// How long a file may take to be written, and a second more for each of these bytes.
const FILE_TIME: Duration = Duration::from_secs(60);
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;
/// Bytes of a message that writes or reads: what every server takes.
const PIECE: usize = 32 << 10;
/// Pieces that are under way.
const PIECES: usize = 16;

/// A server that lets us in.
pub struct Sftp {
    wire: Wire,
    /// The folder that everything goes below; empty: that of the login.
    folder: String,
    /// Folders that are known to be there.
    made: HashSet<String>,
}

impl Sftp {
    /// Connects and logs in.
    pub async fn open(connector: &Connector, settings: &Settings) -> Result<Sftp, SftpFault> {
        let wire = connect::open(connector, settings).await?;
        Ok(Sftp { wire, folder: settings.folder.clone(), made: HashSet::new() })
    }

    fn path(&self, key: &str) -> String {
        match self.folder.as_str() {
            "" => key.to_owned(),
            folder if folder.ends_with('/') => format!("{folder}{key}"),
            folder => format!("{folder}/{key}"),
        }
    }

    /// Whether there is something of that key.
    pub async fn has(&mut self, key: &str) -> Result<bool, SftpFault> {
        let path = self.path(key);
        Ok(self.wire.size(&path).await?.is_some())
    }

    /// Writes a file, in the place of one of that key; `writer` is said where several may write it.
    pub async fn put(
        &mut self,
        key: &str,
        from: &mut (impl AsyncRead + Unpin),
        writer: Option<&str>,
    ) -> Result<(), SftpFault> {
        let (path, draft) = (self.path(key), self.draft(key, writer));
        self.write(&draft, from).await?;
        if self.wire.has_posix_rename {
            return self.wire.posix_rename(&draft, &path).await?.expected("a file cannot be renamed");
        }
        if self.wire.rename(&draft, &path).await?.is_ok() {
            return Ok(());
        }
        self.wire.remove(&path).await?.expected_or_missing("a file cannot be replaced")?;
        self.wire.rename(&draft, &path).await?.expected("a file cannot be renamed")
    }

    /// Writes a file under a name that nobody has; whether nobody had it.
    pub async fn put_new(&mut self, key: &str, bytes: &[u8], writer: &str) -> Result<bool, SftpFault> {
        let (path, draft) = (self.path(key), self.draft(key, Some(writer)));
        self.write(&draft, &mut &bytes[..]).await?;
        let renamed = self.wire.rename(&draft, &path).await?;
        if renamed.is_ok() {
            return Ok(true);
        }
        self.wire.remove(&draft).await?.expected_or_missing("a file cannot be removed")?;
        match self.wire.size(&path).await? {
            Some(_) => Ok(false),
            None => renamed.expected("a file cannot be renamed").map(|()| true),
        }
    }

    /// The bytes of a file; none where there is none.
    pub async fn get(&mut self, key: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SftpFault> {
        let path = self.path(key);
        let Open::Handle(handle) = self.wire.open_to_read(&path).await? else { return Ok(None) };
        let time = FILE_TIME + Duration::from_secs(bytes_max / BYTES_PER_SECOND_MIN);
        let read = async {
            let mut bytes = Vec::new();
            while let Some(piece) = self.wire.read(&handle, bytes.len() as u64, PIECE).await? {
                bytes.extend_from_slice(&piece);
                if piece.is_empty() || bytes.len() as u64 > bytes_max {
                    return Err(SftpFault::other(format!("{key} is larger than what is read back")));
                }
            }
            Ok(bytes)
        };
        let bytes = timeout(time, read).await.unwrap_or_else(|_| Err(SftpFault::slow("read", time)))?;
        self.wire.close(&handle).await?;
        Ok(Some(bytes))
    }

    /// The names in a folder, so many at most; none where it is not there.
    pub async fn names(&mut self, folder: &str, most: usize) -> Result<Vec<String>, SftpFault> {
        let path = self.path(folder);
        let Open::Handle(handle) = self.wire.open_folder(&path).await? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        while let Some(some) = self.wire.names(&handle).await? {
            names.extend(some);
            if names.len() >= most {
                break;
            }
        }
        self.wire.close(&handle).await?;
        Ok(names)
    }

    /// Removes a file; one that is not there is no error.
    pub async fn remove(&mut self, key: &str) -> Result<(), SftpFault> {
        let path = self.path(key);
        self.wire.remove(&path).await?.expected_or_missing("a file cannot be removed")
    }

    /// The name of a file that is not whole yet; by its writer, where several may write it.
    fn draft(&self, key: &str, writer: Option<&str>) -> String {
        let path = self.path(key);
        match path.rsplit_once('/') {
            Some((folder, name)) => format!("{folder}/{}", draft_name(writer.unwrap_or(name))),
            None => draft_name(writer.unwrap_or(&path)),
        }
    }

    /// Writes all of a file, and the folders that it is in.
    async fn write(&mut self, path: &str, from: &mut (impl AsyncRead + Unpin)) -> Result<(), SftpFault> {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.make_folders(folder).await?;
        }
        let handle = match self.wire.open_to_write(path).await? {
            Open::Handle(handle) => handle,
            Open::Missing(status) => {
                // Somebody has removed a folder that was known.
                self.made.clear();
                return status.expected("a file cannot be made");
            }
        };
        // After a fault the session is not used again: answers may be under way.
        self.write_pieces(&handle, from).await?;
        if self.wire.has_fsync {
            self.wire.fsync(&handle).await?.expected("a file cannot be synced")?;
        }
        self.wire.close(&handle).await?.expected("a file cannot be written")
    }

    async fn write_pieces(
        &mut self,
        handle: &[u8],
        from: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), SftpFault> {
        let (mut at, mut waiting, begun) = (0_u64, 0, tokio::time::Instant::now());
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            let mut part = from.take(PIECE as u64);
            part.read_to_end(&mut piece)
                .await
                .map_err(|e| SftpFault::other(format!("a draft cannot be read: {e}")))?;
            let is_over = piece.is_empty();
            if !is_over {
                self.wire.write(handle, at, &piece).await?;
                (at, waiting) = (at + piece.len() as u64, waiting + 1);
            }
            // At the end all of them, before that as many as make room for the next.
            while waiting > 0 && (is_over || waiting >= PIECES) {
                self.wire.written().await?.expected("the server does not take all of a file")?;
                waiting -= 1;
            }
            if is_over {
                return Ok(());
            }
            let time = FILE_TIME + Duration::from_secs(at / BYTES_PER_SECOND_MIN);
            if begun.elapsed() > time {
                return Err(SftpFault::slow("take a file", time));
            }
        }
    }

    async fn make_folders(&mut self, folder: &str) -> Result<(), SftpFault> {
        if folder.is_empty() || self.made.contains(folder) {
            return Ok(());
        }
        let starts = folder.char_indices().filter(|(at, c)| *c == '/' && *at > 0).map(|(at, _)| at);
        for end in starts.chain([folder.len()]) {
            let one = &folder[..end];
            if self.made.contains(one) || self.wire.size(one).await?.is_some() {
                continue;
            }
            let made = self.wire.make_folder(one).await?;
            if !made.is_ok() && self.wire.size(one).await?.is_none() {
                return made.expected(&format!("the folder {one} cannot be made"));
            }
        }
        self.made.insert(folder.to_owned());
        Ok(())
    }
}

impl Status {
    /// An error where the server has refused.
    fn expected(self, what: &str) -> Result<(), SftpFault> {
        if self.is_ok() { Ok(()) } else { Err(self.fault(what)) }
    }

    /// The same, but that there is no such file is well.
    fn expected_or_missing(self, what: &str) -> Result<(), SftpFault> {
        if self.is_missing() { Ok(()) } else { self.expected(what) }
    }
}
