//! Making anew what is made of rows: entries of indexes, counts, the register of indexes that reach across organizations.
//!
//! Only for a store that nobody serves: what a walk found must still be so when it is put right.

use super::Store;
use super::check::{AnyTable, CheckSnapshot, sum_fixes};
use super::counts::Fix;
use base::Result;

/// Fixes of one commit.
const FIXES_PER_COMMIT: usize = 5_000;

impl Store {
    /// Puts right what differs from the rows in these tables and their indexes; gives how much was. What cannot be, because it
    /// is a row's, stays as it is. Blocks.
    pub fn mend(&self, tables: &[&dyn AnyTable]) -> Result<u64> {
        let mut mended = 0;
        for table in tables {
            loop {
                let report = self.inner.handle.read(|view| table.check(&CheckSnapshot::over(view)))?;
                if report.fixes.is_empty() {
                    break;
                }
                mended += report.fixes.len() as u64;
                self.put_right(report.fixes)?;
            }
        }
        let sums = self.inner.handle.read(|view| sum_fixes(view))?;
        mended += sums.len() as u64;
        self.put_right(sums.into_iter().map(|(_, fix)| fix).collect())?;
        Ok(mended)
    }

    fn put_right(&self, fixes: Vec<Fix>) -> Result<()> {
        for some in fixes.chunks(FIXES_PER_COMMIT) {
            let some = some.to_vec();
            self.system().write_blocking(move |tx| {
                tx.unaudited("what is made of rows is made anew, and no row changes");
                for fix in some {
                    tx.raw().set(fix.table, fix.key, fix.value);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Compares the rows of a table with its indexes while the store is served: each part at a moment of its own. What differs
    /// is what stood so at one moment; counts are not compared.
    pub fn check_table(&self, table: &dyn AnyTable) -> Result<super::TableReport> {
        table.check(&CheckSnapshot::living(&self.inner.handle))
    }
}
