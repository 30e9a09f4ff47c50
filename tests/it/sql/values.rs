//! What statements give: values, names, types, pages, errors.

use super::{Box_, MARKER, OURS, THEIRS, reading, table};
use serde_json::{Value, json};
use sql::{Cell, ColumnKind, ColumnSpec, ErrorCode, Key, QueryBackend, ResultFile, Statement, TableChange};
use std::sync::Arc;
use uuid::Uuid;

#[tokio::test]
async fn values_names_and_types_are_right() {
    let it = Box_::new(|_| {});
    let (info, outcome, result) = it
        .run("SELECT url, price, stock, ok, at, data FROM readings WHERE stock = 42")
        .await
        .expect("it runs");
    assert_eq!((info.tables, outcome.rows, outcome.truncated), (vec!["readings".to_owned()], 1, None));
    let types: Vec<String> = info.columns.iter().map(|column| column.type_name.clone()).collect();
    assert_eq!(types, ["text", "double precision", "bigint", "boolean", "timestamp", "json"]);
    assert_eq!(
        Value::Object(result.page(0, 10).expect("a page").remove(0)),
        json!({
            "url": "https://shop.example/42", "price": 10.5, "stock": 42, "ok": true,
            "at": "2026-01-02T18:00:00.000Z", "data": "{\"n\":42}"
        })
    );
    for (sql, expected) in [
        (
            "SELECT count(*), avg(price), max(stock) FROM readings",
            json!({"count": 2500, "avg": 312.375, "max": 2498}),
        ),
        ("SELECT count(stock), count(DISTINCT url) FROM readings", json!({"count": 2250, "count_2": 50})),
        ("SELECT 0.1 + 0.2", json!({"?column?": "0.3"})),
        ("SELECT 1 AS a, 2 AS a", json!({"a": 1, "a_2": 2})),
        ("SELECT 9007199254740993 AS big, -5 AS small", json!({"big": "9007199254740993", "small": -5})),
        ("SELECT 'NaN'::float8 AS x, 'a' || 'b' AS y", json!({"x": "NaN", "y": "ab"})),
        ("SELECT sum(stock) FROM readings", json!({"sum": 2_810_250})),
        ("SELECT date_trunc('day', max(at)) AS d FROM readings", json!({"d": "2026-04-15T00:00:00.000Z"})),
        ("SELECT ended - started AS took FROM jobs ORDER BY took DESC LIMIT 1", json!({"took": "31 days"})),
        (
            "SELECT r.url, j.url FROM readings r JOIN jobs j ON r.stock = 1 AND j.url = 'job 1'",
            json!({"url": "https://shop.example/1", "url_2": "job 1"}),
        ),
        (
            "SELECT url FROM public.readings ORDER BY at DESC LIMIT 1",
            json!({"url": "https://shop.example/49"}),
        ),
        ("SELECT at FROM readings LIMIT 1", json!({"at": "2026-04-15T03:00:00.000Z"})),
        (
            "SELECT row_number() OVER (ORDER BY at DESC) AS r, stock FROM readings ORDER BY r OFFSET 3 FETCH FIRST ROW ONLY",
            json!({"r": 4, "stock": 2496}),
        ),
        (
            "WITH d AS (SELECT DISTINCT lower(url) FROM readings ORDER BY lower(url)) SELECT count(*) FROM d",
            json!({"count": 50}),
        ),
        (
            "SELECT now() > max(at) AS later, now() - INTERVAL '1 hour' < now() AS less FROM readings WHERE stock = 0",
            json!({"later": true, "less": true}),
        ),
        ("SELECT ARRAY[1,2,3] AS l", json!({"l": [1, 2, 3]})),
        (
            "SELECT date_trunc('month', at)::date AS m, count(*) FROM readings GROUP BY 1 ORDER BY 1 LIMIT 1",
            json!({"m": "2026-01-01", "count": 744}),
        ),
    ] {
        assert_eq!(it.first(sql).await, expected, "{sql}");
    }
    // 31 days are more than one, which DataFusion alone denies.
    let longer = it.rows("SELECT url FROM jobs WHERE ended - started > INTERVAL '1 day'").await;
    assert_eq!(longer.len(), 1);
    assert_eq!(it.rows("SELECT url FROM jobs WHERE ended > started + INTERVAL '1 month'").await.len(), 0);
    it.assert_clean().await;
}

