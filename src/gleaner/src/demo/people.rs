//! What somebody who opens the console of the demo finds beside what was collected: a schedule, saved queries on a dashboard, a
//! monitor, and a conversation that has begun.

use super::{CATCH_UP_TIME_MAX, POLL_EVERY, STATEMENT, expect, items, shop::Shop, shop_url, text};
use base::{Error, Result};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Instant;

const BY_TYPE: &str =
    "SELECT page_type, count(*) AS visits FROM readings GROUP BY page_type ORDER BY visits DESC";
const COUNT: &str = "SELECT count(*) AS visits FROM readings";
const FAILED: &str = "SELECT count(*) AS failed FROM jobs WHERE status = 'failed'";
/// What the conversation begins with.
const QUESTION: &str = "how many urls by page type";

/// Leaves it there.
pub async fn leave(client: &Client, shop: &Shop) -> Result<()> {
    let schedule = json!({ "name": "Shop, each morning", "cron": "0 6 * * *", "tagFilters": ["demo"] });
    expect(client.post("/api/v1/schedules", &schedule).await, 201)?;
    dashboard(client).await?;
    let monitor = json!({
        "name": "Pages that fail", "sql": FAILED,
        "condition": { "value": "failed", "op": "gt", "threshold": 0 }, "on": { "cron": "*/5 * * * *" },
    });
    expect(client.post("/api/v1/monitors", &monitor).await, 201)?;
    conversation(client, shop).await
}

async fn dashboard(client: &Client) -> Result<()> {
    let saved = async |name: &str, about: &str, sql: &str| {
        let query = json!({ "name": name, "description": about, "sql": sql });
        let made = expect(client.post("/api/v1/bi/saved-queries", &query).await, 201)?;
        Ok::<_, Error>(text(&made, "id")?.to_owned())
    };
    let prices = saved("shop/prices by currency", "What the shop asks for.", STATEMENT).await?;
    let types = saved("shop/visits by page type", "How often pages of each type were read.", BY_TYPE).await?;
    let count = saved("shop/visits", "How many pages were read.", COUNT).await?;
    let tile = |query: &str, title: &str, chart: Value, (x, y, w, h): (u8, u8, u8, u8)| {
        let position = json!({ "x": x, "y": y, "w": w, "h": h });
        json!({ "savedQueryId": query, "title": title, "chart": chart, "position": position })
    };
    let tiles = [
        tile(&count, "Visits", json!({ "type": "number", "y": ["visits"] }), (0, 0, 3, 2)),
        tile(
            &types,
            "Visits by page type",
            json!({ "type": "bar", "x": "page_type", "y": ["visits"] }),
            (3, 0, 9, 4),
        ),
        tile(&prices, "Prices by currency", json!({ "type": "table" }), (0, 4, 12, 4)),
    ];
    let board = json!({
        "name": "The shop", "description": "What was read of it, and what it asks for.",
        "tiles": tiles, "refresh": { "cron": "*/10 * * * *" },
    });
    expect(client.post("/api/v1/bi/dashboards", &board).await, 201)?;
    Ok(())
}

/// A conversation over the shop's URLs, with a question that was answered.
async fn conversation(client: &Client, shop: &Shop) -> Result<()> {
    let agent = expect(client.post("/api/v1/agents", &json!({ "name": "About the shop" })).await, 201)?;
    let id = text(&agent, "id")?;
    let named = |page| {
        let mut url = shop_url(shop, page);
        url["metadata"] = json!({ "agentId": id });
        url
    };
    let urls: Vec<_> = shop.pages.iter().map(named).collect();
    expect(client.post("/api/v1/urls", &json!({ "urls": urls })).await, 200)?;
    // An agent is not asked before the tables say whose the URLs are.
    let begun = Instant::now();
    let counted = json!({
        "sql": format!("SELECT count(*) AS n FROM urls WHERE metadata ->> 'agentId' = '{id}'"), "waitMs": 10_000,
    });
    while begun.elapsed() < CATCH_UP_TIME_MAX {
        let answer = expect(client.post("/api/v1/bi/queries", &counted).await, 200)?;
        if answer["results"]["rows"][0]["n"].as_u64() == Some(shop.pages.len() as u64) {
            break;
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    let turn = expect(
        client.post(&format!("/api/v1/agents/{id}/messages"), &json!({ "text": QUESTION })).await,
        201,
    )?;
    if items(&turn, "replies").is_empty() {
        return Err(Error::internal("ask an agent of the demo", turn.to_string()));
    }
    Ok(())
}
