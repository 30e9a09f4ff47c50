//! SFTP's messages (draft-ietf-secsh-filexfer-02, which is version 3), and OpenSSH's extensions of them.

use super::fault::{SftpFault, SftpFaultKind, shown};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long a server has for an answer.
const STEP_TIME: Duration = Duration::from_secs(30);
/// Bytes of a message: what OpenSSH's own client takes.
const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Names in one message, and extensions that a server says it has.
const NAMES_MAX: usize = 10_000;
const EXTENSIONS_MAX: usize = 200;

const INIT: u8 = 1;
const VERSION: u8 = 2;
const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const WRITE: u8 = 6;
const OPEN_FOLDER: u8 = 11;
const READ_FOLDER: u8 = 12;
const REMOVE: u8 = 13;
const MAKE_FOLDER: u8 = 14;
const STAT: u8 = 17;
const RENAME: u8 = 18;
const EXTENDED: u8 = 200;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const NAME: u8 = 104;
const ATTRIBUTES: u8 = 105;

/// The version that is spoken.
const SPOKEN: u32 = 3;
/// How a file is opened: to be read; to be written, made where it is not there, and emptied where it is.
const TO_READ: u32 = 0x1;
const TO_WRITE: u32 = 0x2 | 0x8 | 0x10;
/// That attributes have a size.
const HAS_SIZE: u32 = 0x1;

/// What carries the messages.
pub(super) trait Carrier: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Carrier for T {}

/// A session of SFTP.
pub(super) struct Wire {
    carrier: Box<dyn Carrier>,
    next: u32,
    pub has_posix_rename: bool,
    pub has_fsync: bool,
    /// What the carrier lasts as long as.
    _held: Box<dyn Send>,
}

/// What a server says of something that was asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    code: u32,
    said: String,
}

impl Status {
    pub fn is_ok(&self) -> bool {
        self.code == 0
    }

    fn is_end(&self) -> bool {
        self.code == 1
    }

    pub fn is_missing(&self) -> bool {
        self.code == 2
    }

    pub fn fault(&self, what: &str) -> SftpFault {
        let means = match self.code {
            2 => "there is no such file or folder",
            3 => "the user may not do this",
            4 => "it failed; there may be no room",
            6 | 7 => "the connection is lost",
            8 => "the server cannot do this",
            14 | 15 => "there is no room",
            _ => "the server refuses",
        };
        let kind = if matches!(self.code, 6 | 7) { SftpFaultKind::Away } else { SftpFaultKind::Files };
        let said = if self.said.is_empty() { String::new() } else { format!(" ({})", shown(&self.said)) };
        SftpFault::new(kind, format!("{what}: {means}{said}"))
    }
}

/// Something that was opened, or is not there.
pub(super) enum Open {
    Handle(Vec<u8>),
    Missing(Status),
}

/// An answer.
enum Answer {
    Status(Status),
    Handle(Vec<u8>),
    Data(Vec<u8>),
    Names(Vec<String>),
    Size(Option<u64>),
}

fn confused() -> SftpFault {
    SftpFault::away("what the server says is not SFTP")
}

/// A message that is read from its front.
struct Message<'m>(&'m [u8]);

impl<'m> Message<'m> {
    fn bytes(&mut self, count: usize) -> Result<&'m [u8], SftpFault> {
        let (part, rest) = self.0.split_at_checked(count).ok_or_else(confused)?;
        self.0 = rest;
        Ok(part)
    }

    fn byte(&mut self) -> Result<u8, SftpFault> {
        Ok(self.bytes(1)?[0])
    }

    fn number(&mut self) -> Result<u32, SftpFault> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn long(&mut self) -> Result<u64, SftpFault> {
        Ok(u64::from(self.number()?) << 32 | u64::from(self.number()?))
    }

    fn string(&mut self) -> Result<&'m [u8], SftpFault> {
        let count = self.number()? as usize;
        self.bytes(count)
    }

    fn text(&mut self) -> Result<String, SftpFault> {
        Ok(String::from_utf8_lossy(self.string()?).into_owned())
    }

    /// A file's attributes; its size, where they have it.
    fn attributes(&mut self) -> Result<Option<u64>, SftpFault> {
        let flags = self.number()?;
        let size = if flags & HAS_SIZE != 0 { Some(self.long()?) } else { None };
        // Owner, permissions, times: of two numbers, one, and two.
        for (flag, count) in [(0x2, 8), (0x4, 4), (0x8, 8)] {
            if flags & flag != 0 {
                self.bytes(count)?;
            }
        }
        if flags & 0x8000_0000 != 0 {
            for _ in 0..self.number()?.min(EXTENSIONS_MAX as u32) {
                self.string()?;
                self.string()?;
            }
        }
        Ok(size)
    }

    /// An answer behind its kind and its number.
    fn answer(mut self, kind: u8) -> Result<Answer, SftpFault> {
        Ok(match kind {
            STATUS => {
                let code = self.number()?;
                // Some servers say nothing more.
                Answer::Status(Status { code, said: self.text().unwrap_or_default() })
            }
            HANDLE => Answer::Handle(self.string()?.to_vec()),
            DATA => Answer::Data(self.string()?.to_vec()),
            NAME => {
                let count = self.number()? as usize;
                if count > NAMES_MAX {
                    return Err(confused());
                }
                let mut names = Vec::new();
                for _ in 0..count {
                    names.push(self.text()?);
                    self.string()?;
                    self.attributes()?;
                }
                Answer::Names(names)
            }
            ATTRIBUTES => Answer::Size(self.attributes()?),
            _ => return Err(confused()),
        })
    }
}

