//! The questions of `questions/*.txt`, each with what it must become.

use crate::dates::written;
use crate::plan::Function;
use crate::{Column, Kind, Plan, Reading, Table, examples, read};
use serde_json::Value;

/// Friday, 2026-11-20T12:00:00Z.
const NOW: i64 = 1_795_176_000_000;

/// The tables of `questions/tables.txt`, with the newest rows of those of page types.
fn tables() -> Vec<Table> {
    let mut tables = Vec::<Table>::new();
    for line in include_str!("../questions/tables.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(column) = line.strip_prefix("  ") {
            tables.last_mut().unwrap().columns.push(column_of(column));
        } else if let Some((name, _)) = line.split_once(':') {
            tables.push(Table { name: name.to_owned(), columns: Vec::new() });
        }
    }
    for name in ["products", "articles", "job_postings", "readings"] {
        let table = tables.iter().find(|table| table.name == name).unwrap().clone();
        tables.push(Table { name: format!("latest_{name}"), ..table });
    }
    tables
}

fn column_of(line: &str) -> Column {
    let (head, about) = line.split_once(": ").unwrap_or((line, ""));
    let (name, kind) = head.split_once(' ').unwrap();
    let (about, samples) = about.split_once(" = ").unwrap_or((about, ""));
    let kind_of = |kind: &str| match kind.trim_end_matches('?') {
        "text" => Kind::Text,
        "int64" => Kind::Integer,
        "float64" => Kind::Float,
        "bool" => Kind::Bool,
        "timestamp" => Kind::Time,
        "json" => Kind::Json,
        other => panic!("{other}"),
    };
    Column {
        name: name.to_owned(),
        kind: kind_of(kind),
        nullable: kind.ends_with('?'),
        description: about.to_owned(),
        samples: samples.split(" | ").filter(|sample| !sample.is_empty()).map(str::to_owned).collect(),
    }
}

/// The SQL in the short form of the files: as the console compiles a structured query, without quotes, casts and names.
fn short(plan: &Plan) -> String {
    let query = plan.structured();
    let list = |name: &str| query[name].as_array().cloned().unwrap_or_default();
    let column = |part: &Value| part["column"].as_str().unwrap_or("*").to_owned();
    let mut names = Vec::new();
    let mut select = Vec::new();
    for part in list("dimensions") {
        let (name, sql) = match part["bucket"].as_str() {
            Some(bucket) => {
                (format!("{}_{bucket}", column(&part)), format!("date_trunc('{bucket}', {})", column(&part)))
            }
            None => (column(&part), column(&part)),
        };
        names.push(name);
        select.push(sql);
    }
    let groups = select.len();
    for (part, measure) in list("measures").iter().zip(&plan.measures) {
        let function = part["fn"].as_str().unwrap();
        names.push(match part["column"].as_str() {
            Some(column) => format!("{function}_{column}"),
            None => function.to_owned(),
        });
        select.push(match measure.function {
            Function::CountDistinct => format!("count(DISTINCT {})", column(part)),
            _ => format!("{function}({})", column(part)),
        });
    }
    let mut sql = format!("SELECT {} FROM {}", select.join(", "), query["table"].as_str().unwrap());
    let conditions: Vec<String> = list("filters").iter().map(condition).collect();
    if !conditions.is_empty() {
        sql += &format!(" WHERE {}", conditions.join(" AND "));
    }
    let places: Vec<String> = (1..=groups).map(|place| place.to_string()).collect();
    if groups > 0 {
        sql += &format!(" GROUP BY {}", places.join(", "));
    }
    match list("orderBy").first() {
        Some(by) => {
            let place = names.iter().position(|name| by["ref"] == name.as_str()).unwrap() + 1;
            sql += &format!(" ORDER BY {place}{}", if by["dir"] == "desc" { " DESC" } else { "" });
        }
        None if groups > 0 => sql += &format!(" ORDER BY {}", places.join(", ")),
        None => {}
    }
    if let Some(limit) = plan.limit {
        sql += &format!(" LIMIT {limit}");
    }
    sql
}

fn condition(filter: &Value) -> String {
    let column = filter["column"].as_str().unwrap();
    let literal = |value: &Value| match value {
        Value::String(text) => {
            let text = text.strip_suffix(":00.000Z").map_or(text.clone(), |time| time.replace('T', " "));
            format!("'{text}'")
        }
        Value::Bool(truth) => truth.to_string().to_uppercase(),
        Value::Number(number) => number.as_f64().unwrap().to_string(),
        other => other.to_string(),
    };
    let value = &filter["value"];
    let several = |joint: &str| value.as_array().unwrap().iter().map(literal).collect::<Vec<_>>().join(joint);
    match filter["op"].as_str().unwrap() {
        "in" => format!("({column} IN ({}))", several(", ")),
        "not_in" => format!("({column} NOT IN ({}))", several(", ")),
        "between" => format!("({column} BETWEEN {})", several(" AND ")),
        "contains" => format!("(strpos({column}, {}) > 0)", literal(value)),
        "starts_with" => format!("starts_with({column}, {})", literal(value)),
        "is_null" => format!("({column} IS NULL)"),
        "not_null" => format!("({column} IS NOT NULL)"),
        op => {
            let signs = [("eq", "="), ("ne", "<>"), ("gt", ">"), ("gte", ">="), ("lt", "<"), ("lte", "<=")];
            let sign = signs.iter().find(|(name, _)| *name == op).unwrap().1;
            format!("({column} {sign} {})", literal(value))
        }
    }
}

