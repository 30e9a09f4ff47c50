//! Chats: what products are sent, and what their answers mean.

use super::{OUTPUTS, PATIENCE, Receiver, Said, boxed, deliveries, output, received, shop, shown, visit};
use crate::audit::patch;
use crate::harness::{Appliance, eventually, expect, get, post, refused, text};
use serde_json::{Value, json};
use std::time::Duration;

const PRODUCTS: [&str; 4] = ["slack", "mattermost", "teams", "discord"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn products_are_told_in_their_own_shape() {
    let receiver = Receiver::open(|_| Said { body: "ok".to_owned(), ..Said::status(200) }).await;
    let (web, at) = shop(&receiver).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    for product in PRODUCTS {
        let more = json!({ "kind": "chat", "product": product, "events": ["result.changed"] });
        let made = output(&ada.api, &receiver.url(&format!("/{product}/secret-part")), more).await;
        assert_eq!((&made["url"], &made["secrets"]), (&Value::Null, &json!([])));
        assert_eq!((text(&made, "product"), text(&made, "host")), (product, "127.0.0.1"));
        assert!(!made.to_string().contains("secret-part"), "{made}");
        let path = format!("{OUTPUTS}/{}", text(&made, "id"));
        assert_eq!(get(&eve.api, &path).await.status, 404);
        let tested = expect(post(&ada.api, &format!("{path}/test"), &json!({})).await, 200);
        assert_eq!(tested["sent"]["isDelivered"], true, "{tested}");
        refused(
            &patch(&ada.api, &path, &json!({ "rotateSecret": true })).await,
            400,
            "Validation failed",
            "rotateSecret",
        );
    }
    visit(&ada, &web.url("/kettle")).await;
    visit(&ada, &web.url("/kettle")).await;
    let messages = received(&receiver, 8).await;
    for product in PRODUCTS {
        let path = format!("/{product}/secret-part");
        let told: Vec<_> = messages.iter().filter(|message| message.path == path).collect();
        assert_eq!(told.len(), 2, "{product}: a test and an event");
        assert!(told[0].json().to_string().contains("Test message"), "{product}");
        let message = told[1].json();
        assert!(message.to_string().contains("price: 200 → 190"), "{message}");
        assert_eq!(told[1].header("webhook-signature"), "", "who has the address needs none");
        let place = match product {
            "slack" => &message["blocks"][1]["text"]["text"],
            "mattermost" => &message["text"],
            "teams" => &message["attachments"][0]["content"]["body"][1]["inlines"][0]["text"],
            _ => &message["embeds"][0]["description"],
        };
        assert!(place.is_string(), "{product}: {message}");
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_product_refuses_is_said_and_tried_again() {
    let receiver = Receiver::open(|message| match message.path.as_str() {
        "/slack" => Said { body: "invalid_payload".to_owned(), ..Said::status(400) },
        "/teams" => Said {
            body: "Webhook message delivery failed with error: HTTP error 429".to_owned(),
            ..Said::status(200)
        },
        "/mattermost" => Said { headers: vec![("retry-after", "120".to_owned())], ..Said::status(429) },
        _ => Said {
            body: "{\"message\": \"Unknown Webhook\", \"code\": 10015}".to_owned(),
            ..Said::status(404)
        },
    })
    .await;
    let at = boxed(&[receiver.address]).await;
    let ada = at.member("ada").await;
    for (product, state, said) in [
        ("slack", "failing", "invalid_payload"),
        ("teams", "failing", "delivery failed"),
        ("mattermost", "throttled", "429"),
        ("discord", "disabled", "Unknown Webhook"),
    ] {
        let more = json!({ "kind": "chat", "product": product, "tags": [product] });
        let made = output(&ada.api, &receiver.url(&format!("/{product}")), more).await;
        let job = json!({ "url": "http://nobody.invalid/1", "tags": [product] });
        expect(post(&ada.api, "/api/v1/jobs", &job).await, 201);
        let view = eventually(&format!("{product} is {state}"), PATIENCE, || async {
            let view = shown(&ada.api, &made).await;
            (view["state"] == state).then_some(view)
        })
        .await;
        assert!(text(&view, "lastError").contains(said), "{view}");
        let told = &deliveries(&ada.api, &made).await[0];
        assert_eq!(told["attempts"].as_array().unwrap().len(), 1, "{told}");
    }
    // What was refused is tried again, and comes.
    receiver.behave(|_| Said { body: "ok".to_owned(), ..Said::status(200) });
    let before = receiver.count();
    // Longer than the second pause: on a slow machine the first is over by now, and with it a try in vain.
    at.clock.advance(Duration::from_secs(400));
    eventually("the others have come", PATIENCE, || async { (receiver.count() >= before + 3).then_some(()) })
        .await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_of_another_kind_is_refused() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let large = "x".repeat(1_000_000);
    for (new, field) in [
        (json!({ "kind": "chat", "url": "https://a.example/" }), "product"),
        (json!({ "kind": "chat", "product": "slack" }), "url"),
        (json!({ "kind": "chat", "product": "irc", "url": "https://a.example/" }), "product"),
        (
            json!({ "kind": "chat", "product": "slack", "url": "https://a.example/", "secret": large }),
            "secret",
        ),
        (
            json!({ "kind": "chat", "product": "slack", "url": "https://a.example/", "signatures": ["v1"] }),
            "signatures",
        ),
        (json!({ "kind": "webhook" }), "url"),
        (json!({ "kind": "webhook", "product": "slack", "url": "https://a.example/" }), "product"),
        (json!({ "kind": "feed", "url": "https://a.example/" }), "url"),
        (json!({ "kind": "pigeon" }), "kind"),
    ] {
        let mut body = json!({ "events": ["job.*"] });
        body.as_object_mut().unwrap().extend(new.as_object().unwrap().clone());
        refused(&post(&ada.api, OUTPUTS, &body).await, 400, "Validation failed", field);
    }
    let inside =
        json!({ "kind": "chat", "product": "slack", "url": "http://127.0.0.1:1/", "events": ["job.*"] });
    refused(&post(&ada.api, OUTPUTS, &inside).await, 400, "Invalid URL", "url");
    at.stop().await;
}
