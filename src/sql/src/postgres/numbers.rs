//! Numbers: exact division, rounding to whole ones, buckets.
//!
//! - A quotient of `numeric` has [`QUOTIENT_DIGITS`] digits behind the point, rounded half away from zero. DataFusion
//!   gives `1 / 3.0` as 0.3333.
//! - A `double precision` is rounded half to even, a `numeric` half away from zero; also by a cast to a whole number,
//!   where DataFusion cuts the fraction off.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type, TimeUnit, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, exec_err, internal_err, plan_err};
use datafusion::functions::math::round as datafusion_round;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, binary_expr,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Digits of a double, and of a narrow one, that are sure.
const DOUBLE_DIGITS: usize = 15;
const NARROW_DIGITS: usize = 6;
/// Smaller ones have no digit that a decimal could hold.
const EXACT_MIN: f64 = 1e-39;
/// Digits of a quotient behind the point.
const QUOTIENT_DIGITS: i8 = 16;
/// Digits of a 128-bit decimal.
const DIGITS_MAX: u8 = 38;
/// Digits behind the point of what an average is made of; the average itself has four more.
const AVERAGED_DIGITS: i8 = 12;

pub(super) fn udf(work: Work) -> ScalarUDF {
    let arguments = match work {
        Work::Divide => 2,
        Work::Within => 3,
        Work::Bucket => 4,
        _ => 1,
    };
    ScalarUDF::from(Numeric { work, signature: Signature::any(arguments, Volatility::Immutable) })
}

/// DataFusion's function with PostgreSQL's results.
pub(super) fn adapted(inner: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::from(Adapted { inner })
}

/// `round` with digits that are written out, or with others.
pub(super) fn round(is_written: bool) -> ScalarUDF {
    ScalarUDF::from(Round::new(is_written))
}

/// What comes of computing with doubles, by way of [`Work::Plain`]; once for a chain, for of what is computed with a zero its sign
/// shows by nothing but a division.
pub(super) fn plain_of(expr: RawBinaryExpr) -> Expr {
    let left = unplain(expr.left);
    let right = if expr.op == BinaryOperator::Divide { expr.right } else { unplain(expr.right) };
    let op = match expr.op {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        _ => Operator::Divide,
    };
    plain(binary_expr(left, op, right))
}

/// What is inside of [`plain`].
fn unplain(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(mut call) if call.name() == "to_plain" && call.args.len() == 1 => {
            call.args.pop().unwrap_or_default()
        }
        expr => expr,
    }
}

/// A number with its exponent written out, `1.5e3` as `1500.`; none of one that has none.
pub(crate) fn without_exponent(digits: &str) -> Option<String> {
    let (mantissa, exponent) = digits.split_once(['e', 'E'])?;
    let exponent: i64 = exponent.parse().ok()?;
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let zeros = |count: i64| Some("0".repeat(usize::try_from(count).ok()?));
    let length = i64::try_from(all.len()).ok()?;
    Some(match point {
        ..=0 => format!("{sign}0.{}{all}", zeros(-point)?),
        point if point >= length => format!("{sign}{all}{}.", zeros(point - length)?),
        point => {
            let (whole, fraction) = all.split_at(usize::try_from(point).ok()?);
            format!("{sign}{whole}.{fraction}")
        }
    })
}

/// The digits of a double that PostgreSQL makes a `numeric` of it by: as many as all doubles have.
fn exact_digits(value: f64, digits: usize) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    if value.abs() < EXACT_MIN {
        return Some("0".to_owned());
    }
    let places = digits - 1;
    without_exponent(&format!("{value:.places$e}"))
}

/// A double without a sign where it means nothing.
pub(crate) fn plain(double: Expr) -> Expr {
    udf(Work::Plain).call(vec![double])
}

/// DataFusion's function with other results: doubles as [`Work::Plain`] has them, counts with a sign.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Adapted {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Adapted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments).map(signed)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.inner.inner().return_field_from_args(args)?;
        let kind = signed(field.data_type().clone());
        Ok(Arc::new(Field::new(field.name(), kind, field.is_nullable())))
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arguments)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, kind) = (args.number_rows, args.return_field.data_type().clone());
        let result = self.inner.inner().invoke_with_args(args)?;
        let found = result.data_type();
        if found.is_floating() {
            return Ok(ColumnarValue::Array(plain_values(&result.to_array(rows)?)?));
        }
        if found == kind { Ok(result) } else { result.cast_to(&kind, None) }
    }
}

