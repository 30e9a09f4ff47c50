//! The corpus: hostile statements, and what must become of each. The test and the bench send the same.

/// What must become of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Must {
    /// It is refused with this code and never runs.
    Refuse(&'static str),
    /// It is ended: by its time limit, or because it took too much.
    End,
    /// It is ended, or done in time: how much work it is depends on the machine and the build.
    Bounded,
    /// It may succeed as well: it is odd, and harmless.
    Survive,
}
use Must::{Bounded, End, Refuse, Survive};

/// Of that class, too, but a fast machine is done with them in a second.
#[rustfmt::skip]
const HEAVY: &[&str] = &[
    "SELECT count(*) FROM urls a FULL JOIN urls b ON a.domain = b.domain FULL JOIN urls c ON b.domain = c.domain FULL JOIN urls d ON c.domain = d.domain",
    "SELECT count(*) FROM urls a WHERE EXISTS (SELECT 1 FROM urls b, urls c, urls d WHERE b.url <> a.url AND c.url <> d.url AND length(b.url || c.url || d.url) < 0)",
];

/// Of the class "too much work": joins, functions and recursion that would not end.
#[rustfmt::skip]
const ENDLESS: &[&str] = &[
    "SELECT count(*) FROM urls a, urls b, urls c, urls d WHERE a.url <> d.id",
    "SELECT count(a.url || b.url) FROM urls a CROSS JOIN urls b CROSS JOIN urls c CROSS JOIN urls d WHERE length(c.url) > 1",
    "SELECT max(length(a.url || b.url || c.url || d.url)) FROM urls a, urls b, urls c, urls d",
    "SELECT count(*) FROM urls a JOIN urls b ON a.url <> b.url JOIN urls c ON b.url <> c.url JOIN urls d ON c.url <> d.url",
    "SELECT count(*) FROM urls a JOIN urls b ON a.url < b.url || 'x' JOIN urls c ON c.url < b.url || 'y' JOIN urls d ON d.url < c.url || 'z'",
    "SELECT * FROM urls a, urls b, urls c, urls d ORDER BY a.url || b.url || c.url || d.url LIMIT 3",
    "SELECT a.url, row_number() OVER (ORDER BY a.url || b.url || c.url) FROM urls a, urls b, urls c, urls d",
    "SELECT count(DISTINCT a.url || b.url || c.url || d.url) FROM urls a, urls b, urls c, urls d",
    "SELECT a.url || b.url || c.url AS k, count(*) FROM urls a, urls b, urls c, urls d GROUP BY 1",
    "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))",
    "SELECT sum(levenshtein(repeat(a.url, 2000), repeat(b.url, 2000))) FROM urls a, urls b",
    "SELECT regexp_replace(repeat('ab', 40000000), '(a|b|ab)*c', 'x', 'g')",
    "SELECT count(*) FROM urls a, urls b, urls c WHERE repeat(a.url || b.url, 500) ~ '(.*)(.*)(.*)(.*)(.*)x{20}y'",
    "SELECT sum(regexp_count(repeat(a.url || b.url, 3000), '(a|s|t)+(h|p)?.*z')) FROM urls a, urls b, urls c",
    "SELECT count(*) FROM urls a, urls b, urls c WHERE repeat(a.url, 900) LIKE '%a%b%c%d%e%f%g%h%i%j%' || b.url",
    "SELECT sum(strpos(repeat(a.url, 30000), repeat(b.url, 900))) FROM urls a, urls b, urls c",
    "SELECT count(*) FROM unnest(range(0, 100000000000))",
    "SELECT count(*) FROM (SELECT unnest(range(0, 100000)) a) x, (SELECT unnest(range(0, 100000)) b) y WHERE a * b = 7",
    "SELECT sum(n) FROM (SELECT unnest(generate_series(1, 30000)) AS n) x, urls a, urls b, urls c WHERE n % 7 <> length(a.url || b.url || c.url)",
    "SELECT count(*) FROM (SELECT unnest(generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '9000-01-01', INTERVAL '1 second')) t) x",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n > 0) SELECT count(*) FROM t, t u",
    "WITH RECURSIVE t AS (SELECT url FROM urls UNION ALL SELECT t.url FROM t, urls) SELECT count(*) FROM t",
    "WITH RECURSIVE f(a, b) AS (SELECT 0.0::float8, 1.0::float8 UNION ALL SELECT b, a + b FROM f) SELECT count(*) FROM f",
];

