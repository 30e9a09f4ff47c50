//! A structured query as SQL, by the tables that the organization has now.

use super::content::{Content, Runnable, json};
use super::refusals::refusal;
use super::service::Queries;
use base::Result;
use sql::QueryError;
use sql::structured::{Compiled, Structured, compile};
use store::OrgStore;

impl Queries {
    /// Makes a statement of `content`. A structured query that does not fit the organization's tables is an error that
    /// names the field.
    pub(super) fn runnable(&self, org: &OrgStore, content: Content) -> Result<Runnable> {
        match content {
            Content::Sql(sql) => Ok(Runnable { sql, structured: None, coverage: None }),
            Content::Structured(structured) => {
                let Compiled { sql, coverage } = self.compiled(org, &structured)?.map_err(refusal)?;
                Ok(Runnable { sql, structured: Some(json(&structured)?), coverage })
            }
        }
    }

    /// A structured query as SQL.
    pub(super) fn compiled(
        &self,
        org: &OrgStore,
        structured: &Structured,
    ) -> Result<std::result::Result<Compiled, QueryError>> {
        let tables = self.feed.specs(org)?;
        let horizons = org.read(|tx| {
            let mut all = Vec::new();
            for of in &self.horizons {
                all.extend(of(tx, &structured.table)?);
            }
            Ok(all)
        })?;
        Ok(compile(structured, &tables, &horizons))
    }
}
