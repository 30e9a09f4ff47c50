//! The house's rules, read from the sources: who imports whom, sizes, words that must not be there.

mod circles;
mod source;

use circles::{Circle, circles};
use gleaner::features::ALL;
use server::RouteGroup;
use source::{Call, Function, Name, Source, sources};
pub use source::{root, walk};
use std::collections::BTreeSet;

/// Lines of a file.
const FILE_LINES_MAX: usize = 600;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;

/// Where the slices live.
const SLICES_AT: &str = "gleaner/src/features/";

fn assert_none(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// A slice names those slices only that its `uses` lists, and of them only what their `mod.rs` shows.
#[test]
fn slices_use_each_other_as_listed() {
    assert_none("a slice uses another one in a way that is not listed", &wrong_uses(&sources()));
}

fn wrong_uses(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let Some(slice) = source.path.strip_prefix(SLICES_AT).and_then(|path| path.split('/').next()) else {
            continue;
        };
        let slice = slice.trim_end_matches(".rs");
        if slice == "mod" {
            continue;
        }
        // What a slice is opened by is no slice.
        if slice == "wiring" {
            continue;
        }
        let Some(feature) = ALL.iter().find(|feature| feature.module() == slice) else {
            found.push(format!("features/{slice} is not in the list of slices"));
            continue;
        };
        for Name { line, parts } in &source.names {
            let ["crate", "features", target, inside @ ..] =
                &parts.iter().map(String::as_str).collect::<Vec<_>>()[..]
            else {
                continue;
            };
            let known = ALL.iter().any(|feature| feature.module() == *target);
            // What a slice shows others it shows in its mod.rs: `jobs::Job`, `billing::service`, not `jobs::rows::Job`.
            let is_module = |part: &str| part.chars().all(|c| c.is_lowercase() || c == '_');
            let is_private = matches!(inside, [module, _, ..] if is_module(module));
            if known && *target != slice && (!feature.uses.contains(target) || is_private) {
                found.push(format!("src/{}:{line} uses {}", source.path, parts.join("::")));
            }
        }
    }
    found
}

/// Circles that stand, and why: names may be taken from this list and none put into it.
const CIRCLES: &[(&str, &str, &str)] = &[
    (
        "gleaner/src/features/bi",
        "run service",
        "`Queries` takes a statement in and has a driver carry it, which asks `Queries` for what it needs",
    ),
    ("page/src/html", "tokenizer tree", "the tree builder tells the tokenizer what to read next: one room"),
];

/// Modules beside each other do not need each other in a circle: each can be read, tested and changed after those below it.
#[test]
fn imports_form_no_circles() {
    let found = circles(&sources());
    let listed = |circle: &Circle, member: &String| {
        let here = CIRCLES.iter().filter(|(folder, ..)| *folder == circle.folder);
        here.flat_map(|(_, members, _)| members.split(' ')).any(|known| known == member)
    };
    let new = found.iter().filter(|circle| !circle.members.iter().all(|member| listed(circle, member)));
    let say = |circle: &Circle| {
        format!("{}: {}\n    {}", circle.folder, circle.members.join(" "), circle.names.join("\n    "))
    };
    assert_none("modules that need each other", &new.map(say).collect::<Vec<_>>());
    let stands = |folder: &str, member: &str| {
        found.iter().any(|circle| circle.folder == folder && circle.members.iter().any(|own| own == member))
    };
    let mut cut = Vec::new();
    for (folder, members, _) in CIRCLES {
        let gone = members.split(' ').filter(|member| !stands(folder, member));
        cut.extend(gone.map(|member| format!("{folder}: {member}")));
    }
    assert_none("cut, and still in the list of circles", &cut);
}

#[test]
fn circles_are_found_through_re_exports_and_folders() {
    let of = |files: &[(&str, &str)]| {
        let sources: Vec<_> =
            files.iter().map(|(path, text)| Source::parse(path, (*text).to_owned())).collect();
        circles(&sources)
            .into_iter()
            .map(|circle| (circle.folder, circle.members.join(" ")))
            .collect::<Vec<_>>()
    };
    let root = ("x/src/lib.rs", "mod a; mod b; pub use b::B as Other; pub const HERE: u8 = 0;");
    let circle = vec![("x/src".to_owned(), "a b".to_owned())];
    assert_eq!(of(&[root, ("x/src/a.rs", "use super::b::B;"), ("x/src/b.rs", "use crate::a;")]), circle);
    assert_eq!(
        of(&[root, ("x/src/a.rs", "use crate::Other;"), ("x/src/b.rs", "fn b() { super::a::a(); }")]),
        circle
    );
    let inside = ("x/src/a/deep.rs", "fn f() -> crate::b::B { loop {} }");
    assert_eq!(of(&[root, ("x/src/a/mod.rs", "mod deep;"), inside, ("x/src/b.rs", "use super::a;")]), circle);
    // One way only; what stands in the folder's own file; tests; another crate's module of the same name.
    assert_eq!(of(&[root, ("x/src/a.rs", "use super::b::B;"), ("x/src/b.rs", "")]), []);
    assert_eq!(of(&[root, ("x/src/a.rs", "use super::b::B;"), ("x/src/b.rs", "use super::HERE;")]), []);
    let test = ("x/src/b.rs", "#[cfg(test)] mod tests { use crate::a; }");
    assert_eq!(of(&[root, ("x/src/a.rs", "use super::b::B;"), test]), []);
    assert_eq!(of(&[root, ("x/src/a.rs", "use super::b::B;"), ("x/src/b.rs", "use a::A;")]), []);
    let three = [
        ("y/src/lib.rs", ""),
        ("y/src/a.rs", "use crate::b;"),
        ("y/src/b.rs", "use crate::c;"),
        ("y/src/c.rs", "use crate::a;"),
    ];
    assert_eq!(of(&three), [("y/src".to_owned(), "a b c".to_owned())]);
}

