//! The pages of the error codes and the guides, compiled in from `data/errors` and `data/docs`, so that a box without a
//! network can serve them.

/// A page for each code: one without a file in `data/errors` does not compile.
macro_rules! error_pages {
    ($($variant:ident $name:literal $status:literal $sentence:literal;)*) => {
        const PAGES: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/errors/", $name, ".md")),
        )),*];
    };
}

base::each_code!(error_pages);

/// The Markdown text of a page.
pub fn find(name: &str) -> Option<&'static str> {
    PAGES.iter().find(|(page, _)| *page == name).map(|(_, text)| *text)
}

/// A page of `data/docs`.
pub struct Guide {
    /// Its address below `/docs`, and its file's name.
    pub name: &'static str,
    /// What it is about, in a line of the list.
    pub about: &'static str,
    pub text: &'static str,
}

impl Guide {
    /// Its heading.
    pub fn title(&self) -> &'static str {
        self.text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or(self.name)
    }
}

macro_rules! guides {
    ($($name:literal $about:literal;)*) => {
        /// The guides, in the order in which they are listed.
        pub static GUIDES: &[Guide] = &[$(Guide {
            name: $name,
            about: $about,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/docs/", $name, ".md")),
        }),*];
    };
}

guides! {
    "operating" "readiness, backups, the clock, the operator's commands, mail, what is kept, erasure, the audit log";
    "metrics" "every metric: name, type, unit, labels, meaning";
    "api" "what the reference cannot say: errors, lists, idempotency, roles, credits, providers, workflows";
    "command-line" "signing in, commands for people and scripts, what they print, exit codes";
    "schedules" "cron, time zones and summer time, missed ticks, large runs";
    "agents" "what can be asked in words, what belongs to an agent, and what a language model adds";
    "sql" "tables, values in JSON, what differs from PostgreSQL, bounds, exports";
    "architecture" "crates, how a page goes through, invariants, tenancy, power cuts and full disks";
    "engines" "how the parts work, and the measurements behind them";
    "benchmarks" "every figure, and how it is made";
    "slices" "adding a capability, step by step";
}

/// The guide of this name.
pub fn guide(name: &str) -> Option<&'static Guide> {
    GUIDES.iter().find(|guide| guide.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Code;

    #[test]
    fn a_page_is_headed_by_its_code() {
        for code in Code::ALL {
            let text = find(code.name()).expect("a code has a page");
            assert!(text.starts_with(&format!("# {}\n", code.name())), "{}", code.name());
        }
    }
}
