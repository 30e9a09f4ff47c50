//! Questions that can be asked of the tables there are.

use crate::table::{Column, Kind, Table};

/// Tables that people ask about first.
const FIRST: [&str; 4] = ["products", "jobs", "readings", "urls"];

/// Three questions, of tables and columns that there are; fewer only where there are too few.
pub fn examples(tables: &[Table]) -> Vec<String> {
    let asked = |table: &&Table| !table.name.starts_with("latest_");
    let place = |table: &&Table| {
        let amount = table.columns.iter().any(is_amount);
        (FIRST.iter().position(|name| *name == table.name).unwrap_or(FIRST.len()), !amount)
    };
    let mut tables: Vec<&Table> = tables.iter().filter(asked).collect();
    tables.sort_by_key(place);
    let mut examples: Vec<String> = Vec::new();
    for table in tables {
        for example in of(table) {
            if examples.len() < 3 && !examples.contains(&example) {
                examples.push(example);
                break;
            }
        }
    }
    examples
}

fn is_amount(column: &Column) -> bool {
    matches!(column.kind, Kind::Integer | Kind::Float) && !column.name.contains("version")
}

fn of(table: &Table) -> Vec<String> {
    let said = |name: &str| name.replace('_', " ");
    let named =
        |names: &[&str]| names.iter().find(|name| table.position(name).is_some()).map(|name| said(name));
    let group =
        named(&["brand", "domain", "author", "company", "status", "kind", "outcome", "page_type", "name"]);
    let amount = table.columns.iter().find(|column| column.kind == Kind::Float && !column.name.contains('_'));
    let has_times = table.columns.iter().any(|column| column.kind == Kind::Time && !column.nullable);
    let when = if has_times { " last 7 days" } else { "" };
    let what = said(&table.name);
    let mut questions = Vec::new();
    if let (Some(amount), Some(group)) = (amount, &group) {
        questions.push(format!("average {} of {what} by {group}{when}", said(&amount.name)));
    }
    if let Some(group) = &group {
        questions.push(format!("how many {what} by {group}{when}"));
    }
    questions.push(format!("how many {what} are there"));
    questions
}