#[tokio::test]
async fn pages_are_stable_while_rows_change() {
    let it = Box_::new(|_| {});
    let (.., result) = it.run("SELECT stock, url FROM readings ORDER BY at").await.expect("it runs");
    let before = result.page(3, 200).expect("a page");
    assert_eq!((before.len(), before[0]["stock"].clone()), (200, json!(600)));
    it.apply(OURS, 2, (0..2500).map(|n| reading(n, "changed")).collect());
    it.apply(OURS, 3, vec![TableChange { rows: Vec::new(), ..reading(3, "") }]);
    assert_eq!(result.page(3, 200).expect("a page"), before);
    assert_eq!(
        it.first("SELECT count(*), min(url) FROM readings").await,
        json!({"count": 2499, "min": "changed"})
    );
    assert_eq!(
        it.first("SELECT count(*) FROM readings WHERE stock BETWEEN 0 AND 5").await,
        json!({"count": 5})
    );
    // A statement reads the snapshot that it was pinned to.
    let pinned = it.statement(OURS, "SELECT max(stock) FROM readings");
    it.apply(OURS, 4, (0..2500).map(|n| TableChange { rows: Vec::new(), ..reading(n, "") }).collect());
    let path = it.workers.result_path(OURS, pinned.query_id);
    let (_, running) = it.workers.start(pinned).await.expect("it starts");
    running.wait().await.expect("it runs");
    assert_eq!(ResultFile::open(&path).expect("open").page(0, 1).expect("a page")[0]["max"], 2498);
    assert_eq!(it.first("SELECT count(*) FROM readings").await, json!({"count": 0}));
}

#[tokio::test]
async fn a_dry_run_estimates_and_writes_nothing() {
    let it = Box_::new(|_| {});
    let statement = it.statement(OURS, "SELECT url, count(*) FROM readings GROUP BY url");
    let path = it.workers.result_path(OURS, statement.query_id);
    let info = it.workers.plan(statement).await.expect("it plans");
    let shown = serde_json::to_value(&info).expect("JSON");
    assert_eq!(
        shown["columns"],
        json!([{"name": "url", "type": "text"}, {"name": "count", "type": "bigint"}])
    );
    assert!(shown["estimatedBytes"].as_u64().expect("bytes") > 1000, "{shown}");
    let all = it.workers.plan(it.statement(OURS, "SELECT * FROM readings")).await.expect("it plans");
    assert_eq!(all.estimated_rows, Some(2500));
    assert!(!path.exists());
    it.assert_clean().await;
}

#[tokio::test]
async fn caps_cut_and_are_said() {
    let it = Box_::new(|settings| settings.rows_max = 1500);
    let (_, outcome, result) = it.run("SELECT * FROM readings").await.expect("it runs");
    assert_eq!((outcome.rows, outcome.truncated.is_some()), (1500, true));
    assert_eq!(result.page(1, 1000).expect("a page").len(), 500);
}

#[tokio::test]
async fn an_organization_sees_nothing_of_another() {
    let it = Box_::new(|_| {});
    for sql in
        ["SELECT * FROM readings", "SELECT data, url FROM readings ORDER BY url DESC", "SELECT * FROM jobs"]
    {
        let text = serde_json::to_string(&it.rows(sql).await).expect("JSON");
        assert!(!text.contains(MARKER), "{sql}");
    }
    let (.., result) = it.run_as(THEIRS, "SELECT url FROM readings").await.expect("it runs");
    assert_eq!(result.page(0, 10).expect("a page")[0]["url"], MARKER);
    let foreign = it.run("SELECT * FROM their_secrets").await.expect_err("refused");
    let missing = it.run("SELECT * FROM their_secretz").await.expect_err("refused");
    assert_eq!(foreign.code, ErrorCode::RlsDenied);
    assert_eq!(foreign.message.replace("their_secrets", "x"), missing.message.replace("their_secretz", "x"));
}

#[tokio::test]
async fn what_fails_while_running_is_transient_and_tells_no_values() {
    let it = Box_::new(|_| {});
    for (sql, part) in [
        ("SELECT stock / (stock - stock) FROM readings", "zero"),
        ("SELECT url::int FROM readings", "converted"),
        ("SELECT 9223372036854775807 + stock FROM readings", "range"),
        ("SELECT sum(9223372036854775807 - stock * 0) FROM readings", "range"),
        ("SELECT (SELECT url FROM readings)", "one row"),
    ] {
        let error = it.run(sql).await.expect_err(sql);
        assert_eq!((error.code, error.retriable), (ErrorCode::Transient, false), "{sql}: {error:?}");
        assert!(error.message.contains(part) && !error.message.contains("shop.example"), "{sql}: {error:?}");
    }
    // What reads no table fails whenever it is sent: it is refused.
    for (sql, part) in
        [("SELECT 1 / 0", "zero"), ("SELECT 'abc'::int", "'abc'"), ("SELECT 'x' ~ '('", "regular")]
    {
        let error = it.run(sql).await.expect_err(sql);
        assert_eq!((error.code, error.retriable), (ErrorCode::InvalidSql, false), "{sql}: {error:?}");
        assert!(error.message.contains(part), "{sql}: {error:?}");
    }
}

