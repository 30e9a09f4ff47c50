//! Every library that is linked is under a licence that `deny.toml` allows: what cargo-deny would say, without a network.

use crate::tidy::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// The licences in the list `allow` of `deny.toml`.
fn allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let list = table["licenses"]["allow"].as_array().unwrap();
    list.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Whether an SPDX expression can be met: one side of each OR, both of each AND. An old form has a slash for OR.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = text.split_whitespace().collect();
    let mut at = 0;
    any(&words, &mut at, allowed) && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at, allowed);
    }
    met
}

fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    if words.get(*at) == Some(&"(") {
        *at += 1;
        let met = any(words, at, allowed);
        *at += 1;
        return met;
    }
    let mut name = words.get(*at).map(|word| (*word).to_owned()).unwrap_or_default();
    *at += 1;
    if words.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    allowed.contains(&name)
}

#[test]
fn every_library_is_under_a_licence_that_is_allowed() {
    let allowed = allowed();
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform"]);
    command.arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH)).current_dir(root());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let linked: BTreeSet<_> =
        metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str()).collect();
    let mut refused = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        if package["source"].is_null() || !linked.contains(&package["id"].as_str()) {
            continue;
        }
        let licence = package["license"].as_str().unwrap_or("");
        if !is_met(licence, &allowed) {
            refused.push(format!("{}: \"{licence}\"", package["name"].as_str().unwrap()));
        }
    }
    assert!(refused.is_empty(), "deny.toml does not allow\n  {}", refused.join("\n  "));
}

#[test]
fn expressions_are_read() {
    let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for good in
        ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND MIT", "Apache-2.0 WITH LLVM-exception"]
    {
        assert!(is_met(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT OR GPL-3.0) AND GPL-3.0", "MIT GPL-3.0"]
    {
        assert!(!is_met(bad, &allowed), "{bad}");
    }
}
