//! The built-in path of a job without a workflow: the connected providers in the order of creation, each once.
//!
//! Within that order three things move a provider. One that cannot do what is asked for (render, a country) is left out
//! as long as another can. One whose account is left alone is left out altogether. One that has failed in a row at this
//! domain goes to the end: others first, but better it than nobody.

use super::accounts::{Account, AccountTrouble, Availability, Providers};
use super::rows::ProviderV1;
use base::ids::OrgId;
use base::web::Domain;
use fetch::FetchRequest;
use std::sync::Arc;
use std::time::Instant;

/// Which providers a run tries, in this order.
pub enum Path {
    Try(Vec<Arc<Account>>),
    /// Every account is left alone for something that passes; not before this moment.
    Later {
        until: Instant,
        reason: String,
    },
    /// Nobody can be asked until somebody does something.
    Nobody {
        reason: String,
    },
}

impl Providers {
    /// The path of a request for `domain` through `rows`.
    pub fn path(&self, org: OrgId, rows: &[ProviderV1], request: &FetchRequest, domain: &Domain) -> Path {
        let mut accounts = Vec::with_capacity(rows.len());
        for row in rows {
            match self.account(org, row) {
                Ok(account) => accounts.push(account),
                Err(error) => tracing::warn!(provider = %row.id, %error, "a provider cannot be used"),
            }
        }
        if accounts.is_empty() {
            return Path::Nobody { reason: "no provider is connected and enabled".to_owned() };
        }
        if accounts.iter().any(|account| account.lacks(request).is_none()) {
            accounts.retain(|account| account.lacks(request).is_none());
        }
        let (mut ready, mut weak, mut cooling) = (Vec::new(), Vec::new(), Vec::new());
        for account in accounts {
            match self.standing(org, account.id, domain) {
                Availability::Ready => ready.push(account),
                Availability::WeakHere => weak.push(account),
                Availability::Cooling { until, trouble } => cooling.push((account, until, trouble)),
            }
        }
        ready.append(&mut weak);
        if ready.is_empty() { postponed(&cooling) } else { Path::Try(ready) }
    }
}

fn postponed(cooling: &[(Arc<Account>, Instant, Option<AccountTrouble>)]) -> Path {
    let reasons: Vec<String> = cooling
        .iter()
        .map(|(account, _, trouble)| match trouble {
            Some(trouble) => format!("{} is left alone for a while ({})", account.name, trouble.error),
            None => format!("{} is left alone for a while", account.name),
        })
        .collect();
    let reason = reasons.join("; ");
    let passes =
        |trouble: &Option<AccountTrouble>| trouble.as_ref().is_none_or(|t| !t.fault.needs_somebody());
    match cooling.iter().filter(|(.., trouble)| passes(trouble)).map(|(_, until, _)| *until).min() {
        Some(until) => Path::Later { until, reason },
        None => Path::Nobody { reason },
    }
}
