//! A fragment made whole: a plan of its own, or the plan before with what changes.

use crate::dates::{Unit, Window};
use crate::fragment::{Fragment, Ranking};
use crate::plan::{Condition, Function, Group, Measure, Plan};
use crate::table::{Column, Kind, Table};
use serde_json::Value;

/// Rows of a list where no number is said, and of the most common where none is.
const LIST_ROWS: u64 = 100;
const TOP_ROWS: u64 = 10;
/// Columns of a list that are shown where it names fewer.
const LIST_COLUMNS: usize = 3;
const LIST_COLUMNS_MAX: usize = 8;
/// Columns of page types that are days, and texts.
const DAYS: &[&str] = &["published", "modified", "updated", "posted", "date_posted", "valid_through", "date"];

/// A plan of a question; else why there is none.
pub(crate) fn finish(mut said: Fragment, table: &Table, has_newest: bool) -> Result<Plan, String> {
    if said.bare_function == Some(Function::Sum) && said.has_table && said.measures.is_empty() {
        // "Total jobs last week": how many.
        (said.bare_function, said.counted) = (None, true);
    }
    if let Some(column) = said.bare_function.and_then(|_| lone_amount(&said, table)) {
        // "How long did jobs take on average": the function comes behind.
        let function = said.bare_function.take().unwrap_or(Function::Avg);
        said.measures.push(Measure { function, column: Some(table.columns[column].name.clone()) });
    }
    if said.bare_function.is_some() {
        return Err("I do not know of which column.".to_owned());
    }
    no_time(&said, table)?;
    happened(&mut said, table);
    let time = said.time.or_else(|| time_column(table));
    let (window, compared) = window_of(&said)?;
    let mut plan = Plan {
        table: table.name.clone(),
        has_newest,
        measures: std::mem::take(&mut said.measures),
        groups: std::mem::take(&mut said.groups),
        conditions: std::mem::take(&mut said.conditions),
        time: None,
        window,
        descending: None,
        limit: said.limit,
    };
    if said.when {
        let time = time.ok_or("There are no times in it.")?;
        let function = if said.newest == Some(false) { Function::Min } else { Function::Max };
        plan.measures = vec![Measure { function, column: Some(table.columns[time].name.clone()) }];
        said.newest = None;
    }
    if !said.windows.is_empty() {
        // "Scraped since yesterday" says which time is meant, and asks for none.
        let meant = said.time;
        said.mentioned.retain(|at| Some(*at) != meant);
    }
    grouped(&mut plan, &mut said, table);
    bucketed(&mut plan, &said, compared, time, table)?;
    ranked(&mut plan, &mut said, time, table)?;
    measured(&mut plan, &said, table);
    if plan.window != Window::default() {
        let time = time.ok_or("There are no times in that table.")?;
        plan.time = Some(table.columns[time].name.clone());
    }
    if let Some(descending) = said.direction {
        plan.descending = Some(descending);
    }
    // Rows with equal lists are no group that anybody asks for.
    let is_json =
        |group: &&Group| table.columns.iter().any(|own| own.name == group.column && own.kind == Kind::Json);
    if let Some(group) = plan.groups.iter().find(is_json).filter(|_| !plan.measures.is_empty()) {
        return Err(format!("{} is a list in each row; I cannot group by it.", group.column));
    }
    used(&plan, &said, table)?;
    Ok(plan)
}

/// The one amount that was named, where nothing is computed of any and none is compared.
fn lone_amount(said: &Fragment, table: &Table) -> Option<usize> {
    let is_amount = |at: &&usize| matches!(table.columns[**at].kind, Kind::Integer | Kind::Float);
    let is_asked = |at: &&usize| said.conditions.iter().any(|known| known.column == table.columns[**at].name);
    let mut amounts = said.mentioned.iter().filter(is_amount).filter(|at| !is_asked(at));
    let only = amounts.next().filter(|_| amounts.next().is_none() && said.measures.is_empty());
    only.copied()
}

