//! What a table's log says so far: from its last checkpoint on.

use super::super::{FileFault, Shelf};
use super::DATE_COLUMN;
use super::checkpoint::{self, Checkpoint};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Commits that are read behind a checkpoint, and their bytes: somebody else's storage may say anything.
const TAIL_MAX: usize = 20_000;
const TAIL_BYTES_MAX: usize = 64 << 20;
/// What this box reads and writes of the protocol.
const READER_VERSION: u64 = 1;
const WRITER_VERSION: u64 = 2;

/// A table's log.
pub(super) struct Log {
    /// The version that the next commit makes.
    pub next: u64,
    pub checkpoint: Option<Checkpoint>,
    /// The actions since, oldest first.
    pub tail: Vec<Value>,
    /// The table's terms.
    pub metadata: Option<Value>,
    protocol: Option<Value>,
    /// Of the files that were asked for those that were added, with their sizes; none where somebody has taken one out since.
    found: HashMap<String, Option<u64>>,
}

/// The name of a commit.
pub(super) fn version(number: u64) -> String {
    format!("{number:020}.json")
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".json").filter(|digits| digits.len() == 20)?.parse().ok()
}

impl Log {
    /// Reads a log, and whether these files were added.
    pub async fn read(shelf: &mut Shelf, folder: &str, paths: &HashSet<String>) -> Result<Log, FileFault> {
        let from = checkpoint::last(shelf, folder).await?;
        match Log::read_from(shelf, folder, paths, from.as_ref()).await {
            // A checkpoint that cannot be read is not needed where all commits are there.
            Err(fault) if from.is_some() => {
                Log::read_from(shelf, folder, paths, None).await.map_err(|_| fault)
            }
            log => log,
        }
    }

    async fn read_from(
        shelf: &mut Shelf,
        folder: &str,
        paths: &HashSet<String>,
        from: Option<&checkpoint::Named>,
    ) -> Result<Log, FileFault> {
        let first = from.map_or(0, |named| named.version + 1);
        let names = shelf.names(folder, &format!("{first:020}")).await?;
        let mut versions: Vec<_> = names.iter().filter_map(|name| number_of(name)).collect();
        versions.retain(|version| *version >= first);
        versions.sort_unstable();
        if versions.len() > TAIL_MAX {
            return Err(FileFault(format!("{folder} has more than {TAIL_MAX} commits and no checkpoint")));
        }
        if !versions.iter().copied().eq(first..first + versions.len() as u64) {
            return Err(FileFault(format!("{folder} lacks a commit between others")));
        }
        let next = first + versions.len() as u64;
        let mut log = Log {
            next,
            checkpoint: None,
            tail: Vec::new(),
            metadata: None,
            protocol: None,
            found: HashMap::new(),
        };
        if let Some(named) = from {
            let checkpoint = named.read(shelf, folder).await?;
            let wanted = paths.clone();
            let told = checkpoint.clone();
            let told = tokio::task::spawn_blocking(move || told.what_matters(&wanted)).await;
            let told =
                told.map_err(|error| FileFault(format!("a checkpoint of {folder} cannot be read: {error}")))?;
            for action in
                told.map_err(|why| FileFault(format!("a checkpoint of {folder} cannot be read: {why}")))?
            {
                log.note(&action, paths);
            }
            log.checkpoint = Some(checkpoint);
        }
        let mut read = 0;
        for number in versions {
            let key = format!("{folder}/{}", version(number));
            let bytes = shelf.get(&key).await?;
            let bytes = bytes.ok_or_else(|| FileFault(format!("{key} is gone")))?;
            read += bytes.len();
            if read > TAIL_BYTES_MAX {
                let most = TAIL_BYTES_MAX >> 20;
                let told = format!("{folder} has more than {most} MB of commits and no checkpoint");
                return Err(FileFault(told));
            }
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let action: Value =
                    serde_json::from_slice(line).map_err(|_| FileFault(format!("{key} is not JSON")))?;
                log.note(&action, paths);
                log.tail.push(action);
            }
        }
        log.checked(folder)
    }

    fn note(&mut self, action: &Value, paths: &HashSet<String>) {
        let known = |path: &Value| path.as_str().and_then(|path| paths.get(path)).cloned();
        if let Some(path) = known(&action["add"]["path"]) {
            self.found.insert(path, action["add"]["size"].as_u64());
        }
        if let Some(path) = known(&action["remove"]["path"]) {
            self.found.insert(path, None);
        }
        if action["metaData"].is_object() {
            self.metadata = Some(action["metaData"].clone());
        }
        if action["protocol"].is_object() {
            self.protocol = Some(action["protocol"].clone());
        }
    }

    /// Refuses a table that this box must not write into.
    fn checked(self, folder: &str) -> Result<Log, FileFault> {
        if self.next == 0 {
            return Ok(self);
        }
        let (Some(metadata), Some(protocol)) = (&self.metadata, &self.protocol) else {
            return Err(FileFault(format!("{folder} does not say what the table is")));
        };
        let version = |name: &str| protocol[name].as_u64().unwrap_or(u64::MAX);
        let (reader, writer) = (version("minReaderVersion"), version("minWriterVersion"));
        if reader > READER_VERSION || writer > WRITER_VERSION {
            return Err(FileFault(format!(
                "somebody has given the Delta table a newer protocol (reader {reader}, writer {writer}); this box writes reader \
                 {READER_VERSION}, writer {WRITER_VERSION}: give the output another path"
            )));
        }
        if metadata["partitionColumns"] != json!([DATE_COLUMN]) {
            return Err(FileFault(format!("the Delta table is not partitioned by {DATE_COLUMN} alone")));
        }
        Ok(self)
    }

    /// Whether the table has a file of this name and size, or had it and somebody has taken it out, as who rewrites a table does.
    pub fn has(&self, path: &str, bytes: u64) -> bool {
        self.found.get(path).is_some_and(|size| size.is_none_or(|size| size == bytes))
    }
}
