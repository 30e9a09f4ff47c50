//! `per_row(value)`: the value as it is, and never as one for all rows.
//!
//! DataFusion takes an item of `x IN (…)` for a constant if it gives one value over no rows at all, which a CASE does:
//! `at NOT IN (CASE WHEN status = 'x' THEN TIMESTAMP '…' END, …)` was looked up in a set without the NULL that it is for
//! most rows (seeds 41319, 50457 and 80382 of the random statements).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of [`function`].
pub(super) const NAME: &str = "per_row";

/// A value that gives an array whatever it is worked out over.
pub(super) fn per_row(value: Expr) -> Expr {
    function().call(vec![value])
}

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(PerRow { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PerRow {
    signature: Signature,
}

impl ScalarUDFImpl for PerRow {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(args.args[0].to_array(args.number_rows)?))
    }
}
