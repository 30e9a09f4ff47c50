//! Plain questions: arbitrary texts over arbitrary tables.
//!
//! Oracles: the same question reads the same again; what is understood names a table and columns that there are, with functions that
//! fit them, and keeps its form over a round of JSON; a question that follows it does too; what is said is never long.

use ::ask::{Column, Function, Kind, Plan, Reading, Table, examples, read};

use crate::Target;
use page_oracle::soup::Random;

/// From what the tables are made.
#[derive(Clone, Copy, Debug)]
pub struct How(u64);

pub struct AskTarget;

/// Friday, 2026-11-20T12:00:00Z.
const NOW: i64 = 1_795_176_000_000;
/// Bytes of what is said of a question.
const SAID_BYTES_MAX: usize = 20_000;

const WORDS: &[&str] = &[
    "how many",
    "how",
    "many",
    "number of",
    "count",
    "average",
    "avg",
    "median",
    "total",
    "sum",
    "highest",
    "lowest",
    "p95",
    "distinct",
    "different",
    "by",
    "per",
    "for each",
    "top",
    "most",
    "fewest",
    "common",
    "cheapest",
    "most expensive",
    "longest",
    "newest",
    "oldest",
    "last",
    "first",
    "above",
    "below",
    "over",
    "under",
    "between",
    "and",
    "or",
    "not",
    "without",
    "never",
    "with",
    "has",
    "contains",
    "starts with",
    "vs",
    "compared to",
    "sorted by",
    "desc",
    "which",
    "what",
    "when",
    "only",
    "instead",
    "also",
    "week",
    "day",
    "weekly",
    "daily",
    "month",
    "hour",
    "yesterday",
    "today",
    "last 7 days",
    "last week",
    "this month",
    "since monday",
    "in october",
    "in 2026",
    "from 2026-10-01 to 2026-10-15",
    "7 days ago",
    "before",
    "after",
    "until",
    "5",
    "ten",
    "twenty five",
    "1e9",
    "0.5",
    "99999999999999999999",
    "3 million",
    "half",
    "ms",
    "seconds",
    "euros",
    "$",
    "%",
    "€20",
    ">=",
    "<",
    "=",
    "\"",
    "'",
    "“x”",
    "«",
    "jobs",
    "products",
    "urls",
    "domain",
    "brand",
    "price",
    "status",
    "failed",
    "Acme",
    "shop.example",
    "http://shop.example/a",
    "ago",
    "ies",
    "ß",
    "İ",
    "ŉ",
    "é\u{301}",
    "\u{202e}",
    "\u{0}",
    "🍵",
    "a",
    "ss",
    "y",
    "jbos",
    "prcie",
];

const NAMES: &[&str] = &[
    "jobs",
    "products",
    "latest_products",
    "urls",
    "url_tags",
    "readings",
    "x",
    "_",
    "latest_",
    "a_b_c",
    "deliveries",
    "ß",
    "by",
    "count",
];

const COLUMNS: &[(&str, Kind)] = &[
    ("id", Kind::Text),
    ("domain", Kind::Text),
    ("brand", Kind::Text),
    ("name", Kind::Text),
    ("url", Kind::Text),
    ("status", Kind::Text),
    ("price", Kind::Float),
    ("list_price", Kind::Float),
    ("credits_charged", Kind::Integer),
    ("duration_ms", Kind::Integer),
    ("url_count", Kind::Integer),
    ("is_enabled", Kind::Bool),
    ("created_at", Kind::Time),
    ("scraped_at", Kind::Time),
    ("tags", Kind::Json),
    ("currency", Kind::Text),
    ("by", Kind::Text),
    ("_", Kind::Integer),
    ("é_ß", Kind::Float),
];

const ABOUTS: &[&str] = &[
    "",
    "queued, running, succeeded, failed or canceled",
    "When it was registered",
    ", , or …",
    "ended",
    "The price. = x",
    "a or b",
    "ß, é or ŉ",
];

