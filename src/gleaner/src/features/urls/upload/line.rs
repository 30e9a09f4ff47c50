//! One line of an upload, read.

use crate::features::urls::register::NewUrl;

/// Characters that are shown of what is wrong, and of why: both may quote the line.
const SHOWN_CHARS_MAX: usize = 200;
const REASON_CHARS_MAX: usize = 300;

/// A line that says something.
#[derive(Debug)]
pub enum Line {
    Entry { line: usize, entry: NewUrl },
    Wrong(WrongLine),
}

/// A line of which nothing can be made, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongLine {
    pub line: usize,
    pub url: String,
    pub reason: String,
}

impl WrongLine {
    /// Of what was read as the URL, the beginning is shown.
    pub(super) fn new(line: usize, url: &str, reason: impl Into<String>) -> WrongLine {
        let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
        WrongLine { line, url: cut(url, SHOWN_CHARS_MAX), reason: cut(&reason.into(), REASON_CHARS_MAX) }
    }
}

impl Line {
    pub(super) fn wrong(line: usize, url: &str, reason: impl Into<String>) -> Line {
        Line::Wrong(WrongLine::new(line, url, reason))
    }

    /// Where it begins.
    pub(super) fn number(&self) -> usize {
        match self {
            Line::Entry { line, .. } => *line,
            Line::Wrong(wrong) => wrong.line,
        }
    }
}

/// What a reader made of some text.
#[derive(Debug)]
pub(super) enum Step {
    Line(Line),
    /// Something that is no line of its own: a header, an empty line.
    Nothing,
    /// It needs more text.
    More,
}
