//! What a scan skips must not be missed: statements with conditions, orders and limits over segments in every state
//! (fresh, merged and coded, with deleted rows) give what a plain loop over the rows gives.

use super::{Box_, DAY_MS, NEW_YEAR_MS, OURS, jobs, table};
use serde_json::{Value, json};
use sql::{
    Cell, Changes, ColumnKind, NewestOf, QueryBackend, ResultFile, Statement, TableChange, TableName,
    TableSpec,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Rows of the test: enough for several batches, coded columns and two partitions.
const ROWS: u64 = 30_000;

fn visits() -> Arc<TableSpec> {
    let mut spec = table(
        "visits",
        &[
            ("id", ColumnKind::Text),
            ("url", ColumnKind::Text),
            ("domain", ColumnKind::Text),
            ("price", ColumnKind::Float64),
            ("stock", ColumnKind::Int64),
            ("seen", ColumnKind::Timestamp),
        ],
    );
    Arc::make_mut(&mut spec).newest = Some(NewestOf {
        table: TableName::parse("latest_visits").expect("a name"),
        description: "the newest visit of each URL".to_owned(),
        by: "url".to_owned(),
        at: "seen".to_owned(),
    });
    spec
}

#[derive(Clone, Debug, PartialEq)]
struct Visit {
    id: String,
    url: String,
    domain: Option<String>,
    price: f64,
    stock: i64,
    seen: i64,
}

/// The n-th visit: URLs come again and again, a domain is sometimes missing, prices look random.
fn visit(n: u64) -> Visit {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    Visit {
        id: format!("{:032x}", u128::from(n) << 64 | u128::from(mixed)),
        url: format!("https://shop{}.example/item/{}", n % 37, n % 700),
        domain: (!n.is_multiple_of(11)).then(|| format!("shop{}.example", n % 37)),
        price: (mixed % 100_000) as f64 / 100.0,
        stock: (mixed % 50) as i64,
        seen: NEW_YEAR_MS + n as i64 * 60_000,
    }
}

fn change(n: u64, visit: Option<&Visit>) -> TableChange {
    let row = visit.map(|visit| {
        vec![
            Cell::from(visit.id.as_str()),
            Cell::from(visit.url.as_str()),
            Cell::from(visit.domain.clone()),
            Cell::Float(visit.price),
            Cell::Int(visit.stock),
            Cell::Time(visit.seen),
        ]
    });
    TableChange { table: visits(), key: u128::from(n).to_be_bytes(), rows: row.into_iter().collect() }
}

struct World {
    it: Box_,
    rows: BTreeMap<u64, Visit>,
    position: u64,
}

impl World {
    fn apply(&mut self, changes: Vec<TableChange>) {
        self.position += 1;
        let changes = Changes { position: self.position, committed_at_ms: NEW_YEAR_MS, changes };
        self.it.snapshots.apply(OURS, changes).expect("apply");
    }

    fn put(&mut self, n: u64, visit: Visit) -> TableChange {
        let change = change(n, Some(&visit));
        self.rows.insert(n, visit);
        change
    }

    fn merge(&self) -> usize {
        let mut merges = 0;
        while self.it.snapshots.merge_next().expect("merge") {
            merges += 1;
        }
        merges
    }

    async fn rows(&self, sql: &str) -> Vec<Value> {
        let tables = vec![visits(), Arc::new(visits().newest_table().expect("a table")), jobs()];
        let pin = self.it.snapshots.pin(OURS, tables).expect("pin");
        let statement = Statement { pin, sql: sql.to_owned(), query_id: Uuid::now_v7() };
        let path = self.it.workers.result_path(OURS, statement.query_id);
        let (_, running) =
            self.it.workers.start(statement).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        running.wait().await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let rows = ResultFile::open(&path).expect("open").page(0, 1000).expect("a page");
        rows.into_iter().map(Value::Object).collect()
    }

    async fn check(&self, when: &str) {
        for (sql, expected) in self.cases() {
            let rows = self.rows(&sql).await;
            assert_eq!(rows, expected, "{when}: {sql}");
        }
    }

    /// Statements, and what a loop over the rows says that they give.
    fn cases(&self) -> Vec<(String, Vec<Value>)> {
        let all: Vec<&Visit> = self.rows.values().collect();
        let count = |keep: &dyn Fn(&Visit) -> bool| {
            vec![json!({ "count": all.iter().filter(|visit| keep(visit)).count() })]
        };
        let counted = |condition: &str| format!("SELECT count(*) FROM visits WHERE {condition}");
        let time = |ms: i64| {
            let at = jiff::Timestamp::from_millisecond(ms).expect("a time");
            format!("TIMESTAMP '{}'", at.strftime("%Y-%m-%d %H:%M:%S"))
        };
        let (from, to) = (NEW_YEAR_MS + 3 * DAY_MS, NEW_YEAR_MS + 4 * DAY_MS);
        let probe = all[all.len() / 2];
        let mut dearest: Vec<&Visit> = all.clone();
        dearest.sort_by(|a, b| b.price.total_cmp(&a.price).then(a.id.cmp(&b.id)));
        let mut newest: BTreeMap<&str, &Visit> = BTreeMap::new();
        for visit in &all {
            let kept = newest.entry(&visit.url).or_insert(visit);
            if visit.seen >= kept.seen {
                *kept = visit;
            }
        }
        let sum: f64 = newest.values().map(|visit| visit.price).sum();
        let newest_sum = json!({ "count": newest.len(), "sum": (sum * 100.0).round() as i64 });
        let latest = all.iter().max_by_key(|visit| visit.seen).expect("a visit");
        let oldest = all.iter().min_by_key(|visit| visit.seen).expect("a visit");
        let (least, most) = (
            all.iter().map(|visit| visit.stock).min().expect("a visit"),
            all.iter().map(|visit| visit.url.as_str()).max().expect("a visit"),
        );
        let domains: std::collections::BTreeSet<_> =
            all.iter().filter_map(|visit| visit.domain.as_deref()).collect();
        vec![
            (counted("true"), count(&|_| true)),
            (counted("domain = 'shop5.example'"), count(&|v| v.domain.as_deref() == Some("shop5.example"))),
            (
                counted("domain <> 'shop5.example'"),
                count(&|v| v.domain.as_deref().is_some_and(|own| own != "shop5.example")),
            ),
            (counted("domain IS NULL"), count(&|v| v.domain.is_none())),
            (counted("coalesce(domain, 'none') = 'none'"), count(&|v| v.domain.is_none())),
            (
                counted("domain LIKE 'shop1_.%' AND price > 500"),
                count(&|v| {
                    let long = v.domain.as_deref().is_some_and(|d| d.starts_with("shop1") && d.find('.') == Some(6));
                    long && v.price > 500.0
                }),
            ),
            (
                counted("url LIKE '%/item/77' OR stock = 3"),
                count(&|v| v.url.ends_with("/item/77") || v.stock == 3),
            ),
            (counted("domain IN ('shop1.example', 'shop2.example', 'no')"), {
                count(&|v| matches!(v.domain.as_deref(), Some("shop1.example" | "shop2.example")))
            }),
            (counted("upper(domain) = 'SHOP9.EXAMPLE'"), {
                count(&|v| v.domain.as_deref() == Some("shop9.example"))
            }),
            (
                counted(&format!("seen >= {} AND seen < {}", time(from), time(to))),
                count(&|v| v.seen >= from && v.seen < to),
            ),
            (counted("price BETWEEN 10 AND 20"), count(&|v| (10.0..=20.0).contains(&v.price))),
            (counted("stock % 7 = 0 AND url ~ 'shop1[0-9]'"), {
                count(&|v| v.stock % 7 == 0 && v.url.starts_with("https://shop1") && !v.url.starts_with("https://shop1."))
            }),
            (
                format!("SELECT url, stock FROM visits WHERE id = '{}'", probe.id),
                vec![json!({ "url": probe.url, "stock": probe.stock })],
            ),
            (
                "SELECT id, price FROM visits ORDER BY price DESC, id LIMIT 5".to_owned(),
                dearest.iter().take(5).map(|v| json!({ "id": v.id, "price": v.price })).collect(),
            ),
            (
                "SELECT id FROM visits ORDER BY seen DESC LIMIT 1".to_owned(),
                vec![json!({ "id": latest.id })],
            ),
            ("SELECT id FROM visits ORDER BY seen LIMIT 1".to_owned(), vec![json!({ "id": oldest.id })]),
            (
                "SELECT min(stock), max(url) FROM visits".to_owned(),
                vec![json!({ "min": least, "max": most })],
            ),
            (
                "SELECT count(DISTINCT domain), count(domain) FROM visits".to_owned(),
                vec![json!({
                    "count": domains.len(),
                    "count_2": all.iter().filter(|visit| visit.domain.is_some()).count(),
                })],
            ),
            (
                "SELECT count(*), round(sum(price) * 100)::bigint AS sum FROM latest_visits".to_owned(),
                vec![newest_sum.clone()],
            ),
            (
                "SELECT count(*), round(sum(price) * 100)::bigint AS sum FROM (SELECT price, row_number() OVER \
                 (PARTITION BY url ORDER BY seen DESC) AS n FROM visits v) x WHERE n = 1"
                    .to_owned(),
                vec![newest_sum.clone()],
            ),
            (
                "SELECT count(*), round(sum(price) * 100)::bigint AS sum FROM (SELECT DISTINCT ON (url) url, price \
                 FROM visits ORDER BY url, seen DESC) x"
                    .to_owned(),
                vec![newest_sum.clone()],
            ),
            (
                "SELECT count(*), round(sum(v.price) * 100)::bigint AS sum FROM visits v JOIN (SELECT url, max(seen) \
                 AS last FROM visits GROUP BY url) m ON v.url = m.url AND v.seen = m.last"
                    .to_owned(),
                vec![newest_sum],
            ),
            (
                "SELECT count(*) FROM visits a JOIN visits b ON a.id = b.id WHERE a.stock = 1".to_owned(),
                count(&|v| v.stock == 1),
            ),
        ]
    }
}

#[tokio::test]
async fn nothing_that_is_skipped_is_missed() {
    let it = Box_::new(|_| {});
    let mut world = World { it, rows: BTreeMap::new(), position: 100 };
    // Ten segments of 3,000 rows: none is coded yet.
    for part in 0..10 {
        let range = part * ROWS / 10..(part + 1) * ROWS / 10;
        let changes = range.map(|n| world.put(n, visit(n))).collect();
        world.apply(changes);
    }
    world.check("fresh").await;
    assert!(world.merge() > 0);
    world.check("merged and coded").await;
    // Every fifth goes, every seventh changes: to another URL, and some back in time, so that they are newest no more.
    let mut changes = Vec::new();
    for n in (0..ROWS).filter(|n| n % 5 == 0 || n % 7 == 0) {
        if n % 5 == 0 {
            world.rows.remove(&n);
            changes.push(change(n, None));
        } else {
            let mut other = visit(n);
            other.url = format!("https://moved.example/{}", n % 90);
            other.domain = Some("moved.example".to_owned());
            other.seen -= if n % 2 == 0 { DAY_MS } else { 0 };
            changes.push(world.put(n, other));
        }
    }
    world.apply(changes);
    world.check("with deleted rows").await;
    world.merge();
    world.check("merged again").await;
    world.it.snapshots.compact(OURS).expect("compact");
    world.check("compacted").await;
    // The newest of half of the URLs go one after the other: their successors are found.
    let urls: Vec<String> = (0..700).step_by(2).map(|n| visit(n).url).collect();
    for _ in 0..2 {
        let mut gone = Vec::new();
        for url in &urls {
            let newest = world.rows.iter().filter(|(_, v)| v.url == *url).max_by_key(|(n, v)| (v.seen, **n));
            gone.extend(newest.map(|(n, _)| *n));
        }
        let changes = gone.iter().map(|n| change(*n, None)).collect();
        gone.iter().for_each(|n| drop(world.rows.remove(n)));
        world.apply(changes);
    }
    world.check("after the newest have gone").await;
    world.it.assert_clean().await;
}

/// A condition that stands first guards one that would fail.
#[tokio::test]
async fn conditions_are_checked_in_their_order() {
    let it = Box_::new(|_| {});
    let mut world = World { it, rows: BTreeMap::new(), position: 100 };
    let changes = (0..9_000)
        .map(|n| {
            let mut own = visit(n);
            own.domain = Some(if n % 2 == 0 { format!("{}", n % 100) } else { "text".to_owned() });
            own.stock = (n % 2) as i64;
            world.put(n, own)
        })
        .collect();
    world.apply(changes);
    let sql = "SELECT count(*) FROM visits WHERE stock = 0 AND domain::bigint >= 98";
    assert_eq!(world.rows(sql).await, [json!({ "count": 90 })]);
}
