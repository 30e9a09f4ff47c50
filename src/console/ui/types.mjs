// The shapes of the API as TypeScript, from the OpenAPI document: node types.mjs [openapi.json] [out.ts].
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

const from = process.argv[2] ?? "../../../data/openapi.json";
const out = process.argv[3] ?? "src/generated/api.ts";
const document = JSON.parse(readFileSync(from, "utf8"));

const literal = (value) => JSON.stringify(value);
const member = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : literal(name));
const typeName = (name) => name.replace(/\W+/g, "_");

/** The TypeScript of a schema. */
function type(schema) {
  if (schema === true || schema === undefined) return "unknown";
  if (schema === false) return "never";
  // Beside a reference stands what tells the kinds of an enum apart.
  if (schema.$ref) return `${typeName(schema.$ref.split("/").pop())}${schema.properties ? ` & ${object(schema)}` : ""}`;
  if (schema.const !== undefined) return literal(schema.const);
  if (schema.enum) return schema.enum.map(literal).join(" | ") || "never";
  const either = schema.oneOf ?? schema.anyOf;
  if (either) {
    const rest = schema.properties ? `${object(schema)} & ` : "";
    return `${rest}(${[...new Set(either.map(type))].join(" | ")})`;
  }
  if (schema.allOf) {
    const rest = schema.properties ? [object(schema)] : [];
    return [...rest, ...schema.allOf.map(type)].join(" & ");
  }
  const kinds = Array.isArray(schema.type) ? schema.type : [schema.type];
  return [...new Set(kinds.map((kind) => one(kind, schema)))].join(" | ");
}

function one(kind, schema) {
  switch (kind) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      if (schema.prefixItems) return `[${schema.prefixItems.map(type).join(", ")}]`;
      return `(${type(schema.items)})[]`;
    case "object":
      return object(schema);
    default:
      return schema.properties ? object(schema) : "unknown";
  }
}

function object(schema) {
  const required = new Set(schema.required ?? []);
  const own = Object.entries(schema.properties ?? {}).map(
    ([name, value]) => `${member(name)}${required.has(name) ? "" : "?"}: ${type(value)};`,
  );
  const more = schema.additionalProperties;
  if (own.length === 0) return more ? `Record<string, ${type(more)}>` : "Record<string, unknown>";
  return `{ ${own.join(" ")} }`;
}

const json = (content) => {
  const media = Object.entries(content ?? {}).find(([name]) => name.endsWith("json"));
  return media ? type(media[1].schema) : undefined;
};

const lines = ["// Made by types.mjs from data/openapi.json.", ""];
for (const [name, schema] of Object.entries(document.components.schemas)) {
  lines.push(`export type ${typeName(name)} = ${type(schema)};`);
}
lines.push("", "/** Every operation: its method and path, what it takes, and what it answers with. */", "export interface Operations {");
const calls = [];
for (const [path, methods] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    if (!operation.operationId) continue;
    const query = (operation.parameters ?? []).filter((parameter) => parameter.in === "query");
    const queries = query.map((parameter) => `${member(parameter.name)}?: ${type(parameter.schema)};`);
    const body = json(operation.requestBody?.content) ?? "undefined";
    const good = Object.entries(operation.responses).filter(([status]) => status.startsWith("2"));
    const answers = [...new Set(good.map(([, response]) => json(response.content) ?? "undefined"))];
    const answer = answers.join(" | ") || "undefined";
    const call = literal(`${method.toUpperCase()} ${path}`);
    calls.push(`  ${call}: Operations["${operation.operationId}"];`);
    lines.push(`  ${operation.operationId}: { call: ${call}; query: { ${queries.join(" ")} }; body: ${body}; answer: ${answer} };`);
  }
}
// Looked up by a key: where each call is compared with every operation, the compiler instantiates four times as many types.
lines.push("}", "", "/** The same by method and path. */", "export interface Calls {", ...calls, "}", "");
mkdirSync(dirname(out), { recursive: true });
writeFileSync(out, lines.join("\n"));
