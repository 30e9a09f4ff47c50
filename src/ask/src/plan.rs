//! What a question was understood as: a structured query of the console, kept so that a follow-up can change it.

use crate::dates::{Unit, Window, told, written};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    Count,
    CountDistinct,
    Sum,
    Avg,
    Min,
    Max,
    Median,
    P90,
    P95,
}

impl Function {
    /// Every one that there is.
    pub const ALL: [Function; 9] = [
        Function::Count,
        Function::CountDistinct,
        Function::Sum,
        Function::Avg,
        Function::Min,
        Function::Max,
        Function::Median,
        Function::P90,
        Function::P95,
    ];

    /// As the console calls it.
    pub fn name(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::CountDistinct => "count_distinct",
            Function::Sum => "sum",
            Function::Avg => "avg",
            Function::Min => "min",
            Function::Max => "max",
            Function::Median => "median",
            Function::P90 => "p90",
            Function::P95 => "p95",
        }
    }

    fn told(self) -> &'static str {
        match self {
            Function::Count => "the number",
            Function::CountDistinct => "the number of different values",
            Function::Sum => "the total",
            Function::Avg => "the average",
            Function::Min => "the smallest value",
            Function::Max => "the largest value",
            Function::Median => "the median",
            Function::P90 => "the 90th percentile",
            Function::P95 => "the 95th percentile",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    pub function: Function,
    pub column: Option<String>,
}