fn string(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    into.extend_from_slice(bytes);
}

fn strings(all: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    all.iter().for_each(|one| string(&mut body, one));
    body
}

impl Wire {
    /// Says which version is spoken, and hears what the server can do.
    pub async fn begin(carrier: Box<dyn Carrier>, held: Box<dyn Send>) -> Result<Wire, SftpFault> {
        let mut wire = Wire { carrier, next: 0, has_posix_rename: false, has_fsync: false, _held: held };
        wire.send(INIT, &SPOKEN.to_be_bytes()).await?;
        let message = wire.receive().await?;
        let mut message = Message(&message);
        if message.byte()? != VERSION || message.number()? < SPOKEN {
            return Err(confused());
        }
        for _ in 0..EXTENSIONS_MAX {
            if message.0.is_empty() {
                break;
            }
            let (name, data) = (message.text()?, message.string()?);
            wire.has_posix_rename |= name == "posix-rename@openssh.com" && data == b"1";
            wire.has_fsync |= name == "fsync@openssh.com" && data == b"1";
        }
        Ok(wire)
    }

    async fn send(&mut self, kind: u8, body: &[u8]) -> Result<(), SftpFault> {
        let mut message = Vec::with_capacity(body.len() + 5);
        message.extend_from_slice(&(body.len() as u32 + 1).to_be_bytes());
        message.push(kind);
        message.extend_from_slice(body);
        let sent = async {
            self.carrier.write_all(&message).await?;
            self.carrier.flush().await
        };
        let sent =
            timeout(STEP_TIME, sent).await.map_err(|_| SftpFault::slow("take a message", STEP_TIME))?;
        sent.map_err(|_| SftpFault::away("the server has ended the connection"))
    }

    /// The next message, behind its length.
    async fn receive(&mut self) -> Result<Vec<u8>, SftpFault> {
        let received = async {
            let ended = |_| SftpFault::away("the server has ended the connection");
            let count = self.carrier.read_u32().await.map_err(ended)? as usize;
            if count == 0 || count > MESSAGE_BYTES_MAX {
                return Err(confused());
            }
            let mut message = vec![0; count];
            self.carrier.read_exact(&mut message).await.map_err(ended)?;
            Ok(message)
        };
        timeout(STEP_TIME, received).await.unwrap_or_else(|_| Err(SftpFault::slow("answer", STEP_TIME)))
    }

    /// Asks, and does not wait for the answer.
    async fn ask(&mut self, kind: u8, body: &[u8]) -> Result<u32, SftpFault> {
        self.next = self.next.wrapping_add(1);
        let mut whole = self.next.to_be_bytes().to_vec();
        whole.extend_from_slice(body);
        self.send(kind, &whole).await?;
        Ok(self.next)
    }

    async fn answer(&mut self) -> Result<(u32, Answer), SftpFault> {
        let message = self.receive().await?;
        let mut message = Message(&message);
        let (kind, number) = (message.byte()?, message.number()?);
        Ok((number, message.answer(kind)?))
    }

    async fn answered(&mut self, kind: u8, body: &[u8]) -> Result<Answer, SftpFault> {
        let asked = self.ask(kind, body).await?;
        match self.answer().await? {
            (number, answer) if number == asked => Ok(answer),
            _ => Err(confused()),
        }
    }

    async fn status(&mut self, kind: u8, body: &[u8]) -> Result<Status, SftpFault> {
        match self.answered(kind, body).await? {
            Answer::Status(status) => Ok(status),
            _ => Err(confused()),
        }
    }

    async fn opened(&mut self, kind: u8, body: &[u8], what: &str) -> Result<Open, SftpFault> {
        match self.answered(kind, body).await? {
            Answer::Handle(handle) => Ok(Open::Handle(handle)),
            Answer::Status(status) if status.is_missing() => Ok(Open::Missing(status)),
            Answer::Status(status) if !status.is_ok() => Err(status.fault(what)),
            _ => Err(confused()),
        }
    }

