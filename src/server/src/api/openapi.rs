//! The OpenAPI 3.1 document, made from the table that routes.
//!
//! Every gate, input and output writes its own part into an [`Operation`], so the document says what the code does. Its
//! order is the table's, so that two builds of one source write the same bytes and a golden file can hold it.

use crate::api::builtin;
use crate::route::operation::{Operation, Schemas, merge};
use crate::route::table::{RouteGroup, mounted};
use serde_json::{Map, Value, json};

const PREFIX: &str = "/api/v1";
/// What holds for every operation.
const ABOUT: &str = "Members of a body and parameters that an operation does not have are ignored, and the answer names them in \
`X-Ignored-Fields`, nested ones by their path (`dag.nodes[2].config.retires`). With `Prefer: handling=strict` (RFC 7240) they \
are a 400 that names the known ones. In a request null means left out.";

/// The document of these routes, to which the trunk adds its own under the prefix.
pub fn document(groups: &[RouteGroup]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    let mut tags = Vec::new();
    let mut all = groups.to_vec();
    all.push(RouteGroup::new("reference", builtin::PUBLIC_ROUTES));
    for (tag, route, mount) in mounted(&all).filter(|(_, route, _)| route.path().starts_with(PREFIX)) {
        let mut operation = Operation::new(route.spec(), mount, &mut schemas);
        route.endpoint().describe(&mut operation);
        let operation = operation.finish(tag);
        paths.entry(route.path()).or_insert_with(|| json!({}))[route.method().to_lowercase()] = operation;
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    let tags: Vec<_> = tags.into_iter().map(|tag| json!({ "name": tag })).collect();
    let mut paths = Value::Object(paths);
    let schemas = merge(schemas, &mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gleaner",
            "version": "1",
            "summary": "Web data collection: collect pages, extract typed values, search them, query them with SQL.",
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http", "scheme": "bearer",
                    "description": "An access token from login, or an API key of an organization.",
                },
            },
            "schemas": schemas,
        },
    })
}