/// Keys of a table may hold several rows; the order of applying does not matter to what is seen.
#[tokio::test]
async fn long_form_tables_and_new_columns() {
    let it = Box_::new(|_| {});
    let values = table("reading_values", &[("name", ColumnKind::Text), ("n", ColumnKind::Int64)]);
    let key: Key = 99_u128.to_be_bytes();
    let rows = (0..5).map(|n| vec![Cell::from(format!("v{n}")), Cell::Int(n)]).collect();
    it.apply(OURS, 10, vec![TableChange { table: Arc::clone(&values), key, rows }]);
    let mut wider = values.as_ref().clone();
    wider.columns.push(ColumnSpec::new("extra", ColumnKind::Float64));
    wider.catalog_version = 2;
    let wider = Arc::new(wider);
    let row = vec![Cell::from("w"), Cell::Int(7), Cell::Float(0.5)];
    let change = TableChange { table: Arc::clone(&wider), key: 100_u128.to_be_bytes(), rows: vec![row] };
    it.apply(OURS, 11, vec![change]);
    let statement = Statement {
        pin: it.snapshots.pin(OURS, vec![wider]).expect("pin"),
        sql: "SELECT count(*) AS c, count(extra) AS e, sum(n) AS n FROM reading_values".to_owned(),
        query_id: Uuid::now_v7(),
    };
    let path = it.workers.result_path(OURS, statement.query_id);
    let (_, running) = it.workers.start(statement).await.expect("it starts");
    running.wait().await.expect("it runs");
    let row = ResultFile::open(&path).expect("open").page(0, 1).expect("a page").remove(0);
    assert_eq!(Value::Object(row), json!({"c": 6, "e": 1, "n": 17}));
}

