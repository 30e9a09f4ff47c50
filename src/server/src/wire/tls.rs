//! TLS from files: rustls with ring, HTTP/2 offered first. The files are read again while connections go on, when somebody asks
//! for it and when they have changed.

use crate::settings::TlsSettings;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Why the files do not make a TLS server; names the file.
#[derive(Debug)]
pub struct TlsError {
    doing: &'static str,
    file: PathBuf,
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.file.display(), self.cause)
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.cause)
    }
}

/// The certificates that new connections are shown; clones are the same.
#[derive(Clone)]
pub struct Certificates(Arc<Shown>);

struct Shown {
    config: ArcSwap<ServerConfig>,
    files: Mutex<Files>,
}

/// What is known of the files.
struct Files {
    settings: TlsSettings,
    /// As they were when they were read last.
    read: [Option<FileMark>; 2],
    /// Why they could not be read, as often as that was tried one after another.
    trouble: Option<(String, u32)>,
}

/// What tells a file from the one that was there before. A link is followed, as those of certbot lead elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileMark {
    inode: (u64, u64),
    bytes: u64,
    /// Seconds and nanoseconds.
    written: (i64, i64),
}

impl FileMark {
    fn of(path: &Path) -> Option<FileMark> {
        let about = std::fs::metadata(path).ok()?;
        Some(FileMark {
            inode: (about.dev(), about.ino()),
            bytes: about.len(),
            written: (about.mtime(), about.mtime_nsec()),
        })
    }

    fn of_both(settings: &TlsSettings) -> [Option<FileMark>; 2] {
        [&settings.cert, &settings.key].map(|path| FileMark::of(path))
    }
}

/// What a look at the files has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing that is new.
    Same,
    /// New connections are shown what stands there now.
    Renewed,
    /// They have changed, and cannot be used; what was shown before goes on. Told once.
    Broken(String),
}

/// Chain and key are two files, written one after the other: between them they do not fit. What does not fit at so many looks
/// is broken.
const BROKEN_LOOKS: u32 = 2;

impl Certificates {
    /// Reads the files.
    pub fn read(settings: &TlsSettings) -> Result<Certificates, TlsError> {
        let read = FileMark::of_both(settings);
        let config = ArcSwap::from_pointee(server_config(settings)?);
        let files = Mutex::new(Files { settings: settings.clone(), read, trouble: None });
        Ok(Certificates(Arc::new(Shown { config, files })))
    }

    /// Reads the files again, or others. Connections that are open stay as they are; on an error so do new ones, until the files
    /// are mended.
    pub fn renew(&self, settings: &TlsSettings) -> Result<(), TlsError> {
        let mut files = self.0.files.lock();
        files.settings = settings.clone();
        files.read = FileMark::of_both(settings);
        match server_config(settings) {
            Ok(config) => {
                self.0.config.store(Arc::new(config));
                files.trouble = None;
                Ok(())
            }
            Err(error) => {
                files.trouble = Some((error.to_string(), BROKEN_LOOKS));
                Err(error)
            }
        }
    }

    /// Looks whether the files have changed, and reads them if so. Reads from the disk.
    pub fn look(&self) -> Look {
        let mut files = self.0.files.lock();
        let now = FileMark::of_both(&files.settings);
        // What could not be read is tried again: it may have been read while it was written.
        if now == files.read && files.trouble.is_none() {
            return Look::Same;
        }
        files.read = now;
        match server_config(&files.settings) {
            Ok(config) => {
                self.0.config.store(Arc::new(config));
                files.trouble = None;
                Look::Renewed
            }
            Err(error) => {
                let why = error.to_string();
                let before = files.trouble.take().filter(|(before, _)| *before == why);
                let looks = before.map_or(0, |(_, looks)| looks).saturating_add(1);
                files.trouble = Some((why.clone(), looks));
                if looks == BROKEN_LOOKS { Look::Broken(why) } else { Look::Same }
            }
        }
    }

    /// Why the files as they are now cannot be used, if so; what was shown before goes on.
    pub fn trouble(&self) -> Option<String> {
        let files = self.0.files.lock();
        files.trouble.as_ref().filter(|(_, looks)| *looks >= BROKEN_LOOKS).map(|(why, _)| why.clone())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.config.load_full())
    }
}

/// Reads the chain and the key, and checks that they belong together.
fn server_config(settings: &TlsSettings) -> Result<ServerConfig, TlsError> {
    let failed = |doing, file: &PathBuf| {
        let file = file.clone();
        move |cause: Box<dyn std::error::Error + Send + Sync>| TlsError { doing, file, cause }
    };
    let chain = CertificateDer::pem_file_iter(&settings.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| failed("read the certificates in", &settings.cert)(e.into()))?;
    let key = PrivateKeyDer::from_pem_file(&settings.key)
        .map_err(|e| failed("read the private key in", &settings.key)(e.into()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|e: rustls::Error| failed("serve the certificates in", &settings.cert)(e.into()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