/// Refuses a span of time beside a day that pages give as a text: it is not known how each writes it.
fn no_time(said: &Fragment, table: &Table) -> Result<(), String> {
    if said.windows.is_empty() && said.bucket.is_none() {
        return Ok(());
    }
    let is_spoken = |at: usize| {
        let name = &table.columns[at].name;
        said.mentioned.contains(&at) || said.groups.iter().any(|group| group.column == *name)
    };
    let is_asked = |name: &str| said.conditions.iter().any(|known| known.column == name);
    let mut days = DAYS.iter().filter(|name| !is_asked(name)).filter_map(|name| table.position(name));
    let Some(at) = days.find(|at| table.columns[*at].kind == Kind::Text && is_spoken(*at)) else {
        return Ok(());
    };
    let other = time_column(table).map_or(String::new(), |time| {
        format!("; times that I can ask for are those of {}", table.columns[time].name)
    });
    Err(format!("{} is a text as the pages give it{other}.", table.columns[at].name))
}

/// "How many jobs finished", without a time when: those that have.
fn happened(said: &mut Fragment, table: &Table) {
    let Some(at) = said.happened.filter(|at| table.columns[*at].nullable) else { return };
    let is_asked = said.windows.is_empty() && said.bucket.is_none() && !said.when && said.newest.is_none();
    let column = &table.columns[at].name;
    if is_asked && !said.conditions.iter().any(|known| known.column == *column) {
        let column = column.clone();
        said.conditions.push(Condition { column, op: "not_null".to_owned(), value: Value::Null });
    }
}

/// Columns of texts that were named beside something that is computed are what it is computed for: "the brand with the highest
/// average price", "domains by number of jobs".
fn grouped(plan: &mut Plan, said: &mut Fragment, table: &Table) {
    let computes = said.counted || !plan.measures.is_empty();
    if !computes {
        return;
    }
    let is_open = |at: &usize| {
        let column = &table.columns[*at];
        matches!(column.kind, Kind::Text | Kind::Bool)
            && !plan.conditions.iter().any(|condition| condition.column == column.name)
            && !plan.groups.iter().any(|group| group.column == column.name)
            && !plan.measures.iter().any(|measure| measure.column.as_ref() == Some(&column.name))
    };
    let open: Vec<usize> = said.mentioned.iter().copied().filter(is_open).collect();
    for (number, at) in open.into_iter().enumerate() {
        let ranks = said.extreme.is_some() || said.most.is_some();
        match said.which {
            None if number == 0 && ranks && plan.groups.is_empty() => {
                said.which = Some(at);
                said.singular = said.single.contains(&at);
            }
            _ => plan.groups.push(Group { column: table.columns[at].name.clone(), bucket: None }),
        }
    }
}

/// Refuses a plan that leaves out a column that was named: what is not used is said, and not passed over.
fn used(plan: &Plan, said: &Fragment, table: &Table) -> Result<(), String> {
    let is_used = |at: &usize| {
        let name = &table.columns[*at].name;
        plan.measures.iter().any(|measure| measure.column.as_ref() == Some(name))
            || plan.groups.iter().any(|group| group.column == *name)
            || plan.conditions.iter().any(|condition| condition.column == *name)
            || plan.time.as_ref() == Some(name)
    };
    match said.mentioned.iter().find(|at| !is_used(at)) {
        Some(at) => Err(format!("I do not know what to do with {} in it.", table.columns[*at].name)),
        None => Ok(()),
    }
}

/// The time that is meant where none is said: when a page came, or when a row was made.
fn time_column(table: &Table) -> Option<usize> {
    let named = ["scraped_at", "created_at", "at", "started_at"];
    let is_required = |at: &usize| !table.columns[*at].nullable;
    let found = named.iter().filter_map(|name| table.position(name)).find(is_required);
    let is_time = |at: &usize| table.columns[*at].kind == Kind::Time;
    let any = || {
        let times = (0..table.columns.len()).filter(is_time);
        times.clone().find(is_required).or_else(|| times.clone().next())
    };
    found.or_else(any)
}