/// The crates' manifests say who may use which library; this one is for a single file of its crate.
#[test]
fn bincode_is_named_where_it_can_be_replaced() {
    assert_none("bincode is named outside base/src/codec.rs", &names_of_bincode(&sources()));
}

fn names_of_bincode(sources: &[Source]) -> Vec<String> {
    let elsewhere = sources.iter().filter(|source| source.path != "base/src/codec.rs");
    let names = |source: &Source| {
        let path = source.path.clone();
        let named = source
            .names
            .iter()
            .filter(|name| name.parts[0] == "bincode")
            .map(move |name| (path.clone(), name.line));
        named.collect::<Vec<_>>()
    };
    elsewhere.flat_map(names).map(|(path, line)| format!("src/{path}:{line}")).collect()
}

#[test]
fn files_and_functions_have_a_readable_size() {
    assert_none("too long", &too_long(&sources()));
}

fn too_long(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let count = source.text.lines().count();
        if count > FILE_LINES_MAX {
            found.push(format!("src/{} has {count} lines", source.path));
        }
        for Function { name, line, lines } in &source.functions {
            if *lines > FUNCTION_LINES_MAX && !source.is_test() {
                found.push(format!("src/{}:{line} fn {name} has {lines} lines", source.path));
            }
        }
    }
    found
}

#[test]
fn nothing_is_left_unfinished_or_unwrapped() {
    assert_none("words that must not be there", &unfinished(&sources()));
}

fn unfinished(sources: &[Source]) -> Vec<String> {
    let forbidden = [".unwrap()", "todo!", "unimplemented!", "dbg!"];
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        for call in source.calls.iter().filter(|call| forbidden.contains(&call.word.as_str())) {
            found.push(format!("src/{}:{} has {}", source.path, call.line, call.word));
        }
    }
    found
}

#[test]
fn every_file_says_what_it_is() {
    assert_none("a file begins without a module comment", &silent(&sources()));
}

fn silent(sources: &[Source]) -> Vec<String> {
    let silent = |source: &&Source| !source.is_test() && !source.text.starts_with("//!");
    sources.iter().filter(silent).map(|source| format!("src/{}", source.path)).collect()
}

#[test]
fn the_operator_alone_takes_the_system_from_the_services() {
    assert_none("a slice reaches around its gate", &around_the_gate(&sources()));
}

fn around_the_gate(sources: &[Source]) -> Vec<String> {
    let of_slices = sources.iter().filter(|source| source.path.starts_with(SLICES_AT) && !source.is_test());
    let takes = |source: &&Source| source.calls.iter().any(|call| call.word == ".services().system()");
    of_slices.filter(takes).map(|source| format!("src/{}", source.path)).collect()
}

/// The crates that serve and ask whatever the slices declare, and know none of them.
const TRUNKS: [&str; 2] = ["server/src/", "sql/src/"];
/// Slices whose names are words of the trunks too: HTTP's authentication, the store's audit log, bytes as they are, what a step
/// of a plan reads, what the standard library calls a full disk.
const WORDS_OF_TRUNKS: [&str; 6] = ["audit", "auth", "inputs", "mail", "raw", "storage"];

#[test]
fn the_trunks_name_no_slice() {
    assert_none("a trunk names what a slice should declare", &names_of_slices(&sources()));
}

