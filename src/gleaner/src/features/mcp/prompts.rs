//! The commonest tasks, as texts that a person picks in their client.

/// What a prompt is filled in with.
pub(super) struct Blank {
    pub name: &'static str,
    pub about: &'static str,
    pub is_required: bool,
}

/// A task.
pub(super) struct Prompt {
    pub name: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    pub blanks: &'static [Blank],
    /// The text, with `{name}` where a blank is filled in.
    text: &'static str,
    /// What stands for a blank that is left open.
    open: &'static str,
}

pub(super) static PROMPTS: &[Prompt] = &[
    Prompt {
        name: "answer_from_data",
        title: "Answer a question from the collected data",
        about: "Finds the tables, writes the SQL, and answers with the numbers and the statement.",
        blanks: &[Blank { name: "question", about: "What you want to know.", is_required: true }],
        text: "Answer this question from the data that Gleaner has collected: {question}\n\nBegin with list_tables and \
               describe_table; do not guess names of columns. Let SQL count and group instead of reading many rows. Say the answer \
               first, then the statement that it comes from, and how fresh the data is. If the data cannot answer it, say what is \
               missing.",
        open: "",
    },
    Prompt {
        name: "collect_pages",
        title: "Collect pages and show what was found",
        about: "Submits URLs, waits for them, and shows the extracted values and what failed.",
        blanks: &[
            Blank { name: "urls", about: "The addresses, one a line.", is_required: true },
            Blank { name: "tag", about: "A tag for the results.", is_required: false },
        ],
        text: "Have Gleaner collect these pages:\n{urls}\n\nTag: {tag}\n\nUse submit_urls once, then job_status with the batch's id \
               until all have ended. Show the extracted values as a table (search_results), and for each page that failed why, in \
               plain words (job_status with its id).",
        open: "none",
    },
    Prompt {
        name: "what_changed",
        title: "Say what changed on a site",
        about: "Compares visits: which pages have other values than before, and which.",
        blanks: &[
            Blank { name: "domain", about: "The site, such as shop.example.", is_required: true },
            Blank { name: "days", about: "How many days to look back.", is_required: false },
        ],
        text: "What changed on {domain}? Days to look back: {days}\n\nUse search_results with changed, and SQL over the table of the \
               page type for values before and after. Put the changes that matter to a buyer first: prices, availability, titles. \
               Leave out what changes with every visit.",
        open: "7",
    },
];

/// The prompt of this name.
pub(super) fn named(name: &str) -> Option<&'static Prompt> {
    PROMPTS.iter().find(|prompt| prompt.name == name)
}

impl Prompt {
    /// The text with its blanks filled in; the name of one that must be given and is not.
    pub fn filled(&self, given: impl Fn(&str) -> Option<String>) -> Result<String, &'static str> {
        let mut text = String::new();
        let mut rest = self.text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, after) = behind.split_once('}').unwrap_or((behind, ""));
            text.push_str(before);
            let blank = self.blanks.iter().find(|blank| blank.name == name);
            match (given(name).filter(|value| !value.trim().is_empty()), blank) {
                (Some(value), _) => text.push_str(&value),
                (None, Some(Blank { is_required: true, name, .. })) => return Err(name),
                (None, _) => text.push_str(self.open),
            }
            rest = after;
        }
        text.push_str(rest);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_filled_in_once() {
        let prompt = named("what_changed").unwrap();
        let text = prompt.filled(|name| (name == "domain").then(|| "{days}.example".to_owned())).unwrap();
        assert!(text.starts_with("What changed on {days}.example? Days to look back: 7\n"), "{text}");
        assert_eq!(prompt.filled(|_| Some(" ".to_owned())), Err("domain"));
    }

    #[test]
    fn every_blank_stands_in_its_text() {
        for prompt in PROMPTS {
            for blank in prompt.blanks {
                assert!(
                    prompt.text.contains(&format!("{{{}}}", blank.name)),
                    "{}: {}",
                    prompt.name,
                    blank.name
                );
            }
            assert_eq!(prompt.text.matches('{').count(), prompt.blanks.len(), "{}", prompt.name);
        }
    }
}