/// The span that is asked about, and by what two spans are told apart.
fn window_of(said: &Fragment) -> Result<(Window, Option<Unit>), String> {
    let compares = "I compare two spans of the calendar, such as this week and last week.";
    match said.windows.as_slice() {
        [] if said.versus => Err(compares.to_owned()),
        [] => Ok((Window::default(), None)),
        [(window, _)] if !said.versus => Ok((*window, None)),
        [(first, unit), (second, other)] => match (unit, other) {
            (Some(unit), Some(other)) if unit == other => {
                let from = first.from.min(second.from);
                // A span that goes on has no end.
                let to = first.to.zip(second.to).map(|(first, second)| first.max(second));
                Ok((Window { from, to }, Some(*unit)))
            }
            _ if said.versus => Err(compares.to_owned()),
            _ => Ok((Window { from: first.from.max(second.from), to: first.to.or(second.to) }, None)),
        },
        _ => Err(compares.to_owned()),
    }
}

fn bucketed(
    plan: &mut Plan,
    said: &Fragment,
    compared: Option<Unit>,
    time: Option<usize>,
    table: &Table,
) -> Result<(), String> {
    let Some(unit) = compared.or(said.bucket) else { return Ok(()) };
    let time = time.ok_or("There are no times in that table.")?;
    let group = Group { column: table.columns[time].name.clone(), bucket: Some(unit) };
    plan.groups.insert(0, group);
    Ok(())
}

/// The order: by a column, by how many there are, or by time.
fn ranked(plan: &mut Plan, said: &mut Fragment, time: Option<usize>, table: &Table) -> Result<(), String> {
    if let Some(newest) = said.newest {
        let time = time.ok_or("There are no times in that table.")?;
        let name = &table.columns[time].name;
        if said.ranking.is_some() || plan.groups.iter().any(|group| group.column == *name) {
            return Err(format!("I cannot put that in order by {name}."));
        }
        said.ranking = Some(Ranking { column: time, descending: newest });
    }
    if let Some(which) = said.which {
        let group = Group { column: table.columns[which].name.clone(), bucket: None };
        let ranks = said.most.is_some()
            || said.extreme.is_some()
            || said.ranking.is_some()
            || !plan.measures.is_empty();
        if !plan.groups.contains(&group) {
            plan.groups.insert(0, group);
        }
        if ranks {
            said.top = true;
            plan.limit.get_or_insert(if said.singular { 1 } else { TOP_ROWS });
        }
    }
    if let Some(ranking) = &said.ranking {
        let name = &table.columns[ranking.column].name;
        let is_group = plan.groups.iter().any(|group| group.column == *name);
        let is_computed = plan.measures.is_empty()
            || plan.measures.iter().any(|measure| measure.column.as_ref() == Some(name));
        if is_group && !ranking.descending {
            // That is how they are put in order anyway.
            return Ok(());
        }
        if is_group || !is_computed {
            return Err(format!("I cannot put that in order by {name}."));
        }
        let function = if ranking.descending { Function::Max } else { Function::Min };
        let measure = Measure { function, column: Some(table.columns[ranking.column].name.clone()) };
        if plan.measures.is_empty() {
            plan.measures.push(measure);
        }
        if plan.groups.is_empty() {
            plan.groups.extend(
                table
                    .label()
                    .or_else(|| table.position("id"))
                    .map(|at| Group { column: table.columns[at].name.clone(), bucket: None }),
            );
        }
        plan.descending = Some(ranking.descending);
        plan.limit.get_or_insert(if said.singular { 1 } else { TOP_ROWS });
    } else if let Some(descending) = said.most.or(said.extreme) {
        plan.descending = Some(descending);
        plan.limit.get_or_insert(TOP_ROWS);
    } else if said.top {
        let is_smallest = plan.measures.first().is_some_and(|measure| measure.function == Function::Min);
        plan.descending = Some(!is_smallest);
    }
    // One number is neither the first nor the last of anything.
    let ranks = said.most.is_some() || said.extreme.is_some() || said.top;
    if ranks && said.ranking.is_none() && plan.groups.is_empty() {
        return Err(format!("I do not know by what {} are put in order.", plan.table));
    }
    Ok(())
}

