//! The XPath compiler and evaluator: broken expressions, and laws that hold for all expressions that compile.
//!
//! Whether an answer is the right one is asked of lxml in `tests/xpath`; here an expression is asked in several forms
//! that must agree, which the optimizations treat differently.

use std::cell::Cell;
use std::time::{Duration, Instant};

use page::extract::{Attribute, Schema, root_context};
use page::html::Document;
use page::xpath::{Fuel, Value, XPath, number_to_text};

use crate::{INPUT_TIME_MAX, Target};
use page_oracle::clock::least_time;
use page_oracle::soup::{Random, generated};

const SEEDS: &str = include_str!("../xpath/realworld.txt");
const PIECES: [&str; 48] = [
    "(",
    ")",
    "[",
    "]",
    "//",
    "/",
    "///",
    "@",
    "*",
    "::",
    "..",
    ".",
    "'",
    "\"",
    "|",
    " and ",
    " or ",
    "-",
    "=",
    "!=",
    "<",
    ">=",
    "1e9",
    "$",
    "ä",
    "\u{0}",
    "node()",
    "text()",
    "self::",
    "following::*",
    "preceding::*",
    "ancestor::",
    "[1]",
    "[last()]",
    ",",
    "99999999999999999999",
    "has-class('x')",
    "re:test(., '(')",
    "{2}",
    " div ",
    " mod ",
    "position()",
    "count(",
    "normalize-space()",
    "concat(",
    "tr",
    "id('x')",
    "lang('de')",
];
const NAMES: [&str; 14] =
    ["div", "p", "a", "b", "span", "table", "tbody", "tr", "td", "li", "ul", "h1", "body", "zzz"];
const AXES: [&str; 13] = [
    "child",
    "descendant",
    "descendant-or-self",
    "parent",
    "ancestor",
    "ancestor-or-self",
    "following",
    "following-sibling",
    "preceding",
    "preceding-sibling",
    "self",
    "attribute",
    "namespace",
];
const PAGE: &str = r#"<!doctype html><html lang=de><head><title>T</title><base href="/x/"><script>{"a": 1}</script></head>
<body class="p q"><h1 id=x class="title main">One <b>two</b></h1><!-- c --><div id=y class=" p  title "><p>1<p>2.5<p class=q>drei</div>
<table><tr><td>a<td>b<tr><td>12<td id=x>-3</table><table><tbody><tr><td>x</table><ul><li><a href="/1">1</a><li><a href="b?c=d&amp;e" title=A>A</a>
<li>plain<ul><li>deep</ul></ul><svg><title>S</title><path d="M0"/></svg><template><p>t</p></template> tail</body></html>"#;

pub struct CompilerTarget {
    documents: Vec<Document>,
    seeds: Vec<&'static str>,
    compiled: Cell<usize>,
    laws: Cell<usize>,
    budgets: Cell<usize>,
}

impl CompilerTarget {
    pub fn new() -> CompilerTarget {
        let mut random = Random(11);
        let mut documents = vec![Document::parse(PAGE.to_owned()), Document::parse(String::new())];
        documents.extend((0..3).map(|_| Document::parse(generated(&mut random))));
        documents.push(Document::parse(format!("{}x", "<div class=p>".repeat(300))));
        documents.push(Document::parse("<p><b id=x>q</b> text <i class='p q'>r</i></p>".repeat(150)));
        let seeds: Vec<&str> =
            SEEDS.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")).collect();
        CompilerTarget { documents, seeds, compiled: Cell::new(0), laws: Cell::new(0), budgets: Cell::new(0) }
    }

    fn evaluate(&self, text: &str, document: &Document) -> Result<Option<Value>, String> {
        let xpath = XPath::compile(text).map_err(|error| format!("{text}: {error}"))?;
        let run = || xpath.evaluate(document, root_context(document), &mut Fuel::for_page()).ok();
        let start = Instant::now();
        let mut value = run();
        if start.elapsed() > INPUT_TIME_MAX {
            // Slow, or was the machine busy?
            let (took, again) = least_time(INPUT_TIME_MAX, run);
            if took > INPUT_TIME_MAX {
                return Err(format!("{text}\n  took {took:?}"));
            }
            value = again;
        }
        if value.is_none() {
            self.budgets.set(self.budgets.get() + 1);
        }
        Ok(value)
    }

    /// `form` must come to `expected`, unless its budget ends.
    fn law(&self, document: &Document, form: &str, expected: &Value) -> Result<(), String> {
        let Some(value) = self.evaluate(form, document)? else { return Ok(()) };
        self.laws.set(self.laws.get() + 1);
        // NaN is equal to NaN here.
        let (value, expected) = (format!("{value:?}"), format!("{expected:?}"));
        if value == expected {
            return Ok(());
        }
        let cut = |text: &str| text.chars().take(300).collect::<String>();
        Err(format!("{form}\n  gives {}\n  not {}", cut(&value), cut(&expected)))
    }
}

