//! `x op ANY (list)` and `x op ALL (list)`, with NULL where a NULL among the items leaves it open, and lists as text.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, ListArray, StringBuilder, UInt32Array,
};
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::spans;

/// `x op ANY (list)`, or ALL.
pub(super) fn udf(name: &'static str, comparison: Comparison, is_all: bool) -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::from(Quantified { name, comparison, is_all, signature })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quantified {
    name: &'static str,
    comparison: Comparison,
    is_all: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Quantified {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [value, list] = arguments else { return plan_err!("ANY and ALL compare a value with a list") };
        let item = match list {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                item.data_type().clone()
            }
            DataType::Null => value.clone(),
            _ => return plan_err!("a function or operator ANY or ALL takes a list or a subquery"),
        };
        let kind = if *value == item { Some(item) } else { comparison_coercion(value, &item) };
        match kind {
            Some(kind) => Ok(vec![kind.clone(), DataType::new_list(kind, true)]),
            None => plan_err!("the two sides of ANY or ALL cannot be compared"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let [values, lists] = arrays.as_slice() else { return internal_err!("a comparison of how many?") };
        let lists = lists.as_list::<i32>();
        let items = items_of(lists);
        // Each value as often as its list has items.
        let mut places = Vec::with_capacity(items.len());
        for row in 0..lists.len() {
            places.extend(std::iter::repeat_n(row as u32, length(lists, row)));
        }
        let values = take(values, &UInt32Array::from(places), None)?;
        let is_span = matches!(items.data_type(), DataType::Interval(_));
        let (values, items) =
            if is_span { (spans::lengths(&values)?, spans::lengths(&items)?) } else { (values, items) };
        let compared = match self.comparison {
            Comparison::Eq => cmp::eq(&values, &items),
            Comparison::Ne => cmp::neq(&values, &items),
            Comparison::Lt => cmp::lt(&values, &items),
            Comparison::Le => cmp::lt_eq(&values, &items),
            Comparison::Gt => cmp::gt(&values, &items),
            Comparison::Ge => cmp::gt_eq(&values, &items),
        }?;
        Ok(ColumnarValue::Array(Arc::new(self.decided(lists, &compared))))
    }
}

impl Quantified {
    /// One item that decides does; else a NULL leaves it open.
    fn decided(&self, lists: &ListArray, compared: &BooleanArray) -> BooleanArray {
        let mut answers = BooleanBuilder::with_capacity(lists.len());
        let mut at = 0;
        for row in 0..lists.len() {
            let items = at..at + length(lists, row);
            at = items.end;
            let decides = |item: usize| compared.is_valid(item) && compared.value(item) != self.is_all;
            answers.append_option(if lists.is_null(row) {
                None
            } else if items.clone().any(decides) {
                Some(!self.is_all)
            } else if items.clone().any(|item| compared.is_null(item)) {
                None
            } else {
                Some(self.is_all)
            });
        }
        answers.finish()
    }
}

fn length(lists: &ListArray, row: usize) -> usize {
    // What stands under a NULL is none of its items.
    if lists.is_null(row) { 0 } else { lists.value_length(row).unsigned_abs() as usize }
}

/// The items of all lists, one after the other.
fn items_of(lists: &ListArray) -> ArrayRef {
    let mut places = Vec::new();
    for row in 0..lists.len() {
        let from = lists.value_offsets()[row].unsigned_abs();
        places.extend((0..length(lists, row) as u32).map(|item| from + item));
    }
    // The places are those of the array itself.
    take(lists.values(), &UInt32Array::from(places), None).unwrap_or_else(|_| Arc::clone(lists.values()))
}

/// Lists as PostgreSQL writes them: `{1,2}`, `{"a b",NULL}`; `write` writes items that are none themselves.
pub(super) fn texts(lists: &ArrayRef, write: &impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
    let item = match lists.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type()
        }
        _ => return write(lists),
    };
    let kind = DataType::List(Arc::new(Field::new_list_field(item.clone(), true)));
    let lists = cast(lists, &kind)?;
    let lists = lists.as_list::<i32>();
    let is_nested = item.is_nested();
    let items = texts(&items_of(lists), write)?;
    let items = items.as_string::<i32>();
    let mut own = StringBuilder::new();
    let mut at = 0;
    for row in 0..lists.len() {
        let count = length(lists, row);
        if lists.is_null(row) {
            own.append_null();
            continue;
        }
        let shown = (at..at + count).map(|item| match items.is_valid(item) {
            true if is_nested => items.value(item).to_owned(),
            true => quoted(items.value(item)),
            false => "NULL".to_owned(),
        });
        own.append_value(format!("{{{}}}", shown.collect::<Vec<_>>().join(",")));
        at += count;
    }
    Ok(Arc::new(own.finish()))
}

/// An item in quotes where it could be taken for something else.
fn quoted(item: &str) -> String {
    let special = |char: char| matches!(char, '{' | '}' | '"' | '\\' | ',') || char.is_ascii_whitespace();
    if !item.is_empty() && !item.eq_ignore_ascii_case("null") && !item.contains(special) {
        return item.to_owned();
    }
    format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\""))
}