fn names_of_slices(sources: &[Source]) -> Vec<String> {
    let slices: BTreeSet<_> = ALL.iter().map(|feature| feature.module()).collect();
    let slices: Vec<Vec<_>> = slices
        .iter()
        .filter(|slice| !WORDS_OF_TRUNKS.contains(&slice.as_str()))
        .map(|slice| slice.split('_').map(str::to_owned).collect())
        .collect();
    let paths = paths_of_slices();
    let tables: BTreeSet<_> = ALL
        .iter()
        .flat_map(|feature| feature.views)
        .flat_map(|view| (view.tables)())
        .map(|table| table.name.to_string())
        .collect();
    let names_slice = |text: &str| {
        let words = words_of(text);
        slices.iter().any(|slice| words.windows(slice.len()).any(|part| part == slice.as_slice()))
    };
    let is_guide = |text: &str| root().join("data/docs").join(format!("{text}.md")).exists();
    let mut found = Vec::new();
    let trunks = sources.iter().filter(|source| TRUNKS.iter().any(|trunk| source.path.starts_with(trunk)));
    for source in trunks.filter(|source| !source.is_test()) {
        for Call { line, word } in source.idents.iter().filter(|ident| names_slice(&ident.word)) {
            found.push(format!("src/{}:{line} {word}", source.path));
        }
        for Call { line, word: text } in &source.texts {
            let is_name = text.split_whitespace().count() == 1 && !text.contains('/') && names_slice(text);
            // What the SQL engine says of tables must hold for any.
            let has_table = source.path.starts_with("sql/")
                && text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| tables.contains(word));
            if (is_name && !is_guide(text)) || has_table || paths.iter().any(|path| has_path(text, path)) {
                found.push(format!("src/{}:{line} {text:?}", source.path));
            }
        }
    }
    found
}

/// What opens and drains the box, what reads its configuration, what carries the operator's commands: they fold over the list
/// of slices.
const FOLDS: [&str; 4] =
    ["gleaner/src/admin", "gleaner/src/app", "gleaner/src/config", "gleaner/src/main.rs"];

#[test]
fn what_folds_over_the_slices_names_none() {
    assert_none("a slice is named where the list of all should be", &slices_in_folds(&sources()));
}

fn slices_in_folds(sources: &[Source]) -> Vec<String> {
    let folds = sources.iter().filter(|source| FOLDS.iter().any(|fold| source.path.starts_with(fold)));
    let mut found = Vec::new();
    for source in folds.filter(|source| !source.is_test()) {
        for Name { line, parts } in &source.names {
            let of_slice = match &parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["crate", "features", slice, ..] | ["features", slice, ..] => {
                    ALL.iter().any(|feature| feature.module() == *slice)
                }
                _ => false,
            };
            if of_slice {
                found.push(format!("src/{}:{line} {}", source.path, parts.join("::")));
            }
        }
    }
    found
}

/// The words of an identifier: `is_bi` and `IsBi` are `is` and `bi`.
fn words_of(ident: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for character in ident.chars() {
        if character.is_uppercase() && after_small || !character.is_alphanumeric() {
            words.push(String::new());
        }
        after_small = character.is_lowercase() || character.is_numeric();
        if character.is_alphanumeric() {
            words.last_mut().unwrap().extend(character.to_lowercase());
        }
    }
    words
}

/// Where the routes of the slices begin (`/api/v1/jobs`), their mounts and their pages.
fn paths_of_slices() -> BTreeSet<String> {
    let routes = ALL.iter().flat_map(|feature| feature.routes);
    let first = |path: &str| path.split('/').take(4).collect::<Vec<_>>().join("/");
    let pages = ALL.iter().flat_map(|feature| feature.pages).map(|page| page.path().to_owned());
    let mounts = ALL.iter().filter_map(|feature| feature.mount).map(|mount| mount.path.to_owned());
    routes.map(|route| first(route.path())).chain(pages).chain(mounts).collect()
}

/// Whether the path stands in the text, not as the beginning of another segment.
fn has_path(text: &str, path: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_');
    text.match_indices(path).any(|(at, _)| !goes_on(&text[at + path.len()..]))
}

/// A file is compiled in one place: what two programs need lies in a crate (`tests/harness`, `tests/page`, `tests/dispatch`).
#[test]
fn no_file_is_taken_in_from_elsewhere() {
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches"] {
        walk(&root().join(folder), &mut files);
    }
    files.retain(|path| path.extension().is_some_and(|kind| kind == "rs"));
    let read = |path: &std::path::PathBuf| (path.clone(), std::fs::read_to_string(path).unwrap());
    let taken = files.iter().map(read).filter(|(_, text)| takes_in(text));
    let found: Vec<_> = taken.map(|(path, _)| path.display().to_string()).collect();
    assert!(files.len() > 300, "the files were found");
    assert_none("a module's file is named by its path", &found);
}

fn takes_in(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("#[path"))
}

