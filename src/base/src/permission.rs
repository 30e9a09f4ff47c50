//! Roles and what they may do: the table of data/docs/api.md, "People, organizations and keys", and nothing else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! permissions {
    ($($variant:ident $name:literal;)*) => {
        /// One thing a caller may be allowed to do: an area, read or write.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Permission { $($variant),* }

        impl Permission {
            /// Every permission there is.
            pub const ALL: &'static [Permission] = &[$(Permission::$variant),*];

            /// `area:read` or `area:write`.
            pub const fn name(self) -> &'static str {
                match self { $(Permission::$variant => $name),* }
            }
        }
    };
}

/// Hands every permission, with its name, to another macro, for what is made of all of them elsewhere.
#[macro_export]
macro_rules! each_permission {
    ($then:ident) => {
        $then! {
            WorkflowsRead "workflows:read"; WorkflowsWrite "workflows:write";
            JobsRead "jobs:read"; JobsWrite "jobs:write";
            UrlsRead "urls:read"; UrlsWrite "urls:write";
            SchedulesRead "schedules:read"; SchedulesWrite "schedules:write";
            ProvidersRead "providers:read"; ProvidersWrite "providers:write";
            IntegrationsRead "integrations:read"; IntegrationsWrite "integrations:write";
            BiRead "bi:read"; BiWrite "bi:write";
            AgentsRead "agents:read"; AgentsWrite "agents:write";
            AnalyticsRead "analytics:read"; AnalyticsWrite "analytics:write";
            BillingRead "billing:read"; BillingWrite "billing:write";
            OrgRead "org:read"; OrgWrite "org:write";
            AuditRead "audit:read"; AuditWrite "audit:write";
        }
    };
}

each_permission!(permissions);

impl FromStr for Permission {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Permission::ALL
            .iter()
            .copied()
            .find(|permission| permission.name() == text)
            .ok_or_else(|| format!("\"{text}\" is not a permission; one is, for example, \"jobs:write\""))
    }
}

/// A set of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Permissions(u32);

impl Permissions {
    pub const NONE: Permissions = Permissions(0);

    pub fn of(all: impl IntoIterator<Item = Permission>) -> Permissions {
        all.into_iter().fold(Permissions::NONE, |set, permission| Permissions(set.0 | 1 << permission as u8))
    }

    pub fn contains(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u8) != 0
    }

    /// What both sets allow: how a key never grants more than its maker holds.
    pub fn and(self, other: Permissions) -> Permissions {
        Permissions(self.0 & other.0)
    }

    /// Whether everything here is also in `other`.
    pub fn within(self, other: Permissions) -> bool {
        self.and(other) == self
    }

    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |permission| self.contains(*permission))
    }

    /// The names, in the order of the table.
    pub fn names(self) -> Vec<String> {
        self.iter().map(|permission| permission.name().to_owned()).collect()
    }
}

crate::words! {
    /// What a member is in an organization.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum Role {
        Owner "owner",
        Admin "admin",
        Editor "editor",
        Analyst "analyst",
        Viewer "viewer",
    }
}

impl Role {
    /// The permissions of the role (data/docs/api.md, "People, organizations and keys").
    pub fn permissions(self) -> Permissions {
        use Permission as P;
        let work = [P::WorkflowsRead, P::JobsRead, P::UrlsRead, P::SchedulesRead, P::ProvidersRead];
        let read = Permissions::of(work.into_iter().chain([
            P::IntegrationsRead,
            P::BiRead,
            P::AgentsRead,
            P::AnalyticsRead,
            P::BillingRead,
        ]));
        let analyst = Permissions(read.0 | Permissions::of([P::BiWrite, P::AgentsWrite]).0);
        let writes = [P::WorkflowsWrite, P::JobsWrite, P::UrlsWrite, P::SchedulesWrite, P::ProvidersWrite];
        let editor =
            Permissions(analyst.0 | Permissions::of(writes.into_iter().chain([P::IntegrationsWrite])).0);
        match self {
            Role::Owner | Role::Admin => Permissions::of(P::ALL.iter().copied()),
            Role::Editor => editor,
            Role::Analyst => analyst,
            Role::Viewer => read,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_api_page() {
        use Permission as P;
        let can = |role: Role, permission| role.permissions().contains(permission);
        assert!(can(Role::Owner, P::AuditRead) && can(Role::Admin, P::OrgWrite));
        assert!(can(Role::Editor, P::JobsWrite) && !can(Role::Editor, P::OrgRead));
        assert!(can(Role::Editor, P::BillingRead) && !can(Role::Editor, P::BillingWrite));
        assert!(can(Role::Analyst, P::BiWrite) && !can(Role::Analyst, P::JobsWrite));
        assert!(can(Role::Viewer, P::BiRead) && !can(Role::Viewer, P::BiWrite));
        assert!(Role::Viewer.permissions().within(Role::Analyst.permissions()));
    }

    #[test]
    fn names_are_read_back() {
        for permission in Permission::ALL {
            assert_eq!(permission.name().parse::<Permission>().unwrap(), *permission);
        }
        assert!("jobs:delete".parse::<Permission>().is_err());
    }
}
