//! What nobody calls: the rules write it.

use super::{Json, Row, inside, operator};
use crate::postgres::json::{self, Question};
use crate::postgres::lists::{self, Comparison};
use crate::postgres::numbers::{self, Work};
use crate::postgres::text::{self, Style};
use crate::postgres::{per_row, picture, regexes, spans, times};

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    operator("*", "interval, number → interval"),
    operator("/", "number, number → number; interval, number → interval"),
    inside("all_eq", "any, any[] → boolean", || lists::udf("all_eq", Comparison::Eq, true)),
    inside("all_ge", "any, any[] → boolean", || lists::udf("all_ge", Comparison::Ge, true)),
    inside("all_gt", "any, any[] → boolean", || lists::udf("all_gt", Comparison::Gt, true)),
    inside("all_le", "any, any[] → boolean", || lists::udf("all_le", Comparison::Le, true)),
    inside("all_lt", "any, any[] → boolean", || lists::udf("all_lt", Comparison::Lt, true)),
    inside("all_ne", "any, any[] → boolean", || lists::udf("all_ne", Comparison::Ne, true)),
    inside("any_eq", "any, any[] → boolean", || lists::udf("any_eq", Comparison::Eq, false)),
    inside("any_ge", "any, any[] → boolean", || lists::udf("any_ge", Comparison::Ge, false)),
    inside("any_gt", "any, any[] → boolean", || lists::udf("any_gt", Comparison::Gt, false)),
    inside("any_le", "any, any[] → boolean", || lists::udf("any_le", Comparison::Le, false)),
    inside("any_lt", "any, any[] → boolean", || lists::udf("any_lt", Comparison::Lt, false)),
    inside("any_ne", "any, any[] → boolean", || lists::udf("any_ne", Comparison::Ne, false)),
    inside("as_json", "text → json", || json::udf("as_json", Question::Named)).json(Json::Always).said("a cast to json").put_around(),
    inside("json_elements", "json → json[]", || json::udf("json_elements", Question::Elements { as_text: false }))
        .json(Json::Always).said("json_array_elements"),
    inside("json_elements_text", "json → text[]", || json::udf("json_elements_text", Question::Elements { as_text: true }))
        .said("json_array_elements_text"),
    inside("json_keys", "json → text[]", || json::udf("json_keys", Question::Keys)).said("json_object_keys"),
    inside("json_members", "json → json[]", || json::udf("json_members", Question::Members { as_text: false }))
        .json(Json::Always).said("json_each"),
    inside("json_members_text", "json → text[]", || json::udf("json_members_text", Question::Members { as_text: true }))
        .said("json_each_text"),
    inside("json_value", "json → json", json::marked).json(Json::Always).put_around(),
    inside("per_row", "any → any", per_row::function).takes_differences().put_around(),
    inside("round_by", "number, bigint → number", || numbers::round(false)).said("round"),
    inside("span_length", "interval → numeric", spans::length_function).takes_differences(),
    inside("to_averaged", "number → number", || numbers::udf(Work::Averaged)).takes_differences().said("avg").put_around(),
    inside("to_bytea", "text → bytea", text::to_bytea).said("a cast to bytea").put_around(),
    inside("to_char_number", "number, picture → text", picture::function).said("to_char"),
    inside("to_clock", "time → time", times::to_clock).said("a cast to time").put_around(),
    inside("to_exact", "number → number", || numbers::udf(Work::Exact)).said("a cast to numeric").put_around(),
    inside("to_length", "number → bigint", || numbers::udf(Work::Length)).put_around(),
    inside("to_plain", "number → number", || numbers::udf(Work::Plain)).takes_differences().put_around(),
    inside("to_regex", "text → text; text, flags → text", regexes::to_regex),
    inside("to_shown", "any → text", || text::udf(Style::Shown)).takes_differences().said("concat").put_around(),
    inside("to_signed", "number → number", || numbers::udf(Work::Signed)).put_around(),
    inside("to_span", "interval → interval", spans::span_function).takes_differences().put_around(),
    inside("to_text", "any → text", || text::udf(Style::Cast)).takes_differences().said("a cast to text").put_around(),
    inside("to_whole", "number → number", || numbers::udf(Work::Whole)).said("a cast to a whole number").put_around(),
    inside("to_within", "number, bigint, bigint → number", || numbers::udf(Work::Within)),
];
