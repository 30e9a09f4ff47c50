//! `sum` over integers that fails when it overflows.
//!
//! DataFusion's wraps around: the sum of two times 2^62 is negative there. This one adds in 128 bits, which no
//! number of 64-bit rows can fill, and fails only if the end result does not fit. (PostgreSQL gives a `numeric`
//! instead; here the result stays a `bigint`, as with DataFusion.) Other types go to DataFusion's own function.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature,
};

use crate::extremes::is_wanted;

/// Digits of a 128-bit decimal, in which partial sums travel.
const STATE_DIGITS: u8 = 38;

/// The function, by the name `sum`.
pub(super) fn checked_sum() -> AggregateUDF {
    AggregateUDF::from(CheckedSum { inner: sum_udaf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum {
    inner: Arc<AggregateUDF>,
}

/// Whether the sum is ours to compute. `sum(DISTINCT …)` mostly arrives here too, as a plain sum over a grouping.
fn is_ours(return_type: &DataType, is_distinct: bool) -> bool {
    *return_type == DataType::Int64 && !is_distinct
}

fn narrowed(sum: i128) -> Result<i64> {
    let error = |_| ArrowError::ArithmeticOverflow("the sum is beyond 64 bits".to_owned());
    Ok(i64::try_from(sum).map_err(error)?)
}

fn state_type() -> DataType {
    DataType::Decimal128(STATE_DIGITS, 0)
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    /// Of an exact number all digits that there are: DataFusion adds ten, and a sum of sums, by which it may work out a sum, would
    /// be of another type than the sum.
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments).map(|kind| match kind {
            DataType::Decimal128(_, scale) => DataType::Decimal128(STATE_DIGITS, scale),
            other => other,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_ours(args.return_field.data_type(), args.is_distinct) {
            return Ok(Box::new(Total::default()));
        }
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_ours(args.return_field.data_type(), args.is_distinct) {
            return Ok(Box::new(Total::default()));
        }
        self.inner.create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if is_ours(args.return_field.data_type(), args.is_distinct) {
            return Ok(vec![Arc::new(Field::new(format_state_name(args.name, "sum"), state_type(), true))]);
        }
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        is_ours(args.return_field.data_type(), args.is_distinct)
            || self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        if is_ours(args.return_field.data_type(), args.is_distinct) {
            return Ok(Box::new(Totals::default()));
        }
        self.inner.create_groups_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// The values of the one argument.
fn argument(values: &[ArrayRef]) -> Result<&Int64Array> {
    match values.first().and_then(|values| values.as_primitive_opt::<Int64Type>()) {
        Some(values) => Ok(values),
        None => internal_err!("sum got something else than 64-bit integers"),
    }
}

/// The values of the one partial state.
fn partial(states: &[ArrayRef]) -> Result<&Decimal128Array> {
    match states.first().and_then(|states| states.as_primitive_opt::<Decimal128Type>()) {
        Some(states) => Ok(states),
        None => internal_err!("sum got something else than its own partial sums"),
    }
}

/// One sum. It can also take values back, for windows that slide.
#[derive(Debug, Default)]
struct Total {
    sum: i128,
    /// Values in the sum: none is NULL, not 0.
    values: i64,
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in argument(values)?.iter().flatten() {
            self.sum += i128::from(value);
            self.values += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in argument(values)?.iter().flatten() {
            self.sum -= i128::from(value);
            self.values -= 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = if self.values == 0 { None } else { Some(narrowed(self.sum)?) };
        Ok(ScalarValue::Int64(sum))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = (self.values != 0).then_some(self.sum);
        Ok(vec![ScalarValue::Decimal128(sum, STATE_DIGITS, 0)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for state in partial(states)?.iter().flatten() {
            self.sum += state;
            self.values += 1;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// One sum a group; `None` before its first value.
#[derive(Debug, Default)]
struct Totals(Vec<Option<i128>>);

impl Totals {
    fn add(
        &mut self,
        values: impl Iterator<Item = Option<i128>>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) {
        self.0.resize(groups_total, None);
        for (row, (value, group)) in values.zip(groups).enumerate() {
            if let Some(value) = value.filter(|_| is_wanted(filter, row)) {
                let sum = &mut self.0[*group];
                *sum = Some(sum.unwrap_or(0) + value);
            }
        }
    }
}

impl GroupsAccumulator for Totals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let values = argument(values)?.iter().map(|value| value.map(i128::from));
        self.add(values, group_indices, opt_filter, total_num_groups);
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.add(partial(values)?.iter(), group_indices, None, total_num_groups);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.0).into_iter();
        let sums: Int64Array = sums.map(|sum| sum.map(narrowed).transpose()).collect::<Result<_>>()?;
        Ok(Arc::new(sums))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums: Decimal128Array = emit_to.take_needed(&mut self.0).into_iter().collect();
        Ok(vec![Arc::new(sums.with_precision_and_scale(STATE_DIGITS, 0)?)])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = argument(values)?.iter().enumerate();
        let sums = values.map(|(row, value)| value.filter(|_| is_wanted(opt_filter, row)).map(i128::from));
        let sums: Decimal128Array = sums.collect();
        Ok(vec![Arc::new(sums.with_precision_and_scale(STATE_DIGITS, 0)?)])
    }

    fn size(&self) -> usize {
        self.0.capacity() * size_of::<Option<i128>>()
    }
}
