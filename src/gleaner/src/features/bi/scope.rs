//! In which scope a statement runs: `org`, or `agent` with the agent's id (data/docs/api.md, "The SQL console").
//!
//! A scope is part of the request and not of the statement's text, so a scope that makes no sense is refused before
//! anything is planned. An agent that is missing and one of another organization are the same. Which agents there are is
//! said by the slice that has them (`Feature::agents`); what an agent's statement sees, by the engine.

use super::rows::ScopeV1;
use super::service::Queries;
use base::ids::AgentId;
use base::{Code, Error, Result};
use store::OrgStore;

const KIND_UNKNOWN: &str = "scopeKind: must be org or agent";

impl Queries {
    /// The scope that a request names; `org` when it names none.
    pub(super) fn scope(&self, org: &OrgStore, kind: Option<&str>, agent: Option<&str>) -> Result<ScopeV1> {
        parse(kind, agent, |id| self.has_agent(org, id))
    }

    /// Whether the organization has the agent (still).
    pub(super) fn has_agent(&self, org: &OrgStore, id: AgentId) -> Result<bool> {
        org.read(|tx| {
            for known in &self.agents {
                if known(tx, id)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}

/// Refuses what can be no scope of anything, before anybody's rows are looked at.
pub(super) fn check_form(kind: Option<&str>, agent: Option<&str>) -> Result<()> {
    let refused = |message: &str| Err(Error::new(Code::InvalidExecutionContext).message(message));
    match (kind, agent) {
        (Some(kind), _) if !matches!(kind, "org" | "agent") => refused(KIND_UNKNOWN),
        (_, Some(id)) if id.parse::<AgentId>().is_err() => refused("scopeAgentId: must be a UUID"),
        _ => Ok(()),
    }
}

fn parse(
    kind: Option<&str>,
    agent: Option<&str>,
    is_known: impl FnOnce(AgentId) -> Result<bool>,
) -> Result<ScopeV1> {
    let refused = |message: &str| Err(Error::new(Code::InvalidExecutionContext).message(message));
    match (kind, agent) {
        (None | Some("org"), None) => Ok(ScopeV1::Org),
        (None | Some("org"), Some(_)) => refused("scopeAgentId: only goes with the scopeKind agent"),
        (Some("agent"), None) => refused("scopeAgentId: is needed when scopeKind is agent"),
        (Some("agent"), Some(id)) => match id.parse::<AgentId>() {
            Ok(id) if is_known(id)? => Ok(ScopeV1::Agent(id)),
            _ => refused("scopeAgentId: there is no such agent in this organization"),
        },
        (Some(_), _) => refused(KIND_UNKNOWN),
    }
}

impl ScopeV1 {
    /// The name on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            ScopeV1::Org => "org",
            ScopeV1::Agent(_) => "agent",
        }
    }

    /// The agent, if it is one's.
    pub(super) fn agent(self) -> Option<AgentId> {
        match self {
            ScopeV1::Org => None,
            ScopeV1::Agent(id) => Some(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    #[test]
    fn a_scope_that_makes_no_sense_is_refused_and_named() {
        let parse = |kind, agent| parse(kind, agent, |_| Ok(false));
        assert_eq!(parse(None, None).unwrap(), ScopeV1::Org);
        assert_eq!(parse(Some("org"), None).unwrap(), ScopeV1::Org);
        for (kind, agent, field) in [
            (None, Some("a"), "scopeAgentId: "),
            (Some("org"), Some("a"), "scopeAgentId: "),
            (Some("agent"), None, "scopeAgentId: "),
            (Some("agent"), Some("a"), "scopeAgentId: there is no such agent"),
            (Some("agent"), Some(ID), "scopeAgentId: there is no such agent"),
            (Some("box"), None, "scopeKind: "),
            (Some(""), None, "scopeKind: "),
        ] {
            let error = parse(kind, agent).unwrap_err();
            assert_eq!(error.code(), Code::InvalidExecutionContext);
            assert!(error.detail().unwrap().starts_with(field), "{error}");
        }
    }

    #[test]
    fn the_scope_of_an_agent_has_its_id() {
        let scope = parse(Some("agent"), Some(ID), |id| Ok(id.to_string() == ID)).unwrap();
        assert_eq!((scope.name(), scope.agent().unwrap().to_string()), ("agent", ID.to_owned()));
    }
}
