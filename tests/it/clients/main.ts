// Uses the generated types: what does not fit them does not compile.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string> };

type Node = components["schemas"]["DagNode"];
const env = (name: string): string => {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
};

const client = createClient<paths>({ baseUrl: env("BOX"), headers: { authorization: `Bearer ${env("KEY")}` } });

// A node's type tells which config it has.
const provider = (node: Node): string | undefined =>
  node.type === "provider" ? node.config.providerId : node.type === "wait" ? String(node.config.ms) : undefined;

const jobs = await client.GET("/api/v1/jobs", { params: { query: { status: "succeeded", limit: 10 } } });
if (jobs.data === undefined) throw new Error(JSON.stringify(jobs.error));
// @ts-expect-error: no such status
await client.GET("/api/v1/jobs", { params: { query: { status: "done" } } });

const workflows = await client.GET("/api/v1/workflows");
const nodes = workflows.data?.items[0]?.dag.nodes ?? [];
if (nodes.map(provider).filter((id) => id !== undefined).length !== 1) throw new Error(JSON.stringify(nodes));

const made = await client.POST("/api/v1/jobs", { body: { url: env("PAGE"), tags: ["generated"] } });
if (made.data === undefined) throw new Error(JSON.stringify(made.error));
const missing = await client.GET("/api/v1/jobs/{id}", {
  params: { path: { id: "00000000-0000-7000-8000-000000000000" } },
});

console.log(JSON.stringify({
  listed: jobs.data.items.map((job) => job.id),
  status: jobs.data.items[0]?.status,
  types: nodes.map((node) => node.type),
  submitted: made.data.id,
  refused: missing.response.status,
}));
