//! `min` and `max` over doubles by groups, with a NaN that is greater than every number.
//!
//! DataFusion's accumulator of groups takes whatever comes behind a NaN, and begins with the least finite number: the greatest of
//! nothing but -Infinity is -1.8e308 there. Other types, and one value of all rows, go to DataFusion's own functions.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, StatisticsArgs,
};

/// `min`.
pub(super) fn least() -> AggregateUDF {
    AggregateUDF::from(Extreme { greatest: false, inner: min_udaf() })
}

/// `max`.
pub(super) fn greatest() -> AggregateUDF {
    AggregateUDF::from(Extreme { greatest: true, inner: max_udaf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Float64 => Ok(Box::new(Extremes::<Float64Type>::new(self.greatest))),
            DataType::Float32 => Ok(Box::new(Extremes::<Float32Type>::new(self.greatest))),
            _ => self.inner.create_groups_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        Some(self.greatest)
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    /// Of an expanding frame DataFusion would take the values for ordered, with NULL at the end: before the first value there are
    /// NULLs in front.
    fn set_monotonicity(&self, _: &DataType) -> SetMonotonicity {
        SetMonotonicity::NotMonotonic
    }
}

/// The least or the greatest value of each group; `None` before its first.
#[derive(Debug)]
struct Extremes<T: ArrowPrimitiveType> {
    greatest: bool,
    found: Vec<Option<T::Native>>,
}

/// Whether one comes behind the other, a NaN behind all numbers.
fn is_behind<N: PartialOrd>(one: N, other: N) -> bool {
    let is_nan = |value: &N| value.partial_cmp(value).is_none();
    one > other || is_nan(&one) && !is_nan(&other)
}

impl<T: ArrowPrimitiveType> Extremes<T> {
    fn new(greatest: bool) -> Self {
        Self { greatest, found: Vec::new() }
    }
}

/// The values, or the partial results, of the one argument.
fn argument<T: ArrowPrimitiveType>(values: &[ArrayRef]) -> Result<&PrimitiveArray<T>> {
    match values.first().and_then(|values| values.as_primitive_opt::<T>()) {
        Some(values) => Ok(values),
        None => internal_err!("min or max got values of another type"),
    }
}

/// Whether a row passes the FILTER of an aggregate.
pub(super) fn is_wanted(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl<T: ArrowPrimitiveType> GroupsAccumulator for Extremes<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.found.resize(total_num_groups, None);
        for (row, (value, group)) in argument::<T>(values)?.iter().zip(group_indices).enumerate() {
            let Some(value) = value.filter(|_| is_wanted(opt_filter, row)) else { continue };
            let found = &mut self.found[*group];
            let replaces = found.is_none_or(|found| match self.greatest {
                true => is_behind(value, found),
                false => is_behind(found, value),
            });
            if replaces {
                *found = Some(value);
            }
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.update_batch(values, group_indices, None, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let found = emit_to.take_needed(&mut self.found).into_iter();
        Ok(Arc::new(found.collect::<PrimitiveArray<T>>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = argument::<T>(values)?.iter().enumerate();
        let states = values.map(|(row, value)| value.filter(|_| is_wanted(opt_filter, row)));
        Ok(vec![Arc::new(states.collect::<PrimitiveArray<T>>())])
    }

    fn size(&self) -> usize {
        self.found.capacity() * size_of::<Option<T::Native>>()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Float64Array;

    use super::*;

    /// The least and the greatest of two groups, by way of partial results where `by_parts`.
    fn of_groups(values: &[Option<f64>], groups: &[usize], by_parts: bool) -> [Vec<Option<f64>>; 2] {
        [false, true].map(|greatest| {
            let mut all = Extremes::<Float64Type>::new(greatest);
            let array: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
            if by_parts {
                let states = all.convert_to_state(&[array], None).expect("states");
                all.merge_batch(&states, groups, 2).expect("merged");
            } else {
                all.update_batch(&[array], groups, None, 2).expect("taken");
            }
            let found = all.evaluate(EmitTo::All).expect("values");
            found.as_primitive::<Float64Type>().iter().collect()
        })
    }

    #[test]
    fn nan_is_greater_than_every_number_wherever_it_stands() {
        let (nan, far) = (Some(f64::NAN), Some(f64::INFINITY));
        for by_parts in [false, true] {
            for values in
                [[nan, Some(5.0), far, None], [Some(5.0), nan, far, None], [far, None, Some(5.0), nan]]
            {
                let [least, greatest] = of_groups(&values, &[0; 4], by_parts);
                assert_eq!(least, [Some(5.0), None], "{values:?}");
                assert!(greatest[0].is_some_and(f64::is_nan) && greatest[1].is_none(), "{values:?}");
            }
            let only = [nan, Some(f64::NEG_INFINITY), nan, Some(f64::NEG_INFINITY)];
            let [least, greatest] = of_groups(&only, &[0, 1, 0, 1], by_parts);
            assert!(least[0].is_some_and(f64::is_nan) && greatest[0].is_some_and(f64::is_nan));
            assert_eq!((least[1], greatest[1]), (Some(f64::NEG_INFINITY), Some(f64::NEG_INFINITY)));
        }
    }
}
