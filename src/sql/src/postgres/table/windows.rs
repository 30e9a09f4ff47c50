//! Functions of a window. Aggregates are such too.

use super::{Json, Row, Rule, window};

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    window("cume_dist", "→ double precision"),
    window("dense_rank", "→ bigint").unsigned(),
    window("lag", "any → any; any, bigint → any; any, bigint, any → any").rule(Rule::Neighbour).json(Json::OfNeighbour),
    window("lead", "any → any; any, bigint → any; any, bigint, any → any").rule(Rule::Neighbour).json(Json::OfNeighbour),
    window("ntile", "bigint → bigint").unsigned(),
    window("percent_rank", "→ double precision"),
    window("rank", "→ bigint").unsigned(),
    window("row_number", "→ bigint").unsigned(),
];
