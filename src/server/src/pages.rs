//! The pages of the error codes, compiled in from `data/errors`, so that a box without a network can serve them.

macro_rules! error_pages {
    ($($name:literal)*) => {
        const PAGES: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/errors/", $name, ".md")),
        )),*];
    };
}

error_pages! {
    "already_exists"
    "auth_code_consumed"
    "auth_code_expired"
    "auth_forbidden"
    "auth_invalid"
    "auth_missing"
    "auth_org_mismatch"
    "authentication_required"
    "bi"
    "canceled"
    "conflict"
    "email_not_verified"
    "feature_disabled"
    "idempotency_conflict"
    "insufficient_permissions"
    "internal_error"
    "invalid_execution_context"
    "invalid_idempotency_key"
    "invalid_input"
    "invalid_sql"
    "invalid_table_name"
    "invalid_url"
    "invalid_workflow"
    "job_terminal"
    "kill_switched"
    "method_not_allowed"
    "no_org"
    "node_type_unknown"
    "not_found"
    "not_ready"
    "org_not_found"
    "payload_too_large"
    "payment_required"
    "plan_required"
    "precondition_failed"
    "provider_unavailable"
    "quota_exceeded"
    "rate_limited"
    "request_timeout"
    "rls_denied"
    "saved_query_not_executable"
    "service_unavailable"
    "statement_timeout"
    "syntax_error"
    "too_many_queries"
    "transient"
    "unsupported_media_type"
    "user_not_found"
    "workflow_disabled"
}

/// The Markdown text of a page.
pub fn find(name: &str) -> Option<&'static str> {
    PAGES.iter().find(|(page, _)| *page == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Code;

    #[test]
    fn every_code_has_a_page() {
        for code in Code::ALL {
            let text =
                find(code.name()).unwrap_or_else(|| panic!("data/errors/{}.md is missing", code.name()));
            assert!(text.starts_with(&format!("# {}\n", code.name())), "{}", code.name());
        }
        assert!(find("bi").is_some());
    }
}
