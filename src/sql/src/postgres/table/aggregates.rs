//! Functions of many rows.

use super::{Check, Json, Row, Rule, Spans, aggregate};
use crate::{extremes, ordered, sum};

/// Put around aggregates whose doubles may be a NaN with a sign, which is no other in PostgreSQL.
const PLAIN: &str = "to_plain";
const STATISTIC: &str = "double precision, double precision → double precision";

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    aggregate("any_value", "any → any").json(Json::OfFirst).extra().spans(Spans::Kept),
    aggregate("approx_distinct", "any → bigint").rule(Rule::Signed).extra().spans(Spans::Refused),
    aggregate("approx_median", "number → number").extra(),
    aggregate("approx_percentile_cont", "share WITHIN GROUP number → number").extra(),
    aggregate("approx_percentile_cont_with_weight", "bigint, share WITHIN GROUP number → number").extra(),
    aggregate("array_agg", "any → any[]").own_aggregate(ordered::array_agg).json(Json::OfFirst).spans(Spans::Kept),
    aggregate("avg", "number → number; interval → interval").also(&["mean"]).rule(Rule::Averaged).around(PLAIN).spans(Spans::Averaged),
    aggregate("bit_and", "bigint → bigint"),
    aggregate("bit_or", "bigint → bigint"),
    aggregate("bit_xor", "bigint → bigint"),
    aggregate("bool_and", "boolean → boolean"),
    aggregate("bool_or", "boolean → boolean"),
    aggregate("corr", STATISTIC).around(PLAIN),
    aggregate("count", "any → bigint").spans(Spans::Counted),
    aggregate("covar_pop", STATISTIC).around(PLAIN),
    aggregate("covar_samp", STATISTIC).also(&["covar"]).around(PLAIN),
    aggregate("every", "boolean → boolean").written().calls("bool_and"),
    aggregate("first_value", "any → any").windowed().json(Json::OfFirst).spans(Spans::Kept),
    aggregate("grouping", "any → bigint").spans(Spans::Kept),
    aggregate("last_value", "any → any").windowed().json(Json::OfFirst).spans(Spans::Kept),
    aggregate("max", "any → any").own_aggregate(extremes::greatest).json(Json::OfFirst).spans(Spans::Greatest),
    aggregate("median", "number → number").around(PLAIN).extra(),
    aggregate("min", "any → any").own_aggregate(extremes::least).json(Json::OfFirst).spans(Spans::Least),
    aggregate("mode", "WITHIN GROUP any → any").own_aggregate(ordered::mode).json(Json::OfFirst).spans(Spans::Refused),
    aggregate("nth_value", "any, bigint → any").windowed().json(Json::OfFirst).spans(Spans::Kept),
    aggregate("percentile_cont", "share WITHIN GROUP number → number").own_aggregate(ordered::percentile_cont)
        .rule(Rule::Shares).check(Check::Share).around(PLAIN),
    aggregate("percentile_disc", "share WITHIN GROUP any → any").own_aggregate(ordered::percentile_disc)
        .rule(Rule::Shares).check(Check::Share).json(Json::OfFirst).spans(Spans::Refused),
    aggregate("regr_avgx", STATISTIC).around(PLAIN),
    aggregate("regr_avgy", STATISTIC).around(PLAIN),
    aggregate("regr_count", "double precision, double precision → bigint").rule(Rule::Signed),
    aggregate("regr_intercept", STATISTIC).around(PLAIN),
    aggregate("regr_r2", STATISTIC).around(PLAIN),
    aggregate("regr_slope", STATISTIC).around(PLAIN),
    aggregate("regr_sxx", STATISTIC).around(PLAIN),
    aggregate("regr_sxy", STATISTIC).around(PLAIN),
    aggregate("regr_syy", STATISTIC).around(PLAIN),
    aggregate("stddev", "number → double precision").around(PLAIN),
    aggregate("stddev_pop", "number → double precision").around(PLAIN),
    aggregate("stddev_samp", "number → double precision").around(PLAIN),
    // The type that it has in the engine is here that of JSON.
    aggregate("string_agg", "text, text → text").own_aggregate(ordered::string_agg).around("to_text"),
    aggregate("sum", "number → number; interval → interval").own_aggregate(sum::checked_sum).around(PLAIN).spans(Spans::Summed),
    aggregate("var", "number → double precision").also(&["var_sample"]).around(PLAIN).extra(),
    aggregate("var_pop", "number → double precision").also(&["var_population"]).around(PLAIN),
    aggregate("var_samp", "number → double precision").around(PLAIN),
    aggregate("variance", "number → double precision").written().calls("var").around(PLAIN),
];
