//! Circles of imports: files and folders beside each other of which each needs, over the others, itself.
//!
//! What a file names is followed through re-exports to where it stands. A folder counts as one with everything in it, and
//! its own file (`mod.rs`) is left out of account: it speaks for the folder and of what is in it.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Re-exports of re-exports that are followed.
const DEPTH_MAX: usize = 8;

/// Modules beside each other that form a circle.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The folder, from `src` on: `fetch/src/browser`.
    pub folder: String,
    /// Names of its files and folders, in order.
    pub members: Vec<String>,
    /// Who names whom in it, with what.
    pub names: Vec<String>,
}

/// The modules of one crate.
struct Crate<'s> {
    by_module: BTreeMap<Vec<String>, &'s Source>,
}

impl Crate<'_> {
    /// The module that a path leads to, seen from `from`; none outside of the crate.
    fn find(&self, from: &[String], parts: &[String], depth: usize) -> Option<Vec<String>> {
        let path = match parts.split_first()? {
            (first, rest) if first == "crate" => rest.to_vec(),
            (first, _) => {
                let child = [from, std::slice::from_ref(first)].concat();
                self.by_module.contains_key(&child).then(|| [from, parts].concat())?
            }
        };
        let known = (0..=path.len()).rev().find(|length| self.by_module.contains_key(&path[..*length]))?;
        let (module, inside) = path.split_at(known);
        let import = inside
            .first()
            .filter(|_| depth < DEPTH_MAX)
            .and_then(|name| self.by_module[module].imports.iter().find(|import| import.name == *name));
        match import {
            Some(import) => {
                let whole = [import.parts.as_slice(), &inside[1..]].concat();
                // What comes from another crate stands in none of the files.
                self.find(module, &whole, depth + 1)
            }
            None => Some(module.to_vec()),
        }
    }
}

/// Every circle of these sources.
pub fn circles(sources: &[Source]) -> Vec<Circle> {
    let mut crates: BTreeMap<&str, Crate<'_>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let Some((name, _)) = source.path.split_once("/src/") else { continue };
        let own = crates.entry(name).or_insert_with(|| Crate { by_module: BTreeMap::new() });
        // The library's root stands for the program's, too.
        if !source.path.ends_with("/src/main.rs") {
            own.by_module.insert(source.module.clone(), source);
        }
    }
    crates.iter().flat_map(|(name, own)| of_crate(name, own)).collect()
}

fn of_crate(name: &str, own: &Crate<'_>) -> Vec<Circle> {
    // By folder: who names whom, and one name as an example.
    let mut folders: BTreeMap<Vec<String>, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (from, source) in &own.by_module {
        for used in &source.names {
            let Some(to) = own.find(from, &used.parts, 0) else { continue };
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if common == from.len() || common == to.len() {
                continue;
            }
            let example = format!("src/{}:{} {}", source.path, used.line, used.parts.join("::"));
            let edges = folders.entry(from[..common].to_vec()).or_default();
            edges.entry((from[common].clone(), to[common].clone())).or_insert(example);
        }
    }
    let mut found = Vec::new();
    for (folder, edges) in folders {
        let nodes: BTreeSet<&String> = edges.keys().flat_map(|(from, to)| [from, to]).collect();
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            nodes.iter().map(|node| (*node, reachable(&edges, node))).collect();
        let mut done = BTreeSet::new();
        for node in &nodes {
            let circle: Vec<&String> =
                reached[node].iter().copied().filter(|other| reached[other].contains(node)).collect();
            if circle.is_empty() || !done.insert(circle[0]) {
                continue;
            }
            let inside = |(from, to): &(String, String)| circle.contains(&from) && circle.contains(&to);
            found.push(Circle {
                folder: std::iter::once(format!("{name}/src"))
                    .chain(folder.clone())
                    .collect::<Vec<_>>()
                    .join("/"),
                members: circle.iter().map(|member| (*member).clone()).collect(),
                names: edges.iter().filter(|(edge, _)| inside(edge)).map(|(_, name)| name.clone()).collect(),
            });
        }
    }
    found
}

/// Everything that a node leads to, itself only over others.
fn reachable<'e>(edges: &'e BTreeMap<(String, String), String>, from: &str) -> BTreeSet<&'e String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for (_, to) in edges.keys().filter(|(own, _)| own == node) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}
