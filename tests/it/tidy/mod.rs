//! The house's rules, read from the sources: who imports whom, sizes, words that must not be there.

mod circles;
mod source;

use circles::{Circle, circles};
use gleaner::features::ALL;
use source::{Function, Name, Source, sources};
pub use source::{root, walk};
use std::collections::BTreeSet;

/// Lines of a file.
const FILE_LINES_MAX: usize = 900;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 100;

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
const CIRCLES: [(&str, &str, &str); 22] = [
    ("fetch/src/connect", "lease pool", "a lease gives its connection back to the pool, which makes leases"),
    (
        "gleaner/src",
        "config features",
        "the configuration has a type of auth's, and slices open themselves from it",
    ),
    ("gleaner/src/features/auth", "limits networks", "to be cut: the key of a network stands in limits"),
    (
        "gleaner/src/features/bi",
        "content erase exports retention run service",
        "to be cut: `Queries` is the slice's whole state, and its parts reach each other over it",
    ),
    (
        "gleaner/src/features/billing",
        "plans retention",
        "to be cut: what a plan keeps for how long stands in retention",
    ),
    ("gleaner/src/features/extraction", "held pages service", "to be cut: a draft stands in service"),
    ("gleaner/src/features/jobs", "dispatch finish run", "a run reaches its dispatcher, which begins runs"),
    (
        "gleaner/src/features/mail",
        "rows token",
        "a row holds a sealed token, which is sealed for the row's table",
    ),
    ("gleaner/src/features/orgs", "invites members", "to be cut: `Caller` stands in members"),
    (
        "gleaner/src/features/providers",
        "accounts trials",
        "tests of providers are limited where accounts are kept",
    ),
    ("gleaner/src/features/providers", "adapters proxies", "to be cut: names of settings stand in both"),
    ("gleaner/src/features/providers", "service wire", "to be cut: limits of a request stand in service"),
    ("page/src/html", "tokenizer tree", "the tree builder tells the tokenizer what to read next: one room"),
    (
        "server/src",
        "api builtin call connection door envelope file gate input openapi output refusal route router server tls",
        "to be cut: a call knows the whole interface, and every part of that takes a call",
    ),
    ("sql/src", "errors reasons", "to be cut: the nearest name is looked for in errors"),
    (
        "sql/src",
        "gate information newest pool postgres scan session spool",
        "to be cut: constants and small functions that belong into leaves",
    ),
    ("sql/src/gate", "calls dialect", "to be cut: both walk calls"),
    ("sql/src/gate", "floats intervals", "to be cut: comparisons stand in both"),
    (
        "sql/src/gate",
        "forms predicates sets",
        "expressions, their conditions and the queries in them hold each other",
    ),
    ("sql/src/postgres", "times zone", "to be cut: dates stand in times"),
    ("sql/src/snapshot", "apply merge newest", "to be cut: the forms of a change stand in apply"),
    (
        "store/src",
        "after audit changes engine known migrate readable rewrite table tx usage view writer",
        "to be cut: the raw view of rows, the tracker and the scopes belong into leaves",
    ),
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
    for (_, routes) in gleaner::app::routes() {
        for route in routes {
            if !text.contains(route.id()) {
                missing.insert(format!("{} {} ({})", route.method(), route.path(), route.id()));
            }
        }
    }
    assert_none("a route without a test that names its operation", &missing.into_iter().collect::<Vec<_>>());
}
