//! The log's way out of the process: lines go to standard error through a thread of their own.
//!
//! A log is for people who look later, and nothing that the box does waits for it: not when its disk is full, not when
//! whoever read the pipe has gone, not when they are there and do not read. A line that cannot be written is counted and
//! given up; the first one that can be is preceded by how many were lost. (`tracing_subscriber`'s own writer answers a
//! failed write with `eprintln!`, which panics where standard error is broken: the thread that logged dies of its log.)

pub mod level;

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait for the thread.
const LINES_MAX: usize = 8_192;
/// Bytes of lines that may wait for it.
const BYTES_MAX: usize = 8 << 20;
/// How long an ending process waits for the lines that are on their way.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// How long a descriptor that takes nothing at the moment (a pipe that does not block) is tried again.
const BUSY_MAX: Duration = Duration::from_secs(1);

/// What the process's log has lost.
static LOST: OnceLock<&'static AtomicU64> = OnceLock::new();

/// How many lines could not be written since the start.
pub fn lost() -> u64 {
    LOST.get().map_or(0, |lost| lost.load(Ordering::Relaxed))
}

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Takes lines for the thread that writes them; clones share it.
#[derive(Clone)]
pub struct Log {
    queue: SyncSender<Message>,
    counts: &'static Counts,
}

#[derive(Default)]
struct Counts {
    /// Bytes of lines that wait.
    waiting: AtomicUsize,
    /// Lines that were given up.
    lost: AtomicU64,
}

/// Starts the thread that writes lines to standard error.
pub fn start() -> io::Result<Log> {
    let log = start_over(io::stderr())?;
    let _ = LOST.set(&log.counts.lost);
    Ok(log)
}

fn start_over(out: impl Write + Send + 'static) -> io::Result<Log> {
    let (queue, inbox) = sync_channel(LINES_MAX);
    // One log a process; in tests a few.
    let counts: &'static Counts = Box::leak(Box::default());
    std::thread::Builder::new().name("log".to_owned()).spawn(move || run(&inbox, counts, out))?;
    Ok(Log { queue, counts })
}

fn run(inbox: &Receiver<Message>, counts: &Counts, mut out: impl Write) {
    let mut told = 0;
    while let Ok(message) = inbox.recv() {
        match message {
            Message::Line(line) => {
                counts.waiting.fetch_sub(line.len(), Ordering::Relaxed);
                let lost = counts.lost.load(Ordering::Relaxed);
                if lost > told {
                    // It begins a line of its own: the last one may have been cut off.
                    let notice =
                        format!("\ngleaner: {} lines of the log could not be written\n", lost - told);
                    if write(&mut out, notice.as_bytes()).is_ok() {
                        told = lost;
                    }
                }
                if write(&mut out, &line).is_err() {
                    counts.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            Message::Flush(done) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
    }
}

fn write(out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    let begun = Instant::now();
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < BUSY_MAX => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Log {
    /// Waits until the lines so far are written, for a moment at most: for a process that ends.
    pub fn flush(&self) {
        self.flush_within(FLUSH_MAX);
    }

    /// Whether the lines so far are written within this time.
    fn flush_within(&self, time_max: Duration) -> bool {
        let (done, written) = sync_channel(1);
        let deadline = Instant::now() + time_max;
        let mut message = Message::Flush(done);
        loop {
            match self.queue.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Full(back)) if Instant::now() < deadline => {
                    message = back;
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(_) => return false,
            }
        }
        written.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
    }

    fn send(&self, line: &[u8]) {
        if self.counts.waiting.fetch_add(line.len(), Ordering::Relaxed) <= BYTES_MAX
            && self.queue.try_send(Message::Line(line.to_vec())).is_ok()
        {
            return;
        }
        self.counts.waiting.fetch_sub(line.len(), Ordering::Relaxed);
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// One line on its way; `tracing_subscriber` writes each in one call.
pub struct Line<'l>(&'l Log);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.send(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'l> MakeWriter<'l> for Log {
    type Writer = Line<'l>;

    fn make_writer(&'l self) -> Line<'l> {
        Line(self)
    }
}

/// Prints a line for the person at the terminal; one that is not there any more is no reason to fail.
pub fn say(out: &mut impl Write, line: &str) {
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Prints what a command was asked for. Whoever reads only the beginning of it (`| head`) has had what they wanted;
/// any other failure is one of the command.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// How long a test waits for the log's thread.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A file whose disk is full while it is told so.
    #[derive(Clone, Default)]
    struct Full(Arc<Mutex<(bool, Vec<u8>)>>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut inner = self.0.lock();
            if inner.0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            // Short, as a pipe may be.
            let some = bytes.len().min(3);
            inner.1.extend_from_slice(&bytes[..some]);
            Ok(some)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_told_of() {
        let full = Full::default();
        let log = start_over(full.clone()).unwrap();
        let line = |text: &str| log.make_writer().write_all(text.as_bytes()).unwrap();
        line("one\n");
        assert!(log.flush_within(PATIENCE));
        full.0.lock().0 = true;
        line("two\n");
        line("three\n");
        assert!(log.flush_within(PATIENCE));
        assert_eq!(log.counts.lost.load(Ordering::Relaxed), 2);
        full.0.lock().0 = false;
        line("four\n");
        assert!(log.flush_within(PATIENCE));
        let text = String::from_utf8(full.0.lock().1.clone()).unwrap();
        assert_eq!(text, "one\n\ngleaner: 2 lines of the log could not be written\nfour\n");
    }

    #[test]
    fn a_reader_that_does_not_read_holds_nobody_up() {
        struct Stuck(Arc<Mutex<()>>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                drop(self.0.lock());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let gate = Arc::new(Mutex::new(()));
        let shut = gate.lock();
        let log = start_over(Stuck(gate.clone())).unwrap();
        for _ in 0..2 * LINES_MAX {
            log.make_writer().write_all(b"nobody reads this\n").unwrap();
        }
        assert!(log.counts.lost.load(Ordering::Relaxed) >= LINES_MAX as u64 - 2);
        let long = vec![b'x'; BYTES_MAX];
        log.make_writer().write_all(&long).unwrap();
        assert!(log.counts.waiting.load(Ordering::Relaxed) <= BYTES_MAX + (1 << 20));
        drop(shut);
        assert!(log.flush_within(PATIENCE));
    }
}
