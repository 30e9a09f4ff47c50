// A statement on its way: submitted, awaited, cancelled; and the statements of an editor's text.
import { api, ApiError } from "../../api/client";
import type { ExecutionView } from "../../generated/api";

/** Where this tab keeps the text of the editor. */
export const DRAFT = "sql.draft";
/** Short, because a statement can be cancelled only when its id is known. */
const WAIT_MS = 500;
const LOOK_EVERY_MS = 500;
/** A look that fails is done again so often, so long after. */
const LOOKS_AGAIN = 3;
const LOOK_AGAIN_MS = 1_500;
const PARAMETER = /\{\{\s*(\w+)\s*\}\}/g;

export interface Statement {
  text: string;
  from: number;
  to: number;
}

/** The statements of a text, split at semicolons that stand in no string, name, comment or dollar quote. */
export function statements(text: string): Statement[] {
  const found: Statement[] = [];
  const quoted = /'(?:[^']|'')*'?|"(?:[^"]|"")*"?|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|(\$\w*\$)[\s\S]*?(?:\1|$)|;/g;
  let from = 0;
  const put = (to: number) => {
    const part = text.slice(from, to);
    const lead = part.length - part.trimStart().length;
    if (part.trim()) found.push({ text: part.trim(), from: from + lead, to: from + lead + part.trim().length });
  };
  for (const match of text.matchAll(quoted)) {
    if (match[0] !== ";") continue;
    put(match.index);
    from = match.index + 1;
  }
  put(text.length);
  return found;
}

/** The statement around a place of the text. */
export function statementAt(text: string, place: number): Statement | undefined {
  const all = statements(text);
  return all.find((one) => place <= one.to + 1) ?? all.at(-1);
}

/** The names of `{{parameters}}`, in the order in which they first stand. */
export function parameters(sql: string): string[] {
  return [...new Set([...sql.matchAll(PARAMETER)].map((match) => match[1] ?? ""))];
}

/** What somebody typed as a value: a number where it is written as one. An article's number such as 007 or 0x10 is a text. */
export function typed(text: string): number | string {
  const isNumber = /^-?(?:0|[1-9]\d*)?(?:\.\d+)?$/.test(text.trim());
  return text.trim() !== "" && isNumber && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** The statement with `$1`, `$2` … in the place of its parameters, and their values in that order. */
export function bound(sql: string, values: ReadonlyMap<string, string>): { sql: string; params: unknown[] } {
  const names = parameters(sql);
  const text = sql.replace(PARAMETER, (_, name: string) => `$${names.indexOf(name) + 1}`);
  return { sql: text, params: names.map((name) => typed(values.get(name) ?? "")) };
}

/** The place of a statement as it was typed that a place of its `bound` form stands for. */
export function typedPlace(sql: string, place: number): number {
  const names = parameters(sql);
  let longer = 0;
  for (const match of sql.matchAll(PARAMETER)) {
    const from = match.index - longer;
    const short = `$${names.indexOf(match[1] ?? "") + 1}`.length;
    if (place < from) break;
    if (place < from + short) return match.index;
    longer += match[0].length - short;
  }
  return place + longer;
}

/** Where an error of the box says that it is, as a place of the statement. */
export function errorPlace(message: string, sql: string): number | undefined {
  const at = /line:? (\d+),? col(?:umn)?:? (\d+)/i.exec(message);
  if (!at) return undefined;
  const all = sql.split("\n");
  const before = all.slice(0, Number(at[1]) - 1).reduce((sum, line) => sum + line.length + 1, 0);
  // The box counts characters, of which some are two places here.
  const within = [...(all[Number(at[1]) - 1] ?? "")].slice(0, Number(at[2]) - 1).join("").length;
  return Math.min(before + within, sql.length);
}

export async function submit(sql: string, params: unknown[], dryRun: boolean, signal?: AbortSignal): Promise<ExecutionView> {
  return api("POST /api/v1/bi/queries", { body: { sql, ...(params.length > 0 && { params }), dryRun, waitMs: WAIT_MS }, ...(signal && { signal }) });
}

const rest = (ms: number) => new Promise((resume) => setTimeout(resume, ms));

/** A look at something under way: a network or a box that is away for a moment is asked again. */
export async function looked<T>(look: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let left = LOOKS_AGAIN; ; left--) {
    try {
      return await look();
    } catch (error) {
      const isPassing = error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
      if (!isPassing || left === 0 || signal.aborted) throw error;
      await rest(LOOK_AGAIN_MS);
      signal.throwIfAborted();
    }
  }
}

/** Waits until it has ended; tells each state on the way. */
export async function ended(first: ExecutionView, signal: AbortSignal, told: (execution: ExecutionView) => void): Promise<ExecutionView> {
  let execution = first;
  while (execution.status === "queued" || execution.status === "running") {
    told(execution);
    await rest(LOOK_EVERY_MS);
    signal.throwIfAborted();
    const { jobId: id } = execution;
    execution = await looked(() => api("GET /api/v1/bi/queries/{id}", { path: { id }, signal }), signal);
  }
  return execution;
}

export async function cancel(id: string): Promise<void> {
  await api("POST /api/v1/bi/queries/{id}/cancel", { path: { id } });
}
