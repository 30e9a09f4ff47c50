//! Which group a row belongs to, by the codes of its keys.
//!
//! Groups are DataFusion's own (`GroupValues`), over all segments. Of the segment that is being read a table says which group
//! each combination of codes is: a plain one where there are few combinations, else one entry for each code of the key with
//! the most values, which remembers the last combination that it stood in (a URL stands in one domain), before a hash map of
//! the rest.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int32Array, RecordBatch, StringViewArray, UInt32Array};
use datafusion::arrow::compute::{concat, filter, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use super::super::Scan;
use super::super::filter::external;
use super::super::rows::Selected;
use super::super::source::Opened;
use super::KeyExpr;
use crate::segment::BATCH_ROWS_MAX;

/// Bits of slots up to which each slot has an entry.
const DENSE_BITS_MAX: u32 = 20;
/// What an expression makes of all values of a dictionary may take as much, in bytes.
const EVALUATED_BYTES_MAX: usize = 32 << 20;
/// An entry without a group.
const NONE: u32 = u32::MAX;

/// The groups of one partition.
pub(super) struct Groups {
    scan: Scan,
    keys: Vec<KeyExpr>,
    /// The table's columns of the keys, one a schema.
    schemas: Vec<SchemaRef>,
    values: Box<dyn GroupValues>,
    segment: Option<Segment>,
    /// The group of each row of the last batch.
    pub(super) of_rows: Vec<usize>,
    /// The group of all rows of the last batch, if that was known beforehand; `of_rows` says nothing then.
    pub(super) of_all: Option<usize>,
    slots: Vec<u64>,
    interned: Vec<usize>,
}

/// The segment that is being read.
struct Segment {
    source: usize,
    lookup: GroupLookup,
}

/// How the groups of a segment's rows are found.
enum GroupLookup {
    /// By the codes of all keys.
    Codes(CodeLookup),
    /// By the zones: a batch within one day has one group.
    Zones(BatchKeys),
    /// Row by row: one of the keys is not dictionary-encoded, or an expression fails for a value.
    Rows,
}

/// What the one key is for the smallest and the largest value of each batch.
struct BatchKeys {
    least: ArrayRef,
    most: ArrayRef,
    nulls: Vec<u64>,
}

/// Codes of all keys, put side by side in one number: a slot.
struct CodeLookup {
    places: Vec<usize>,
    /// For each key its value by code, NULL last; none where it is the dictionary's own.
    values: Vec<Option<ArrayRef>>,
    /// For each key the code that stands for NULL: the number of its values.
    nulls: Vec<u64>,
    /// For each key how far its code is shifted; the key with the most values has the lowest bits.
    shifts: Vec<u32>,
    table: Table,
}

enum Table {
    /// A group for each slot.
    Dense(Vec<u32>),
    Sparse {
        /// The last slot that each code of the key with the most values stood in, and its group.
        last: Vec<(u64, u32)>,
        all: HashMap<u64, u32, BuildHasherDefault<CodeHasher>>,
    },
}

/// A hash of one number.
#[derive(Default)]
struct CodeHasher(u64);

impl Hasher for CodeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl Groups {
    /// No groups yet; `schema` is that of the keys' values.
    pub(super) fn new(scan: &Scan, keys: &[KeyExpr], schema: SchemaRef) -> Result<Self> {
        let schemas = keys.iter().map(|key| Ok(Arc::new(scan.table.project(&[key.column])?)));
        Ok(Self {
            schemas: schemas.collect::<Result<_>>()?,
            values: new_group_values(schema, &GroupOrdering::None)?,
            scan: scan.clone(),
            keys: keys.to_vec(),
            segment: None,
            of_rows: Vec::new(),
            of_all: None,
            slots: Vec::new(),
            interned: Vec::new(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Memory that they take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let table = match self.segment.as_ref().map(|segment| &segment.lookup) {
            Some(GroupLookup::Codes(by_codes)) => {
                let values = by_codes.values.iter().flatten().map(|all| all.get_array_memory_size());
                values.sum::<usize>()
                    + match &by_codes.table {
                        Table::Dense(entries) => entries.len() * size_of::<u32>(),
                        Table::Sparse { last, all } => {
                            let entry = size_of::<(u64, u32)>();
                            last.len() * entry + all.capacity() * (entry + 1)
                        }
                    }
            }
            _ => 0,
        };
        self.values.size() + table
    }

    /// Gives the keys of all groups, and begins anew.
    pub(super) fn emit(&mut self) -> Result<Vec<ArrayRef>> {
        self.segment = None;
        let keys = self.values.emit(EmitTo::All)?;
        // Groups of several keys go on looking at those that were given out, unless they are told.
        self.values.clear_shrink(0);
        Ok(keys)
    }

    /// Finds the group of each of the rows, in `of_rows`, or the one of all of them, in `of_all`.
    pub(super) fn find(&mut self, selected: &Selected) -> Result<()> {
        self.of_all = None;
        let opened = self.scan.sources[selected.source].open().map_err(external)?;
        if self.segment.as_ref().is_none_or(|segment| segment.source != selected.source) {
            let lookup = GroupLookup::of(opened, &self.keys, &self.schemas)?;
            self.segment = Some(Segment { source: selected.source, lookup });
        }
        let lookup = self.segment.as_mut().map(|segment| &mut segment.lookup);
        if let Some(GroupLookup::Zones(keys)) = &lookup
            && let Some(value) = keys.only_value(selected.batch)
        {
            self.values.intern(&[value], &mut self.interned)?;
            self.of_all = self.interned.first().copied();
            return Ok(());
        }
        let Some(GroupLookup::Codes(by_codes)) = lookup else {
            let mut keys = Vec::with_capacity(self.keys.len());
            for (key, schema) in self.keys.iter().zip(&self.schemas) {
                let column = opened.column(selected.batch, schema.field(0), selected.mask.as_ref(), true);
                keys.push(evaluate(key, schema, column.map_err(external)?)?);
            }
            return self.values.intern(&keys, &mut self.of_rows);
        };
        by_codes.slots(opened, selected, &mut self.slots)?;
        by_codes.table.groups(&self.slots, &mut self.of_rows);
        // Rows of combinations that have no group yet.
        let fresh: Vec<u32> = match self.of_rows.contains(&(NONE as usize)) {
            false => Vec::new(),
            true => {
                let rows = self.of_rows.iter().enumerate();
                rows.filter(|(_, group)| **group == NONE as usize).map(|(row, _)| row as u32).collect()
            }
        };
        if fresh.is_empty() {
            return Ok(());
        }
        // Of equal combinations one is enough; the segment's order is kept.
        let mut seen: HashMap<u64, (), BuildHasherDefault<CodeHasher>> = HashMap::default();
        let firsts = fresh.iter().copied().filter(|row| seen.insert(self.slots[*row as usize], ()).is_none());
        let firsts = UInt32Array::from_iter_values(firsts);
        let keys = by_codes.values(opened, &self.slots, &firsts)?;
        self.values.intern(&keys, &mut self.interned)?;
        for (row, group) in firsts.values().iter().zip(&self.interned) {
            by_codes.table.set(self.slots[*row as usize], u32::try_from(*group).unwrap_or(NONE));
        }
        for row in fresh {
            self.of_rows[row as usize] = by_codes.table.group(self.slots[row as usize]) as usize;
        }
        Ok(())
    }
}

impl GroupLookup {
    fn of(opened: &Opened, keys: &[KeyExpr], schemas: &[SchemaRef]) -> Result<Self> {
        if let ([key], [schema]) = (keys, schemas)
            && key.is_monotonic
        {
            let field = schema.field(0);
            let zone = match opened.place(field) {
                Some(place) => opened.segment.zone(place).map_err(external)?,
                None => None,
            };
            let Some(zone) = zone.filter(|_| super::MONOTONIC_TYPES.contains(field.data_type())) else {
                return Ok(Self::Rows);
            };
            let ends = [&zone.min, &zone.max].map(|ends| evaluate(key, schema, Arc::clone(ends)));
            return Ok(match ends {
                [Ok(least), Ok(most)] => Self::Zones(BatchKeys { least, most, nulls: zone.nulls.clone() }),
                // It may fail for a row that nobody wants.
                _ => Self::Rows,
            });
        }
        Ok(CodeLookup::new(opened, keys, schemas)?.map_or(Self::Rows, Self::Codes))
    }
}

impl BatchKeys {
    /// The key of all rows of a batch, if they have one: the key never falls where the column grows.
    fn only_value(&self, batch: usize) -> Option<ArrayRef> {
        let (least, most) = (self.least.slice(batch, 1), self.most.slice(batch, 1));
        let known = self.nulls.get(batch) == Some(&0) && least.null_count() == 0;
        (known && least.as_ref() == most.as_ref()).then_some(least)
    }
}

fn evaluate(key: &KeyExpr, schema: &SchemaRef, column: ArrayRef) -> Result<ArrayRef> {
    if key.is_plain {
        return Ok(column);
    }
    let rows = column.len();
    let batch = RecordBatch::try_new(SchemaRef::clone(schema), vec![column])?;
    key.expr.evaluate(&batch)?.into_array(rows)
}

/// What a key is for each value of a dictionary, and last for NULL. None when it fails for a value, which may be one that
/// no wanted row holds, or when what it makes of all values is so large that it had better be made row by row.
fn evaluated(key: &KeyExpr, schema: &SchemaRef, values: &StringViewArray) -> Result<Option<ArrayRef>> {
    let (mut parts, mut bytes) = (Vec::new(), 0);
    let all: Vec<Option<u32>> = (0..values.len() as u32).map(Some).chain([None]).collect();
    for some in all.chunks(BATCH_ROWS_MAX) {
        let indices: UInt32Array = some.iter().copied().collect();
        let Ok(part) = evaluate(key, schema, take(values, &indices, None)?) else { return Ok(None) };
        bytes += part.get_array_memory_size();
        if bytes > EVALUATED_BYTES_MAX {
            return Ok(None);
        }
        parts.push(part);
    }
    let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
    Ok(Some(concat(&parts)?))
}

impl CodeLookup {
    /// None when a key is not dictionary-encoded in this segment, fails for a value, or there are too many combinations.
    fn new(opened: &Opened, keys: &[KeyExpr], schemas: &[SchemaRef]) -> Result<Option<Self>> {
        let (mut places, mut values, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
        for (key, schema) in keys.iter().zip(schemas) {
            let place = opened.place(schema.field(0)).filter(|place| opened.is_dictionary(*place));
            let Some(place) = place else { return Ok(None) };
            let dictionary = opened.segment.dictionary(place).map_err(external)?;
            let count = dictionary.views.len();
            values.push(if key.is_plain {
                None
            } else {
                let Some(all) = evaluated(key, schema, &dictionary.views)? else { return Ok(None) };
                Some(all)
            });
            places.push(place);
            nulls.push(count as u64);
        }
        let bits = |null: u64| u64::BITS - null.leading_zeros();
        let mut order: Vec<usize> = (0..nulls.len()).collect();
        order.sort_by_key(|key| std::cmp::Reverse(nulls[*key]));
        let (mut shifts, mut all_bits) = (vec![0; nulls.len()], 0);
        for key in order {
            shifts[key] = all_bits;
            all_bits += bits(nulls[key]);
        }
        if all_bits > u64::BITS {
            return Ok(None);
        }
        let most = nulls.iter().copied().max().unwrap_or(0);
        let table = if all_bits <= DENSE_BITS_MAX {
            Table::Dense(vec![NONE; 1 << all_bits])
        } else {
            Table::Sparse { last: vec![(0, NONE); 1 << bits(most)], all: HashMap::default() }
        };
        Ok(Some(Self { places, values, nulls, shifts, table }))
    }

    /// The slots of the wanted rows.
    fn slots(&self, opened: &Opened, selected: &Selected, into: &mut Vec<u64>) -> Result<()> {
        into.clear();
        into.resize(selected.count, 0);
        for ((place, null), shift) in self.places.iter().zip(&self.nulls).zip(&self.shifts) {
            let codes = opened.codes(selected.batch, *place).map_err(external)?;
            let codes = match &selected.mask {
                None => codes,
                Some(mask) => {
                    let left = filter(&codes, mask)?;
                    let left = left.as_any().downcast_ref::<Int32Array>().cloned();
                    left.unwrap_or_else(|| Int32Array::new_null(selected.count))
                }
            };
            // Codes lie in the dictionary, which was checked when they were read; under NULL there may be any.
            match codes.nulls() {
                None => {
                    for (slot, code) in into.iter_mut().zip(codes.values()) {
                        *slot |= u64::from(code.cast_unsigned()) << shift;
                    }
                }
                Some(_) => {
                    for (slot, code) in into.iter_mut().zip(&codes) {
                        *slot |= code.map_or(*null, |code| u64::from(code.cast_unsigned())) << shift;
                    }
                }
            }
        }
        Ok(())
    }

    /// The keys' values in the given rows.
    fn values(&self, opened: &Opened, slots: &[u64], rows: &UInt32Array) -> Result<Vec<ArrayRef>> {
        let mut values = Vec::with_capacity(self.places.len());
        for (key, place) in self.places.iter().enumerate() {
            let null = self.nulls[key];
            let mask = (1 << (u64::BITS - null.leading_zeros())) - 1;
            let code = |row: &u32| slots[*row as usize] >> self.shifts[key] & mask;
            values.push(match &self.values[key] {
                Some(all) => {
                    let indices = UInt32Array::from_iter_values(rows.values().iter().map(|r| code(r) as u32));
                    take(all, &indices, None)?
                }
                None => {
                    let known = |code: u64| (code != null).then_some(code as u32);
                    let indices: UInt32Array = rows.values().iter().map(|row| known(code(row))).collect();
                    let dictionary = opened.segment.dictionary(*place).map_err(external)?;
                    take(&dictionary.views as &dyn Array, &indices, None)?
                }
            });
        }
        Ok(values)
    }
}

impl Table {
    /// The groups of slots, or `NONE`.
    fn groups(&mut self, slots: &[u64], into: &mut Vec<usize>) {
        into.clear();
        match self {
            Self::Dense(groups) => into.extend(slots.iter().map(|slot| groups[*slot as usize] as usize)),
            Self::Sparse { .. } => into.extend(slots.iter().map(|slot| self.group(*slot) as usize)),
        }
    }

    /// The group of a slot, or `NONE`.
    fn group(&mut self, slot: u64) -> u32 {
        match self {
            Self::Dense(groups) => groups[slot as usize],
            Self::Sparse { last, all } => {
                let at = slot as usize & (last.len() - 1);
                if last[at].0 != slot || last[at].1 == NONE {
                    last[at] = (slot, all.get(&slot).copied().unwrap_or(NONE));
                }
                last[at].1
            }
        }
    }

    fn set(&mut self, slot: u64, group: u32) {
        match self {
            Self::Dense(groups) => groups[slot as usize] = group,
            Self::Sparse { all, .. } => drop(all.insert(slot, group)),
        }
    }
}