/// What a question comes to, in the words of the files.
fn told(question: &str, tables: &[Table], last: Option<&Plan>) -> (String, Option<Plan>) {
    match read(question, tables, NOW, last).0 {
        Reading::Understood(plan) => (short(&plan), Some(*plan)),
        Reading::Unsure(plans) => {
            (format!("asked back: {}", plans.iter().map(short).collect::<Vec<_>>().join(" | ")), None)
        }
        Reading::Unread(why) => (format!("declined: {why}"), None),
    }
}

/// Every question of a file with the line below it; one that begins with ">" follows the one before. With UPDATE_GOLDEN the
/// lines are written anew, for whoever added questions and then looks at each.
fn check(name: &str, least: usize) {
    check_with(name, least, &tables());
}

fn check_with(name: &str, least: usize, tables: &[Table]) {
    let path = format!("{}/questions/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read_to_string(&path).unwrap();
    let (mut wrong, mut count, mut last) = (Vec::new(), 0, None);
    let (head, lines): (Vec<&str>, Vec<&str>) =
        file.lines().partition(|line| line.starts_with('#') || line.is_empty());
    let mut anew = head.join("\n").trim_end().to_owned() + "\n\n";
    let mut lines = lines.into_iter().peekable();
    while let Some(question) = lines.next() {
        let expected = lines.next_if(|line| line.starts_with("  ")).unwrap_or_default().trim();
        let follows = question.strip_prefix("> ");
        let (came, plan) = told(follows.unwrap_or(question), tables, follows.and(last.as_ref()));
        if came != expected {
            wrong.push(format!("{question}\n  wanted {expected}\n  came   {came}"));
        }
        anew += &format!("{question}\n  {came}\n");
        last = plan.or(last);
        count += 1;
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() && name != FIRST {
        std::fs::write(&path, anew).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{} of {count} questions:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= least, "{count} questions");
}

/// What was written before there was a grammar, and is never written anew.
const FIRST: &str = "first.txt";

#[test]
fn questions_written_before_the_grammar_become_their_sql() {
    check(FIRST, 100);
}

#[test]
fn further_questions_become_their_sql() {
    check("more.txt", 60);
}

#[test]
fn questions_with_typos_and_in_unusual_order_become_their_sql() {
    check("typos.txt", 60);
}

#[test]
fn questions_that_follow_change_the_one_before() {
    check("follow.txt", 40);
}

#[test]
fn questions_that_nobody_can_answer_are_declined_or_asked_back() {
    check("declined.txt", 50);
}

/// The tables as the demo's shop has them: availability in many shops' own words beside a column that says whether, and days as texts.
fn shop_tables() -> Vec<Table> {
    let mut tables = tables();
    let text = |name: &str| Column {
        name: name.to_owned(),
        kind: Kind::Text,
        nullable: true,
        description: String::new(),
        samples: Vec::new(),
    };
    for table in &mut tables {
        match table.name.trim_start_matches("latest_") {
            "products" => {
                let availability = table.position("availability").unwrap();
                table.columns[availability].samples = ["I lager", "Out of stock"].map(String::from).to_vec();
                table.columns.push(Column { kind: Kind::Bool, ..text("in_stock") });
            }
            "articles" => table.columns.push(text("published")),
            _ => {}
        }
    }
    tables
}

#[test]
fn questions_of_a_shop_become_their_sql() {
    check_with("shop.txt", 25, &shop_tables());
}

/// A question that was understood, with a word more in it: the word is in what it was understood as, or it is asked back or
/// declined. What is said is never passed over.
#[test]
fn no_reading_leaves_a_word_out_in_silence() {
    let tables = tables();
    let questions = [FIRST, "more.txt", "typos.txt"].map(|name| {
        std::fs::read_to_string(format!("{}/questions/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    });
    let questions: Vec<&str> = questions
        .iter()
        .flat_map(|file| file.lines())
        .filter(|line| !line.is_empty() && !line.starts_with([' ', '#']))
        .collect();
    // Each with what the query has of it.
    let words = [
        ("currency", "currency"),
        ("rating", "rating"),
        ("priority", "priority"),
        ("outcome", "outcome"),
        ("rule", "rule"),
        ("Acme", "Acme"),
        ("failed", "failed"),
        ("blocked", "blocked"),
        ("news.example", "news.example"),
        ("median", "median"),
        ("weekly", "week"),
        ("nightly", "nightly"),
        ("zqxv", "no table has it"),
        ("refund", "refund"),
        ("4711", "4711"),
        ("oldest", "asc"),
        ("without", "is_null"),
        ("duration", "duration_ms"),
    ];
    let (mut understood, mut silent) = (0, Vec::new());
    for (number, question) in questions.iter().enumerate() {
        // A third of what could be asked, for the time it takes.
        for (word, part) in words.into_iter().skip(number % 3).step_by(3) {
            let mut parts: Vec<&str> = question.split(' ').collect();
            let at = [0, parts.len() / 2, parts.len()][number / 3 % 3];
            parts.insert(at, word);
            let asked = parts.join(" ");
            let (Reading::Understood(plan), mended) = read(&asked, &tables, NOW, None) else { continue };
            understood += 1;
            let known = told(question, &tables, None).1.map(|plan| plan.structured().to_string());
            let query = plan.structured().to_string();
            if !query.contains(part) && known.as_ref() == Some(&query) && mended.is_empty() {
                silent.push(format!("{asked}\n  came {}", short(&plan)));
            }
        }
    }
    assert!(understood > 50, "{understood} were understood");
    assert!(silent.is_empty(), "{} of {understood}:\n{}", silent.len(), silent.join("\n"));
}

#[test]
fn examples_can_be_read() {
    let tables = tables();
    let examples = examples(&tables);
    assert_eq!(examples.len(), 3);
    for example in examples {
        assert!(matches!(read(&example, &tables, NOW, None).0, Reading::Understood(_)), "{example}");
    }
    assert_eq!(written(NOW), "2026-11-20T12:00:00.000Z");
}