/// Of the class "too much memory or disk".
#[rustfmt::skip]
const BOMBS: &[&str] = &[
    "SELECT length(repeat('x', 2000000000))",
    "SELECT repeat(repeat(repeat('x', 100000), 100000), 10)",
    "SELECT sum(length(repeat(a.url, 100000))) FROM urls a, urls b",
    "SELECT repeat(url, 10000000) FROM urls",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT rpad(url, 1000000000, 'y') FROM urls",
    "SELECT replace(replace(replace(repeat('x', 100000), 'x', repeat('x', 1000)), 'x', repeat('y', 100)), 'y', 'zzzz')",
    "SELECT translate(repeat('ab', 500000000), 'ab', 'cd')",
    "SELECT reverse(upper(repeat('ab', 700000000)))",
    "SELECT encode(repeat('ab', 900000000)::bytea, 'hex')",
    "SELECT concat(repeat('a', 1000000000), repeat('b', 1000000000))",
    "SELECT array_length(generate_series(1, 10000000000))",
    "SELECT array_repeat(array_repeat(array_repeat('x', 10000), 10000), 100)",
    "SELECT array_agg(a.url || b.url || c.url) FROM urls a, urls b, urls c",
    "SELECT array_agg(a.url ORDER BY b.url || c.url) FROM urls a, urls b, urls c",
    "SELECT string_agg(a.url || b.url, ',') FROM urls a, urls b, urls c",
    "SELECT array_agg(x) FROM (SELECT array_agg(a.url || b.url) AS x, c.url FROM urls a, urls b, urls c GROUP BY c.url) y",
    "SELECT median(length(a.url || b.url) + length(c.url)) , array_agg(DISTINCT a.url || b.url || c.url) FROM urls a, urls b, urls c",
    "WITH RECURSIVE t AS (SELECT 'xxxxxxxx' AS s UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
    "WITH RECURSIVE t AS (SELECT ARRAY[1] AS a UNION ALL SELECT array_concat(a, a) FROM t) SELECT max(array_length(a)) FROM t",
    "WITH a AS (SELECT repeat('x', 1000000) AS s), b AS (SELECT x.s || y.s AS s FROM a x, a y), c AS (SELECT x.s || y.s AS s FROM b x, b y), d AS (SELECT x.s || y.s || x.s || y.s AS s FROM c x, c y), e AS (SELECT x.s || y.s || x.s || y.s AS s FROM d x, d y), f AS (SELECT repeat(s, 100) AS s FROM e) SELECT length(s) FROM f",
    "SELECT string_to_array(repeat('a,', 500000000), ',')",
    "SELECT array_to_string(generate_series(1, 300000000), ',')",
    "SELECT make_array(repeat('x', 1000000000), repeat('y', 1000000000), repeat('z', 1000000000))",
    "SELECT regexp_match(repeat('ab', 600000000), '(a)(b)(.*)')",
];