impl Measure {
    /// The name of its column in the result.
    pub fn name(&self) -> String {
        match &self.column {
            Some(column) => format!("{}_{column}", self.function.name()),
            None => self.function.name().to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub column: String,
    pub bucket: Option<Unit>,
}

impl Group {
    /// The name of its column in the result.
    pub fn name(&self) -> String {
        match self.bucket {
            Some(unit) => format!("{}_{}", self.column, unit.name()),
            None => self.column.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    pub column: String,
    /// As the console calls it: `eq`, `in`, `gt` …
    pub op: String,
    /// Null for `is_null` and `not_null`.
    pub value: Value,
}

/// A question, understood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The table of which it was asked.
    pub table: String,
    /// Whether that has a table of newest rows, which answers where no time is asked for.
    pub has_newest: bool,
    pub measures: Vec<Measure>,
    pub groups: Vec<Group>,
    pub conditions: Vec<Condition>,
    /// The column of times that the window is about.
    pub time: Option<String>,
    pub window: Window,
    /// By the first measure, or by the first group where there is none.
    pub descending: Option<bool>,
    pub limit: Option<u64>,
}

impl Plan {
    /// The table that is read.
    pub fn read_table(&self) -> String {
        let is_of_times =
            self.window != Window::default() || self.groups.iter().any(|group| group.bucket.is_some());
        match self.has_newest && !is_of_times {
            true => format!("latest_{}", self.table),
            false => self.table.clone(),
        }
    }

    /// The structured query, as the console takes it.
    pub fn structured(&self) -> Value {
        let measures = self.measures.iter().map(|measure| match &measure.column {
            Some(column) => json!({ "fn": measure.function.name(), "column": column }),
            None => json!({ "fn": measure.function.name() }),
        });
        let dimensions = self.groups.iter().map(|group| match group.bucket {
            Some(unit) => json!({ "column": group.column, "bucket": unit.name() }),
            None => json!({ "column": group.column }),
        });
        let mut query = Map::new();
        query.insert("table".to_owned(), json!(self.read_table()));
        query.insert("measures".to_owned(), measures.collect());
        query.insert("dimensions".to_owned(), dimensions.collect());
        query.insert("filters".to_owned(), Value::Array(self.filters()));
        if let Some(descending) = self.descending {
            let name =
                self.measures.first().map(Measure::name).or_else(|| self.groups.first().map(Group::name));
            let dir = if descending { "desc" } else { "asc" };
            query.insert("orderBy".to_owned(), json!([{ "ref": name, "dir": dir }]));
        }
        if let Some(limit) = self.limit {
            query.insert("limit".to_owned(), json!(limit));
        }
        Value::Object(query)
    }

    fn filters(&self) -> Vec<Value> {
        let own = self.conditions.iter().map(|condition| {
            let mut filter = json!({ "column": condition.column, "op": condition.op });
            if !condition.value.is_null() {
                filter["value"] = condition.value.clone();
            }
            filter
        });
        let mut filters: Vec<Value> = own.collect();
        if let Some(time) = &self.time {
            for (op, at) in [("gte", self.window.from), ("lt", self.window.to)] {
                if let Some(at) = at {
                    filters.push(json!({ "column": time, "op": op, "value": written(at) }));
                }
            }
        }
        filters
    }

    /// How it was understood, in one sentence.
    pub fn sentence(&self) -> String {
        let table = self.read_table();
        let mut text = match self.measures.as_slice() {
            [] => format!("The different values of {} in {table}", self.told_groups()),
            measures => {
                let told: Vec<String> = measures.iter().map(told_measure).collect();
                format!("{} in {table}", capital(&told.join(" and ")))
            }
        };
        if !self.measures.is_empty() && !self.groups.is_empty() {
            text.push_str(&format!(" for each {}", self.told_groups()));
        }
        if !self.conditions.is_empty() {
            let told: Vec<String> = self.conditions.iter().map(told_condition).collect();
            text.push_str(&format!(", where {}", told.join(" and ")));
        }
        match (self.time.as_deref(), self.window.from, self.window.to) {
            (Some(time), Some(from), Some(to)) => {
                text.push_str(&format!(", with {time} from {} to before {}", told(from), told(to)));
            }
            (Some(time), Some(from), None) => text.push_str(&format!(", with {time} from {}", told(from))),
            (Some(time), None, Some(to)) => text.push_str(&format!(", with {time} before {}", told(to))),
            _ => {}
        }
        if let Some(descending) = self.descending {
            text.push_str(if descending { ", the largest first" } else { ", the smallest first" });
        }
        if let Some(limit) = self.limit {
            match limit {
                1 => text.push_str(", the first alone"),
                _ => text.push_str(&format!(", at most {limit} rows")),
            }
        }
        if table != self.table {
            text.push_str(" (the newest of each URL)");
        }
        text.push('.');
        text
    }

    fn told_groups(&self) -> String {
        let told = self.groups.iter().map(|group| match group.bucket {
            Some(unit) => format!("{} of {}", unit.name(), group.column),
            None => group.column.clone(),
        });
        told.collect::<Vec<_>>().join(" and ")
    }

    /// A short name for it, as a saved query could have.
    pub fn title(&self) -> String {
        let mut title = match self.measures.first() {
            None => format!("{} rows", self.table),
            Some(Measure { function: Function::Count, .. }) => format!("Number of {}", self.table),
            Some(measure) => {
                let column = measure.column.as_deref().unwrap_or_default();
                capital(&format!("{} {column} of {}", measure.function.name().replace('_', " "), self.table))
            }
        };
        if !self.groups.is_empty() && !self.measures.is_empty() {
            title.push_str(&format!(" by {}", self.told_groups()));
        }
        for condition in self.conditions.iter().take(2) {
            title.push_str(&format!(", {}", told_condition(condition)));
        }
        if let Some(from) = self.window.from {
            title.push_str(&format!(", from {}", told(from)));
        }
        title
    }
}

fn told_measure(measure: &Measure) -> String {
    match &measure.column {
        None => "the number of rows".to_owned(),
        Some(column) => format!("{} of {column}", measure.function.told()),
    }
}

/// A value as people write it: 500, and not 500.0.
fn told_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
        }
        other => other.to_string(),
    }
}

fn told_condition(condition: &Condition) -> String {
    let value = match &condition.value {
        Value::Array(items) => {
            let items = items.iter().map(told_value);
            items.collect::<Vec<_>>().join(if condition.op == "between" { " and " } else { " or " })
        }
        other => told_value(other),
    };
    let column = &condition.column;
    match condition.op.as_str() {
        "eq" | "in" => format!("{column} is {value}"),
        "ne" | "not_in" => format!("{column} is not {value}"),
        "gt" => format!("{column} is above {value}"),
        "gte" => format!("{column} is at least {value}"),
        "lt" => format!("{column} is below {value}"),
        "lte" => format!("{column} is at most {value}"),
        "between" => format!("{column} is between {value}"),
        "contains" => format!("{column} contains {value}"),
        "starts_with" => format!("{column} begins with {value}"),
        "is_null" => format!("{column} is empty"),
        _ => format!("{column} is not empty"),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
