// Every place of the console: where it is, what it is called, who may see it, and which file has it.
import type { ComponentType } from "preact";
import { Overview } from "../views/overview";

export interface Place {
  path: string;
  title: string;
  group: string;
  /** What one must be allowed to see it. */
  needs?: string;
  load: () => Promise<ComponentType>;
}

export const PLACES: readonly Place[] = [
  // Most visits begin with it, so it is in the first file: by itself it was three more, one of which named the others.
  { path: "overview", title: "Overview", group: "", load: () => Promise.resolve(Overview) },
  { path: "analytics", title: "Analytics", group: "", needs: "analytics:read", load: () => import("../views/analytics").then((m) => m.Analytics) },
  { path: "sql", title: "SQL", group: "Ask", needs: "bi:read", load: () => import("../views/sql/view").then((m) => m.Sql) },
  { path: "agents", title: "Agents", group: "Ask", needs: "agents:read", load: () => import("../views/agents").then((m) => m.Agents) },
  { path: "dashboards", title: "Dashboards", group: "Ask", needs: "bi:read", load: () => import("../views/dashboards").then((m) => m.Dashboards) },
  { path: "results", title: "Results", group: "Ask", needs: "workflows:read", load: () => import("../views/results").then((m) => m.Results) },
  { path: "urls", title: "URLs", group: "Collect", needs: "urls:read", load: () => import("../views/urls").then((m) => m.Urls) },
  { path: "jobs", title: "Jobs", group: "Collect", needs: "jobs:read", load: () => import("../views/jobs").then((m) => m.Jobs) },
  { path: "batches", title: "Batches", group: "Collect", needs: "jobs:read", load: () => import("../views/batches").then((m) => m.Batches) },
  { path: "schedules", title: "Schedules", group: "Collect", needs: "schedules:read", load: () => import("../views/schedules").then((m) => m.Schedules) },
  { path: "inputs", title: "Inputs", group: "Collect", needs: "integrations:read", load: () => import("../views/inputs").then((m) => m.Inputs) },
  { path: "schemas", title: "Schemas", group: "Extract", needs: "workflows:read", load: () => import("../views/schemas").then((m) => m.Schemas) },
  { path: "providers", title: "Providers", group: "Dispatch", needs: "providers:read", load: () => import("../views/providers").then((m) => m.Providers) },
  { path: "site-sessions", title: "Site sessions", group: "Collect", needs: "providers:read", load: () => import("../views/site-sessions").then((m) => m.SiteSessions) },
  { path: "workflows", title: "Workflows", group: "Dispatch", needs: "workflows:read", load: () => import("../views/workflows").then((m) => m.Workflows) },
  { path: "benchmarks", title: "Benchmarks", group: "Dispatch", needs: "workflows:read", load: () => import("../views/benchmarks").then((m) => m.Benchmarks) },
  { path: "outputs", title: "Outputs", group: "Deliver", needs: "integrations:read", load: () => import("../views/outputs").then((m) => m.Outputs) },
  { path: "monitors", title: "Monitors", group: "Deliver", needs: "bi:read", load: () => import("../views/monitors").then((m) => m.Monitors) },
  { path: "members", title: "Members", group: "Organization", needs: "org:read", load: () => import("../views/members").then((m) => m.Members) },
  { path: "keys", title: "API keys", group: "Organization", load: () => import("../views/keys").then((m) => m.Keys) },
  { path: "plan", title: "Plan and credits", group: "Organization", needs: "billing:read", load: () => import("../views/plan").then((m) => m.Plan) },
  { path: "storage", title: "Storage", group: "Organization", needs: "integrations:read", load: () => import("../views/storage").then((m) => m.Storage) },
  { path: "audit", title: "Audit log", group: "Organization", needs: "audit:read", load: () => import("../views/audit").then((m) => m.Audit) },
];

/** Places that are reached from elsewhere. */
export const OTHERS: readonly Place[] = [
  { path: "start", title: "First steps", group: "", load: () => import("../views/start").then((m) => m.Start) },
  { path: "profile", title: "Your profile", group: "", load: () => import("../views/profile").then((m) => m.Profile) },
  { path: "device", title: "Approve a command line", group: "", load: () => import("../views/device").then((m) => m.Device) },
];

/** The place whose path begins with this part; the overview without one. */
export function placeOf(part: string | undefined): Place | undefined {
  return [...PLACES, ...OTHERS].find((one) => one.path === (part ?? "overview"));
}
