//! The vocabulary of the audit log: every action there is, what kind of thing it is done to, and what it means.
//!
//! A row keeps the action by its name, so names are never changed or used again for something else. A new change of
//! state adds its line here, under its area.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use std::borrow::Cow;

macro_rules! actions {
    ($($variant:ident $name:literal $resource:literal $about:literal;)*) => {
        /// Something that somebody did, or was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Action { $(#[doc = $about] $variant),* }

        impl Action {
            /// Every action, in the order of the table.
            pub const ALL: &'static [Action] = &[$(Action::$variant),*];

            /// The name in rows and on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Action::$variant => $name),* }
            }

            /// The kind of thing it is done to: `resourceType` on the wire.
            pub const fn resource(self) -> &'static str {
                match self { $(Action::$variant => $resource),* }
            }

            /// What it means, in a sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Action::$variant => $about),* }
            }
        }
    };
}

actions! {
    // People and their sessions.
    UserRegistered "user.registered" "user" "An account was made.";
    UserVerified "user.verified" "user" "The email address of an account was verified.";
    AuthLogin "auth.login" "user" "A person logged in, with their password or through the company's provider (by).";
    AuthLoginRefused "auth.login_refused" "user" "A login was refused: a wrong password, an unknown address, or somebody whom the company's provider sent and who may not come in (reason).";
    AuthLoginThrottled "auth.login_throttled" "user" "A login was refused because too many had failed before.";
    AuthLogout "auth.logout" "user" "A person logged out; the login's tokens ended.";
    AuthProviderJoined "auth.provider_joined" "user" "An account was joined with one at the company's provider, which lets the person in from then on.";
    AuthTokenReused "auth.token_reused" "user" "A refresh token was used a second time; its login ended.";
    AuthVerificationSent "auth.verification_sent" "user" "A verification message was asked for.";
    AuthResetRequested "auth.reset_requested" "user" "A message to replace a forgotten password was asked for.";
    AuthPasswordReset "auth.password_reset" "user" "A password was replaced; every login of the person ended.";
    UserErased "user.erased" "user" "An account was erased; its id is a pseudonym from then on.";
    UserExportRequested "user.export_requested" "user" "A person asked for a file of what is held on them.";
    // Organizations, members, invitations, keys.
    OrgCreated "org.created" "org" "An organization was made.";
    OrgUpdated "org.updated" "org" "The organization was given another name.";
    OrgRestoreStarted "org.restore_started" "org" "The operator had an organization brought back from a backup (backup).";
    OrgRestored "org.restored" "org" "An organization came back from a backup, as it was at that moment; its outputs are switched off.";
    OrgErased "org.erased" "org" "An organization was put out of reach, to be removed with everything in it.";
    MemberJoined "member.joined" "user" "A person became a member: by an invitation, by the operator, or by their groups at the company's provider (by).";
    MemberRoleChanged "member.role_changed" "user" "A member was given another role.";
    MemberRemoved "member.removed" "user" "A membership ended, with the API keys that the member had made.";
    InviteCreated "invite.created" "invite" "A person was invited.";
    InviteDeleted "invite.deleted" "invite" "An invitation was taken back.";
    ApiKeyCreated "api_key.created" "api_key" "An API key was made.";
    ApiKeyDeleted "api_key.deleted" "api_key" "An API key was ended.";
    CliAuthApproved "cli_auth.approved" "api_key" "A command line was approved; an API key was made for it.";
    CliAuthDelivered "cli_auth.delivered" "api_key" "The key that was made for a command line was handed to it.";
    // Collecting.
    UrlCreated "url.created" "url" "URLs were registered, or known ones changed by registering them again.";
    UrlUpdated "url.updated" "url" "A URL's tags, metadata, page type, workflow or site session were changed.";
    UrlDeleted "url.deleted" "url" "URLs were removed from the list; their results stay.";
    JobSubmitted "job.submitted" "job" "A job was submitted.";
    JobBatchSubmitted "job.batch_submitted" "job" "Several jobs were submitted at once.";
    JobCanceled "job.canceled" "job" "A job was canceled.";
    BatchCanceled "batch.canceled" "batch" "A batch was canceled, with all of its jobs that had not ended.";
    BatchRetried "batch.retried" "batch" "The failed jobs of a batch were to be submitted again.";
    JobRetried "job.retried" "job" "An ended job was submitted again.";
    ScheduleCreated "schedule.created" "schedule" "A schedule was made.";
    ScheduleUpdated "schedule.updated" "schedule" "A schedule was given other terms.";
    ScheduleToggled "schedule.toggled" "schedule" "A schedule was switched on or off.";
    ScheduleDeleted "schedule.deleted" "schedule" "A schedule was removed with its runs; their jobs and results stay.";
    ScheduleTriggered "schedule.triggered" "schedule" "A schedule was run at once.";
    ScheduleDisabled "schedule.disabled" "schedule" "The box found a schedule that it cannot read any more; it does not fire.";
    InputCreated "input.created" "input" "A source of URLs was made.";
    InputUpdated "input.updated" "input" "A source of URLs was given other terms.";
    InputDeleted "input.deleted" "input" "A source of URLs was removed with its runs; their URLs, jobs and results stay.";
    InputTriggered "input.triggered" "input" "A source of URLs was run at once.";
    InputDisabled "input.disabled" "input" "The box switched a source of URLs off: its document is gone for good, or its terms cannot be read.";
    OutputCreated "output.created" "output" "An output was made: events are delivered by themselves.";
    OutputUpdated "output.updated" "output" "An output was given other terms, or another key.";
    OutputDeleted "output.deleted" "output" "An output was removed with its deliveries.";
    OutputTested "output.tested" "output" "A message was sent to an output's endpoint to see what it answers.";
    OutputRecovered "output.recovered" "output" "Events of an output from some time on were to be delivered that had not been.";
    StorageChanged "storage.changed" "storage" "Pages were to lie in a storage of the organization's own, or it was given other terms.";
    StorageRemoved "storage.removed" "storage" "Pages were to lie in the box's own folder again.";
    StorageTested "storage.tested" "storage" "An object was put into a storage, read, listed and removed to see whether it works.";
    OutputDisabled "output.disabled" "output" "The box switched an output off: its endpoint is gone, or has failed for days.";
    DeliveryRepeated "delivery.repeated" "delivery" "A delivery was to be tried again.";
    ScheduleMissed "schedule.missed" "schedule" "A schedule's time passed, and the box had decided nothing about it.";
    // Providers, workflows, benchmarks, suggestions.
    ProviderConnected "provider.connected" "provider" "A provider was connected.";
    ProviderUpdated "provider.updated" "provider" "A connected provider was changed.";
    ProviderDisconnected "provider.disconnected" "provider" "A provider was disconnected and its credentials were forgotten.";
    SiteSessionCreated "site_session.created" "site_session" "Cookies or headers for a site were kept, sealed.";
    SiteSessionDeleted "site_session.deleted" "site_session" "Cookies or headers for a site were forgotten.";
    WorkflowCreated "workflow.created" "workflow" "A workflow was made.";
    WorkflowUpdated "workflow.updated" "workflow" "A workflow was given a new version.";
    WorkflowCloned "workflow.cloned" "workflow" "A workflow was made as the copy of another.";
    WorkflowPublished "workflow.published" "workflow" "A workflow was made live.";
    WorkflowUnpublished "workflow.unpublished" "workflow" "A workflow was taken out of service.";
    WorkflowArchived "workflow.archived" "workflow" "A workflow was archived.";
    WorkflowRouted "workflow.routed" "workflow" "A workflow was given another route, or none.";
    WorkflowModeSet "workflow.mode_set" "workflow" "Who decides about a smart workflow's ranking was changed.";
    WorkflowOptimized "workflow.optimized" "workflow" "The optimization worker gave a smart workflow a new version.";
    SuggestionApplied "suggestion.applied" "suggestion" "A suggested ranking was made a workflow's new version.";
    SuggestionDismissed "suggestion.dismissed" "suggestion" "A suggested ranking was turned down.";
    BenchmarkStarted "benchmark.started" "benchmark" "A benchmark of the connected providers was started.";
    BenchmarkCanceled "benchmark.canceled" "benchmark" "A benchmark was canceled.";
    // Extraction and SQL.
    ResultDeleted "result.deleted" "result" "Results were deleted, with pages that only they named.";
    ResultBackfilled "result.backfilled" "result" "Stored pages were read again, and what they say put into their results.";
    AttributesSaved "attributes.saved" "attributes" "An organization's own attributes for a domain were changed.";
    LogLevelSet "log.level_set" "log" "The operator changed what the box's log shows.";
    ClockAccepted "clock.accepted" "clock" "The operator vouched for the machine's clock: terms end by what it says.";
    DiscoveryStarted "discovery.started" "discovery" "A schema was to be found out from stored pages.";
    SchemaDiscovered "schema.discovered" "schema" "The box made a platform schema out of stored pages.";
    SchemaRepaired "schema.repaired" "schema" "The box gave a platform schema other expressions for what its site had outrun.";
    DriftFound "schema.drifted" "schema" "A site had changed under a schema or own attributes; what was found out and mended.";
    SchemaImported "schema.imported" "schema" "The operator imported platform schemas.";
    BiQuerySubmitted "bi_query.submitted" "bi_query" "An SQL statement was submitted.";
    BiQueryRefused "bi_query.refused" "bi_query" "An SQL statement that could not be planned was withdrawn.";
    BiQueryCanceled "bi_query.canceled" "bi_query" "The end of an SQL statement was asked for.";
    BiExportRequested "bi_export.requested" "bi_export" "The rows of an SQL statement were to be made a file.";
    BiSwitchedOff "bi.switched_off" "bi" "The operator switched SQL statements off.";
    BiSwitchedOn "bi.switched_on" "bi" "The operator switched SQL statements on again.";
    SavedQueryCreated "saved_query.created" "saved_query" "A query was saved under a name.";
    SavedQueryUpdated "saved_query.updated" "saved_query" "A saved query was given another name, description or text.";
    SavedQueryDeleted "saved_query.deleted" "saved_query" "A saved query was removed.";
    MonitorCreated "monitor.created" "monitor" "A monitor was made: a statement is run by itself, and what follows is told.";
    MonitorUpdated "monitor.updated" "monitor" "A monitor was given other terms, or switched on or off.";
    MonitorDeleted "monitor.deleted" "monitor" "A monitor was removed.";
    DashboardCreated "dashboard.created" "dashboard" "A dashboard was made of saved queries.";
    DashboardUpdated "dashboard.updated" "dashboard" "A dashboard was given other terms or tiles.";
    DashboardDeleted "dashboard.deleted" "dashboard" "A dashboard was removed; its saved queries stay.";
    AgentCreated "agent.created" "agent" "A conversation over the data was begun.";
    AgentDeleted "agent.deleted" "agent" "A conversation was removed; queries that it saved stay.";
    AgentAsked "agent.asked" "agent" "A message was sent to an agent.";
    AgentCardResolved "agent.card_resolved" "agent" "A card of a conversation was answered.";
    // The operator.
    AuthResetLinkMade "auth.reset_link_made" "user" "The operator made a link with which a password can be replaced.";
    OrgPlanChanged "org.plan_changed" "org" "The operator put the organization on another plan.";
    CreditsGranted "credits.granted" "org" "The operator added credits to the organization's account.";
    RechargeRequested "recharge.requested" "recharge" "More credits were asked for.";
    RechargeApproved "recharge.approved" "recharge" "The operator approved a request for credits; they were added.";
    RechargeDenied "recharge.denied" "recharge" "The operator denied a request for credits.";
    BackupStarted "backup.started" "backup" "The operator had a backup made of the box.";
    MailRetried "mail.retried" "mail" "The operator let messages be sent again.";
    // Whatever is asked for.
    AccessDenied "access.denied" "operation" "A caller was refused an operation: a permission, role or proof was missing.";
    AuditPruned "audit.pruned" "audit" "Audit rows older than the box keeps them were removed.";
}

