//! The library that stands between the box and the system's calls on files (shim.c), compiled where a C compiler is.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// One life of the box under watch.
pub struct Shim {
    dir: Arc<TempDir>,
    /// What was done to files.
    pub journal: PathBuf,
    control: PathBuf,
    fired: PathBuf,
    faults: AtomicU64,
}

/// What is to fail.
pub struct Fault<'f> {
    /// Kinds of calls: O open, C create, W write, G read at, T cut, S sync, R rename, L link, U unlink, M make a folder.
    pub calls: &'f str,
    /// A part of the path.
    pub path: &'f str,
    /// The system's error; none: writes take half of what they are given.
    pub error: Option<i32>,
    /// Calls that succeed before.
    pub skip: u64,
    /// Calls that fail.
    pub count: u64,
}

impl Shim {
    /// None, with a word about it, where it cannot be compiled.
    pub fn new(name: &str) -> Option<Shim> {
        let dir = TempDir::new().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("tests/it/machine/shim.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(dir.path().join("shim.so"))
            .arg(source)
            .args(["-ldl", "-lpthread"])
            .output();
        match compiled {
            Ok(output) if output.status.success() => {}
            failed => {
                println!("skipped: no C compiler for the shim: {failed:?}");
                return None;
            }
        }
        fs::create_dir(dir.path().join("box")).unwrap();
        Some(Shim::over(Arc::new(dir), name))
    }

    fn over(dir: Arc<TempDir>, name: &str) -> Shim {
        let path = |what: &str| dir.path().join(format!("{name}.{what}"));
        Shim {
            journal: path("journal"),
            control: path("control"),
            fired: path("fired"),
            faults: AtomicU64::new(0),
            dir: dir.clone(),
        }
    }

    /// Another life over the same folder.
    pub fn again(&self, name: &str) -> Shim {
        Shim::over(self.dir.clone(), name)
    }

    /// The folder that is watched.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("box")
    }

    /// What the process must be started with to keep a journal.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", self.dir.path().join("shim.so").into()),
            ("SHIM_ROOT", self.root().into()),
            ("SHIM_JOURNAL", self.journal.clone().into()),
        ]
    }

    /// The same to make calls fail.
    pub fn with_faults(&self) -> Vec<(&'static str, OsString)> {
        fs::write(&self.fired, "").unwrap();
        self.mend();
        vec![
            ("LD_PRELOAD", self.dir.path().join("shim.so").into()),
            ("SHIM_ROOT", self.root().into()),
            ("SHIM_CONTROL", self.control.clone().into()),
            ("SHIM_FIRED", self.fired.clone().into()),
        ]
    }

    pub fn journal_length(&self) -> u64 {
        fs::metadata(&self.journal).unwrap().len()
    }

    /// From now on these calls fail.
    pub fn fail(&self, fault: &Fault<'_>) {
        let generation = self.faults.fetch_add(1, Ordering::Relaxed) + 1;
        let Fault { calls, path, error, skip, count } = fault;
        let line = format!(
            "{generation} {} {} {skip} {count} {calls} {path}\n",
            error.unwrap_or(1),
            u8::from(error.is_none())
        );
        let new = self.control.with_extension("new");
        fs::write(&new, line).unwrap();
        fs::rename(new, &self.control).unwrap();
    }

    /// From now on nothing fails.
    pub fn mend(&self) {
        self.fail(&Fault { calls: "-", path: "-", error: Some(5), skip: 0, count: 0 });
    }

    /// How many calls have failed.
    pub fn fired(&self) -> u64 {
        fs::metadata(&self.fired).unwrap().len()
    }
}
