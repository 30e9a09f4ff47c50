//! The functions a statement may call, sorted. Whatever is not listed does not exist: a function that a new
//! DataFusion brings along must be looked at before it is added.
//!
//! Left out on purpose: `version`, `input_file_name`, `file_row_index`, `arrow_metadata`, `with_metadata`, `arrow_field`
//! (they tell about the box and its files), and the casts and inspections by Arrow's own types.

/// Functions of one row.
#[rustfmt::skip]
pub(super) const SCALAR_FUNCTIONS: &[&str] = &[
    "abs", "acos", "acosh", "array_add", "array_any_value", "array_append", "array_avg", "array_compact",
    "array_concat", "array_dims", "array_distance", "array_distinct", "array_element", "array_except",
    "array_has", "array_has_all", "array_has_any", "array_intersect", "array_length", "array_max",
    "array_min", "array_ndims", "array_normalize", "array_pop_back", "array_pop_front", "array_position",
    "array_positions", "array_prepend", "array_product", "array_remove", "array_remove_all", "array_remove_n",
    "array_repeat", "array_replace", "array_replace_all", "array_replace_n", "array_resize", "array_reverse",
    "array_scale", "array_slice", "array_sort", "array_subtract", "array_sum", "array_to_string",
    "array_union", "arrays_zip", "ascii", "asin", "asinh", "atan", "atan2", "atanh", "bit_length", "btrim",
    "cardinality", "cbrt", "ceil", "character_length", "chr", "coalesce", "concat", "concat_ws", "contains",
    "cos", "cosh", "cosine_distance", "cot", "current_date", "current_time", "date_bin", "date_part",
    "date_trunc", "decode", "degrees", "empty", "encode", "ends_with", "exp", "factorial", "find_in_set",
    "flatten", "floor", "from_unixtime", "gcd", "generate_series", "get_field", "greatest", "initcap",
    "inner_product", "isnan", "iszero", "lcm", "least", "left", "levenshtein", "ln", "log", "log10", "log2",
    "lower", "lpad", "ltrim", "make_array", "make_date", "make_time", "map", "map_entries", "map_extract",
    "map_keys", "map_values", "named_struct", "nanvl", "now", "nullif", "nvl", "nvl2", "octet_length",
    "overlay", "pi", "power", "radians", "random", "range", "regexp_count", "regexp_instr", "regexp_like",
    "regexp_match", "regexp_replace", "repeat", "replace", "reverse", "right", "round", "rpad", "rtrim",
    "signum", "sin", "sinh", "split_part", "sqrt", "starts_with", "string_to_array", "strpos", "struct",
    "substr", "substr_index", "tan", "tanh", "to_char", "to_date", "to_hex", "to_local_time", "to_time",
    "to_timestamp", "to_timestamp_micros", "to_timestamp_millis", "to_timestamp_nanos",
    "to_timestamp_seconds", "to_unixtime", "translate", "trunc", "upper", "uuid",
];

/// Functions of many rows.
#[rustfmt::skip]
pub(super) const AGGREGATE_FUNCTIONS: &[&str] = &[
    "any_value", "approx_distinct", "approx_median", "approx_percentile_cont",
    "approx_percentile_cont_with_weight", "array_agg", "avg", "bit_and", "bit_or", "bit_xor", "bool_and",
    "bool_or", "corr", "count", "covar_pop", "covar_samp", "first_value", "grouping", "last_value", "max",
    "median", "min", "nth_value", "percentile_cont", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept",
    "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "stddev", "stddev_pop", "string_agg", "sum",
    "var", "var_pop",
];

/// Functions of a window.
#[rustfmt::skip]
pub(super) const WINDOW_FUNCTIONS: &[&str] = &[
    "cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "ntile",
    "percent_rank", "rank", "row_number",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use datafusion::execution::SessionStateDefaults;

    use super::*;

    #[test]
    fn the_lists_are_sorted_and_every_function_exists() {
        let scalars: BTreeSet<String> =
            SessionStateDefaults::default_scalar_functions().iter().map(|f| f.name().to_owned()).collect();
        let aggregates: BTreeSet<String> =
            SessionStateDefaults::default_aggregate_functions().iter().map(|f| f.name().to_owned()).collect();
        let windows: BTreeSet<String> =
            SessionStateDefaults::default_window_functions().iter().map(|f| f.name().to_owned()).collect();
        for (listed, known) in
            [(SCALAR_FUNCTIONS, scalars), (AGGREGATE_FUNCTIONS, aggregates), (WINDOW_FUNCTIONS, windows)]
        {
            assert!(listed.is_sorted(), "binary search needs it");
            for name in listed {
                assert!(known.contains(*name), "{name}");
            }
        }
    }
}