/// A random expression by the grammar.
struct Grammar<'r> {
    random: &'r mut Random,
}

impl Grammar<'_> {
    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len())]
    }

    fn test(&mut self) -> String {
        match self.random.below(9) {
            0 => "*".to_owned(),
            1 => "node()".to_owned(),
            2 => "text()".to_owned(),
            3 => {
                self.random.pick(&["comment()", "processing-instruction()", "class", "id", "href"]).to_owned()
            }
            _ => self.name().to_owned(),
        }
    }

    fn step(&mut self, depth: usize) -> String {
        let mut step = match self.random.below(12) {
            0 => return self.random.pick(&[".", "..", "@class", "@*", "@href"]).to_owned(),
            1..=4 => format!("{}::{}", AXES[self.random.below(AXES.len())], self.test()),
            _ => self.test(),
        };
        while depth > 0 && self.random.below(3) == 0 {
            step += &format!("[{}]", self.predicate(depth - 1));
        }
        step
    }

    fn path(&mut self, depth: usize) -> String {
        let mut path =
            self.random.pick(&["//", "//", "//", "", ".//", "/", "/html/", "/html/body//"]).to_owned();
        path += &self.step(depth);
        for _ in 0..self.random.below(3) {
            path += self.random.pick(&["/", "/", "//"]);
            path += &self.step(depth);
        }
        match self.random.below(12) {
            0 => format!("({path})[{}]", self.predicate(depth.saturating_sub(1))),
            1 if depth > 0 => format!("{path} | {}", self.path(depth - 1)),
            _ => path,
        }
    }

    fn predicate(&mut self, depth: usize) -> String {
        let inner = |grammar: &mut Self| grammar.path(depth.saturating_sub(1));
        match self.random.below(16) {
            0 => (1 + self.random.below(3)).to_string(),
            1 => self.random.pick(&["last()", "position()<3", "last()-1", "position() mod 2 = 1"]).to_owned(),
            2 => self.random.pick(&["@class", "@id='x'", "@class!='q'", "not(@href)", "@*"]).to_owned(),
            3 => "contains(concat(' ', normalize-space(@class), ' '), ' p ')".to_owned(),
            4 => "has-class('title')".to_owned(),
            5 => "re:test(., '\\d')".to_owned(),
            6 => format!("count({}) > {}", inner(self), self.random.below(3)),
            7 => format!("not({})", inner(self)),
            8 => format!("{} = {}", inner(self), inner(self)),
            9 => format!("{} < {}", inner(self), self.random.below(20)),
            10 if depth > 0 => format!("{} and {}", self.predicate(depth - 1), self.predicate(depth - 1)),
            11 if depth > 0 => format!("{} or {}", self.predicate(depth - 1), self.predicate(depth - 1)),
            12 => "contains(., 'e')".to_owned(),
            13 => format!("string-length({}) > 1", inner(self)),
            14 => format!("self::{}", self.name()),
            _ => inner(self),
        }
    }

    fn expression(&mut self) -> String {
        let path = self.path(3);
        match self.random.below(12) {
            0 => format!("string({path})"),
            1 => format!("sum({path}) div count({path})"),
            2 => format!("concat({path}, '-', {})", self.path(1)),
            3 => format!("substring({path}, {}, 1 div 0)", self.random.below(4)),
            4 => format!("set:difference({path}, {})", self.path(1)),
            5 => format!("{path} {} {}", self.random.pick(&["=", "!=", "<", ">="]), self.path(1)),
            _ => path,
        }
    }
}

fn mutated(random: &mut Random, seeds: &[&str]) -> String {
    let mut text: Vec<char> = seeds[random.below(seeds.len())].chars().collect();
    for _ in 0..1 + random.below(4) {
        let at = random.below(text.len() + 1);
        match random.below(5) {
            0 => drop(text.drain(at..(at + random.below(6)).min(text.len()))),
            1 | 2 => drop(text.splice(at..at, random.pick(&PIECES).chars())),
            3 => {
                let other: Vec<char> = seeds[random.below(seeds.len())].chars().collect();
                let from = random.below(other.len() + 1);
                let piece: Vec<char> = other[from..].iter().copied().take(random.below(40)).collect();
                drop(text.splice(at..at, piece));
            }
            _ => {
                let from = random.below(text.len() + 1).min(at);
                let copy: Vec<char> = text[from..at].iter().copied().take(20).collect();
                drop(text.splice(at..at, copy));
            }
        }
    }
    text.into_iter().collect()
}

/// Long and deep ones, to the limits and beyond.
fn extreme(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..1 + random.below(3) {
        let unit: String = (0..1 + random.below(3)).map(|_| random.pick(&PIECES)).collect();
        text += &unit.repeat(1 << random.below(12));
    }
    text
}

