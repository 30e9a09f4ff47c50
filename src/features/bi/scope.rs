//! In which scope a statement runs: `org`, or `agent` with the agent's id (API page, section 7).
//!
//! A scope is part of the request and not of the statement's text, so a scope that makes no sense is refused before
//! anything is planned. An agent that is missing and one of another organization are the same.

use super::rows::ScopeV1;
use crate::base::{Code, Error, Result};

/// The scope that a request names; `org` when it names none.
pub(super) fn parse(kind: Option<&str>, agent: Option<&str>) -> Result<ScopeV1> {
    let refused = |message: &str| Err(Error::new(Code::InvalidExecutionContext).message(message));
    match (kind, agent) {
        (None | Some("org"), None) => Ok(ScopeV1::Org),
        (None | Some("org"), Some(_)) => refused("scopeAgentId: only goes with the scopeKind agent"),
        (Some("agent"), None) => refused("scopeAgentId: is needed when scopeKind is agent"),
        (Some("agent"), Some(_)) => refused("scopeAgentId: there is no such agent in this organization"),
        (Some(_), _) => refused("scopeKind: must be org or agent"),
    }
}

impl ScopeV1 {
    /// The name on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            ScopeV1::Org => "org",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_that_makes_no_sense_is_refused_and_named() {
        assert_eq!(parse(None, None).unwrap(), ScopeV1::Org);
        assert_eq!(parse(Some("org"), None).unwrap(), ScopeV1::Org);
        for (kind, agent, field) in [
            (None, Some("a"), "scopeAgentId: "),
            (Some("org"), Some("a"), "scopeAgentId: "),
            (Some("agent"), None, "scopeAgentId: "),
            (Some("agent"), Some("01890a5d-ac96-774b-bcce-b302099a8057"), "scopeAgentId: "),
            (Some("box"), None, "scopeKind: "),
            (Some(""), None, "scopeKind: "),
        ] {
            let error = parse(kind, agent).unwrap_err();
            assert_eq!(error.code(), Code::InvalidExecutionContext);
            assert!(error.detail().unwrap().starts_with(field), "{error}");
        }
    }
}