fn tables(seed: u64) -> Vec<Table> {
    let mut random = Random(seed);
    let count = random.below(6);
    (0..count)
        .map(|_| {
            let columns = random.below(COLUMNS.len() + 1);
            let column = |random: &mut Random| {
                let (name, kind) = COLUMNS[random.below(COLUMNS.len())];
                let samples =
                    (0..random.below(4)).map(|_| WORDS[random.below(WORDS.len())].to_owned()).collect();
                Column {
                    name: name.to_owned(),
                    kind,
                    nullable: random.below(2) == 0,
                    description: ABOUTS[random.below(ABOUTS.len())].to_owned(),
                    samples,
                }
            };
            let name = NAMES[random.below(NAMES.len())].to_owned();
            Table { name, columns: (0..columns).map(|_| column(&mut random)).collect() }
        })
        .collect()
}

/// What must hold of a reading.
fn hold(plan: &Plan, tables: &[Table]) -> Result<(), String> {
    let named: Vec<&Table> = tables.iter().filter(|table| table.name == plan.table).collect();
    if named.is_empty() {
        return Err(format!("a table that is not there: {plan:?}"));
    }
    let has = |name: &String| named.iter().any(|table| table.columns.iter().any(|own| own.name == *name));
    let of_measures = plan.measures.iter().filter_map(|measure| measure.column.as_ref());
    let of_groups = plan.groups.iter().map(|group| &group.column);
    let of_conditions = plan.conditions.iter().map(|condition| &condition.column);
    if let Some(odd) =
        of_measures.chain(of_groups).chain(of_conditions).chain(&plan.time).find(|name| !has(name))
    {
        return Err(format!("a column that is not there: {odd} in {plan:?}"));
    }
    if plan.measures.is_empty() && plan.groups.is_empty() {
        return Err(format!("it asks for nothing: {plan:?}"));
    }
    if plan.measures.iter().any(|measure| measure.column.is_none() && measure.function != Function::Count) {
        return Err(format!("a function of nothing: {plan:?}"));
    }
    let text = serde_json::to_string(plan).map_err(|e| e.to_string())?;
    let again: Plan = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
    let said = plan.sentence().len() + plan.title().len();
    match again == *plan && said < SAID_BYTES_MAX && plan.structured().is_object() {
        true => Ok(()),
        false => Err(format!("another plan after JSON, or {said} bytes are said: {text}")),
    }
}

impl Target for AskTarget {
    type How = How;

    fn generate(&self, random: &mut Random) -> (How, String) {
        let how = How(random.number());
        let own = tables(how.0);
        let mut text = String::new();
        let most = if random.below(20) == 0 { 400 } else { 14 };
        for _ in 0..random.below(most) {
            let table = own.get(random.below(own.len().max(1)));
            match random.below(4) {
                0 => {
                    let column =
                        table.and_then(|table| table.columns.get(random.below(table.columns.len().max(1))));
                    text.push_str(&column.map_or("x".to_owned(), |column| column.name.replace('_', " ")));
                }
                1 if random.below(4) == 0 => text.push_str(table.map_or("y", |table| table.name.as_str())),
                _ => text.push_str(WORDS[random.below(WORDS.len())]),
            }
            if random.below(12) != 0 {
                text.push(' ');
            }
        }
        (how, text)
    }

    fn check(&self, how: How, text: &str) -> Result<(), String> {
        let tables = tables(how.0);
        let (reading, mended) = read(text, &tables, NOW, None);
        if read(text, &tables, NOW, None) != (reading.clone(), mended) {
            return Err("the same question reads otherwise".to_owned());
        }
        let plans = match reading {
            Reading::Understood(plan) => vec![*plan],
            Reading::Unsure(plans) if (2..=3).contains(&plans.len()) => plans,
            Reading::Unsure(plans) => return Err(format!("{} choices", plans.len())),
            Reading::Unread(why) if why.len() < SAID_BYTES_MAX => Vec::new(),
            Reading::Unread(why) => return Err(format!("{} bytes are said", why.len())),
        };
        for plan in &plans {
            hold(plan, &tables)?;
            for next in [text, "by week instead", "only Acme under 5", "what about price", "top 3"] {
                if let (Reading::Understood(next), _) = read(next, &tables, NOW, Some(plan)) {
                    hold(&next, &tables)?;
                }
            }
        }
        let known = examples(&tables);
        if known.len() > 3 { Err(format!("{} examples", known.len())) } else { Ok(()) }
    }

    fn covered(&self) -> String {
        "questions over tables".to_owned()
    }
}
