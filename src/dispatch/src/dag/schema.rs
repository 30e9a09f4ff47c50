//! Graphs as the reference describes them: a node is one of nine, told apart by its type, each with its own config.
//!
//! By hand, because what is read is a drawing that promises nothing ([`super::shape::DagNode`]), so that [`super::read`] can
//! say everything that is wrong with it at once. The tests hold both against each other.

use super::condition::{FIELDS, LIST_MAX, NUMBER_OPS, TEXT_OPS, VALUE_CHARS_MAX};
use super::shape::{DagNode, NodeType};
use super::{
    NODE_ID_CHARS_MAX, QUALITY_MIN_DEFAULT, RACE_MAX, RETRIES_MAX, TIMEOUT_MS_MAX, TIMEOUT_MS_MIN,
    WAIT_MS_MAX, WEIGHT_MAX,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use std::borrow::Cow;

impl JsonSchema for DagNode {
    fn schema_name() -> Cow<'static, str> {
        "DagNode".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let path = generator.settings().definitions_path.clone();
        let mut references = Vec::new();
        let mut mapping = serde_json::Map::new();
        for kind in NodeType::ALL {
            let name = schema_name(*kind, "Node");
            generator.definitions_mut().insert(schema_name(*kind, "Config"), config(*kind));
            let reference = |name: String| format!("#{path}/{name}");
            let node = node(*kind, &reference(schema_name(*kind, "Config")));
            generator.definitions_mut().insert(name.clone(), node);
            references.push(json!({ "$ref": reference(name.clone()) }));
            mapping.insert(kind.name().to_owned(), reference(name).into());
        }
        json_schema!({
            "description": "A node as it was drawn.",
            "oneOf": references,
            "discriminator": { "propertyName": "type", "mapping": mapping },
        })
    }
}

/// `ProviderNode`, `ProviderConfig`.
fn schema_name(kind: NodeType, what: &str) -> String {
    let name = kind.name();
    let (first, rest) = name.split_at(1);
    format!("{}{rest}{what}", first.to_uppercase())
}

fn node(kind: NodeType, config: &str) -> Value {
    let edges =
        |edges: &[super::EdgeType]| edges.iter().map(|edge| edge.name()).collect::<Vec<_>>().join(", ");
    let (must, may) = kind.edges();
    let about = match (must, may) {
        ([], []) => "No edge leaves it.".to_owned(),
        (must, []) => format!("Edges that leave it: {}.", edges(must)),
        (must, may) => format!("Edges that leave it: {}, and perhaps {}.", edges(must), edges(may)),
    };
    let mut required = vec!["id", "type"];
    if config_is_required(kind) {
        required.push("config");
    }
    json!({
        "type": "object",
        "description": format!("{} {about}", does(kind)),
        "properties": {
            "id": {
                "type": "string", "minLength": 1, "maxLength": NODE_ID_CHARS_MAX,
                "description": "Unique among the nodes; without control characters.",
            },
            "type": { "type": "string", "enum": [kind.name()] },
            "config": { "$ref": config },
            "position": {
                "type": "object", "additionalProperties": {},
                "description": "Where an editor draws it; kept and never read.",
            },
        },
        "required": required,
    })
}

fn does(kind: NodeType) -> &'static str {
    match kind {
        NodeType::Start => "Where a job begins; a graph has one.",
        NodeType::Condition => "Asks a question about the job.",
        NodeType::Provider => "Fetches the page through a provider.",
        NodeType::Race => "Fetches the page through several providers at once; the first good answer wins.",
        NodeType::Split => "A choice by weight.",
        NodeType::Wait => "Waits, and holds no worker.",
        NodeType::Extract => "Extracts the page and looks at the quality.",
        NodeType::Output => "Hands the result to an output.",
        NodeType::End => "Ends the job.",
    }
}

fn config_is_required(kind: NodeType) -> bool {
    !matches!(kind, NodeType::Start | NodeType::Extract)
}