/// What is computed, where the question leaves it open.
fn measured(plan: &mut Plan, said: &Fragment, table: &Table) {
    if !plan.measures.is_empty() {
        return;
    }
    let is_free = |at: &usize| {
        let column = &table.columns[*at];
        matches!(column.kind, Kind::Integer | Kind::Float)
            && !plan.conditions.iter().any(|condition| condition.column == column.name)
    };
    let amounts: Vec<usize> = said.mentioned.iter().copied().filter(is_free).collect();
    let only_values = said.which.is_some() && said.most.is_none() && said.extreme.is_none();
    if !amounts.is_empty() && !said.counted {
        plan.measures.extend(amounts.into_iter().map(|amount| usual(&table.columns[amount])));
    } else if said.counted || (!plan.groups.is_empty() && !only_values) {
        plan.measures.push(Measure { function: Function::Count, column: None });
    } else if plan.groups.is_empty() {
        listed(plan, said, table);
    }
}

/// What is asked of a column where no function is said.
fn usual(column: &Column) -> Measure {
    let adds_up = column.kind == Kind::Integer && !column.name.ends_with("_ms");
    let function = if adds_up { Function::Sum } else { Function::Avg };
    Measure { function, column: Some(column.name.clone()) }
}

/// The rows themselves, by the columns that tell what they are and those that were spoken of.
fn listed(plan: &mut Plan, said: &Fragment, table: &Table) {
    let known =
        |names: &[&str]| -> Vec<usize> { names.iter().filter_map(|name| table.position(name)).collect() };
    let mut columns: Vec<usize> = known(&["name", "title", "headline"]).into_iter().take(1).collect();
    let has_url = table.position("url").is_some();
    if columns.is_empty() && !has_url {
        // Nothing says what a row is but its id: how many there are says more.
        let spoken = said.mentioned.iter().copied().filter(|_| !said.has_table).collect::<Vec<_>>();
        if spoken.is_empty() {
            plan.measures.push(Measure { function: Function::Count, column: None });
            return;
        }
        columns = spoken;
    }
    if !said.has_table && !said.mentioned.is_empty() && plan.conditions.is_empty() {
        // "Which brands": the values, and not the rows.
        columns = said.mentioned.clone();
    } else {
        let ids = known(&["id", "url", "status"]);
        columns.extend(ids.into_iter().filter(|at| !said.mentioned.contains(at)));
        for at in &said.mentioned {
            if !columns.contains(at) {
                columns.push(*at);
            }
        }
        let more = known(&["domain", "base_url"]);
        let missing = LIST_COLUMNS.saturating_sub(columns.len());
        let more: Vec<usize> = more.into_iter().filter(|at| !columns.contains(at)).take(missing).collect();
        columns.extend(more);
    }
    columns.truncate(LIST_COLUMNS_MAX);
    let group = |at: usize| Group { column: table.columns[at].name.clone(), bucket: None };
    plan.groups = columns.into_iter().map(group).collect();
    plan.limit.get_or_insert(LIST_ROWS);
}