/// What counts has no sign in DataFusion, whose opposite then is none, and which beside another number is a decimal. In
/// PostgreSQL these are of type integer, so that their sum is a bigint.
fn signed(kind: DataType) -> DataType {
    if kind.is_unsigned_integer() { DataType::Int32 } else { kind }
}

/// `round` with digits that are written out, and `round_by` with others.
///
/// DataFusion's has a type of its own where it sees that the digits are constant, which it may see only after the result was
/// compared with another: then the types are not alike. So here it is told which of the two it is. A double alone is rounded
/// half to even.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    inner: Arc<ScalarUDF>,
    is_written: bool,
    signature: Signature,
}

impl Round {
    fn new(is_written: bool) -> Self {
        Self {
            inner: datafusion_round(),
            is_written,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Round {
    fn name(&self) -> &str {
        if self.is_written { "round" } else { "round_by" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of a rounded number depends on its digits")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let unknown = vec![None; args.scalar_arguments.len()];
        let scalar_arguments = if self.is_written { args.scalar_arguments } else { &unknown };
        self.inner.inner().return_field_from_args(ReturnFieldArgs { scalar_arguments, ..args })
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let number = match arguments {
            [number] | [number, DataType::Null] => number,
            [number, digits] if digits.is_integer() => number,
            _ => return plan_err!("the function round takes a number and a number of digits"),
        };
        let number = match number {
            DataType::Null => DataType::Float64,
            // With digits there is none but that of exact numbers.
            whole if whole.is_integer() && arguments.len() == 2 => DataType::Decimal128(DIGITS_MAX, 0),
            number if number.is_numeric() => number.clone(),
            _ => return plan_err!("the function round takes a number and a number of digits"),
        };
        // As the planner reads a written number, which is no such number any more once it is cast.
        Ok([number, DataType::Int64].into_iter().take(arguments.len()).collect())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        if let Some(digits) = args.args.get_mut(1) {
            *digits = digits.cast_to(&DataType::Int32, None)?;
        } else if args.args[0].data_type() == DataType::Float64 {
            let values = args.args[0].to_array(rows)?;
            let rounded = |value: f64| plain_value(value.round_ties_even());
            let rounded: Float64Array = values.as_primitive::<Float64Type>().unary(rounded);
            return Ok(ColumnarValue::Array(Arc::new(rounded)));
        }
        let kind = args.return_field.data_type().clone();
        let result = self.inner.inner().invoke_with_args(args)?;
        if kind.is_floating() {
            return Ok(ColumnarValue::Array(plain_values(&result.to_array(rows)?)?));
        }
        if result.data_type() == kind { Ok(result) } else { result.cast_to(&kind, None) }
    }
}

/// Doubles of one kind of zero and one NaN; see [`Work::Plain`].
fn plain_values(values: &ArrayRef) -> Result<ArrayRef> {
    let doubles = cast(values, &DataType::Float64)?;
    let doubles: Float64Array = doubles.as_primitive::<Float64Type>().unary(plain_value);
    Ok(cast(&doubles, values.data_type())?)
}

/// The values, of which none is beyond the bounds.
fn within(values: &ArrayRef, bounds: [&ArrayRef; 2]) -> Result<ArrayRef> {
    let doubles = cast(values, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    let bounds = bounds.map(|bound| cast(bound, &DataType::Float64));
    let [least, most] = bounds;
    let (least, most) = (least?, most?);
    let (least, most) = (least.as_primitive::<Float64Type>(), most.as_primitive::<Float64Type>());
    for row in (0..doubles.len()).filter(|row| doubles.is_valid(*row)) {
        let value = doubles.value(row);
        if !(least.value(row)..=most.value(row)).contains(&value) {
            return exec_err!("overflow: {value} is out of range");
        }
    }
    Ok(Arc::clone(values))
}

fn exact_texts(values: &ArrayRef) -> Result<ArrayRef> {
    let digits = if *values.data_type() == DataType::Float64 { DOUBLE_DIGITS } else { NARROW_DIGITS };
    let doubles = cast(values, &DataType::Float64)?;
    let texts = doubles.as_primitive::<Float64Type>().iter().map(|value| match value {
        None => Ok(None),
        Some(value) => match exact_digits(value, digits) {
            Some(text) => Ok(Some(text)),
            None => exec_err!("overflow: {value} is no exact number"),
        },
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

fn plain_value(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Divide,
    /// A number without its fraction, as a cast to a whole number needs it; anything else as it is.
    Whole,
    /// A decimal with more digits behind the point, as an average needs it; anything else as it is.
    Averaged,
    Bucket,
    /// The next whole number above, or below. DataFusion's has as many digits as the number itself: too few for 0.3 or 9.5.
    Up,
    Down,
    /// A count as a number with a sign; anything else as it is.
    Signed,
    /// A double as the text of its digits, by which it is made exact; anything else as it is. Arrow multiplies the double itself:
    /// 1.005 to two digits is 1.00 then.
    Exact,
    /// A number of letters, of which there are no less than none.
    Length,
    /// A number that is not below the second nor above the third.
    Within,
    /// A double that was computed. The processor gives infinity less infinity, and the opposite of a NaN, a sign, by which it
    /// would come before all numbers; and zero has one, by which it would be two.
    Plain,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Numeric {
    work: Work,
    signature: Signature,
}

impl ScalarUDFImpl for Numeric {
    fn name(&self) -> &str {
        match self.work {
            Work::Divide => "/",
            Work::Whole => "to_whole",
            Work::Averaged => "to_averaged",
            Work::Bucket => "width_bucket",
            Work::Up => "ceil",
            Work::Down => "floor",
            Work::Plain => "to_plain",
            Work::Signed => "to_signed",
            Work::Exact => "to_exact",
            Work::Length => "to_length",
            Work::Within => "to_within",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match (self.work, arguments.first()) {
            (Work::Divide, _) => DataType::Decimal128(DIGITS_MAX, QUOTIENT_DIGITS),
            (Work::Bucket, _) => DataType::Int64,
            (Work::Whole | Work::Up | Work::Down, Some(DataType::Decimal128(..))) => {
                DataType::Decimal128(DIGITS_MAX, 0)
            }
            (Work::Up | Work::Down, Some(DataType::Float32)) => DataType::Float32,
            (Work::Up | Work::Down, _) => DataType::Float64,
            (Work::Averaged, Some(DataType::Decimal128(_, digits))) => {
                DataType::Decimal128(DIGITS_MAX, (*digits).max(AVERAGED_DIGITS))
            }
            // `avg` takes it, and gives way to one of our own (`rules/intervals.rs`).
            (Work::Averaged, Some(DataType::Interval(_))) => DataType::Duration(TimeUnit::Microsecond),
            (Work::Signed, Some(kind)) => signed(kind.clone()),
            (Work::Exact, Some(kind)) if kind.is_floating() => DataType::Utf8,
            (_, Some(same)) => same.clone(),
            (_, None) => return internal_err!("a number is needed"),
        })
    }

    /// What is averaged is taken as it is unless it is exact: then the plan need not know of this function, and an average
    /// over a join can be begun below it. What is no double is plain, and so is one that was a whole or an exact number.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let same = match (self.work, args.as_slice()) {
            (Work::Averaged, [arg]) => {
                !matches!(info.get_data_type(arg)?, DataType::Decimal128(..) | DataType::Interval(_))
            }
            (Work::Plain, [Expr::Cast(cast)]) => {
                let kind = info.get_data_type(&cast.expr)?;
                kind.is_numeric() && !kind.is_floating()
            }
            (Work::Plain | Work::Exact, [arg]) => !info.get_data_type(arg)?.is_floating(),
            _ => false,
        };
        match <[Expr; 1]>::try_from(args) {
            Ok([arg]) if same => Ok(ExprSimplifyResult::Simplified(arg)),
            Ok(args) => Ok(ExprSimplifyResult::Original(args.into())),
            Err(args) => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = match (self.work, arrays.as_slice()) {
            (Work::Divide, [left, right]) => divide(left, right)?,
            (Work::Bucket, [value, low, high, count]) => buckets([value, low, high], count)?,
            (Work::Whole, [values]) if values.data_type().is_floating() => {
                let doubles = cast(values, &DataType::Float64)?;
                let whole: Float64Array = doubles.as_primitive::<Float64Type>().unary(f64::round_ties_even);
                cast(&whole, values.data_type())?
            }
            (Work::Plain, [values]) if values.data_type().is_floating() => plain_values(values)?,
            (Work::Exact, [values]) if values.data_type().is_floating() => exact_texts(values)?,
            (Work::Length, [values]) if values.data_type().is_integer() => {
                let lengths = cast(values, &DataType::Int64)?;
                let lengths: Int64Array = lengths.as_primitive::<Int64Type>().unary(|length| length.max(0));
                cast(&lengths, values.data_type())?
            }
            (Work::Within, [values, least, most]) => within(values, [least, most])?,
            (Work::Up | Work::Down, [values]) => self.next_whole(values, args.return_field.data_type())?,
            (_, [values]) => cast(values, args.return_field.data_type())?,
            _ => return internal_err!("{} got another number of arguments", self.name()),
        };
        Ok(ColumnarValue::Array(result))
    }
}

impl Numeric {
    fn next_whole(&self, values: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
        let DataType::Decimal128(_, scale) = values.data_type() else {
            let doubles = cast(values, &DataType::Float64)?;
            let next = if self.work == Work::Up { f64::ceil } else { f64::floor };
            let whole: Float64Array =
                doubles.as_primitive::<Float64Type>().unary(|value| plain_value(next(value)));
            return Ok(cast(&whole, kind)?);
        };
        let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
        let up = self.work == Work::Up;
        let whole: Decimal128Array = values.as_primitive::<Decimal128Type>().unary(|value| match *scale {
            ..=0 => value.saturating_mul(unit),
            _ if up => value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0),
            _ => value.div_euclid(unit),
        });
        Ok(Arc::new(whole.with_precision_and_scale(DIGITS_MAX, 0)?))
    }
}

/// The digits of a number's type behind the point.
fn digits(kind: &DataType) -> i8 {
    match kind {
        DataType::Decimal128(_, digits) => *digits,
        _ => 0,
    }
}

/// A whole or decimal number as the digits of a decimal.
fn decimal(values: &ArrayRef) -> Result<ArrayRef> {
    let digits = digits(values.data_type());
    Ok(cast(values, &DataType::Decimal128(DIGITS_MAX, digits))?)
}

fn divide(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let shift = i32::from(QUOTIENT_DIGITS) - i32::from(digits(left.data_type()));
    let shift = shift + i32::from(digits(right.data_type()));
    let (left, right) = (decimal(left)?, decimal(right)?);
    let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
    let pairs = left.iter().zip(right.iter());
    let quotients = pairs.map(|(left, right)| match (left, right) {
        (Some(left), Some(right)) => quotient(left, right, shift).map(Some),
        _ => Ok(None),
    });
    let quotients = quotients.collect::<Result<Decimal128Array, ArrowError>>()?;
    Ok(Arc::new(quotients.with_precision_and_scale(DIGITS_MAX, QUOTIENT_DIGITS)?))
}

/// `left · 10^shift / right`, rounded half away from zero.
fn quotient(left: i128, right: i128, shift: i32) -> Result<i128, ArrowError> {
    if right == 0 {
        return Err(ArrowError::DivideByZero);
    }
    let overflow = || ArrowError::ArithmeticOverflow("a quotient has too many digits".to_owned());
    let ten = i256::from_i128(10);
    let power = |exponent: i32| (0..exponent).try_fold(i256::ONE, |power, _| power.checked_mul(ten));
    let above = power(shift.max(0)).and_then(|power| i256::from_i128(left).checked_mul(power));
    let below = power((-shift).max(0)).and_then(|power| i256::from_i128(right).checked_mul(power));
    let (above, below) = above.zip(below).ok_or_else(overflow)?;
    let (whole, rest) =
        above.checked_div(below).zip(above.checked_rem(below)).ok_or(ArrowError::DivideByZero)?;
    let (rest, half) = (rest.wrapping_abs(), below.wrapping_abs());
    let away = if (left < 0) == (right < 0) { i256::ONE } else { i256::MINUS_ONE };
    let rounded = if rest.wrapping_add(rest) >= half { whole.wrapping_add(away) } else { whole };
    let most = 10_i128.pow(u32::from(DIGITS_MAX));
    rounded.to_i128().filter(|value| value.abs() < most).ok_or_else(overflow)
}

/// In which of `count` parts of low to high each value is: 0 below, one more than there are above.
fn buckets(bounds: [&ArrayRef; 3], count: &ArrayRef) -> Result<ArrayRef> {
    let is_exact = |values: &&ArrayRef| {
        values.data_type().is_integer() || matches!(values.data_type(), DataType::Decimal128(..))
    };
    if bounds.iter().all(is_exact) {
        return exact_buckets(bounds, count);
    }
    let double = |values: &ArrayRef| cast(values, &DataType::Float64);
    let [value, low, high] = bounds.map(double);
    let (value, low, high, count) = (value?, low?, high?, cast(count, &DataType::Int64)?);
    let [value, low, high] = [&value, &low, &high].map(|array| array.as_primitive::<Float64Type>());
    let count = count.as_primitive::<Int64Type>();
    let mut places = Vec::with_capacity(value.len());
    for row in 0..value.len() {
        if value.is_null(row) || low.is_null(row) || high.is_null(row) || count.is_null(row) {
            places.push(None);
            continue;
        }
        let (value, low, high, count) = (value.value(row), low.value(row), high.value(row), count.value(row));
        if count < 1 || low == high || value.is_nan() || !low.is_finite() || !high.is_finite() {
            return exec_err!("width_bucket needs at least one part between two different bounds");
        }
        let (from, whole) = if low < high { (value - low, high - low) } else { (low - value, low - high) };
        places.push(Some(match from {
            from if from < 0.0 => 0,
            from if from >= whole => count.saturating_add(1),
            // Multiplied first, as PostgreSQL does.
            from => (count as f64 * from / whole).floor() as i64 + 1,
        }));
    }
    Ok(Arc::new(Int64Array::from(places)))
}

/// The same of exact numbers.
fn exact_buckets(bounds: [&ArrayRef; 3], count: &ArrayRef) -> Result<ArrayRef> {
    let scale = bounds.iter().map(|values| digits(values.data_type())).max().unwrap_or(0);
    let alike = |values: &ArrayRef| cast(values, &DataType::Decimal128(DIGITS_MAX, scale));
    let [value, low, high] = bounds.map(alike);
    let (value, low, high, count) = (value?, low?, high?, cast(count, &DataType::Int64)?);
    let [value, low, high] = [&value, &low, &high].map(|array| array.as_primitive::<Decimal128Type>());
    let count = count.as_primitive::<Int64Type>();
    let places = (0..value.len()).map(|row| {
        if value.is_null(row) || low.is_null(row) || high.is_null(row) || count.is_null(row) {
            return Ok(None);
        }
        let (value, low, high, count) = (value.value(row), low.value(row), high.value(row), count.value(row));
        if count < 1 || low == high {
            return exec_err!("width_bucket needs at least one part between two different bounds");
        }
        let wide = i256::from_i128;
        let (from, whole) = match low < high {
            true => (wide(value).wrapping_sub(wide(low)), wide(high).wrapping_sub(wide(low))),
            false => (wide(low).wrapping_sub(wide(value)), wide(low).wrapping_sub(wide(high))),
        };
        Ok(Some(match from {
            from if from < i256::ZERO => 0,
            from if from >= whole => count.saturating_add(1),
            from => {
                let place = from.wrapping_mul(wide(i128::from(count))).wrapping_div(whole);
                place.to_i128().and_then(|place| i64::try_from(place).ok()).unwrap_or(count - 1) + 1
            }
        }))
    });
    Ok(Arc::new(places.collect::<Result<Int64Array>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_written_out() {
        for (digits, expected) in [
            ("1e3", Some("1000.")),
            ("1.5E+3", Some("1500.")),
            ("1.2345e2", Some("123.45")),
            ("25e-3", Some("0.025")),
            ("-1e0", Some("-1.")),
            (".5e1", Some("5.")),
            ("0e5", Some("000000.")),
            ("12.5", None),
        ] {
            assert_eq!(without_exponent(digits).as_deref(), expected, "{digits}");
        }
        for (value, expected) in [
            (0.285, Some("0.285000000000000")),
            (0.1 + 0.2, Some("0.300000000000000")),
            (-1e20, Some("-100000000000000000000.")),
            (1e-300, Some("0")),
            (f64::NAN, None),
        ] {
            assert_eq!(exact_digits(value, DOUBLE_DIGITS).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn quotients_are_rounded_half_away_from_zero() {
        // 1 / 3, 2 / 3, -2 / 3 and 1 / 2 to one digit.
        for (left, right, shift, expected) in [
            (1, 3, 1, 3),
            (2, 3, 1, 7),
            (-2, 3, 1, -7),
            (2, -3, 1, -7),
            (-2, -3, 1, 7),
            (1, 2, 0, 1),
            (15, 1, -1, 2),
        ] {
            assert_eq!(quotient(left, right, shift).expect("a quotient"), expected, "{left} / {right}");
        }
        assert!(matches!(quotient(1, 0, 0), Err(ArrowError::DivideByZero)));
        assert!(quotient(i128::MAX, 1, 20).is_err());
        assert!(quotient(10_i128.pow(37), 1, 1).is_err());
    }
}
