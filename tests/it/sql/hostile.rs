//! Statements that must be refused, and statements that must be ended.

use super::{Box_, MARKER, OURS};
use crate::harness::eventually;
use serde_json::json;
use sql::{ErrorCode, QueryBackend};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Statements that must be refused, with the code.
fn refused(it: &Box_) -> Vec<(String, ErrorCode)> {
    use ErrorCode::{InvalidSql, RlsDenied, SyntaxError};
    let file = it.folder.path().join("planted.csv");
    std::fs::write(&file, MARKER).expect("write");
    let file = file.display();
    let chain = |part: &str, count: usize| part.repeat(count);
    [
        ("SELEC 1", SyntaxError),
        ("SELECT url FROM readings WHERE", SyntaxError),
        ("SELECT 'open", SyntaxError),
        ("SELECT * FROM information_schema.views", RlsDenied),
        ("SELECT * FROM pg_catalog.pg_tables", RlsDenied),
        ("SELECT * FROM pg_class", RlsDenied),
        ("SELECT * FROM datafusion.public.readings", RlsDenied),
        ("SELECT * FROM gleaner.public.readings", RlsDenied),
        (&format!("SELECT * FROM '{file}'"), RlsDenied),
        (&format!("SELECT * FROM \"{file}\""), RlsDenied),
        ("SELECT * FROM \"/etc/passwd\"", RlsDenied),
        ("SELECT * FROM \"file:///etc/passwd\"", RlsDenied),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM their_secrets)", RlsDenied),
        ("WITH x AS (SELECT * FROM their_secrets) SELECT 1 FROM x", RlsDenied),
        ("SELECT (SELECT secret FROM their_secrets)", RlsDenied),
        (&format!("SELECT * FROM read_csv('{file}')"), InvalidSql),
        ("SELECT * FROM generate_series(1, 100000000000)", InvalidSql),
        (&format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{file}'"), InvalidSql),
        ("COPY (SELECT 1) TO '/tmp/gleaner-leak.csv'", InvalidSql),
        ("EXPLAIN ANALYZE SELECT * FROM readings", InvalidSql),
        ("EXPLAIN EXPLAIN SELECT * FROM readings", InvalidSql),
        ("EXPLAIN INSERT INTO readings VALUES ('x')", InvalidSql),
        ("EXPLAIN SELECT * FROM their_secrets", RlsDenied),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/gleaner-leak.csv'", InvalidSql),
        ("SET datafusion.runtime.memory_limit = '100G'", InvalidSql),
        ("SHOW ALL", InvalidSql),
        ("SHOW TABLES", InvalidSql),
        ("DESCRIBE readings", InvalidSql),
        ("SELECT * INTO stolen FROM readings", InvalidSql),
        ("INSERT INTO readings VALUES ('x')", InvalidSql),
        ("UPDATE readings SET url = 'x'", InvalidSql),
        ("DELETE FROM readings", InvalidSql),
        ("DROP TABLE readings", InvalidSql),
        ("CREATE TABLE t AS SELECT 1", InvalidSql),
        ("WITH x AS (DELETE FROM readings RETURNING *) SELECT * FROM x", InvalidSql),
        ("PREPARE p AS SELECT 1", InvalidSql),
        ("SELECT 1; SELECT 2", InvalidSql),
        ("SELECT 1; DROP TABLE readings", InvalidSql),
        ("", InvalidSql),
        ("-- nothing", InvalidSql),
        ("SELECT version()", InvalidSql),
        ("SELECT input_file_name() FROM readings", InvalidSql),
        ("SELECT arrow_metadata(url) FROM readings", InvalidSql),
        ("SELECT pg_read_file('/etc/passwd')", InvalidSql),
        ("SELECT @@version", InvalidSql),
        ("SELECT $1", InvalidSql),
        ("SELECT prise FROM readings", InvalidSql),
        ("SELECT \"\u{1}key\" FROM readings", InvalidSql),
        ("SELECT * FROM readings TABLESAMPLE BERNOULLI (10)", InvalidSql),
        ("SELECT * FROM readings FOR UPDATE", InvalidSql),
        ("SELECT url FROM readings WHERE url SIMILAR TO '%a' ESCAPE '!'", InvalidSql),
        ("SELECT to_char(at, 'J') FROM readings", InvalidSql),
        ("SELECT to_char(at, url) FROM readings", InvalidSql),
        ("SELECT * FROM generate_series(1, 100000000000) AS t(n)", InvalidSql),
        ("SELECT * FROM generate_series(-9223372036854775808, 9223372036854775807) AS t(n)", InvalidSql),
        ("SELECT '1'::json -> (SELECT secret FROM their_secrets)", RlsDenied),
        ("SELECT 1 WHERE 1 > ALL (SELECT 1 FROM their_secrets)", RlsDenied),
        ("SELECT 1 WHERE (1, 2) IN (SELECT 1, 2 FROM their_secrets)", RlsDenied),
        ("SELECT at AT TIME ZONE '../../etc/passwd' FROM readings", InvalidSql),
        ("SELECT at AT TIME ZONE url FROM readings", InvalidSql),
        ("SELECT url::char(3) FROM readings", InvalidSql),
        ("SELECT url, count(*) FROM readings", InvalidSql),
        ("SELECT url + 1 FROM readings WHERE url > ARRAY[1]", InvalidSql),
        ("TABLE readings", SyntaxError),
        (&format!("SELECT {}1", chain("1+", 2000)), InvalidSql),
        (&format!("SELECT 1 WHERE {}true", chain("1=2 OR ", 2000)), InvalidSql),
        (&format!("SELECT 1 {}", chain("UNION ALL SELECT 1 ", 3000)), InvalidSql),
        (&format!("SELECT {}1{}", chain("(", 150), chain(")", 150)), InvalidSql),
        (&format!("SELECT 1 FROM readings{}", chain(", readings", 150)), InvalidSql),
        (&format!("SELECT '{}'", chain("x", 70_000)), InvalidSql),
    ]
    .into_iter()
    .map(|(sql, code)| (sql.to_owned(), code))
    .collect()
}