/// The plan before, with what this changes; none where it changes nothing.
pub(crate) fn follow(mut said: Fragment, last: &Plan, table: &Table) -> Option<Plan> {
    // What a change of a question cannot say.
    if said.which.is_some() || said.newest.is_some() || said.when || said.extreme.is_some() {
        return None;
    }
    let mut plan = last.clone();
    let (window, compared) = window_of(&said).ok()?;
    happened(&mut said, table);
    named(&mut said, last, table);
    for condition in said.conditions.iter().cloned() {
        replace(&mut plan.conditions, condition);
    }
    if window != Window::default() {
        let time = said.time.or_else(|| time_column(table))?;
        plan.time = Some(table.columns[time].name.clone());
        plan.window = window;
    }
    if let Some(unit) = compared.or(said.bucket) {
        let time = plan.groups.iter().find(|group| group.bucket.is_some()).map(|group| group.column.clone());
        let time = time.or_else(|| plan.time.clone());
        let time = time.or_else(|| time_column(table).map(|at| table.columns[at].name.clone()))?;
        let old = plan.groups.iter().position(|group| group.bucket.is_some());
        let group = Group { column: time, bucket: Some(unit) };
        match old {
            Some(at) => plan.groups[at] = group,
            None if said.groups.is_empty() && !plan.measures.is_empty() => plan.groups = vec![group],
            None => plan.groups.insert(0, group),
        }
    }
    regrouped(&mut plan, &said);
    remeasured(&mut plan, &said);
    if let Some(ranking) = &said.ranking {
        let name = &table.columns[ranking.column].name;
        if plan.measures.first().and_then(|measure| measure.column.as_ref()) != Some(name) {
            return None;
        }
        plan.descending = Some(ranking.descending);
    }
    if let Some(limit) = said.limit {
        plan.limit = Some(limit);
        if said.top {
            plan.descending.get_or_insert(true);
        }
    }
    if let Some(descending) = said.direction.or(said.most) {
        plan.descending = Some(descending);
    }
    used(&plan, &said, table).ok()?;
    (plan != *last).then_some(plan)
}

/// A column that is only named ("what about salary") takes the place of what was computed, or of the groups.
fn named(said: &mut Fragment, last: &Plan, table: &Table) {
    let is_open = |at: &usize| {
        let name = &table.columns[*at].name;
        let is_known = last.groups.iter().any(|group| group.column == *name);
        !is_known && !said.conditions.iter().any(|condition| condition.column == *name)
    };
    let open: Vec<usize> = said.mentioned.iter().copied().filter(is_open).collect();
    for at in open {
        let column = &table.columns[at];
        match column.kind {
            Kind::Integer | Kind::Float if said.measures.is_empty() => {
                let known = last.measures.first().filter(|measure| measure.column.is_some());
                let function = known.map(|measure| measure.function).filter(|_| said.bare_function.is_none());
                let usual = usual(column);
                let function = said.bare_function.take().or(function).unwrap_or(usual.function);
                said.measures.push(Measure { function, ..usual });
            }
            Kind::Text | Kind::Bool => {
                said.groups.push(Group { column: column.name.clone(), bucket: None });
            }
            _ => {}
        }
    }
}

/// Other groups in place of those before, or beside them where it says "and" or "also".
fn regrouped(plan: &mut Plan, said: &Fragment) {
    if said.groups.is_empty() {
        return;
    }
    let buckets: Vec<Group> = plan.groups.iter().filter(|group| group.bucket.is_some()).cloned().collect();
    let is_list = plan.measures.is_empty();
    plan.groups = if is_list { Vec::new() } else { buckets };
    plan.groups.extend(said.groups.iter().cloned());
    if is_list {
        plan.limit = None;
        plan.measures.push(Measure { function: Function::Count, column: None });
    }
}

fn remeasured(plan: &mut Plan, said: &Fragment) {
    if !said.measures.is_empty() {
        plan.measures = said.measures.clone();
    } else if let Some(function) = said.bare_function
        && let Some(measure) = plan.measures.first_mut().filter(|measure| measure.column.is_some())
    {
        measure.function = function;
    } else if said.counted {
        plan.measures = vec![Measure { function: Function::Count, column: None }];
        if plan.limit == Some(LIST_ROWS) && plan.groups.iter().all(|group| group.bucket.is_none()) {
            (plan.groups, plan.limit) = (Vec::new(), None);
        }
    }
}

/// One condition for each column and sense.
fn replace(conditions: &mut Vec<Condition>, new: Condition) {
    match conditions.iter_mut().find(|known| known.column == new.column) {
        Some(known) => *known = new,
        None => conditions.push(new),
    }
}
