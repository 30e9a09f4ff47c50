//! Integer `+`, `-` and `*` that fail when they overflow, as PostgreSQL's do.
//!
//! DataFusion's wrap around silently, and its checked form cannot be asked for from SQL. So a planner of ours takes
//! these three operators over integers and makes them calls of checked functions. A chain of them (`a + b - c`) is one call of
//! many arguments: nested calls spell all that is below them out for every name, at every level anew.

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
        Ok(PlannerResult::Planned(chained(expr.left, operation, expr.right)))
    }
}

/// The operation behind those that the left side is made of, if it is.
fn chained(left: Expr, operation: Operation, right: Expr) -> Expr {
    let (mut operations, mut numbers) = match left {
        Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<Checked>() {
            Some(checked) => (checked.operations.clone(), call.args),
            None => (Vec::new(), vec![Expr::ScalarFunction(call)]),
        },
        left => (Vec::new(), vec![left]),
    };
    operations.push(operation);
    numbers.push(right);
    ScalarUDF::from(Checked::new(operations)).call(numbers)
}

/// The opposite of a whole number; of the least one there is none.
pub(super) fn opposite(number: Expr) -> Expr {
    ScalarUDF::from(Checked::new(vec![Operation::Subtract])).call(vec![lit(0_i64), number])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

impl Operation {
    fn sign(self) -> &'static str {
        match self {
            Operation::Add => "+",
            Operation::Subtract => "-",
            Operation::Multiply => "*",
        }
    }
}

/// The first number with the second, what comes of it with the third, and so on: one operation less than there are numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operations: Vec<Operation>,
    signature: Signature,
}

impl Checked {
    fn new(operations: Vec<Operation>) -> Self {
        let signature =
            Signature::uniform(operations.len() + 1, vec![DataType::Int64], Volatility::Immutable);
        Self { operations, signature }
    }

    /// `-(+(a,b),c)`: as calls of two numbers each.
    fn spelled(&self, numbers: impl Iterator<Item = String>) -> String {
        let mut name: String = self.operations.iter().rev().flat_map(|own| [own.sign(), "("]).collect();
        for (place, number) in numbers.enumerate() {
            name.push_str(if place == 0 { "" } else { "," });
            name.push_str(&number);
            name.push_str(if place == 0 { "" } else { ")" });
        }
        name
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.operations.last().map_or("", |last| last.sign())
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(self.spelled(args.iter().map(ToString::to_string)))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(self.spelled(args.iter().map(|arg| arg.schema_name().to_string())))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut numbers = args.args.into_iter();
        let Some(first) = numbers.next() else { return exec_err!("numbers are needed") };
        self.operations.iter().zip(numbers).try_fold(first, |left, (operation, right)| match operation {
            Operation::Add => apply(&left, &right, add),
            Operation::Subtract => apply(&left, &right, sub),
            Operation::Multiply => apply(&left, &right, mul),
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::col;

    use super::*;

    #[test]
    fn a_chain_is_one_call_by_the_name_of_calls_within_calls() {
        let (a, b) = (|| col("a"), || col("b"));
        let product = chained(a(), Operation::Multiply, b());
        let chain = chained(chained(product.clone(), Operation::Add, b()), Operation::Subtract, product);
        let Expr::ScalarFunction(call) = &chain else { panic!("a call") };
        assert_eq!(call.args.len(), 4);
        assert_eq!(chain.schema_name().to_string(), "-(+(*(a,b),b),*(a,b))");
        assert_eq!(call.name(), "-");
    }
}
