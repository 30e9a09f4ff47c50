//! The functions that every session has, as the table says; made once, for there are hundreds.

use std::sync::{Arc, LazyLock};

use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

use super::{Answer, Kind, Row, all, of};
use crate::postgres::numbers;

#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) scalars: Vec<Arc<ScalarUDF>>,
    pub(crate) aggregates: Vec<Arc<AggregateUDF>>,
    pub(crate) windows: Vec<Arc<WindowUDF>>,
}

pub(crate) fn registered() -> &'static Registered {
    static REGISTERED: LazyLock<Registered> = LazyLock::new(made);
    &REGISTERED
}

fn made() -> Registered {
    // A function of DataFusion's by its first name: other names come with it.
    let named = |name: &str| of(name).filter(|row| row.name == name);
    let is_aggregate = |row: &Row| row.kind == Kind::Aggregate;
    let scalars = SessionStateDefaults::default_scalar_functions().into_iter();
    let scalars = scalars.filter_map(|function| {
        let row = named(function.name()).filter(|row| !is_aggregate(row) && row.kind != Kind::Window)?;
        match row.answer {
            Answer::Engine => Some(function),
            Answer::Adapted => Some(Arc::new(numbers::adapted(function))),
            _ => None,
        }
    });
    let own = all().filter_map(|row| match row.answer {
        Answer::Own(make) => Some(Arc::new(make())),
        _ => None,
    });
    let aggregates = SessionStateDefaults::default_aggregate_functions().into_iter();
    let aggregates = aggregates.filter(|function| {
        named(function.name()).is_some_and(|row| is_aggregate(row) && matches!(row.answer, Answer::Engine))
    });
    let own_aggregates = all().filter_map(|row| match row.answer {
        Answer::OwnAggregate(make) => Some(Arc::new(make())),
        _ => None,
    });
    let windows = SessionStateDefaults::default_window_functions().into_iter();
    let windows = windows.filter(|function| {
        named(function.name()).is_some_and(|row| row.kind == Kind::Window || row.is_windowed)
    });
    Registered {
        scalars: scalars.chain(own).collect(),
        aggregates: aggregates.chain(own_aggregates).collect(),
        windows: windows.collect(),
    }
}