/// What a node's `config` holds; its members are [`NodeType::members`].
fn config(kind: NodeType) -> Value {
    let id = || json!({ "type": "string", "format": "uuid" });
    let flag = |about: &str| json!({ "type": "boolean", "description": about });
    let robots =
        || flag("False: the target's robots.txt is not asked, whatever the provider's settings say.");
    let timeout = || json!({ "type": "integer", "minimum": TIMEOUT_MS_MIN, "maximum": TIMEOUT_MS_MAX });
    let (members, required): (Value, &[&str]) = match kind {
        NodeType::Start => (start(), &[]),
        NodeType::Condition => (condition(), &["field", "op"]),
        NodeType::Provider => (
            json!({
                "providerId": id(),
                "render": flag("What is left out is as the job has it."),
                "country": { "type": "string", "pattern": "^[A-Za-z]{2}$", "description": "ISO 3166-1 alpha-2." },
                "premium": { "type": "boolean" },
                "timeoutMs": timeout(),
                "retries": {
                    "type": "integer", "minimum": 0, "maximum": RETRIES_MAX, "default": 0,
                    "description": "Further tries.",
                },
                "robots": robots(),
            }),
            &["providerId"],
        ),
        NodeType::Race => (
            json!({
                "providerIds": {
                    "type": "array", "items": id(), "minItems": 1, "maxItems": RACE_MAX, "uniqueItems": true,
                },
                "timeoutMs": timeout(),
                "robots": robots(),
            }),
            &["providerIds"],
        ),
        NodeType::Split => (
            json!({
                "weights": {
                    "type": "object",
                    "additionalProperties": { "type": "integer", "minimum": 0, "maximum": WEIGHT_MAX },
                    "description": "By the id of the node that an edge leads to; one of them is not 0.",
                },
                "by": {
                    "type": "string", "enum": ["url", "job"], "default": "url",
                    "description": "A URL always goes the same way, or each job has a choice of its own.",
                },
            }),
            &["weights"],
        ),
        NodeType::Wait => {
            (json!({ "ms": { "type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX } }), &["ms"])
        }
        NodeType::Extract => (
            json!({
                "minQuality": { "type": "number", "minimum": 0, "maximum": 1, "default": QUALITY_MIN_DEFAULT },
            }),
            &[],
        ),
        NodeType::Output => (json!({ "outputId": id() }), &["outputId"]),
        NodeType::End => {
            (json!({ "status": { "type": "string", "enum": ["succeeded", "failed"] } }), &["status"])
        }
    };
    let mut schema = json!({ "type": "object", "properties": members });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn start() -> Value {
    let about = "The agent whose conversations see what comes of these jobs.";
    json!({ "agentId": { "type": "string", "format": "uuid", "description": about } })
}

fn condition() -> Value {
    let fields = FIELDS.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let mut ops = TEXT_OPS.to_vec();
    ops.extend(NUMBER_OPS.iter().filter(|op| !TEXT_OPS.contains(op)));
    let text = json!({ "type": "string", "minLength": 1, "maxLength": VALUE_CHARS_MAX });
    let whole = json!({ "type": "integer" });
    json!({
        "field": { "type": "string", "enum": fields },
        "op": {
            "type": "string", "enum": ops,
            "description": format!(
                "On attempts and httpStatus: {}; on the other fields: {}.",
                NUMBER_OPS.join(", "),
                TEXT_OPS.join(", ")
            ),
        },
        "value": {
            "anyOf": [text, whole, {
                "type": "array", "minItems": 1, "maxItems": LIST_MAX, "items": { "anyOf": [text, whole] },
            }],
            "description": "A list with in, not_in and between (the least and the most), nothing with is_null and not_null.",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Dag, Graph};
    use super::*;

    /// A graph of start, the node and the ends that it leads to.
    fn graph(kind: NodeType, config: Value) -> Dag {
        let (must, _) = kind.edges();
        let end = |status: &str| json!({ "id": status, "type": "end", "config": { "status": status } });
        let mut nodes = vec![json!({ "id": "s", "type": "start" }), end("failed")];
        nodes.push(json!({ "id": "n", "type": kind.name(), "config": config }));
        let mut edges = vec![json!({ "source": "s", "target": "n", "type": "always" })];
        edges.extend(
            must.iter().map(|edge| json!({ "source": "n", "target": "failed", "type": edge.name() })),
        );
        serde_json::from_value(json!({ "nodes": nodes, "edges": edges })).unwrap()
    }

    fn complaint(kind: NodeType, config: Value) -> Option<String> {
        let reading = Graph::read(&graph(kind, config));
        let found = reading.errors.into_iter().chain(reading.warnings).find(|p| p.path.contains("config."));
        found.map(|problem| format!("{}: {}", problem.path, problem.message))
    }

    /// A config with every member, each within its bounds.
    fn full(kind: NodeType) -> Value {
        let id = "0193b5c2-6f0e-7a41-9d0c-5b8f3c1e2a77";
        match kind {
            NodeType::Start => json!({ "agentId": id }),
            NodeType::Condition => json!({ "field": "url", "op": "eq", "value": "x" }),
            NodeType::Provider => json!({
                "providerId": id, "render": true, "country": "de", "premium": false, "timeoutMs": 1000, "retries": 1,
                "robots": false,
            }),
            NodeType::Race => json!({ "providerIds": [id], "timeoutMs": 1000, "robots": true }),
            NodeType::Split => json!({ "weights": { "failed": 1 }, "by": "job" }),
            NodeType::Wait => json!({ "ms": 1 }),
            NodeType::Extract => json!({ "minQuality": 0.5 }),
            NodeType::Output => json!({ "outputId": id }),
            NodeType::End => json!({ "status": "failed" }),
        }
    }

    #[test]
    fn what_is_described_is_what_is_read() {
        for kind in NodeType::ALL {
            let described = config(*kind);
            let names: Vec<_> = described["properties"].as_object().unwrap().keys().cloned().collect();
            assert_eq!(names, kind.members(), "{kind:?}");
            assert_eq!(complaint(*kind, full(*kind)), None, "{kind:?}");
            for (name, schema) in described["properties"].as_object().unwrap() {
                let mut without = full(*kind);
                without.as_object_mut().unwrap().remove(name);
                let is_required =
                    described["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
                // A condition's value hangs on its operation.
                if (*kind, name.as_str()) != (NodeType::Condition, "value") {
                    assert_eq!(complaint(*kind, without).is_some(), is_required, "{kind:?} {name}");
                }
                for value in
                    schema["enum"].as_array().into_iter().flatten().filter(|_| *kind != NodeType::Condition)
                {
                    let mut with = full(*kind);
                    with[name] = value.clone();
                    assert_eq!(complaint(*kind, with), None, "{kind:?} {name} {value}");
                }
                for (bound, step) in [("minimum", -1.0), ("maximum", 1.0)] {
                    let Some(limit) = schema[bound].as_f64() else { continue };
                    for (value, is_good) in [(limit, true), (limit + step, false)] {
                        let mut with = full(*kind);
                        with[name] = match schema["type"] == "integer" {
                            true => json!(value as i64),
                            false => json!(value),
                        };
                        assert_eq!(complaint(*kind, with).is_none(), is_good, "{kind:?} {name} {value}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_field_and_operation_of_a_condition_is_described() {
        let described = condition();
        for field in described["field"]["enum"].as_array().unwrap() {
            let (_, is_text) = FIELDS.iter().find(|(name, _)| name == field).unwrap();
            for op in described["op"]["enum"].as_array().unwrap() {
                let value = match (is_text, op.as_str().unwrap()) {
                    (_, "is_null" | "not_null") => Value::Null,
                    (true, "in" | "not_in") if field == "pageType" => json!(["product"]),
                    (true, "in" | "not_in") => json!(["x.test"]),
                    (true, _) if field == "pageType" => json!("product"),
                    (true, _) => json!("x.test"),
                    (false, "between") => json!([1, 2]),
                    (false, "in" | "not_in") => json!([1]),
                    (false, _) => json!(1),
                };
                let known = if *is_text { TEXT_OPS } else { NUMBER_OPS };
                let config = json!({ "field": field, "op": op, "value": value });
                let is_good = complaint(NodeType::Condition, config.clone()).is_none();
                assert_eq!(is_good, known.contains(&op.as_str().unwrap()), "{config}");
            }
        }
    }
}
