//! The house's rules, read from the sources: who imports whom, sizes, words that must not be there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Lines of a file.
const FILE_LINES_MAX: usize = 900;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 100;

/// Which parts of the trunk each part may import (architecture page, "Who may import whom").
const LAYERS: &[(&str, &[&str])] = &[
    ("base", &["base"]),
    ("disk", &["disk"]),
    ("store", &["base", "disk", "store"]),
    ("engine", &["base", "disk", "store", "engine"]),
    ("http", &["base", "disk", "store", "engine", "http"]),
    ("task", &["base", "disk", "store", "engine", "http", "task"]),
    ("features", &["base", "disk", "store", "engine", "http", "task", "features"]),
];

/// Which slice may use which other, and only through its `mod.rs`.
const SLICES: &[(&str, &[&str])] = &[
    ("account", &["auth", "orgs", "raw"]),
    ("api_keys", &["auth"]),
    ("audit", &["api_keys", "auth"]),
    ("auth", &["billing", "mail"]),
    ("benchmarks", &["jobs", "workflows"]),
    ("bi", &[]),
    ("billing", &[]),
    ("cli_auth", &["api_keys", "auth"]),
    ("extraction", &["billing"]),
    ("jobs", &["billing", "extraction", "providers", "urls", "workflows"]),
    ("mail", &[]),
    ("orgs", &["api_keys", "auth", "billing", "mail"]),
    ("providers", &[]),
    ("raw", &["api_keys", "auth"]),
    ("suggestions", &["workflows"]),
    ("urls", &["workflows"]),
    ("workflows", &["providers"]),
];

/// A library that only one folder or file may name.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("redb", &["store"]),
    ("bincode", &["base/codec.rs"]),
    ("tantivy", &["engine/search"]),
    ("datafusion", &["engine/sql"]),
    // The SQL session installs an object store registry that knows nothing.
    ("lettre", &["engine/mail"]),
    ("object_store", &["engine/sql"]),
];

struct Source {
    /// Relative to `src`, with slashes.
    path: String,
    text: String,
}

impl Source {
    /// The text before its unit tests.
    fn code(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.contains("/tests/")
    }

    /// Code lines without comments, numbered from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.code().lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    let read = |path: &PathBuf| Source {
        path: path.strip_prefix(&root).unwrap().display().to_string(),
        text: std::fs::read_to_string(path).unwrap(),
    };
    files.iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs")).map(read).collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

