//! `to_timestamp(seconds)` over all times that PostgreSQL has. DataFusion counts nanoseconds, which end in the year 2262, and takes
//! what is no number for 1970.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, TimestampMicrosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, TimeUnit};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::functions::datetime::to_timestamp as datafusion_to_timestamp;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use super::refused;

/// 4714-11-24 BC, the first day that there is, and the first of January 294277, the first one that is none.
const SECONDS_MIN: f64 = -210_866_803_200.0;
const SECONDS_MAX: f64 = 9_224_318_016_000.0;
const MICROS: f64 = 1e6;

pub(super) fn to_timestamp() -> ScalarUDF {
    ScalarUDF::from(Moment { inner: datafusion_to_timestamp(&ConfigOptions::default()) })
}

/// DataFusion's function for everything but one number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moment {
    inner: Arc<ScalarUDF>,
}

fn is_number(arguments: &[DataType]) -> bool {
    matches!(arguments, [kind] if kind.is_numeric())
}

/// The microsecond that a number of seconds ends at, the nearest one.
fn micros(seconds: f64) -> Result<i64> {
    if seconds.is_nan() {
        return refused("A timestamp cannot be NaN.".to_owned());
    }
    if !(SECONDS_MIN..SECONDS_MAX).contains(&seconds) {
        return refused(format!("The timestamp is out of range: \"{seconds:e}\"."));
    }
    Ok((seconds * MICROS).round_ties_even() as i64)
}

impl ScalarUDFImpl for Moment {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if is_number(arguments) {
            return Ok(DataType::Timestamp(TimeUnit::Microsecond, None));
        }
        self.inner.return_type(arguments)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [seconds] = args.args.as_slice() else { return self.inner.invoke_with_args(args) };
        if !seconds.data_type().is_numeric() {
            return self.inner.invoke_with_args(args);
        }
        let seconds = cast(&seconds.to_array(args.number_rows)?, &DataType::Float64)?;
        let times =
            seconds.as_primitive::<Float64Type>().iter().map(|seconds| seconds.map(micros).transpose());
        Ok(ColumnarValue::Array(Arc::new(times.collect::<Result<TimestampMicrosecondArray>>()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_times_from_the_first_to_the_last() {
        assert_eq!(micros(1e10).expect("a time"), 10_000_000_000_000_000);
        assert_eq!(micros(0.123_456_5).expect("a time"), 123_456);
        assert_eq!(micros(SECONDS_MIN).expect("a time"), -210_866_803_200_000_000);
        for (seconds, part) in
            [(f64::NAN, "NaN"), (1e300, "1e300"), (f64::INFINITY, "range"), (SECONDS_MAX, "range")]
        {
            let error = micros(seconds).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
