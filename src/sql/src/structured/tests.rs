use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::catalog::{ColumnKind, ColumnSpec, TableName, TableSpec};
use crate::errors::{ErrorCode, QueryError};
use base::clock::Timestamp;

fn tables() -> Vec<Arc<TableSpec>> {
    use ColumnKind::{Bool, Float64, Int64, Json, Text, Timestamp};
    let columns = [
        ("domain", Text),
        ("title", Text),
        ("price", Float64),
        ("stock", Int64),
        ("ok", Bool),
        ("tags", Json),
        ("scraped_at", Timestamp),
        ("extracted_at", Timestamp),
    ];
    vec![Arc::new(TableSpec {
        name: TableName::parse("products").unwrap(),
        description: String::new(),
        columns: columns.iter().map(|(name, kind)| ColumnSpec::new(*name, *kind)).collect(),
        catalog_version: 1,
        newest: None,
        agent_rows: None,
        joined: None,
    })]
}

fn compiled(query: &Value) -> Result<Compiled, QueryError> {
    compile(&serde_json::from_value(query.clone()).expect("the shape is right"), &tables(), &[])
}

fn sql(query: Value) -> String {
    compiled(&query).unwrap_or_else(|error| panic!("{query}: {error}")).sql
}

#[test]
fn a_query_becomes_one_statement() {
    let query = json!({
        "table": "products",
        "measures": [{ "fn": "count" }, { "fn": "avg", "column": "price", "as": "Preis \"netto\"" }, { "fn": "p90", "column": "stock" }],
        "dimensions": [{ "column": "domain" }, { "column": "scraped_at", "bucket": "week" }],
        "filters": [
            { "column": "price", "op": "gte", "value": 1.5 },
            { "column": "domain", "op": "in", "value": ["a.example", "it's"] },
            { "column": "scraped_at", "op": "between", "value": ["2026-01-01", "2026-02-01T12:30:00+01:00"] },
            { "column": "title", "op": "contains", "value": "50%_\\" },
            { "column": "ok", "op": "ne", "value": false },
            { "column": "tags", "op": "not_null" },
        ],
        "orderBy": [{ "ref": "Preis \"netto\"", "dir": "desc" }, { "ref": "domain" }],
        "limit": 10,
    });
    let expected = r#"SELECT "domain" AS "domain",
  date_trunc('week', "scraped_at") AS "scraped_at_week",
  count(*) AS "count",
  avg("price") AS "Preis ""netto""",
  percentile_cont(0.9) WITHIN GROUP (ORDER BY "stock") AS "p90_stock"
FROM "products"
WHERE ("price" >= CAST('1.5' AS double precision))
  AND ("domain" IN ('a.example', 'it''s'))
  AND ("scraped_at" BETWEEN CAST('2026-01-01 00:00:00.000' AS timestamp(3)) AND CAST('2026-02-01 11:30:00.000' AS timestamp(3)))
  AND (strpos("title", '50%_\') > 0)
  AND ("ok" <> FALSE)
  AND ("tags" IS NOT NULL)
GROUP BY 1, 2
ORDER BY 4 DESC NULLS LAST, 1 ASC NULLS LAST
LIMIT 10"#;
    assert_eq!(sql(query), expected);
    assert_eq!(
        sql(json!({ "table": "products", "measures": [{ "fn": "count" }] })),
        "SELECT count(*) AS \"count\"\nFROM \"products\""
    );
    assert_eq!(
        sql(json!({ "table": "products", "dimensions": [{ "column": "tags", "as": "t" }] })),
        "SELECT CAST(\"tags\" AS text) AS \"t\"\nFROM \"products\"\nGROUP BY 1\nORDER BY 1 ASC NULLS LAST"
    );
}

#[test]
fn values_are_literals_of_their_columns() {
    let condition = |column: &str, op: &str, value: Value| {
        let filter = json!({ "column": column, "op": op, "value": value });
        let sql = sql(json!({ "table": "products", "measures": [{ "fn": "count" }], "filters": [filter] }));
        sql.split_once("WHERE ").expect("a filter").1.to_owned()
    };
    for (column, value, expected) in [
        ("stock", json!(7), "7"),
        ("stock", json!(-7), "CAST('-7' AS bigint)"),
        ("stock", json!("9007199254740993"), "CAST('9007199254740993' AS bigint)"),
        ("stock", json!(i64::MIN), "CAST('-9223372036854775808' AS bigint)"),
        ("price", json!(2), "CAST('2.0' AS double precision)"),
        ("price", json!(1e300), "CAST('1e+300' AS double precision)"),
        ("price", json!("NaN"), "CAST('NaN' AS double precision)"),
        ("price", json!("-Infinity"), "CAST('-Infinity' AS double precision)"),
        ("title", json!("'; DROP TABLE products; --"), "'''; DROP TABLE products; --'"),
        ("title", json!("\\' OR 1=1"), "'\\'' OR 1=1'"),
        ("title", json!(""), "''"),
        ("ok", json!(true), "TRUE"),
        (
            "scraped_at",
            json!("2026-01-01T00:00:00.123456Z"),
            "CAST('2026-01-01 00:00:00.123' AS timestamp(3))",
        ),
    ] {
        assert_eq!(condition(column, "eq", value), format!("(\"{column}\" = {expected})"));
    }
    assert_eq!(condition("title", "starts_with", json!("a'b")), "starts_with(\"title\", 'a''b')");
    assert_eq!(condition("tags", "contains", json!("x")), "(strpos(CAST(\"tags\" AS text), 'x') > 0)");
    assert_eq!(condition("stock", "not_in", json!([1, 2])), "(\"stock\" NOT IN (1, 2))");
}

/// What the message must begin with, for a query that is wrong in one place.
#[test]
fn what_does_not_fit_is_named() {
    let with = |field: &str, value: Value| {
        let mut query = json!({ "table": "products", "measures": [{ "fn": "count" }] });
        query[field] = value;
        query
    };
    let filter = |column: &str, op: &str, value: Value| {
        with("filters", json!([{ "column": column, "op": op, "value": value }]))
    };
    let long = "x".repeat(64);
    let many: Vec<Value> = (0..101).map(|n| json!({ "column": "stock", "op": "eq", "value": n })).collect();
    for (query, expected) in [
        (with("measures", json!([])), "measures: "),
        (with("limit", json!(0)), "limit: "),
        (with("limit", json!(u64::MAX)), "limit: "),
        (with("measures", json!([{ "fn": "sum" }])), "measures[0].column: is needed for sum"),
        (
            with("measures", json!([{ "fn": "sum", "column": "title" }])),
            "measures[0].column: \"title\" is of the type text",
        ),
        (with("measures", json!([{ "fn": "max", "column": "ok" }])), "measures[0].column: "),
        (
            with("measures", json!([{ "fn": "avg", "column": "prise" }])),
            "measures[0].column: there is no column \"prise\" in products; did you mean \"price\"?",
        ),
        (
            with("measures", json!([{ "fn": "count" }, { "fn": "count" }])),
            "measures[1].as: the name \"count\" is taken",
        ),
        (with("measures", json!([{ "fn": "count", "as": " " }])), "measures[0].as: "),
        (with("measures", json!([{ "fn": "count", "as": long }])), "measures[0].as: "),
        (with("measures", json!([{ "fn": "count", "as": "a\nb" }])), "measures[0].as: "),
        (with("dimensions", json!([{ "column": "price", "bucket": "day" }])), "dimensions[0].bucket: "),
        (
            with("dimensions", json!([{ "column": "domain" }, { "column": "zzz" }])),
            "dimensions[1].column: there is no column \"zzz\"",
        ),
        (
            with("orderBy", json!([{ "ref": "price" }])),
            "orderBy[0].ref: names no column of the result, which are \"count\"",
        ),
        (with("filters", json!(many)), "filters: "),
        (filter("zzz", "eq", json!(1)), "filters[0].column: "),
        (filter("stock", "eq", json!(1.5)), "filters[0].value: must be a whole number"),
        (filter("stock", "eq", json!("1 OR 1=1")), "filters[0].value: "),
        (filter("price", "gt", json!("dear")), "filters[0].value: must be a number"),
        (filter("price", "gt", json!([1])), "filters[0].value: "),
        (filter("price", "contains", json!("1")), "filters[0].op: "),
        (filter("tags", "eq", json!("[]")), "filters[0].op: "),
        (filter("ok", "lt", json!(true)), "filters[0].op: "),
        (filter("ok", "eq", json!("true")), "filters[0].value: "),
        (filter("title", "eq", json!(7)), "filters[0].value: must be a string, not 7"),
        (filter("title", "eq", json!("a\u{0}b")), "filters[0].value: "),
        (filter("title", "eq", Value::Null), "filters[0].value: is needed for eq"),
        (filter("title", "is_null", json!("x")), "filters[0].value: is_null takes none"),
        (filter("title", "in", json!("x")), "filters[0].value: must be a list"),
        (filter("title", "in", json!([])), "filters[0].value: has 0 values"),
        (filter("title", "in", json!(["a", 1])), "filters[0].value[1]: "),
        (filter("stock", "between", json!([1, 2, 3])), "filters[0].value: has 3 values; 2 are needed"),
        (filter("scraped_at", "lt", json!("yesterday")), "filters[0].value: "),
        (filter("scraped_at", "lt", json!("-009999-01-01T00:00:00Z")), "filters[0].value: "),
        (filter("title", "in", json!(vec!["y".repeat(100); 1_000])), "filters: come to more than 64 KiB"),
    ] {
        let error = compiled(&query).expect_err("refused");
        assert_eq!(error.code, ErrorCode::InvalidSql, "{query}");
        assert!(error.message.starts_with(&format!("structured.{expected}")), "{query}: {}", error.message);
    }
    for table in ["nowhere", "information_schema.tables", "products; SELECT 1", "\"products\""] {
        let error =
            compiled(&json!({ "table": table, "measures": [{ "fn": "count" }] })).expect_err("refused");
        assert_eq!(error.code, ErrorCode::RlsDenied, "{table}");
    }
}

#[test]
fn what_an_aggregate_leaves_out_is_counted() {
    let since = |day: &str| day.parse::<Timestamp>().unwrap();
    let horizons = [
        Horizon { column: "price".into(), domain: Some("it's.example".into()), since: since("2026-03-01") },
        Horizon { column: "price".into(), domain: Some("b.example".into()), since: since("2026-05-01") },
        Horizon { column: "stock".into(), domain: None, since: since("2026-04-01") },
    ];
    let coverage = |query: Value| {
        compile(&serde_json::from_value(query).unwrap(), &tables(), &horizons).unwrap().coverage
    };
    let count = json!([{ "fn": "count" }]);
    assert_eq!(coverage(json!({ "table": "products", "measures": count })), None, "it counts every row");
    let grouped = json!({ "table": "products", "measures": count, "dimensions": [{ "column": "price" }] });
    assert_eq!(coverage(grouped), None, "a group of its own is nothing left out");
    let unset = json!([{ "column": "price", "op": "is_null" }]);
    assert_eq!(coverage(json!({ "table": "products", "measures": count, "filters": unset })), None);
    let statement = coverage(json!({
        "table": "products",
        "measures": [{ "fn": "avg", "column": "stock" }],
        "filters": [{ "column": "price", "op": "gt", "value": 3 }, { "column": "title", "op": "eq", "value": "x" }],
    }));
    let price = |domain: &str, day: &str| {
        format!(
            "(\"price\" IS NULL AND \"domain\" = '{domain}' AND \"extracted_at\" < CAST('{day} 00:00:00.000' AS timestamp(3)))"
        )
    };
    let (late, early) = (price("b.example", "2026-05-01"), price("it''s.example", "2026-03-01"));
    let stock = "(\"stock\" IS NULL AND \"extracted_at\" < CAST('2026-04-01 00:00:00.000' AS timestamp(3)))";
    let time = |day: &str| format!("CAST('{day} 00:00:00.000' AS timestamp(3))");
    assert_eq!(
        statement.unwrap(),
        format!(
            "SELECT count(*) AS \"left_out\", max(CASE WHEN {late} THEN {} WHEN {stock} THEN {} WHEN {early} THEN {} END) AS \"horizon\"\n\
             FROM \"products\"\nWHERE ({late} OR {stock} OR {early})\n  \
             AND ((\"price\" > CAST('3.0' AS double precision)) OR {late} OR {early})\n  AND (\"title\" = 'x')",
            time("2026-05-01"),
            time("2026-04-01"),
            time("2026-03-01"),
        )
    );
    let many: Vec<Horizon> = (0..1_000)
        .map(|n| Horizon {
            column: "price".into(),
            domain: Some(format!("{n}.example")),
            since: Timestamp(n),
        })
        .collect();
    let query = json!({ "table": "products", "measures": [{ "fn": "sum", "column": "price" }] });
    let merged =
        compile(&serde_json::from_value(query).unwrap(), &tables(), &many).unwrap().coverage.unwrap();
    assert!(merged.len() < 1_000 && merged.contains("1970-01-01 00:00:00.999"), "{merged}");
}