/// The names after `crate::` in a line.
fn imports(line: &str) -> impl Iterator<Item = Vec<&str>> {
    line.match_indices("crate::").map(|(at, found)| {
        let rest = &line[at + found.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
        rest[..end].split("::").filter(|part| !part.is_empty()).collect()
    })
}

fn assert_none(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn the_layers_import_downwards_only() {
    let mut found = Vec::new();
    for source in sources() {
        let top = source.path.split('/').next().unwrap();
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == top) else { continue };
        if source.is_test() {
            continue;
        }
        for (number, line) in source.lines() {
            for path in imports(line) {
                let Some(target) = path.first() else { continue };
                if LAYERS.iter().any(|(layer, _)| layer == target) && !allowed.contains(target) {
                    found.push(format!("src/{}:{number} imports {target}", source.path));
                }
            }
        }
    }
    assert_none("a layer imports upwards", &found);
}

#[test]
fn slices_use_each_other_as_listed() {
    let mut found = Vec::new();
    for source in sources() {
        let mut parts = source.path.split('/');
        let (Some("features"), Some(slice)) = (parts.next(), parts.next()) else { continue };
        let slice = slice.trim_end_matches(".rs");
        if slice == "mod" || source.is_test() {
            continue;
        }
        let Some((_, allowed)) = SLICES.iter().find(|(name, _)| *name == slice) else {
            found.push(format!("features/{slice} is not in the list of tests/it/tidy.rs"));
            continue;
        };
        for (number, line) in source.lines() {
            for path in imports(line).filter(|path| path.len() > 1 && path[0] == "features") {
                let target = path[1];
                let known = SLICES.iter().any(|(name, _)| *name == target);
                let private =
                    path.get(2).is_some_and(|part| part.chars().all(|c| c.is_lowercase() || c == '_'))
                        && path.len() > 3;
                if known && target != slice && (!allowed.contains(&target) || private) {
                    found.push(format!("src/{}:{number} uses {}", source.path, path.join("::")));
                }
            }
        }
    }
    assert_none("a slice uses another one in a way that is not listed", &found);
}

#[test]
fn a_library_is_named_where_it_lives() {
    let mut found = Vec::new();
    for source in sources() {
        for (library, homes) in ONLY_IN {
            if homes.iter().any(|home| source.path.starts_with(home)) {
                continue;
            }
            for (number, line) in source.lines() {
                if line.contains(&format!("{library}::")) {
                    found.push(format!("src/{}:{number} names {library}", source.path));
                }
            }
        }
    }
    assert_none("a library is named outside its folder", &found);
}

#[test]
fn files_and_functions_have_a_readable_size() {
    let mut found = Vec::new();
    for source in sources() {
        let count = source.text.lines().count();
        if count > FILE_LINES_MAX {
            found.push(format!("src/{} has {count} lines", source.path));
        }
        for (name, number, lines) in functions(source.code()) {
            if lines > FUNCTION_LINES_MAX {
                found.push(format!("src/{}:{number} fn {name} has {lines} lines", source.path));
            }
        }
    }
    assert_none("too long", &found);
}

/// Name, first line and length of each function, by the indentation that rustfmt gives.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut open: Vec<(String, usize, usize)> = Vec::new();
    let mut all = Vec::new();
    for (number, line) in (1..).zip(code.lines()) {
        let indent = line.len() - line.trim_start().len();
        // A function of a trait that has no body ends with its signature.
        if line.trim_start().starts_with(')') && line.trim_end().ends_with(';') {
            open.retain(|(_, column, _)| *column != indent);
        }
        if line.trim_start().starts_with('}')
            && let Some(at) = open.iter().rposition(|(_, column, _)| *column == indent)
        {
            let (name, _, begun) = open.remove(at);
            all.push((name, begun, number - begun + 1));
        }
        let words: Vec<_> = line.split_whitespace().collect();
        if let Some(at) = words.iter().position(|word| *word == "fn")
            && words[..at]
                .iter()
                .all(|word| word.starts_with("pub") || matches!(*word, "async" | "const" | "unsafe"))
            && !line.trim_end().ends_with([';', '}'])
        {
            let name = words.get(at + 1).and_then(|word| word.split(['(', '<']).next()).unwrap_or_default();
            open.push((name.to_owned(), indent, number));
        }
    }
    all
}

#[test]
fn nothing_is_left_unfinished_or_unwrapped() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (number, line) in source.lines() {
            for word in [".unwrap()", "todo!(", "unimplemented!(", "dbg!("] {
                if line.contains(word) {
                    found.push(format!("src/{}:{number} has {word}", source.path));
                }
            }
        }
    }
    assert_none("words that must not be there", &found);
}

#[test]
fn every_file_says_what_it_is() {
    let silent = |source: &&Source| !source.is_test() && !source.text.starts_with("//!");
    let found: Vec<_> =
        sources().iter().filter(silent).map(|source| format!("src/{}", source.path)).collect();
    assert_none("a file begins without a module comment", &found);
}

#[test]
fn the_operator_alone_takes_the_system_from_the_services() {
    let takes = |source: &&Source| {
        source.path.starts_with("features") && source.code().contains("services().system()")
    };
    let found: Vec<_> = sources().iter().filter(takes).map(|source| format!("src/{}", source.path)).collect();
    assert_none("a slice reaches around its gate", &found);
}

/// A table that its slice does not name would be checked by nobody.
#[test]
fn every_table_is_named_by_its_slice() {
    let named: BTreeSet<_> =
        gleaner::features::ALL.iter().flat_map(|feature| feature.tables).map(|table| table.name()).collect();
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("features") && !source.is_test()) {
        for part in source.code().split("Table::new(").skip(1) {
            let name = part.split('"').nth(1).unwrap_or_default();
            if !named.contains(name) {
                found.push(format!("src/{}: {name}", source.path));
            }
        }
    }
    assert_none("a table is not in the `tables` of its slice", &found);
}

/// Every route stands in a test by its path, beside the walk over the table.
#[test]
fn every_route_is_named_in_a_test() {
    let mut tests = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), &mut tests);
    let text: String = tests.iter().map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect();
    let mut missing = BTreeSet::new();
    for (_, routes) in gleaner::app::routes() {
        for route in routes {
            if !text.contains(route.id()) {
                missing.insert(format!("{} {} ({})", route.method(), route.path(), route.id()));
            }
        }
    }
    assert_none("a route without a test that names its operation", &missing.into_iter().collect::<Vec<_>>());
}
