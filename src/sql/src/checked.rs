//! Integer `+`, `-` and `*` that fail when they overflow, as PostgreSQL's do.
//!
//! DataFusion's wrap around silently, and its checked form cannot be asked for from SQL. So a planner of ours takes
//! these three operators over integers and makes them calls of checked functions.

use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    lit,
};
use datafusion::physical_expr_common::datum::apply;
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans `+`, `-` and `*` of two integers as checked calls.
#[derive(Debug)]
pub(super) struct CheckedArithmetic;

impl ExprPlanner for CheckedArithmetic {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let operation = match expr.op {
            BinaryOperator::Plus => Operation::Add,
            BinaryOperator::Minus => Operation::Subtract,
            BinaryOperator::Multiply => Operation::Multiply,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        // A type that cannot be told yet (a missing column) is reported by what comes after.
        let integer = |side: &Expr| side.get_type(schema).is_ok_and(|t| t.is_integer());
        if !integer(&expr.left) || !integer(&expr.right) {
            return Ok(PlannerResult::Original(expr));
        }
        let function = ScalarUDF::from(Checked::new(operation));
        Ok(PlannerResult::Planned(function.call(vec![expr.left, expr.right])))
    }
}

/// The opposite of a whole number; of the least one there is none.
pub(super) fn opposite(number: Expr) -> Expr {
    ScalarUDF::from(Checked::new(Operation::Subtract)).call(vec![lit(0_i64), number])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl Checked {
    fn new(operation: Operation) -> Self {
        let signature = Signature::exact(vec![DataType::Int64, DataType::Int64], Volatility::Immutable);
        Self { operation, signature }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "+",
            Operation::Subtract => "-",
            Operation::Multiply => "*",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else { return exec_err!("two numbers are needed") };
        match self.operation {
            Operation::Add => apply(left, right, add),
            Operation::Subtract => apply(left, right, sub),
            Operation::Multiply => apply(left, right, mul),
        }
    }
}