/// What analysts write must plan and run, whatever the rewriting of names does to it.
#[tokio::test]
async fn analyst_statements_run() {
    let it = Box_::new(|_| {});
    let mut failed = Vec::new();
    for sql in [
        "SELECT url, count(*) FROM readings GROUP BY url HAVING count(*) > 10 ORDER BY count(*) DESC, url LIMIT 5",
        "SELECT url, avg(price) FROM readings GROUP BY 1 ORDER BY 2 DESC",
        "SELECT split_part(url, '/', 3), count(*) FROM readings GROUP BY split_part(url, '/', 3)",
        "SELECT date_trunc('day', at), sum(stock) FROM readings GROUP BY date_trunc('day', at) ORDER BY 1",
        "SELECT date_trunc('day', at) AS day, sum(stock) FROM readings GROUP BY day ORDER BY day",
        "SELECT price::int, count(*) FROM readings GROUP BY price ORDER BY price LIMIT 3",
        "SELECT count(*) FILTER (WHERE ok) AS good, count(*) FROM readings",
        "SELECT DISTINCT ON (url) url, at, price FROM readings ORDER BY url, at DESC",
        "SELECT * FROM (SELECT url, row_number() OVER (PARTITION BY url ORDER BY at DESC) AS n FROM readings) s WHERE n = 1",
        "SELECT url, price - lag(price) OVER (PARTITION BY url ORDER BY at) FROM readings",
        "SELECT sum(price) OVER (ORDER BY at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM readings",
        "SELECT sum(stock) OVER (ORDER BY at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM readings",
        "SELECT median(price), percentile_cont(0.9) WITHIN GROUP (ORDER BY price) FROM readings",
        "SELECT stddev(price), var_pop(price), corr(price, stock) FROM readings",
        "SELECT string_agg(DISTINCT url, ',' ORDER BY url) FROM readings",
        "SELECT array_agg(stock ORDER BY stock) FROM readings WHERE stock < 5",
        "SELECT a.url FROM readings a LEFT JOIN jobs b ON a.url = b.url WHERE b.url IS NULL LIMIT 3",
        "SELECT url FROM readings WHERE url IN (SELECT url FROM readings WHERE stock > 100)",
        "SELECT url FROM readings r WHERE EXISTS (SELECT 1 FROM jobs j WHERE j.url <> r.url)",
        "SELECT url, (SELECT max(started) FROM jobs) FROM readings LIMIT 1",
        "SELECT url FROM readings WHERE price > (SELECT avg(price) FROM readings)",
        "SELECT url FROM readings UNION SELECT url FROM jobs ORDER BY url",
        "SELECT url FROM readings EXCEPT SELECT url FROM jobs",
        "WITH a AS (SELECT url, max(price) FROM readings GROUP BY url) SELECT url, max FROM a WHERE max > 600",
        "SELECT CASE WHEN price > 100 THEN 'dear' ELSE 'cheap' END, count(*) FROM readings GROUP BY 1",
        "SELECT coalesce(stock, 0), nullif(stock, 3), greatest(stock, 5) FROM readings",
        "SELECT extract(hour FROM at), count(*) FROM readings GROUP BY 1 ORDER BY 1",
        "SELECT extract(epoch FROM ended - started) FROM jobs",
        "SELECT at + INTERVAL '1 day', at - INTERVAL '2 hours' FROM readings LIMIT 1",
        "SELECT count(*) FROM readings WHERE at >= '2026-01-02' AND at < TIMESTAMP '2026-01-03 00:00:00'",
        "SELECT count(*) FROM readings WHERE at > now() - INTERVAL '7 days'",
        "SELECT count(*) FROM readings WHERE at::date = DATE '2026-01-05'",
        "SELECT current_date, now()",
        "SELECT count(*) FROM readings WHERE url LIKE '%/1%' AND url NOT ILIKE '%X%'",
        "SELECT count(*) FROM readings WHERE url ~ '/[0-9]$'",
        "SELECT regexp_replace(url, '^https?://([^/]+).*', '\\1') FROM readings LIMIT 1",
        "SELECT substring(url FROM 1 FOR 5), position('shop' IN url), trim(both 'h' from url) FROM readings LIMIT 1",
        "SELECT substring(url, 1, 5), left(url, 3), length(url), upper(url) FROM readings LIMIT 1",
        "SELECT round(price, 1), round(price), floor(price), price % 3, -price, abs(-price) FROM readings LIMIT 1",
        "SELECT round(avg(price)::numeric, 2) FROM readings",
        "SELECT stock / 2, stock * 1.5, stock::float8 / 3, stock % 7 FROM readings LIMIT 1",
        "SELECT to_char(at, '%Y-%m') AS month, count(*) FROM readings GROUP BY month ORDER BY month",
        "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, t)",
        "SELECT x FROM unnest(ARRAY[1, 2, 3]) AS u(x)",
        "SELECT r.* FROM readings r CROSS JOIN jobs j LIMIT 2",
        "SELECT *, price * 2 AS double FROM readings LIMIT 2",
        "SELECT url AS \"Adresse\", price AS \"Preis €\" FROM readings LIMIT 1",
        "SELECT url FROM readings ORDER BY price DESC NULLS LAST LIMIT 3",
        "SELECT count(DISTINCT url), count(DISTINCT stock), sum(DISTINCT stock) FROM readings",
        "SELECT bool_and(ok), bool_or(ok), every FROM (SELECT ok, true AS every FROM readings) s GROUP BY every",
        "SELECT url, ok, count(*) FROM readings GROUP BY GROUPING SETS ((url), (ok), ())",
        "SELECT url, ok, count(*) FROM readings GROUP BY ROLLUP (url, ok)",
        "SELECT max(count) FROM (SELECT url, count(*) FROM readings GROUP BY url) s",
        "SELECT first_value(price) OVER w, last_value(price) OVER w FROM readings WINDOW w AS (PARTITION BY url ORDER BY at)",
        "SELECT ntile(4) OVER (ORDER BY price), rank() OVER (ORDER BY price), dense_rank() OVER (ORDER BY price) FROM readings",
        "SELECT j.url, j.ended FROM jobs j JOIN LATERAL (SELECT 1 AS one) l ON true",
        "SELECT count(*) FROM readings a JOIN readings b USING (url) WHERE a.stock < 50 AND b.stock < 50",
        "SELECT concat(url, '!', stock), concat_ws('-', url, stock), url || stock FROM readings LIMIT 1",
        "SELECT true AND NOT false, 1 IS DISTINCT FROM NULL, 5 BETWEEN 1 AND 10",
        "SELECT avg(stock), sum(price), min(at), max(at) FROM readings WHERE false",
        "SELECT sum(stock) FROM readings WHERE false",
        "select Url, PRICE from Readings limit 1",
        "SELECT 1;",
        "/* a comment */ SELECT 1 -- and another",
    ] {
        if let Err(error) = it.run(sql).await {
            failed.push(format!("{sql}: {error:?}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(it.first("SELECT sum(stock) FROM readings WHERE false").await, json!({"sum": null}));
    let grouped = "SELECT ok, sum(stock), sum(-stock) FROM readings GROUP BY ok ORDER BY ok";
    assert_eq!(it.first(grouped).await, json!({"ok": false, "sum": 1_249_000, "sum_2": -1_249_000}));
}