/// Each rule, shown that it finds what it is for.
#[test]
fn every_rule_finds_its_breach() {
    let slice = |text: &str| vec![Source::parse("gleaner/src/features/bi/mod.rs", text.to_owned())];
    for breach in [
        "use crate::features::{raw, jobs::Job};",
        "use crate::features::jobs;",
        "use super::jobs::Job;",
        "use crate::features::jobs::*;",
        "fn a() { let _ = crate::features::jobs::count(); }",
        "fn a() -> super::jobs::Job { loop {} }",
        "fn a() { println!(\"{}\", crate::features::jobs::count()); }",
        "mod deeper { use super::super::jobs::Job; }",
    ] {
        assert!(!wrong_uses(&slice(breach)).is_empty(), "{breach}");
    }
    let orgs = |text: &str| vec![Source::parse("gleaner/src/features/orgs/mod.rs", text.to_owned())];
    assert!(wrong_uses(&orgs("use crate::features::auth::Auth;")).is_empty());
    assert!(!wrong_uses(&orgs("use crate::features::auth::{Auth, rows::Session};")).is_empty());
    assert!(wrong_uses(&slice("#[cfg(test)] mod tests { use crate::features::jobs::Job; }")).is_empty());
    assert!(!wrong_uses(&[Source::parse("gleaner/src/features/unlisted.rs", String::new())]).is_empty());

    let base = |text: &str| vec![Source::parse("base/src/ids.rs", text.to_owned())];
    assert!(!names_of_bincode(&base("use bincode::Encode;")).is_empty());
    assert!(!names_of_bincode(&base("fn a() { bincode::encode(); }")).is_empty());
    for breach in ["x.unwrap()", "todo!()", "vec![x.unwrap()]", "assert!(dbg!(x))"] {
        assert!(!unfinished(&base(&format!("fn a() {{ {breach}; }}"))).is_empty(), "{breach}");
    }
    assert!(unfinished(&base("#[cfg(test)] mod tests { fn a() { x.unwrap(); } }")).is_empty());
    assert!(!silent(&base("fn a() {}")).is_empty() && silent(&base("//! Ids.")).is_empty());
    assert!(!too_long(&base(&format!("fn a() {{{}}}", "\n".repeat(FUNCTION_LINES_MAX + 1)))).is_empty());
    assert!(!too_long(&base(&"\n".repeat(FILE_LINES_MAX + 1))).is_empty());
    let trunk = |text: &str| vec![Source::parse("sql/src/agent.rs", text.to_owned())];
    for breach in [
        "const OWN: &str = \"SELECT id FROM jobs WHERE true\";",
        "fn a() { println!(\"see /api/v1/bi/queries\"); }",
        "const PAGE: &str = \"/docs/cli-auth\";",
        "const NEEDED: &str = \"billing\";",
        "fn is_bi() {}",
        "enum Entitlement { Benchmarks }",
        "fn a() { matches!(x, Page::CliAuth) }",
    ] {
        assert!(!names_of_slices(&trunk(breach)).is_empty(), "{breach}");
    }
    for fine in [
        "/// As of `/api/v1/jobs`.\nfn authenticate(raw: Mail) {}",
        "const A: &str = \"/api/v1/billings of jobbers, sourls\";",
        "#[cfg(test)] mod tests { fn is_bi() {} }",
    ] {
        assert_eq!(names_of_slices(&trunk(fine)), Vec::<String>::new(), "{fine}");
    }
    let fold = |text: &str| vec![Source::parse("gleaner/src/app/upkeep.rs", text.to_owned())];
    for breach in [
        "use crate::features::mail::Mailer;",
        "use crate::features::{self, jobs};",
        "use crate::features;\nfn a() { features::jobs::count(); }",
    ] {
        assert!(!slices_in_folds(&fold(breach)).is_empty(), "{breach}");
    }
    assert!(
        slices_in_folds(&fold("fn a() { features::ALL.len() + features::wiring::tasks().count(); }"))
            .is_empty()
    );
    assert!(takes_in("    #[path = \"../a.rs\"]\n    mod a;") && !takes_in("#[test]\nmod a;"));
    assert!(!around_the_gate(&slice("fn a(o: Org) { o.services().system().write(); }")).is_empty());
}

/// A table that its slice does not name would be checked by nobody.
#[test]
fn every_table_is_named_by_its_slice() {
    let named: BTreeSet<_> =
        gleaner::features::ALL.iter().flat_map(|feature| feature.tables).map(|table| table.name()).collect();
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with(SLICES_AT) && !source.is_test()) {
        for part in source.text.split("Table::new(").skip(1) {
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
    walk(&root().join("tests"), &mut tests);
    let text: String = tests.iter().map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect();
    let mut missing = BTreeSet::new();
    for RouteGroup { routes, .. } in gleaner::app::routes() {
        for route in routes {
            if !text.contains(route.id()) {
                missing.insert(format!("{} {} ({})", route.method(), route.path(), route.id()));
            }
        }
    }
    assert_none("a route without a test that names its operation", &missing.into_iter().collect::<Vec<_>>());
}
