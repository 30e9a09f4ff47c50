//! Aggregates over values in their order: `percentile_cont`, `percentile_disc`, `mode`.
//!
//! DataFusion's `percentile_cont` rounds the place between two values to a millionth (84.299996 where it is 84.3), so
//! ours gathers the values by it and computes the end itself, as PostgreSQL does. The other two it does not have.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, new_empty_array};
use datafusion::arrow::compute::{SortOptions, concat, is_not_null, sort};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use datafusion::physical_expr::PhysicalSortExpr;

pub(super) fn percentile_cont() -> AggregateUDF {
    AggregateUDF::from(ExactPercentile { inner: percentile_cont_udaf() })
}

pub(super) fn percentile_disc() -> AggregateUDF {
    let signature = Signature::any(2, Volatility::Immutable);
    AggregateUDF::from(Chosen { rule: Rule::Discrete, signature })
}

pub(super) fn mode() -> AggregateUDF {
    AggregateUDF::from(Chosen { rule: Rule::Mode, signature: Signature::any(1, Volatility::Immutable) })
}

pub(super) fn array_agg() -> AggregateUDF {
    AggregateUDF::from(Gathering { inner: array_agg_udaf() })
}

pub(super) fn string_agg() -> AggregateUDF {
    AggregateUDF::from(Gathering { inner: string_agg_udaf() })
}

/// DataFusion's `array_agg` or `string_agg`, but for DISTINCT with an order beside another aggregate with the opposite one: asked
/// to go backwards through the rows, DataFusion's gives them backwards.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Gathering {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Gathering {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = Arc::unwrap_or_clone(Arc::clone(&self.inner)).with_beneficial_ordering(beneficial)?;
        Ok(inner.map(|inner| Arc::new(Gathering { inner: Arc::new(inner) }) as Arc<dyn AggregateUDFImpl>))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if !args.is_distinct || !args.is_reversed {
            return self.inner.accumulator(args);
        }
        // What is there once is put in order at the end, in whatever order it came.
        let order: Vec<PhysicalSortExpr> = args.order_bys.iter().map(PhysicalSortExpr::reverse).collect();
        self.inner.accumulator(AccumulatorArgs { order_bys: &order, is_reversed: false, ..args })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => {
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(Gathering { inner })))
            }
            other => other,
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }
}

/// The share that is asked for: a constant between 0 and 1.
fn share(args: &AccumulatorArgs<'_>) -> Result<f64> {
    let Some(expr) = args.exprs.get(1) else { return plan_err!("a percentile needs a share") };
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let value = match expr.evaluate(&nothing)? {
        ColumnarValue::Scalar(value) => value.cast_to(&DataType::Float64)?,
        ColumnarValue::Array(_) => return plan_err!("a percentile must be a constant"),
    };
    match value {
        ScalarValue::Float64(Some(share)) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => plan_err!("a percentile must be between 0 and 1"),
    }
}

fn is_descending(args: &AccumulatorArgs<'_>) -> bool {
    args.order_bys.first().is_some_and(|order| order.options.descending)
}

/// DataFusion's function with another end.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactPercentile {
    inner: Arc<AggregateUDF>,
}

/// Which percentile.
#[derive(Clone, Copy, Debug)]
struct Percentile {
    share: f64,
    descending: bool,
}

impl Percentile {
    fn of(args: &AccumulatorArgs<'_>) -> Result<Option<Percentile>> {
        if *args.return_field.data_type() != DataType::Float64 || args.is_distinct {
            return Ok(None);
        }
        Ok(Some(Percentile { share: share(args)?, descending: is_descending(args) }))
    }

    /// PostgreSQL's rule: the place in the order, linear between the two values beside it. Only these two are put in their places,
    /// which takes a time that grows with the values alone, where an order of all of them grows faster.
    fn value(self, values: &[f64]) -> Option<f64> {
        let last = values.len().checked_sub(1)?;
        let place = self.share * last as f64;
        let (before, is_between) = (place.floor() as usize, place.ceil() > place.floor());
        let mut values = values.to_vec();
        let (low, high) = if self.descending {
            let (smaller, low, _) = values.select_nth_unstable_by(last - before, f64::total_cmp);
            (*low, smaller.iter().copied().max_by(f64::total_cmp))
        } else {
            let (_, low, larger) = values.select_nth_unstable_by(before, f64::total_cmp);
            (*low, larger.iter().copied().min_by(f64::total_cmp))
        };
        let high = high.filter(|_| is_between).unwrap_or(low);
        Some(if low == high { low } else { low + (place - place.floor()) * (high - low) })
    }

    /// The values of one list of the inner function's state.
    fn of_list(self, list: &dyn Array) -> Result<Option<f64>> {
        match list.as_primitive_opt::<Float64Type>() {
            Some(values) => Ok(self.value(values.values())),
            None => internal_err!("a percentile of something else than doubles"),
        }
    }
}

