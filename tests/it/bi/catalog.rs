//! What the console tells of itself: `information_schema`, `EXPLAIN`, and the tables of newest rows.

use super::structured::{ALL, collected, import, shop};
use super::{refused, register, rows, submit};
use crate::harness::{Appliance, collect, expect, get};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_information_schema_is_that_of_ones_own_tables() {
    let web = shop().await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let client = appliance.member("schema").await.api;
    let other = appliance.member("elsewhere").await.api;
    import(&appliance, ALL).await;
    collected(&web, &client, 0..1, 1).await;
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
    let own: Vec<Value> =
        rows(&client, tables).await.into_iter().map(|row| row["table_name"].clone()).collect();
    let listed = expect(get(&client, "/api/v1/bi/tables").await, 200);
    let listed: Vec<Value> =
        listed["items"].as_array().unwrap().iter().map(|table| table["name"].clone()).collect();
    assert_eq!(own, listed, "the same tables, in the same order of names");
    let columns = "SELECT column_name, data_type, is_nullable, ordinal_position, description \
                   FROM INFORMATION_SCHEMA.Columns WHERE table_name = 'products' ORDER BY ordinal_position";
    let own = rows(&client, columns).await;
    let described = expect(get(&client, "/api/v1/bi/tables/products").await, 200);
    let described = described["columns"].as_array().unwrap();
    assert_eq!(own.len(), described.len());
    for (place, (row, column)) in own.iter().zip(described).enumerate() {
        assert_eq!((&row["column_name"], &row["description"]), (&column["name"], &column["description"]));
        assert_eq!(row["ordinal_position"], place + 1);
        assert_eq!(row["is_nullable"] == "YES", column["nullable"] == true, "{row}");
    }
    let price = own.iter().find(|row| row["column_name"] == "price").expect("an attribute's column");
    assert_eq!(price["data_type"], "double precision");
    // Another organization has the tables that everybody has, and not the columns that this one's pages brought.
    let theirs =
        rows(&other, "SELECT column_name FROM information_schema.columns WHERE column_name = 'maker'").await;
    assert_eq!(theirs, Vec::<Value>::new());
    for name in ["views", "schemata", "df_settings", "routines", "parameters", "key_column_usage"] {
        let reply = submit(&client, &format!("SELECT * FROM information_schema.{name}")).await;
        refused(&client, &reply, 403, "rls_denied", "").await;
    }
    let execution = expect(
        submit(&client, "SELECT count(*) FROM information_schema.tables t JOIN urls u ON true").await,
        200,
    );
    assert_eq!(execution["dryRun"]["tables"], json!(["information_schema.tables", "urls"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_explained_in_words_and_not_run() {
    let appliance = Appliance::start().await;
    let client = appliance.member("explains").await.api;
    register(&client, 30).await;
    let explain = |sql: &'static str| {
        let client = client.clone();
        async move {
            let execution = expect(submit(&client, sql).await, 200);
            assert_eq!(execution["status"], "success", "{execution}");
            assert_eq!(execution["dryRun"]["statement"], "EXPLAIN");
            let lines = execution["results"]["rows"].as_array().unwrap().iter();
            let lines: Vec<String> =
                lines.map(|row| row["QUERY PLAN"].as_str().unwrap().to_owned()).collect();
            lines.join("\n")
        }
    };
    let plan = explain(
        "EXPLAIN SELECT domain, count(*) AS n FROM urls WHERE url LIKE '%1%' GROUP BY domain ORDER BY n DESC LIMIT 5",
    )
    .await;
    for part in [
        "Sort by",
        "DESC",
        "first 5",
        "For each",
        "count",
        "Keep rows where",
        "Read urls (30 rows)",
        "domain",
    ] {
        assert!(plan.contains(part), "\"{part}\" is not in\n{plan}");
    }
    let join =
        explain("EXPLAIN SELECT u.url, t.tag FROM urls u LEFT JOIN url_tags t ON t.url_id = u.id").await;
    assert!(join.contains("Join, keeping every row of the") && join.contains("Read url_tags"), "{join}");
    let folder = appliance.data_dir().display().to_string();
    for plan in [&plan, &join] {
        for inside in [folder.as_str(), ".arrow", "Exec", "Utf8", "SegmentTable", "/"] {
            assert!(!plan.contains(inside), "\"{inside}\" is in\n{plan}");
        }
    }
    // What would not end is not run.
    let endless = explain(
        "EXPLAIN SELECT count(*) FROM urls a, urls b, urls c, urls d WHERE a.url || b.url < c.url || d.url",
    )
    .await;
    assert!(endless.contains("Over all rows: count"), "{endless}");
    for (sql, status, code) in [
        ("EXPLAIN DELETE FROM urls", 400, "invalid_sql"),
        ("EXPLAIN SELECT * FROM api_keys", 403, "rls_denied"),
        ("EXPLAIN SELECT nothing FROM urls", 400, "invalid_sql"),
    ] {
        refused(&client, &submit(&client, sql).await, status, code, "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_types_have_a_table_of_the_newest_row_of_each_url() {
    let web = shop().await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let client = appliance.member("newest").await.api;
    import(&appliance, &ALL[..2]).await;
    collected(&web, &client, 0..3, 3).await;
    // A wider schema from here on: the tables have more columns, and the rows that are kept are of both widths.
    import(&appliance, ALL).await;
    collected(&web, &client, 1..3, 5).await;
    let latest = "SELECT url, result_id, name, maker FROM latest_products ORDER BY url";
    let newest = "SELECT DISTINCT ON (url) url, result_id, name, maker FROM (SELECT * FROM products) p ORDER BY url, scraped_at DESC";
    let kept = rows(&client, latest).await;
    assert_eq!(kept, rows(&client, newest).await);
    assert_eq!(kept.len(), 3, "one row a URL: {kept:?}");
    assert_eq!((&kept[0]["maker"], &kept[1]["maker"]), (&json!(null), &json!("Record's")));
    for name in ["product_lists", "serps", "articles", "job_postings"] {
        assert_eq!(
            rows(&client, &format!("SELECT count(*) AS n FROM latest_{name}")).await[0]["n"],
            0,
            "{name}"
        );
    }
    let table = expect(get(&client, "/api/v1/bi/tables/latest_products").await, 200);
    assert_eq!(table["rowCount"], 3);
    let ids = "SELECT count(*) AS n FROM reading_values v JOIN jobs j ON j.id = v.job_id WHERE j.external_id IS NULL";
    assert!(rows(&client, ids).await[0]["n"].as_u64() > Some(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_product_brings_its_columns_to_the_statement_after_it() {
    let web = shop().await;
    let settings = [("NETWORK__ALLOW", web.allow()), ("BI__FRESHNESS_MS", "1500".to_owned())];
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let appliance = Appliance::start_with(&settings).await;
    let client = appliance.member("first").await.api;
    let other = appliance.member("none").await.api;
    import(&appliance, ALL).await;
    assert_eq!(collect(&client, &web.url("/plane/0")).await["status"], "succeeded");
    // Asked once, at once: the row and its columns are on their way.
    let found = rows(&client, "SELECT price FROM latest_products").await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0]["price"].is_number(), "{found:?}");
    // What nothing brings is refused, and nobody else has gained a column.
    for (client, sql) in
        [(&client, "SELECT prise FROM latest_products"), (&other, "SELECT price FROM latest_products")]
    {
        let reply = submit(client, sql).await;
        refused(client, &reply, 400, "invalid_sql", "").await;
    }
}
