//! Schemas by which pages are read badly for long: what reads them is found out anew.
//!
//! A repair mends what its past proves broken. A schema that never fitted, or whose pages were made anew under it while nothing could be
//! mended, is beyond that; its results say so by their quality.

use super::rows::{LOW, LowV1};
use crate::features::discovery::begin_anew;
use crate::features::extraction::{ResultV4, SchemaPair, SchemaRefV1, schema_to_beat};
use base::Result;
use base::web::{Domain, host_of};
use store::{OrgWrite, SysRead, readable};

/// Results one behind the other that are read badly.
const LOW_PAGES: u32 = 20;
/// The part of a schema's confidence under which the composite quality of a result is bad.
const LOW_PART: f64 = 0.5;

/// How well the platform's schema has read a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Graded {
    schema: SchemaRefV1,
    is_low: bool,
}

/// Holds the quality of a result against what its schema promised; none where no schema of the platform has read it, or one that
/// holds no more.
pub fn grade(tx: &SysRead<'_>, row: &ResultV4) -> Result<Option<Graded>> {
    let (Some(schema), Some(quality), Some(page_type)) = (row.schema, row.quality, row.page_type) else {
        return Ok(None);
    };
    // No schema promises more than everything.
    if quality.composite >= LOW_PART {
        return Ok(Some(Graded { schema, is_low: false }));
    }
    let host = host_of(&row.final_url);
    if Domain::parse(host).is_err() {
        return Ok(None);
    }
    let holds = schema_to_beat(tx, host, page_type)?;
    let holds = holds.filter(|holds| (holds.id, holds.version) == (schema.id, schema.version));
    Ok(holds.map(|holds| Graded { schema, is_low: quality.composite < LOW_PART * holds.confidence }))
}

/// Counts a result; where it is the last of so many bad ones, a discovery begins.
pub fn count(tx: &OrgWrite<'_>, pair: &SchemaPair, graded: Graded) -> Result<()> {
    let known = readable("how badly pages are read", &pair.domain, tx.get(&LOW, pair))?.flatten();
    if !graded.is_low {
        return match known {
            Some(_) => tx.delete(&LOW, pair).map(|_| ()),
            None => Ok(()),
        };
    }
    let before = known.filter(|known| known.schema == graded.schema).map_or(0, |known| known.pages);
    let pages = before + 1;
    if pages < LOW_PAGES {
        return tx.put(&LOW, pair, &LowV1 { schema: graded.schema, pages });
    }
    begin_anew(tx, &pair.domain, pair.page_type)?;
    tx.put(&LOW, pair, &LowV1 { schema: graded.schema, pages: 0 })
}