#[tokio::test]
async fn what_must_be_refused_is_refused_before_it_runs() {
    let it = Box_::new(|_| {});
    let mut wrong = Vec::new();
    for (sql, code) in refused(&it) {
        let shown: String = sql.chars().take(80).collect();
        match it.workers.start(it.statement(OURS, &sql)).await {
            Ok(_) => wrong.push(format!("{shown}: ran")),
            Err(error) if error.code != code => wrong.push(format!("{shown}: {error:?}")),
            Err(error) if error.message.contains(MARKER) => wrong.push(format!("{shown}: leaks")),
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(!PathBuf::from("/tmp/gleaner-leak.csv").exists());
    it.assert_clean().await;
}

/// Statements that would run forever, or take all memory. Each must end as a failed statement, in time.
const BOMBS: &[&str] = &[
    "SELECT count(a.stock + b.stock) FROM readings a, readings b, readings c, readings d",
    "SELECT max(a.price * b.price + c.price * d.price) FROM readings a, readings b, readings c, readings d",
    "SELECT count(*) FROM readings a JOIN readings b ON a.url <> b.url JOIN readings c ON a.price < c.price + b.price",
    "SELECT sum(length(repeat(a.url, 100000))) FROM readings a, readings b",
    "SELECT length(repeat('x', 2000000000))",
    "SELECT repeat(repeat(repeat('x', 100000), 100000), 10)",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))",
    "SELECT count(*) FROM unnest(range(0, 100000000000))",
    "SELECT array_length(generate_series(1, 10000000000))",
    "SELECT count(*) FROM (SELECT unnest(range(0, 100000)) a) x, (SELECT unnest(range(0, 100000)) b) y WHERE a * b = 7",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
    "WITH RECURSIVE t AS (SELECT 'xxxxxxxx' AS s UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
    "SELECT regexp_replace(repeat('ab', 40000000), '(a|b|ab)*c', 'x', 'g')",
    "SELECT replace(replace(replace(repeat('x', 100000), 'x', repeat('x', 1000)), 'x', repeat('y', 100)), 'y', 'zzzz')",
    "SELECT array_agg(a.url || b.url || c.url) FROM readings a, readings b, readings c",
    "SELECT string_agg(a.data, ',') FROM readings a, readings b, readings c",
    "SELECT * FROM readings a, readings b, readings c ORDER BY a.data || b.data || c.data LIMIT 3",
];

#[tokio::test]
async fn bombs_end_in_time_and_the_server_lives() {
    let limit = Duration::from_millis(1500);
    let it = Arc::new(Box_::new(|settings| {
        settings.query_timeout = limit;
        settings.memory_bytes = 16 << 20;
        settings.rows_max = 1000;
    }));
    let mut survived = Vec::new();
    for sql in BOMBS {
        let began = Instant::now();
        let ended = it.run(sql).await.map(|(_, outcome, _)| outcome);
        let took = began.elapsed();
        println!("{took:>10.1?}  {:?}  {sql}", ended.as_ref().map_err(|error| (error.code, &error.message)));
        let error = match ended {
            Err(error) => error,
            Ok(_) => {
                survived.push(*sql);
                continue;
            }
        };
        // One that reads no table may be refused for what it would come to.
        let is_constant = error.code == ErrorCode::InvalidSql && !sql.contains("FROM");
        let is_ended = matches!(error.code, ErrorCode::StatementTimeout | ErrorCode::Transient);
        assert!(is_ended || is_constant, "{sql}: {error:?}");
        assert!(!error.retriable);
    }
    assert!(survived.is_empty(), "{survived:#?}");
    // On a loaded machine this too may take more than the small limit.
    let last = eventually("the workers serve", Duration::from_secs(60), || async {
        let (.., result) = it.run("SELECT count(*) FROM readings").await.ok()?;
        Some(result.page(0, 1).expect("a page"))
    });
    assert_eq!(json!(last.await), json!([{"count": 2500}]));
    it.assert_clean().await;
}
