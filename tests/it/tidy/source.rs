//! The sources as a syntax tree: what a rule asks of them.

use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A file of `src`, parsed, without its unit tests.
pub struct Source {
    /// Relative to `src`, with slashes: `store/src/writer.rs`.
    pub path: String,
    pub text: String,
    /// The module that the file is, from its crate's root on.
    pub module: Vec<String>,
    /// Every path that the code names, in full: `crate::features::jobs::Job`.
    pub names: Vec<Name>,
    /// What `use` brings into the file's own module, under which name.
    pub imports: Vec<Import>,
    pub functions: Vec<Function>,
    /// Calls of methods and macros that a rule may forbid: `.unwrap()`, `todo!`.
    pub calls: Vec<Call>,
    /// Every identifier, those that macros are given too.
    pub idents: Vec<Call>,
    /// What stands in literals of text; comments are none.
    pub texts: Vec<Call>,
}

pub struct Name {
    pub line: usize,
    pub parts: Vec<String>,
}

pub struct Import {
    pub name: String,
    pub parts: Vec<String>,
}

pub struct Function {
    pub name: String,
    pub line: usize,
    pub lines: usize,
}

pub struct Call {
    pub line: usize,
    pub word: String,
}

impl Source {
    /// `text` as the file at `path` (relative to `src`). Panics where it is no Rust.
    pub fn parse(path: &str, text: String) -> Source {
        let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("src/{path}: {e}"));
        let own = module(path);
        let mut walk = Walk { own: own.clone(), module: own, ..Walk::default() };
        walk.visit_file(&file);
        Source {
            path: path.to_owned(),
            text,
            module: walk.own,
            names: walk.names,
            imports: walk.imports,
            functions: walk.functions,
            calls: walk.calls,
            idents: walk.idents,
            texts: walk.texts,
        }
    }

    /// Whether the whole file is a test's.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.contains("/tests/")
    }
}

/// Every Rust file of `src`.
pub fn sources() -> Vec<Source> {
    let root = root().join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    files.retain(|path| path.extension().is_some_and(|kind| kind == "rs"));
    files.sort();
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        Source::parse(&name, std::fs::read_to_string(path).unwrap())
    };
    files.iter().map(read).collect()
}

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds every file below `folder`.
pub fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

/// The module that a file is, from its crate's root on: `gleaner/src/features/jobs/mod.rs` is `features::jobs`.
fn module(path: &str) -> Vec<String> {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside).trim_end_matches(".rs");
    let mut parts: Vec<_> = inside.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

#[derive(Default)]
struct Walk {
    /// The file's own module, and the one that is being read, which may stand in the file.
    own: Vec<String>,
    module: Vec<String>,
    names: Vec<Name>,
    imports: Vec<Import>,
    functions: Vec<Function>,
    calls: Vec<Call>,
    idents: Vec<Call>,
    texts: Vec<Call>,
}

impl Walk {
    /// A path as it is written, with `self` and `super` resolved to what they mean here.
    fn name(&mut self, line: usize, written: Vec<String>) {
        let mut parts = written.as_slice();
        let mut base = self.module.clone();
        let mut is_relative = false;
        while let [first, rest @ ..] = parts {
            match first.as_str() {
                "self" => is_relative = true,
                "super" => {
                    is_relative = true;
                    base.pop();
                }
                _ => break,
            }
            parts = rest;
        }
        let parts = if is_relative {
            std::iter::once("crate".to_owned()).chain(base).chain(parts.iter().cloned()).collect()
        } else {
            written
        };
        self.names.push(Name { line, parts });
    }