impl Action {
    /// The action of this name.
    pub fn named(name: &str) -> Option<Action> {
        Action::ALL.iter().copied().find(|action| action.name() == name)
    }

    /// Whether so many rows have it that a list of them needs no index of its own: they are nearly all the rows there are.
    pub const fn is_bulk(self) -> bool {
        matches!(self, Action::JobSubmitted)
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Action::named(&name).ok_or_else(|| {
            de::Error::custom(
                "is no action; one is, for example, \"job.submitted\" (the reference lists them)",
            )
        })
    }
}

impl JsonSchema for Action {
    fn schema_name() -> Cow<'static, str> {
        "AuditAction".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Action::ALL.iter().map(|action| action.name()).collect();
        let meanings: Vec<_> =
            Action::ALL.iter().map(|action| format!("{}: {}", action.name(), action.about())).collect();
        json_schema!({ "type": "string", "enum": names, "description": meanings.join(" ") })
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_have_an_area() {
        let names: HashSet<_> = Action::ALL.iter().map(|action| action.name()).collect();
        assert_eq!(names.len(), Action::ALL.len());
        for action in Action::ALL {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
            assert!(action.name().chars().all(plain) && action.name().split('.').count() == 2, "{action:?}");
            assert!(action.about().ends_with('.'), "{action:?}");
            assert_eq!(Action::named(action.name()), Some(*action));
        }
        assert_eq!(Action::named("url"), None);
    }
}
