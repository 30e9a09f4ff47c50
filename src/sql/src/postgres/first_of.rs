//! `coalesce`: the first value that is there.
//!
//! DataFusion makes a CASE of it, in which each argument but the last stands twice: of `coalesce(coalesce(…), x)` each level is twice
//! as large as the one inside of it, and twenty of them are a million. So one whose arguments are large stays a call.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::is_not_null;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::functions::core::coalesce as datafusion_coalesce;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Most expressions in arguments that are written twice.
const COPIED_NODES_MAX: usize = 40;

pub(super) fn coalesce() -> ScalarUDF {
    ScalarUDF::from(FirstOf { inner: datafusion_coalesce() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FirstOf {
    inner: Arc<ScalarUDF>,
}

/// Whether there are more expressions in these than may be copied.
fn is_large(exprs: &[Expr]) -> Result<bool> {
    let mut left = COPIED_NODES_MAX;
    for expr in exprs {
        expr.apply(|_| {
            left = left.saturating_sub(1);
            Ok(if left == 0 { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(left == 0)
}

impl ScalarUDFImpl for FirstOf {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.split_last() {
            Some((_, copied)) if !copied.is_empty() && is_large(copied)? => {
                Ok(ExprSimplifyResult::Original(args))
            }
            _ => self.inner.simplify(args, info),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let mut found: Option<ArrayRef> = None;
        for values in args.args.iter().rev() {
            let values = values.to_array(rows)?;
            found = Some(match found {
                Some(others) => zip(&is_not_null(&values)?, &values, &others)?,
                None => values,
            });
        }
        match found {
            Some(found) => Ok(ColumnarValue::Array(found)),
            None => plan_err!("coalesce must have at least one argument"),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::prelude::{SessionContext, col, lit};

    use super::*;

    #[tokio::test]
    async fn calls_within_calls_stay_small_and_give_the_first_value() {
        let function = coalesce();
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let batch = RecordBatch::try_from_iter([("a", values)]).expect("a batch");
        let context = SessionContext::new();
        let nested = (0..40).fold(col("a"), |inner, level| function.call(vec![inner, lit(level as i64 + 7)]));
        let frame =
            context.read_batch(batch).expect("a table").select(vec![nested.alias("x")]).expect("a plan");
        let plan = frame.clone().into_optimized_plan().expect("a plan").display_indent().to_string();
        assert!(plan.contains("CASE") && plan.len() < 100_000, "{} bytes", plan.len());
        let rows = frame.collect().await.expect("rows");
        assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().values().as_ref(), [1, 7]);
    }
}
