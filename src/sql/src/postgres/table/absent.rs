//! Functions that people write, of PostgreSQL and of others, which are not here, and what does it here.

use super::{Row, absent};

const CASE: &str = "Write CASE WHEN … THEN … ELSE … END.";
const MEMBERS: &str = "Take the members one by one: (j ->> 'name')::type.";
const SPANS: &str = "Compare spans as they are, or use extract(epoch FROM span).";
const TO_CHAR: &str = "Use to_char(time, 'YYYY-MM-DD').";

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    absent("current_database", "There is one database, and its schema is public."),
    absent("date", "Write time::date."),
    absent("date_add", "Write time + INTERVAL '1 day'."),
    absent("date_sub", "Write time - INTERVAL '1 day'."),
    absent("dateadd", "Write time + INTERVAL '1 day'."),
    absent("datediff", "Subtract the times: extract(epoch FROM a - b), or a::date - b::date."),
    absent("getdate", "Use now()."),
    absent("group_concat", "Use string_agg(text, ',')."),
    absent("if", CASE),
    absent("iif", CASE),
    absent("isnull", "Use coalesce, or IS NULL."),
    absent("json_populate_record", MEMBERS),
    absent("json_to_record", MEMBERS),
    absent("json_to_recordset", "Take the elements with json_array_elements(j) AS e in FROM, and (e ->> 'name')::type of each."),
    absent("jsonb_path_query", "Use -> and jsonb_array_elements."),
    absent("jsonb_populate_record", MEMBERS),
    absent("jsonb_set", "Use ||: '{…}'::jsonb || '{\"a\": 1}'::jsonb."),
    absent("jsonb_to_record", MEMBERS),
    absent("jsonb_to_recordset", "Take the elements with jsonb_array_elements(j) AS e in FROM, and (e ->> 'name')::type of each."),
    absent("justify_days", SPANS),
    absent("justify_hours", SPANS),
    absent("len", "Use length."),
    absent("listagg", "Use string_agg(text, ',')."),
    absent("pg_typeof", "A statement's dryRun names the types of its columns."),
    absent("regexp_matches", "Use regexp_match."),
    absent("row_to_json", "Use json_build_object('name', column, …)."),
    absent("sha1", "Use sha256 or md5."),
    absent("sha224", "Use sha256, sha384 or sha512."),
    absent("str_to_date", "Use to_date or to_timestamp."),
    absent("strftime", TO_CHAR),
    absent("to_number", "Take signs out with replace, and cast: replace(text, ',', '')::numeric."),
    absent("uuid_generate_v4", "Use gen_random_uuid()."),
    absent("version", "The box's version is in its status, and not in the console."),
];
