//! What is stored: which organization a name of the configuration means.
//!
//! A name is looked up once and kept as the id that it meant then: anybody may call an organization of theirs by the same name
//! later, and whoever renames the first one moves nobody.

use crate::features::auth::{ORGS, find_org};
use base::codec::Record;
use base::ids::OrgId;
use base::{Code, Result};
use secrets::{Digest, sha256};
use serde::{Deserialize, Serialize};
use store::{SysTable, SysWrite};

/// An organization that the configuration names.
#[derive(Clone, Serialize, Deserialize)]
pub struct GovernedOrgV1 {
    pub name: String,
    pub org: OrgId,
}

impl Record for GovernedOrgV1 {}

/// By the SHA-256 of the name.
pub static GOVERNED_ORGS: SysTable<Digest, GovernedOrgV1> =
    SysTable::new("oidc_organizations", "Organization of the provider's people");

/// The organization that the configuration calls so, by its id or name. None where there is none, or several have the name; the
/// log says it.
pub fn organization(tx: &SysWrite<'_>, name: &str) -> Result<Option<OrgId>> {
    let name = name.trim();
    let key = sha256(name.to_lowercase().as_bytes());
    if let Some(row) = tx.get(&GOVERNED_ORGS, &key)?
        && tx.get(&ORGS, &row.org)?.is_some()
    {
        return Ok(Some(row.org));
    }
    match find_org(tx, name) {
        Ok(entry) => {
            tx.put(&GOVERNED_ORGS, &key, &GovernedOrgV1 { name: name.to_owned(), org: entry.id })?;
            Ok(Some(entry.id))
        }
        Err(error) if matches!(error.code(), Code::NotFound | Code::Conflict) => {
            let why = error.detail().unwrap_or_default().to_owned();
            tracing::error!(
                organization = name,
                why,
                "the section oidc names an organization that cannot be used"
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
