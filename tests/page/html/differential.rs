//! Our trees against html5ever's, on real pages and on generated and mutated ones.

use std::path::{Path, PathBuf};

use page::html::{Document, Namespace, NodeId, NodeKind};

use page_oracle::notation::{difference, serialize};
use page_oracle::oracle::{oracle_fragment, oracle_page};
use page_oracle::soup::{Random, generated, is_known_difference, mutated};

fn shared(path: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    ["../shared", "../../shared"].iter().map(|shared| here.join(shared).join(path)).find(|path| path.exists())
}

fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = shared("data/pages").into_iter().collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn decoded(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("a readable page");
    page::html::decode(&bytes, None).text
}

/// html5ever knows no processing instructions yet (WHATWG, June 2026): pages that have some are compared without.
fn has_processing_instruction(doc: &Document) -> bool {
    doc.descendants(NodeId(0)).any(|node| doc.kind(node) == NodeKind::Pi)
}

#[test]
fn trees_of_real_pages_equal_the_oracles() {
    let pages = pages();
    if pages.is_empty() {
        println!("skipped: no shared pages here");
        return;
    }
    let (mut compared, mut instructions) = (0, 0);
    let mut wrong = Vec::new();
    for path in &pages {
        let text = decoded(path);
        let doc = Document::parse(text.clone());
        if has_processing_instruction(&doc) {
            instructions += 1;
            continue;
        }
        compared += 1;
        let (ours, theirs) = (serialize(&doc), oracle_page(&text));
        if ours != theirs {
            wrong.push(format!("{}: {}", path.display(), difference(&ours, &theirs)));
        }
    }
    println!("{compared} pages compared, {instructions} with processing instructions left out");
    assert!(compared * 10 >= pages.len() * 9, "most pages must be compared");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(5)].join("\n\n"));
}

fn fuzz_count() -> usize {
    std::env::var("HTML_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(4_000)
}

#[test]
fn trees_of_generated_and_mutated_pages_equal_the_oracles() {
    let seed = std::env::var("HTML_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    let pages: Vec<String> = pages().iter().step_by(16).map(|path| decoded(path)).collect();
    let (mut known, mut wrong) = (0, Vec::<(String, String)>::new());
    let contexts =
        ["div", "table", "tr", "td", "select", "template", "body", "html", "title", "script", "colgroup"];
    for number in 0..fuzz_count() {
        let text = match number % 2 {
            0 if !pages.is_empty() => {
                let at = random.below(pages.len());
                mutated(&mut random, &pages[at])
            }
            _ => generated(&mut random),
        };
        let context = (number % 5 == 4).then(|| random.pick(&contexts));
        let (ours, theirs) = if let Some(context) = context {
            let doc = Document::parse_fragment(text.clone(), context, Namespace::Html);
            (serialize(&doc), oracle_fragment(&text, context))
        } else {
            (serialize(&Document::parse(text.clone())), oracle_page(&text))
        };
        if ours == theirs {
            continue;
        }
        if is_known_difference(&text, context) {
            known += 1;
        } else {
            wrong.push((text, difference(&ours, &theirs)));
        }
    }
    println!("{known} of {} inputs differ in known ways", fuzz_count());
    assert!(known * 100 <= fuzz_count(), "what is known to differ must stay rare");
    wrong.sort_by_key(|(text, _)| text.len());
    let shown: Vec<String> = wrong.iter().take(6).map(|(text, lines)| format!("{text:?}\n{lines}")).collect();
    assert!(wrong.is_empty(), "{} differ (seed {seed}):\n{}", wrong.len(), shown.join("\n\n"));
}
