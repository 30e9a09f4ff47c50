//! What nodes of JSON say, for values to be made of.

use serde_json::Value as Json;

use super::coerce::{ByteBudget, ValueRefusal, collapse_space};

/// What nodes say: texts, numbers and booleans, and of a list its members. Of what is to be a single value the first that is
/// not blank.
pub(super) fn of_nodes(nodes: Vec<&Json>, is_list: bool) -> Result<Vec<Json>, ValueRefusal> {
    let members = nodes.into_iter().flat_map(|node| match node {
        Json::Array(members) => members.as_slice(),
        single => std::slice::from_ref(single),
    });
    let mut said = members.filter(|member| match member {
        Json::String(text) => is_list || !collapse_space(text).is_empty(),
        Json::Number(_) | Json::Bool(_) => true,
        Json::Null | Json::Array(_) | Json::Object(_) => false,
    });
    if !is_list {
        return Ok(said.next().cloned().into_iter().collect());
    }
    // A query may name one long text many times.
    let mut room = ByteBudget::for_page();
    said.map(|member| room.take(member).map(|()| member.clone())).collect()
}

/// A text, number or boolean as a text.
pub(super) fn text(scalar: Json) -> String {
    match scalar {
        Json::String(text) => text,
        other => other.to_string(),
    }
}