impl AggregateUDFImpl for ExactPercentile {
    fn name(&self) -> &str {
        "percentile_cont"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let percentile = Percentile::of(&args)?;
        let inner = self.inner.accumulator(args)?;
        Ok(match percentile {
            Some(percentile) => Box::new(Exact { inner, percentile }),
            None => inner,
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let percentile = Percentile::of(&args)?;
        let inner = self.inner.create_groups_accumulator(args)?;
        Ok(match percentile {
            Some(percentile) => Box::new(ExactGroups { inner, percentile }),
            None => inner,
        })
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Exact {
    inner: Box<dyn Accumulator>,
    percentile: Percentile,
}

impl Accumulator for Exact {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.inner.state()?.into_iter().next() {
            Some(ScalarValue::List(lists)) => {
                Ok(ScalarValue::Float64(self.percentile.of_list(lists.value(0).as_ref())?))
            }
            _ => internal_err!("a percentile without its values"),
        }
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }
}

struct ExactGroups {
    inner: Box<dyn GroupsAccumulator>,
    percentile: Percentile,
}

impl GroupsAccumulator for ExactGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&datafusion::arrow::array::BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, group_indices, opt_filter, total_num_groups)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner.merge_batch(values, group_indices, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let states = self.inner.state(emit_to)?;
        let Some(lists) = states.first().and_then(|lists| lists.as_list_opt::<i32>()) else {
            return internal_err!("a percentile without its values");
        };
        let value = |group| {
            if lists.is_null(group) { Ok(None) } else { self.percentile.of_list(lists.value(group).as_ref()) }
        };
        Ok(Arc::new((0..lists.len()).map(value).collect::<Result<Float64Array>>()?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&datafusion::arrow::array::BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// Which of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    /// The first whose place is at least the share.
    Discrete,
    /// The most frequent; the first in the order of several.
    Mode,
}

/// An aggregate that gives one of its values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Chosen {
    rule: Rule,
    signature: Signature,
}

impl AggregateUDFImpl for Chosen {
    fn name(&self) -> &str {
        match self.rule {
            Rule::Discrete => "percentile_disc",
            Rule::Mode => "mode",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(data_type) => Ok(data_type.clone()),
            None => plan_err!("{} needs WITHIN GROUP (ORDER BY …)", self.name()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(args.return_field.data_type().clone(), true);
        let name = format_state_name(args.name, self.name());
        Ok(vec![Arc::new(Field::new(name, DataType::List(Arc::new(item)), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let share = match self.rule {
            Rule::Discrete => share(&args)?,
            Rule::Mode => 0.0,
        };
        let data_type = args.return_field.data_type().clone();
        let descending = is_descending(&args);
        Ok(Box::new(Values { rule: self.rule, share, descending, data_type, gathered: Vec::new() }))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

/// All values so far.
#[derive(Debug)]
struct Values {
    rule: Rule,
    share: f64,
    descending: bool,
    data_type: DataType,
    gathered: Vec<ArrayRef>,
}

/// Many small arrays weigh more than their values.
const ARRAYS_MAX: usize = 64;

impl Values {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let values = match values.null_count() {
            0 => Arc::clone(values),
            _ => datafusion::arrow::compute::filter(values, &is_not_null(values)?)?,
        };
        if !values.is_empty() {
            self.gathered.push(values);
        }
        if self.gathered.len() > ARRAYS_MAX {
            self.gathered = vec![self.all()?];
        }
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        if self.gathered.is_empty() {
            return Ok(new_empty_array(&self.data_type));
        }
        let arrays: Vec<&dyn Array> = self.gathered.iter().map(AsRef::as_ref).collect();
        Ok(concat(&arrays)?)
    }

    /// The place of the most frequent value among sorted ones.
    fn most_frequent(sorted: &dyn Array) -> Result<usize> {
        let runs = datafusion::arrow::compute::partition(&[sorted.slice(0, sorted.len())])?;
        let mut best = 0..0;
        for run in runs.ranges() {
            if run.len() > best.len() {
                best = run;
            }
        }
        Ok(best.start)
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values.first() {
            Some(values) => self.add(values),
            None => exec_err!("there are no values"),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first().and_then(|lists| lists.as_list_opt::<i32>()) else {
            return internal_err!("the values of an aggregate are not a list");
        };
        (0..lists.len()).filter(|row| lists.is_valid(*row)).try_for_each(|row| self.add(&lists.value(row)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let all = self.all()?;
        let item = Arc::new(Field::new_list_field(self.data_type.clone(), true));
        let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths([all.len()]);
        let list = datafusion::arrow::array::ListArray::try_new(item, offsets, all, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let all = self.all()?;
        if all.is_empty() {
            return ScalarValue::try_from(&self.data_type);
        }
        let options = SortOptions { descending: self.descending, nulls_first: false };
        let sorted = sort(&all, Some(options))?;
        let place = match self.rule {
            Rule::Discrete => ((self.share * sorted.len() as f64).ceil() as usize).max(1) - 1,
            Rule::Mode => Self::most_frequent(sorted.as_ref())?,
        };
        ScalarValue::try_from_array(&sorted, place)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.gathered.iter().map(|array| array.get_array_memory_size()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::Percentile;

    /// The rule as PostgreSQL's manual has it, over all values in their order.
    fn sorted(share: f64, descending: bool, values: &[f64]) -> Option<f64> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        if descending {
            values.reverse();
        }
        let place = share * values.len().checked_sub(1)? as f64;
        let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
        Some(if low == high { low } else { low + (place - place.floor()) * (high - low) })
    }

    #[test]
    fn two_places_of_many_values_are_found_without_an_order_of_all() {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let special = [f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0];
        for count in (0..40).chain([500, 3_000]) {
            let value =
                |n: u64| if n.is_multiple_of(50) { special[n as usize / 50 % 4] } else { n as f64 / 8.0 };
            // Few different values, so that many are equal.
            let values: Vec<f64> = (0..count).map(|_| value(next() % 400)).collect();
            for share in [0.0, 0.05, 1.0 / 3.0, 0.5, 0.95, 1.0] {
                for descending in [false, true] {
                    let found = Percentile { share, descending }.value(&values);
                    let expected = sorted(share, descending, &values);
                    assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "{share} of {values:?}");
                }
            }
        }
    }
}