/// What must be refused before it runs, with its code.
fn refused(planted: &str, other_org: &str) -> Vec<(String, &'static str)> {
    let fixed: &[(&str, &'static str)] = &[
        // Files.
        ("SELECT * FROM '/etc/passwd'", "rls_denied"),
        ("SELECT * FROM \"/etc/passwd\"", "rls_denied"),
        ("SELECT * FROM \"file:///etc/passwd\"", "rls_denied"),
        ("SELECT * FROM \"s3://bucket/key.parquet\"", "rls_denied"),
        ("SELECT * FROM \"../../gleaner.redb\"", "rls_denied"),
        ("SELECT * FROM read_csv('/etc/passwd')", "invalid_sql"),
        ("SELECT * FROM read_parquet('/etc/passwd')", "invalid_sql"),
        ("SELECT pg_read_file('/etc/passwd')", "invalid_sql"),
        ("SELECT lo_import('/etc/passwd')", "invalid_sql"),
        ("SELECT input_file_name() FROM urls", "invalid_sql"),
        ("SELECT arrow_typeof(url) FROM urls", "invalid_sql"),
        ("SELECT version()", "invalid_sql"),
        ("SELECT getenv('HOME')", "invalid_sql"),
        ("SELECT current_setting('data_directory')", "invalid_sql"),
        ("SELECT pg_sleep(100)", "invalid_sql"),
        ("CREATE EXTERNAL TABLE t (a text) STORED AS CSV LOCATION '/etc/passwd'", "invalid_sql"),
        ("COPY urls TO '/tmp/gleaner-stolen.csv'", "invalid_sql"),
        ("COPY (SELECT 1) TO PROGRAM 'id'", "syntax_error"),
        ("EXPLAIN ANALYZE SELECT * FROM urls", "invalid_sql"),
        ("EXPLAIN (FORMAT json) SELECT * FROM urls", "invalid_sql"),
        ("EXPLAIN DELETE FROM urls", "invalid_sql"),
        ("EXPLAIN SELECT * FROM '/etc/passwd'", "rls_denied"),
        ("EXPLAIN SELECT * FROM api_keys", "rls_denied"),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/gleaner-stolen.csv'", "invalid_sql"),
        // Catalogs.
        ("SELECT * FROM information_schema.views", "rls_denied"),
        ("SELECT * FROM information_schema.df_settings", "rls_denied"),
        ("SELECT * FROM datafusion.information_schema.tables", "rls_denied"),
        ("SELECT * FROM pg_catalog.pg_class", "rls_denied"),
        ("SELECT * FROM datafusion.public.urls", "rls_denied"),
        ("SELECT * FROM other.urls", "rls_denied"),
        ("SELECT (SELECT max(password) FROM users)", "rls_denied"),
        ("SELECT 1 WHERE 1 IN (SELECT 1 FROM api_keys)", "rls_denied"),
        ("WITH x AS (SELECT * FROM credentials) SELECT 1", "rls_denied"),
        ("SELECT * FROM urls, LATERAL (SELECT * FROM secrets) s", "rls_denied"),
        // Settings and statements that are none.
        ("SET datafusion.runtime.memory_limit = '100G'", "invalid_sql"),
        ("SET datafusion.execution.target_partitions = 1000", "invalid_sql"),
        ("RESET ALL", "invalid_sql"),
        ("SHOW ALL", "invalid_sql"),
        ("SELECT 1; SELECT 2", "invalid_sql"),
        ("SELECT 1; DROP TABLE urls", "invalid_sql"),
        ("INSERT INTO urls SELECT * FROM urls", "invalid_sql"),
        ("DELETE FROM urls", "invalid_sql"),
        ("TRUNCATE urls", "invalid_sql"),
        ("SELECT * INTO stolen FROM urls", "invalid_sql"),
        ("CREATE VIEW v AS SELECT 1", "invalid_sql"),
        ("PREPARE p AS SELECT 1", "invalid_sql"),
        ("BEGIN", "invalid_sql"),
        ("SELECT $1", "invalid_sql"),
        ("SELECT * FROM urls FOR UPDATE", "invalid_sql"),
    ];
    let mut all: Vec<(String, &'static str)> =
        fixed.iter().map(|(sql, code)| ((*sql).to_owned(), *code)).collect();
    let chain = |part: &str, count: usize| part.repeat(count);
    all.extend([
        (format!("SELECT * FROM '{planted}'"), "rls_denied"),
        (format!("SELECT * FROM read_csv('{planted}')"), "invalid_sql"),
        (format!("SELECT * FROM \"{other_org}\".urls"), "rls_denied"),
        // Chains that overflow whoever walks them.
        (format!("SELECT {}1", chain("1+", 2_000)), "invalid_sql"),
        (format!("SELECT 1 WHERE {}true", chain("1=2 OR ", 2_000)), "invalid_sql"),
        (format!("SELECT 1 {}", chain("UNION ALL SELECT 1 ", 3_000)), "invalid_sql"),
        (format!("SELECT {}1{}", chain("(", 190), chain(")", 190)), "invalid_sql"),
        (format!("SELECT {}1{}", chain("abs(", 150), chain(")", 150)), "invalid_sql"),
        (format!("SELECT {}1", chain("- ", 900)), "invalid_sql"),
        (format!("SELECT 1{}", chain("::int", 900)), "invalid_sql"),
        (format!("SELECT 1 FROM urls{}", chain(", urls", 150)), "invalid_sql"),
        (format!("SELECT {} 1 {}", chain("CASE WHEN true THEN ", 200), chain("END ", 200)), "syntax_error"),
        (format!("{}SELECT 1{}", chain("SELECT * FROM (", 120), chain(") x", 120)), "invalid_sql"),
        (format!("SELECT '{}'", chain("x", 70_000)), "invalid_sql"),
        // A type that nests so deeply that its rows could be written and never read.
        (format!("SELECT {}1{}", chain("ARRAY[", 40), chain("]", 40)), "invalid_sql"),
    ]);
    all
}

/// Odd, and harmless.
#[rustfmt::skip]
const ODD: &[&str] = &[
    "SELECT 1 / 0",
    "SELECT 9223372036854775807 + 1",
    "SELECT url::int FROM urls",
    "SELECT '\u{0}' || chr(0)",
    "SELECT * FROM urls WHERE url = '''; DROP TABLE urls; --'",
    "SELECT \"url\" AS \"a\u{202e}b\" FROM urls LIMIT 1",
    "SELECT count(*) FROM urls WHERE url LIKE '%' || repeat('_%', 200)",
    "SELECT random(), uuid() FROM urls LIMIT 5",
    "SELECT now() - INTERVAL '100000 years'",
    "SELECT factorial(20), power(10, 308) * 10, exp(1000), 0.0::float8 / 0.0::float8",
];

/// Every statement of the corpus. `planted`: a file with a marker; `other_org`: an organization's id that is not the
/// sender's.
pub fn corpus(planted: &str, other_org: &str) -> Vec<(String, Must)> {
    let owned = |list: &[&str], must: Must| -> Vec<(String, Must)> {
        list.iter().map(|sql| ((*sql).to_owned(), must)).collect()
    };
    let mut all =
        refused(planted, other_org).into_iter().map(|(sql, code)| (sql, Refuse(code))).collect::<Vec<_>>();
    all.extend(owned(ODD, Survive));
    all.extend(owned(BOMBS, End));
    all.extend(owned(HEAVY, Bounded));
    all.extend(owned(ENDLESS, End));
    all
}