    pub async fn open_to_read(&mut self, path: &str) -> Result<Open, SftpFault> {
        self.open(path, TO_READ, "a file cannot be read").await
    }

    pub async fn open_to_write(&mut self, path: &str) -> Result<Open, SftpFault> {
        self.open(path, TO_WRITE, "a file cannot be made").await
    }

    async fn open(&mut self, path: &str, how: u32, what: &str) -> Result<Open, SftpFault> {
        let mut body = strings(&[path.as_bytes()]);
        body.extend_from_slice(&how.to_be_bytes());
        // Without attributes: the server's own.
        body.extend_from_slice(&0_u32.to_be_bytes());
        self.opened(OPEN, &body, what).await
    }

    pub async fn open_folder(&mut self, path: &str) -> Result<Open, SftpFault> {
        self.opened(OPEN_FOLDER, &strings(&[path.as_bytes()]), "a folder cannot be read").await
    }

    pub async fn close(&mut self, handle: &[u8]) -> Result<Status, SftpFault> {
        self.status(CLOSE, &strings(&[handle])).await
    }

    /// Sends a piece of a file; [`Wire::written`] says what became of one.
    pub async fn write(&mut self, handle: &[u8], at: u64, piece: &[u8]) -> Result<(), SftpFault> {
        let mut body = strings(&[handle]);
        body.extend_from_slice(&at.to_be_bytes());
        string(&mut body, piece);
        self.ask(WRITE, &body).await.map(|_| ())
    }

    /// What became of one of the pieces that were sent.
    pub async fn written(&mut self) -> Result<Status, SftpFault> {
        match self.answer().await? {
            (_, Answer::Status(status)) => Ok(status),
            _ => Err(confused()),
        }
    }

    /// A piece of a file; none at its end.
    pub async fn read(&mut self, handle: &[u8], at: u64, count: usize) -> Result<Option<Vec<u8>>, SftpFault> {
        let mut body = strings(&[handle]);
        body.extend_from_slice(&at.to_be_bytes());
        body.extend_from_slice(&(count as u32).to_be_bytes());
        match self.answered(READ, &body).await? {
            Answer::Data(piece) => Ok(Some(piece)),
            Answer::Status(status) if status.is_end() => Ok(None),
            Answer::Status(status) if !status.is_ok() => Err(status.fault("a file cannot be read")),
            _ => Err(confused()),
        }
    }

    /// Some names of a folder; none at its end.
    pub async fn names(&mut self, handle: &[u8]) -> Result<Option<Vec<String>>, SftpFault> {
        match self.answered(READ_FOLDER, &strings(&[handle])).await? {
            Answer::Names(names) => Ok(Some(names)),
            Answer::Status(status) if status.is_end() => Ok(None),
            Answer::Status(status) if !status.is_ok() => Err(status.fault("a folder cannot be read")),
            _ => Err(confused()),
        }
    }

    /// The size of what is there; none where nothing is.
    pub async fn size(&mut self, path: &str) -> Result<Option<u64>, SftpFault> {
        match self.answered(STAT, &strings(&[path.as_bytes()])).await? {
            Answer::Size(size) => Ok(Some(size.unwrap_or_default())),
            Answer::Status(status) if status.is_missing() => Ok(None),
            Answer::Status(status) if !status.is_ok() => Err(status.fault("a file cannot be looked at")),
            _ => Err(confused()),
        }
    }

    pub async fn remove(&mut self, path: &str) -> Result<Status, SftpFault> {
        self.status(REMOVE, &strings(&[path.as_bytes()])).await
    }

    pub async fn make_folder(&mut self, path: &str) -> Result<Status, SftpFault> {
        let mut body = strings(&[path.as_bytes()]);
        body.extend_from_slice(&0_u32.to_be_bytes());
        self.status(MAKE_FOLDER, &body).await
    }

    /// Gives a file a name that nobody has.
    pub async fn rename(&mut self, from: &str, to: &str) -> Result<Status, SftpFault> {
        self.status(RENAME, &strings(&[from.as_bytes(), to.as_bytes()])).await
    }

    /// Gives a file a name, in the place of what has it.
    pub async fn posix_rename(&mut self, from: &str, to: &str) -> Result<Status, SftpFault> {
        let body = strings(&[b"posix-rename@openssh.com", from.as_bytes(), to.as_bytes()]);
        self.status(EXTENDED, &body).await
    }

    pub async fn fsync(&mut self, handle: &[u8]) -> Result<Status, SftpFault> {
        self.status(EXTENDED, &strings(&[b"fsync@openssh.com", handle])).await
    }
}
