//! `sum` and `avg` of spans of time: months, days and the clock each for itself, as PostgreSQL adds them.
//!
//! DataFusion adds the differences of two times up to one number, of which nobody knows any more how many days it had, and has no
//! average of spans. The gate puts these functions where those stand (`rules/intervals.rs`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, DurationMicrosecondType, Field, FieldRef, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, TimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility,
};

use super::spans::{MICROS_PER_DAY, NANOS_PER_MICRO, SPAN, divided};

/// The sum, or the average, of spans.
pub(crate) fn of_spans(is_average: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::from(OfSpans { is_average, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfSpans {
    is_average: bool,
    signature: Signature,
}

const STATE: [&str; 4] = ["months", "days", "micros", "count"];

impl AggregateUDFImpl for OfSpans {
    fn name(&self) -> &str {
        if self.is_average { "span_avg" } else { "span_sum" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(SPAN)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part| Arc::new(Field::new(format_state_name(args.name, part), DataType::Int64, true));
        Ok(STATE.map(field).into())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Total { is_average: self.is_average, parts: [0; 3], count: 0 }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// One total, which can also take spans back, for windows that slide.
#[derive(Debug)]
struct Total {
    is_average: bool,
    /// Months, days, microseconds.
    parts: [i64; 3],
    count: i64,
}

impl Total {
    fn add(&mut self, parts: [i64; 3], sign: i64) -> Result<()> {
        for (own, part) in self.parts.iter_mut().zip(parts) {
            *own = part.checked_mul(sign).and_then(|part| own.checked_add(part)).ok_or_else(overflow)?;
        }
        Ok(())
    }

    fn add_all(&mut self, values: &[ArrayRef], sign: i64) -> Result<()> {
        let Some(spans) = values.first() else { return internal_err!("a total of no spans") };
        if matches!(spans.data_type(), DataType::Duration(_)) {
            let micros = cast(spans, &DataType::Duration(TimeUnit::Microsecond))?;
            for micros in micros.as_primitive::<DurationMicrosecondType>().iter().flatten() {
                self.add([0, micros / MICROS_PER_DAY, micros % MICROS_PER_DAY], sign)?;
            }
        } else {
            let spans = cast(spans, &SPAN)?;
            for span in spans.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
                let parts = [span.months.into(), span.days.into(), span.nanoseconds / NANOS_PER_MICRO];
                self.add(parts, sign)?;
            }
        }
        self.count += sign * (spans.len() - spans.logical_null_count()) as i64;
        Ok(())
    }
}

fn overflow() -> ArrowError {
    ArrowError::ArithmeticOverflow("a span is out of range".to_owned())
}

/// A sum as a span. A clock of more than 292 years goes over into days, of which it is made up anyway.
fn span([months, mut days, mut micros]: [i64; 3]) -> Result<IntervalMonthDayNano> {
    if micros.checked_mul(NANOS_PER_MICRO).is_none() {
        days = days.checked_add(micros / MICROS_PER_DAY).ok_or_else(overflow)?;
        micros %= MICROS_PER_DAY;
    }
    let small = |part: i64| i32::try_from(part).map_err(|_| overflow());
    Ok(IntervalMonthDayNano::new(small(months)?, small(days)?, micros * NANOS_PER_MICRO))
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_all(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_all(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = match (self.count, self.is_average) {
            (0, _) => None,
            (count, true) => Some(divided(self.parts, count as f64)?),
            (_, false) => Some(span(self.parts)?),
        };
        Ok(ScalarValue::IntervalMonthDayNano(total))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let [months, days, micros] = self.parts;
        Ok([months, days, micros, self.count].map(|part| ScalarValue::Int64(Some(part))).into())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let parts: Vec<&Int64Array> =
            states.iter().filter_map(|state| state.as_primitive_opt::<Int64Type>()).collect();
        let [months, days, micros, counts] = parts.as_slice() else {
            return internal_err!("a total of spans got something else than its own parts");
        };
        for row in (0..counts.len()).filter(|row| counts.is_valid(*row)) {
            self.add([months.value(row), days.value(row), micros.value(row)], 1)?;
            self.count += counts.value(row);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::DurationMicrosecondArray;

    use super::*;

    #[test]
    fn days_and_the_clock_are_added_each_for_itself() {
        let day_less = -(MICROS_PER_DAY + 3_600_000_000);
        let spans: ArrayRef =
            Arc::new(DurationMicrosecondArray::from(vec![Some(day_less), None, Some(7_200_000_000)]));
        let total = |is_average| {
            let mut total = Total { is_average, parts: [0; 3], count: 0 };
            total.update_batch(std::slice::from_ref(&spans)).expect("taken");
            let states: Vec<ArrayRef> = total
                .state()
                .expect("a state")
                .iter()
                .map(|part| part.to_array().expect("an array"))
                .collect();
            let mut merged = Total { is_average, parts: [0; 3], count: 0 };
            merged.merge_batch(&states).expect("merged");
            let first = merged.evaluate().expect("a total");
            merged.retract_batch(std::slice::from_ref(&spans)).expect("taken back");
            assert_eq!(merged.evaluate().expect("none"), ScalarValue::IntervalMonthDayNano(None));
            first
        };
        let of = |days, minutes: i64| {
            let nanos = minutes * 60_000_000_000;
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, days, nanos)))
        };
        assert_eq!(total(false), of(-1, 60));
        assert_eq!(total(true), of(0, 30 - 12 * 60));
    }
}
