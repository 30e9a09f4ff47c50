// Rows as text for elsewhere: CSV, JSON, Markdown.
import { shown } from "../../parts/figures";
import type { Row } from "./grid";

/** A spreadsheet takes what begins like this for a formula. */
const FORMULA = /^[=+\-@\t\r]/;

function csvField(value: unknown): string {
  let text = shown(value);
  if (typeof value === "string" && FORMULA.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(columns: readonly string[], rows: readonly Row[]): string {
  return [columns.map(csvField), ...rows.map((row) => columns.map((name) => csvField(row[name])))].map((line) => line.join(",")).join("\r\n");
}

export function json(columns: readonly string[], rows: readonly Row[]): string {
  return JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]]))), null, 1);
}

export function markdown(columns: readonly string[], rows: readonly Row[]): string {
  const field = (value: unknown) => shown(value).replaceAll("\\", "\\\\").replaceAll("|", "\\|").replace(/\s*\n\s*/g, " ");
  const line = (fields: string[]) => `| ${fields.join(" | ")} |`;
  return [line(columns.map(field)), line(columns.map(() => "---")), ...rows.map((row) => line(columns.map((name) => field(row[name]))))].join("\n");
}
