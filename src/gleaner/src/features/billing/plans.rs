//! The plans this box knows: `data/plans.toml`, read once at start.

use super::terms::Terms;
use base::{Error, Result};
use serde::Deserialize;
use server::Entitlement;

/// What an organization may use, and what it gets each month.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub default: bool,
    pub monthly_credits: u64,
    pub trial_days: Option<u32>,
    pub features: PlanFeatures,
    pub limits: PlanLimits,
    /// Shortens the box's `[retention]`; left out where it is not shortened.
    #[serde(default)]
    pub retention: Terms,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanFeatures {
    pub sql_console: bool,
    pub agents: bool,
    pub benchmarks: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanLimits {
    pub webhook_urls_per_day: u64,
    /// Megabytes (10^6) of rows and of pages on the disk.
    pub storage_mb: u64,
    /// Rows of all kinds.
    pub rows: u64,
    /// Registered URLs.
    pub urls: u64,
    /// Versions of all workflows.
    pub workflow_versions: u64,
    /// Schedules, also those that are switched off.
    pub schedules: u64,
}

impl PlanLimits {
    pub fn storage_bytes(&self) -> u64 {
        self.storage_mb.saturating_mul(1_000_000)
    }
}

impl Plan {
    pub fn has(&self, feature: Entitlement) -> bool {
        match feature.name() {
            "sqlConsole" => self.features.sql_console,
            "agents" => self.features.agents,
            "benchmarks" => self.features.benchmarks,
            _ => false,
        }
    }
}

/// All plans.
#[derive(Clone, Debug)]
pub struct Plans(Vec<Plan>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlansFile {
    plan: Vec<Plan>,
}

impl Plans {
    /// The plans that ship with this release.
    pub fn built_in() -> Result<Plans> {
        Plans::parse(include_str!("../../../../../data/plans.toml"))
    }

    /// Reads a plans file: at least one plan, ids unique, exactly one the default.
    pub fn parse(text: &str) -> Result<Plans> {
        let file: PlansFile = toml::from_str(text).map_err(|e| Error::internal("read plans.toml", e))?;
        let plans = file.plan;
        let unique = plans.iter().enumerate().all(|(i, plan)| plans[..i].iter().all(|p| p.id != plan.id));
        if !unique || plans.iter().filter(|plan| plan.default).count() != 1 {
            return Err(Error::internal(
                "read plans.toml",
                "plan ids must be unique and one plan the default",
            ));
        }
        Ok(Plans(plans))
    }

    pub fn get(&self, id: &str) -> Option<&Plan> {
        self.0.iter().find(|plan| plan.id == id)
    }

    /// The plan of every new organization.
    pub fn default_plan(&self) -> &Plan {
        self.0.iter().find(|plan| plan.default).expect("parse has checked that one plan is the default")
    }

    pub fn iter(&self) -> impl Iterator<Item = &Plan> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_plans_are_those_of_the_api_page() {
        let plans = Plans::built_in().unwrap();
        let default = plans.default_plan();
        assert_eq!(
            (default.id.as_str(), default.monthly_credits, default.trial_days),
            ("appliance", 1_000_000, None)
        );
        let trial = plans.get("trial").unwrap();
        assert_eq!((trial.monthly_credits, trial.trial_days), (1_000, Some(14)));
        assert!(plans.get("team").is_some());
        for plan in plans.iter() {
            let limits = &plan.limits;
            assert!(limits.urls < limits.rows && limits.workflow_versions < limits.rows, "{}", plan.id);
            assert!(limits.storage_bytes() >= 1_000_000_000, "{}", plan.id);
        }
    }

    #[test]
    fn what_a_slice_asks_of_a_plan_stands_in_plans() {
        let plans = Plans::built_in().unwrap();
        let routes = crate::features::ALL.iter().flat_map(|feature| feature.routes);
        let mounts = crate::features::ALL.iter().filter_map(|feature| feature.mount);
        let asked =
            routes.filter_map(|route| route.entitlement()).chain(mounts.filter_map(|mount| mount.plan));
        let asked: Vec<_> = asked.collect();
        assert!(asked.len() >= 2);
        for entitlement in asked {
            assert!(plans.default_plan().has(entitlement), "{entitlement:?}");
        }
        assert!(!plans.default_plan().has(Entitlement("nothing")));
    }

    #[test]
    fn a_file_without_a_default_is_refused() {
        let text =
            include_str!("../../../../../data/plans.toml").replace("default = true", "default = false");
        assert!(Plans::parse(&text).is_err());
    }
}