impl Target for CompilerTarget {
    type How = ();
    /// A check is some hundred evaluations; each has its own limit.
    const CHECK_TIME_MAX: Duration = Duration::from_secs(60);

    fn generate(&self, random: &mut Random) -> ((), String) {
        let text = match random.below(40) {
            0 => extreme(random),
            1..=14 => mutated(random, &self.seeds),
            _ => Grammar { random }.expression(),
        };
        ((), text)
    }

    fn check(&self, (): (), text: &str) -> Result<(), String> {
        let compiled = XPath::compile(text);
        let attribute = Attribute {
            name: "a".to_owned(),
            xpaths: vec![text.to_owned()],
            json_paths: None,
            kind: page::extract::AttributeType::TextList,
            description: None,
            anti_patterns: None,
            semantic_type: None,
            validation: None,
        };
        let schema = Schema::compile(&[attribute]);
        if compiled.is_ok() != schema.is_ok() || compiled.is_ok() != XPath::compile_strict(text).is_ok() {
            return Err("compiles in one place and not in another".to_owned());
        }
        let xpath = match compiled {
            Ok(xpath) => xpath,
            Err(error) if (1..=text.chars().count() + 1).contains(&error.character) => return Ok(()),
            Err(error) => return Err(format!("no such character: {error}")),
        };
        self.compiled.set(self.compiled.get() + 1);
        if xpath.explain().is_empty() {
            return Err("nothing to explain".to_owned());
        }
        for document in &self.documents {
            let Some(value) = self.evaluate(text, document)? else { continue };
            self.law(document, text, &value)?;
            self.laws_of(document, text, &value)?;
        }
        let (Ok(schema), Ok(base)) = (schema, url::Url::parse("https://shop.example/")) else {
            return Ok(());
        };
        let extract = || schema.extract(&self.documents[0], &base, &mut Fuel::for_page());
        (extract() == extract()).then_some(()).ok_or_else(|| "extracts something else each time".to_owned())
    }

    fn covered(&self) -> String {
        let (compiled, laws, budgets) = (self.compiled.get(), self.laws.get(), self.budgets.get());
        format!("{compiled} compiled, {laws} laws held, {budgets} budgets ended")
    }
}

impl CompilerTarget {
    fn laws_of(&self, document: &Document, text: &str, value: &Value) -> Result<(), String> {
        // Too long or too deep to be put into something else.
        if text.len() > 2000 || text.matches(['[', '(']).count() > 60 {
            return Ok(());
        }
        self.law(document, &format!("({text})"), value)?;
        let truth = match value {
            Value::Nodes(nodes) => !nodes.is_empty(),
            Value::Number(number) => *number != 0.0 && !number.is_nan(),
            Value::Text(text) => !text.is_empty(),
            Value::Bool(boolean) => *boolean,
            Value::Texts(_) => return Ok(()),
        };
        self.law(document, &format!("not(not({text}))"), &Value::Bool(truth))?;
        self.law(document, &format!("//*[not({text})][false()]"), &Value::Nodes(Vec::new()))?;
        if !matches!(value, Value::Number(_)) {
            // A predicate may be answered from an index; behind a double negation it never is.
            for name in ["*", "p", "b"] {
                if let Some(long) = self.evaluate(&format!("//{name}[not(not({text}))]"), document)? {
                    self.law(document, &format!("//{name}[{text}]"), &long)?;
                }
            }
        }
        let Value::Nodes(nodes) = value else {
            let form = match value {
                Value::Number(number) => number_to_text(*number),
                Value::Bool(boolean) => boolean.to_string(),
                Value::Text(text) => text.clone(),
                _ => return Ok(()),
            };
            return self.law(document, &format!("concat({text}, '')"), &Value::Text(form));
        };
        if !nodes.is_sorted_by(|a, b| a < b) {
            return Err("nodes out of order, or double".to_owned());
        }
        let only = |node: Option<&_>| Value::Nodes(node.copied().into_iter().collect());
        self.law(document, &format!("count({text})"), &Value::Number(nodes.len() as f64))?;
        self.law(document, &format!("({text})[true()]"), value)?;
        self.law(document, &format!("({text}) | ({text})"), value)?;
        self.law(document, &format!("({text})/self::node() | ({text})[@zzz]"), value)?;
        self.law(document, &format!("({text})[1]"), &only(nodes.first()))?;
        self.law(document, &format!("({text})[last()]"), &only(nodes.last()))?;
        self.law(document, &format!("({text})[position() = 2]"), &only(nodes.get(1)))?;
        self.law(document, &format!("set:difference({text}, {text})"), &Value::Nodes(Vec::new()))?;
        let first = nodes.first().map_or("", |node| node.string_value(document));
        self.law(document, &format!("string({text})"), &Value::Text(first.to_owned()))
    }
}
