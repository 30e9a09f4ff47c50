//! `AT TIME ZONE`: a time without a zone is the time of a clock there, which makes it a point in time; a point in time
//! becomes what the clock there shows. DataFusion only ever does the first.

use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::functions::datetime::to_local_time;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(TimeZone { signature: Signature::any(2, Volatility::Immutable) })
}

/// `timezone(zone, time)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeZone {
    signature: Signature,
}

impl ScalarUDFImpl for TimeZone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of a time in a zone depends on the zone")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [Some(zone), _] = args.scalar_arguments else {
            return plan_err!("the function timezone needs a zone that is written in the statement");
        };
        let kind = match args.arg_fields[1].data_type() {
            DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
            DataType::Timestamp(unit, None) => DataType::Timestamp(*unit, Some(name(zone)?)),
            _ => return plan_err!("the function timezone needs a timestamp"),
        };
        Ok(Arc::new(Field::new(self.name(), kind, true)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(zone), time] = args.args.as_slice() else {
            return internal_err!("the zone is no constant");
        };
        let times = time.to_array(args.number_rows)?;
        let DataType::Timestamp(unit, given) = times.data_type() else {
            return internal_err!("a time in a zone is no timestamp");
        };
        let there = cast(&times, &DataType::Timestamp(*unit, Some(name(zone)?)))?;
        if given.is_none() {
            return Ok(ColumnarValue::Array(there));
        }
        args.arg_fields = vec![Arc::new(Field::new("time", there.data_type().clone(), true))];
        args.args = vec![ColumnarValue::Array(there)];
        to_local_time().inner().invoke_with_args(args)
    }
}

fn name(zone: &ScalarValue) -> Result<Arc<str>> {
    let text = match zone {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => text,
        _ => return plan_err!("the function timezone needs the name of a zone"),
    };
    // Only a name that Arrow knows may become a part of a type.
    match text.parse::<datafusion::arrow::array::timezone::Tz>() {
        Ok(_) => Ok(Arc::from(text.as_str())),
        Err(_) => plan_err!("the function timezone does not know the zone"),
    }
}
