//! JSON. Each function of `json` is also one of `jsonb`, which is the same type.

use super::{Check, Json, Row, Rows, Rule, aggregate, operator, scalar, set};
use crate::postgres::json::{self, Question};

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    operator("->", "json, any → json").json(Json::Always),
    operator("->>", "json, any → text"),
    operator("#>", "json, text[] → json").json(Json::Always),
    operator("#>>", "json, text[] → text"),
    operator("?", "json, text → boolean"),
    operator("@>", "json, json → boolean"),
    operator("||", "json, json → json").json(Json::Always),
    aggregate("json_agg", "any → json").written().calls("array_agg").rule(Rule::Gathered),
    aggregate("jsonb_agg", "any → json").written().calls("array_agg").rule(Rule::Gathered),
    aggregate("json_object_agg", "text, any → json").written().rule(Rule::Pairs).check(Check::DistinctPairs),
    aggregate("jsonb_object_agg", "text, any → json").written().rule(Rule::Pairs).check(Check::DistinctPairs),
    scalar("array_to_json", "any[] → json").written().calls("to_json"),
    set("json_array_elements", "json → setof json", Rows::Elements("json_elements")),
    set("jsonb_array_elements", "json → setof json", Rows::Elements("json_elements")),
    set("json_array_elements_text", "json → setof text", Rows::Elements("json_elements_text")),
    set("jsonb_array_elements_text", "json → setof text", Rows::Elements("json_elements_text")),
    scalar("json_array_length", "json → bigint").own(|| json::udf("json_array_length", Question::ArrayLength)),
    scalar("jsonb_array_length", "json → bigint").own(|| json::udf("jsonb_array_length", Question::ArrayLength)),
    scalar("json_build_array", "any… → json").own(|| json::udf("json_build_array", Question::List))
        .json(Json::Always).takes_json().takes_differences(),
    scalar("jsonb_build_array", "any… → json").own(|| json::udf("jsonb_build_array", Question::List))
        .json(Json::Always).takes_json().takes_differences(),
    scalar("json_build_object", "text, any… → json").own(|| json::udf("json_build_object", Question::Build))
        .json(Json::Always).takes_json().takes_differences(),
    scalar("jsonb_build_object", "text, any… → json").own(|| json::udf("jsonb_build_object", Question::Build))
        .json(Json::Always).takes_json().takes_differences(),
    set("json_each", "json → setof (key text, value json)", Rows::Members("json_members")),
    set("jsonb_each", "json → setof (key text, value json)", Rows::Members("json_members")),
    set("json_each_text", "json → setof (key text, value text)", Rows::Members("json_members_text")),
    set("jsonb_each_text", "json → setof (key text, value text)", Rows::Members("json_members_text")),
    scalar("json_extract_path", "json, text… → json")
        .own(|| json::udf("json_extract_path", Question::Along { as_text: false })).json(Json::Always),
    scalar("jsonb_extract_path", "json, text… → json")
        .own(|| json::udf("jsonb_extract_path", Question::Along { as_text: false })).json(Json::Always),
    scalar("json_extract_path_text", "json, text… → text")
        .own(|| json::udf("json_extract_path_text", Question::Along { as_text: true })),
    scalar("jsonb_extract_path_text", "json, text… → text")
        .own(|| json::udf("jsonb_extract_path_text", Question::Along { as_text: true })),
    scalar("json_object", "text[], any[] → json").own(|| json::udf("json_object", Question::Object))
        .json(Json::Always).takes_json(),
    set("json_object_keys", "json → setof text", Rows::Elements("json_keys")),
    set("jsonb_object_keys", "json → setof text", Rows::Elements("json_keys")),
    scalar("json_strip_nulls", "json → json").own(|| json::udf("json_strip_nulls", Question::Stripped)).json(Json::Always),
    scalar("jsonb_strip_nulls", "json → json").own(|| json::udf("jsonb_strip_nulls", Question::Stripped)).json(Json::Always),
    scalar("json_typeof", "json → text").own(|| json::udf("json_typeof", Question::TypeOf)),
    scalar("jsonb_typeof", "json → text").own(|| json::udf("jsonb_typeof", Question::TypeOf)),
    scalar("to_json", "any → json").own(|| json::udf("to_json", Question::ToJson))
        .json(Json::Always).takes_json().takes_differences(),
    scalar("to_jsonb", "any → json").own(|| json::udf("to_jsonb", Question::ToJson))
        .json(Json::Always).takes_json().takes_differences(),
];
