//! Texts, regular expressions, and digests.

use super::{Check, Row, Rows, Rule, form, scalar, set};
use crate::postgres::digests::{self, Sum};
use crate::postgres::format::{self, Work};
use crate::postgres::regexes;
use crate::postgres::text::{self, Letters};

/// Flags stand behind the pattern.
const REGULAR: Check = Check::Regular { flags: 2, takes_global: false };

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    scalar("ascii", "text → bigint"),
    scalar("bit_length", "text → bigint"),
    scalar("btrim", "text → text; text, text → text"),
    scalar("char_length", "text → bigint"),
    scalar("character_length", "text → bigint").said("length"),
    scalar("chr", "bigint → text").rule(Rule::Chr),
    scalar("concat", "any… → text").rule(Rule::Shown).takes_differences(),
    scalar("concat_ws", "text, any… → text").rule(Rule::Shown).takes_differences(),
    scalar("contains", "text, text → boolean").extra(),
    scalar("decode", "text, encoding → bytea"),
    scalar("encode", "bytea, encoding → text").own(digests::encode),
    scalar("ends_with", "text, text → boolean").extra(),
    scalar("find_in_set", "text, text → bigint").extra(),
    scalar("format", "text, any… → text").own(|| format::udf(Work::Format)).rule(Rule::Format),
    scalar("initcap", "text → text").own(|| text::lettered(Letters::Words)),
    scalar("left", "text, bigint → text"),
    scalar("length", "text → bigint"),
    scalar("levenshtein", "text, text → bigint").extra(),
    scalar("lower", "text → text").own(|| text::lettered(Letters::Lower)),
    scalar("lpad", "text, bigint → text; text, bigint, text → text").rule(Rule::Padded),
    scalar("ltrim", "text → text; text, text → text"),
    scalar("md5", "text → text; bytea → text").own(|| digests::udf(Sum::Md5)),
    scalar("octet_length", "text → bigint"),
    form("overlay", "overlay(text PLACING text FROM bigint FOR bigint) → text").engine(),
    form("position", "position(text IN text) → bigint"),
    scalar("quote_ident", "text → text").own(|| format::udf(Work::Identifier)),
    scalar("quote_literal", "any → text").own(|| format::udf(Work::Literal)).rule(Rule::Texts),
    scalar("quote_nullable", "any → text").own(|| format::udf(Work::Nullable)).rule(Rule::Texts),
    scalar("regexp_count", "text, regexp → bigint; text, regexp, bigint → bigint; text, regexp, bigint, flags → bigint")
        .own(|| regexes::numbered(false)).check(REGULAR),
    scalar("regexp_instr", "text, regexp → bigint; text, regexp, bigint → bigint; text, regexp, bigint, bigint → bigint")
        .own(|| regexes::numbered(true)).check(REGULAR),
    scalar("regexp_like", "text, regexp → boolean; text, regexp, flags → boolean").rule(Rule::Regular).check(REGULAR),
    scalar("regexp_match", "text, regexp → text[]; text, regexp, flags → text[]").own(regexes::regexp_match).check(REGULAR),
    scalar("regexp_replace", "text, regexp, text → text; text, regexp, text, flags → text")
        .own(regexes::regexp_replace).check(Check::Regular { flags: 3, takes_global: true }),
    scalar("regexp_split_to_array", "text, regexp → text[]")
        .own(text::regexp_split_to_array).rule(Rule::Regular).check(REGULAR),
    set("regexp_split_to_table", "text, regexp → setof text", Rows::Elements("regexp_split_to_array"))
        .rule(Rule::Regular).check(REGULAR),
    scalar("regexp_substr", "text, regexp → text").written().rule(Rule::RegexpSubstr).check(REGULAR),
    scalar("repeat", "text, bigint → text"),
    scalar("replace", "text, text, text → text"),
    scalar("reverse", "text → text"),
    scalar("right", "text, bigint → text"),
    scalar("rpad", "text, bigint → text; text, bigint, text → text").rule(Rule::Padded),
    scalar("rtrim", "text → text; text, text → text"),
    scalar("sha256", "bytea → bytea; text → bytea").own(|| digests::udf(Sum::Sha256)),
    scalar("sha384", "bytea → bytea; text → bytea").own(|| digests::udf(Sum::Sha384)),
    scalar("sha512", "bytea → bytea; text → bytea").own(|| digests::udf(Sum::Sha512)),
    scalar("split_part", "text, text, bigint → text"),
    scalar("starts_with", "text, text → boolean"),
    scalar("string_to_array", "text, text → text[]; text, text, text → text[]").also(&["string_to_list"]),
    set("string_to_table", "text, text → setof text; text, text, text → setof text", Rows::Elements("string_to_array")),
    scalar("strpos", "text, text → bigint").also(&["instr"]),
    scalar("substr", "text, bigint → text; text, bigint, bigint → text").said("substring"),
    scalar("substr_index", "text, text, bigint → text").also(&["substring_index"]).extra(),
    scalar("substring", "text, bigint → text; text, bigint, bigint → text; text, regexp → text"),
    scalar("to_hex", "bigint → text"),
    scalar("translate", "text, text, text → text"),
    form("trim", "trim(BOTH text FROM text) → text"),
    scalar("upper", "text → text").own(|| text::lettered(Letters::Upper)),
];