    fn flatten(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.flatten(&path.tree, &with(&path.ident)),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.flatten(tree, before)),
            syn::UseTree::Name(name) if name.ident == "self" => {
                let known_as = before.last().cloned().unwrap_or_default();
                self.import(name.span().start().line, before.to_vec(), known_as)
            }
            syn::UseTree::Name(name) => {
                self.import(name.span().start().line, with(&name.ident), name.ident.to_string())
            }
            syn::UseTree::Rename(rename) => {
                self.import(rename.span().start().line, with(&rename.ident), rename.rename.to_string())
            }
            syn::UseTree::Glob(glob) => self.name(glob.span().start().line, before.to_vec()),
        }
    }

    fn import(&mut self, line: usize, written: Vec<String>, known_as: String) {
        self.name(line, written);
        if self.module == self.own
            && let Some(name) = self.names.last()
        {
            self.imports.push(Import { name: known_as, parts: name.parts.clone() });
        }
    }

    fn function(&mut self, signature: &syn::Signature, whole: impl Spanned) {
        let (from, to) = (signature.span().start().line, whole.span().end().line);
        self.functions.push(Function { name: signature.ident.to_string(), line: from, lines: to - from + 1 });
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string().contains("test"))
    })
}

impl<'a> Visit<'a> for Walk {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if is_for_tests(&item.attrs) {
            return;
        }
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.flatten(&item.tree, &[]);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.name(path.span().start().line, parts);
        visit::visit_path(self, path);
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if is_for_tests(&item.attrs) {
            return;
        }
        self.function(&item.sig, item);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if is_for_tests(&item.attrs) {
            return;
        }
        self.function(&item.sig, item);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        self.function(&item.sig, item);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        let line = call.method.span().start().line;
        self.calls.push(Call { line, word: format!(".{}()", call.method) });
        // Two calls in a row, as a rule may name them.
        if let syn::Expr::MethodCall(before) = &*call.receiver {
            self.calls.push(Call { line, word: format!(".{}().{}()", before.method, call.method) });
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_ident(&mut self, ident: &'a proc_macro2::Ident) {
        self.idents.push(Call { line: ident.span().start().line, word: ident.to_string() });
    }

    fn visit_lit_str(&mut self, text: &'a syn::LitStr) {
        self.texts.push(Call { line: text.span().start().line, word: text.value() });
    }

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        // A comment is an attribute to the parser.
        if !attribute.path().is_ident("doc") {
            visit::visit_attribute(self, attribute);
        }
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        let line = call.span().start().line;
        if let Some(last) = call.path.segments.last() {
            self.calls.push(Call { line, word: format!("{}!", last.ident) });
        }
        self.inside(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

impl Walk {
    /// What a macro is given is no syntax tree: paths and calls are read from its words, so that nothing hides there.
    fn inside(&mut self, tokens: proc_macro2::TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut colons, mut dots, mut line) = (0, false, 0);
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(line, &mut path);
                    }
                    line = ident.span().start().line;
                    self.idents.push(Call { line, word: ident.to_string() });
                    if dots {
                        self.calls.push(Call { line, word: format!(".{ident}()") });
                    }
                    path.push(ident.to_string());
                    (colons, dots) = (0, false);
                }
                proc_macro2::TokenTree::Punct(punct) => {
                    if punct.as_char() == '!'
                        && let Some(last) = path.last()
                    {
                        self.calls.push(Call { line, word: format!("{last}!") });
                    }
                    dots = punct.as_char() == '.';
                    colons = if punct.as_char() == ':' { colons + 1 } else { 0 };
                    if colons == 0 {
                        self.end(line, &mut path);
                    }
                }
                proc_macro2::TokenTree::Group(group) => {
                    self.end(line, &mut path);
                    (colons, dots) = (0, false);
                    self.inside(group.stream());
                }
                proc_macro2::TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        let line = literal.span().start().line;
                        self.texts.push(Call { line, word: text.value() });
                    }
                    self.end(line, &mut path);
                    (colons, dots) = (0, false);
                }
            }
        }
        self.end(line, &mut path);
    }

    fn end(&mut self, line: usize, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.name(line, path.clone());
        }
        path.clear();
    }
}
