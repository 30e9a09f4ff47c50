//! The terminal of a live view: a screen of its own, single keys, its size; given back as it was, however the view ends.

use super::view::{Line, Size, Style};
use base::{Error, Result};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal, Read, Write};
use terminal_size::{Height, Width, terminal_size_of};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// A terminal that does not say how large it is.
const USUAL_SIZE: Size = Size { lines: 24, columns: 80 };
/// Keys that wait to be read.
const KEYS_MAX: usize = 16;
/// Ctrl-C and Ctrl-D, where the terminal hands them on; Escape.
const KEYS_THAT_QUIT: [u8; 5] = [b'q', b'Q', 0x03, 0x04, 0x1b];

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// What happened to the terminal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Quit,
    Resized,
}

/// A terminal that shows a live view; dropped, it is as it was.
pub(super) struct Screen {
    /// How it was; none where nobody types.
    before: Option<Termios>,
    keys: mpsc::Receiver<u8>,
    resized: Signal,
    ends: [Signal; 3],
    has_color: bool,
}

impl Screen {
    pub(super) fn open() -> Result<Screen> {
        let failed = |e: io::Error| Error::internal("use the terminal", e);
        let signals = |kind| signal(kind).map_err(failed);
        let (resized, ends) = (
            signals(SignalKind::window_change())?,
            [
                signals(SignalKind::interrupt())?,
                signals(SignalKind::terminate())?,
                signals(SignalKind::hangup())?,
            ],
        );
        let (send, keys) = mpsc::channel(KEYS_MAX);
        let has_color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let mut screen = Screen { before: None, keys, resized, ends, has_color };
        if io::stdin().is_terminal() {
            let before = tcgetattr(io::stdin()).map_err(|e| failed(e.into()))?;
            let mut single = before.clone();
            single.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            single.special_codes[SpecialCodeIndex::VMIN] = 1;
            single.special_codes[SpecialCodeIndex::VTIME] = 0;
            screen.before = Some(before);
            tcsetattr(io::stdin(), OptionalActions::Now, &single).map_err(|e| failed(e.into()))?;
            // Reading blocks, and ends with the process.
            std::thread::Builder::new()
                .name("keys".to_owned())
                .spawn(move || read_keys(&send))
                .map_err(failed)?;
        }
        screen.write(ENTER)?;
        Ok(screen)
    }

    /// How much fits, now.
    pub(super) fn size(&self) -> Size {
        match terminal_size_of(io::stdout()) {
            Some((Width(columns), Height(lines))) if columns > 0 && lines > 0 => {
                Size { lines: lines.into(), columns: columns.into() }
            }
            _ => USUAL_SIZE,
        }
    }

    /// Shows these lines in place of what was there.
    pub(super) fn draw(&mut self, lines: &[Line]) -> Result<()> {
        let mut text = String::from("\x1b[H");
        for (n, line) in lines.iter().enumerate() {
            if n > 0 {
                text.push_str("\r\n");
            }
            let (on, off) = match line.style {
                Style::Plain => ("", ""),
                Style::Heading => ("\x1b[7m", "\x1b[0m"),
                Style::Trouble if self.has_color => ("\x1b[1;31m", "\x1b[0m"),
                Style::Trouble => ("\x1b[1m", "\x1b[0m"),
            };
            text.push_str(on);
            text.push_str(&line.text);
            text.push_str(off);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        self.write(&text)
    }

    /// The next thing that happens to the terminal.
    pub(super) async fn event(&mut self) -> Event {
        let Screen { keys, resized, ends: [interrupt, terminate, hangup], .. } = self;
        loop {
            tokio::select! {
                key = keys.recv(), if !keys.is_closed() || !keys.is_empty() => match key {
                    Some(key) if KEYS_THAT_QUIT.contains(&key) => return Event::Quit,
                    Some(_) => {}
                    // Whoever typed has gone, or nobody ever did: signals end it.
                    None => {}
                },
                _ = resized.recv() => return Event::Resized,
                _ = interrupt.recv() => return Event::Quit,
                _ = terminate.recv() => return Event::Quit,
                _ = hangup.recv() => return Event::Quit,
            }
        }
    }

    fn write(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|e| Error::internal("write to the terminal", e))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing back.
        let _ = self.write(LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn read_keys(send: &mpsc::Sender<u8>) {
    let mut key = [0];
    while io::stdin().read(&mut key).is_ok_and(|read| read == 1) {
        if send.blocking_send(key[0]).is_err() {
            return;
        }
    }
}
