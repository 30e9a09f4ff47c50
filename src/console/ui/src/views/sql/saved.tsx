// Saved queries in folders (what stands before a slash of the name), and the history.
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import { useList, type Listed } from "../../api/use";
import { decoded, may, toast } from "../../app/state";
import { Act, Badge, Bones, Empty, Field, Form, Text, Trouble } from "../../parts/basic";
import { Time } from "../../parts/figures";
import type { SavedQueryView } from "../../generated/api";
import type { ChartChoice } from "./chart";
import { bound, parameters } from "./run";

/** The chart and the parameters' names are kept with the query: as the last lines of its description. */
const CHART = /\n?chart: (line|bar|scatter) (\S+) (\S+)$/;
const NAMES = /\n?parameters: ([\w ]+)$/;

export interface Described {
  text: string;
  chart: ChartChoice | undefined;
  sql: string;
}

/** A saved query as people see it: its `$1` are `{{names}}` again. */
export function described(query: SavedQueryView): Described {
  let text = query.description ?? "";
  let chart: ChartChoice | undefined;
  const drawn = CHART.exec(text);
  if (drawn) {
    const [, kind, x, y] = drawn;
    chart = { kind: kind as ChartChoice["kind"], x: decoded(x ?? ""), y: decoded(y ?? "") };
    text = text.replace(CHART, "");
  }
  const names = NAMES.exec(text)?.[1]?.split(" ") ?? [];
  const sql = (query.sql ?? "").replace(/\$(\d+)/g, (place, n: string) => (names[Number(n) - 1] ? `{{${names[Number(n) - 1]}}}` : place));
  return { text: text.replace(NAMES, ""), chart, sql };
}

/** What is stored: the statement in the box's own form, and what it does not know of in the description. */
function stored(text: string, sql: string, chart: ChartChoice | undefined): { description: string; sql: string } {
  const names = parameters(sql);
  const lines = [text];
  if (names.length > 0) lines.push(`parameters: ${names.join(" ")}`);
  if (chart) lines.push(`chart: ${chart.kind} ${encodeURIComponent(chart.x)} ${encodeURIComponent(chart.y)}`);
  return { description: lines.join("\n"), sql: bound(sql, new Map()).sql };
}

export function useSaved(): Listed<SavedQueryView> {
  return useList((cursor, signal) => api("GET /api/v1/bi/saved-queries", { query: { limit: 200, ...(cursor && { cursor }) }, signal }), []);
}

/** The end of a list: what more there is, and what went wrong with it. */
function Rest({ of }: { of: Listed<unknown> }) {
  return (
    <>
      {of.error && <Trouble error={of.error} retry={of.reload} />}
      {of.more && <div class="more"><button type="button" class="button small" disabled={of.busy} onClick={of.more}>{of.busy ? "Loading …" : `More (${of.items?.length} shown)`}</button></div>}
    </>
  );
}

export function Saved({ list, onOpen }: { list: Listed<SavedQueryView>; onOpen: (query: SavedQueryView) => void }) {
  if (list.error && !list.items) return <Trouble error={list.error} retry={list.reload} />;
  if (!list.items) return <Bones />;
  if (list.items.length === 0) return <Empty title="No saved queries">Save one to share it within the organization. A name such as “prices/by shop” puts it into a folder.</Empty>;
  const folders = new Map<string, SavedQueryView[]>();
  for (const query of list.items) {
    const folder = query.name.includes("/") ? query.name.slice(0, query.name.indexOf("/")) : "";
    folders.set(folder, [...(folders.get(folder) ?? []), query]);
  }
  const remove = async (query: SavedQueryView) => {
    await api("DELETE /api/v1/bi/saved-queries/{id}", { path: { id: query.id } });
    toast("The query was deleted");
    list.reload();
  };
  return (
    <div class="catalog">
      {[...folders].sort(([a], [b]) => a.localeCompare(b)).map(([folder, queries]) => (
        <details key={folder} open>
          <summary>{folder || "Queries"}</summary>
          <ul>
            {queries.map((query) => (
              <li key={query.id} title={described(query).text}>
                <button type="button" class="name" onClick={() => onOpen(query)}>
                  {folder ? query.name.slice(folder.length + 1) : query.name}
                </button>
                {may("bi:write") && <Act small kind="bare" sure={`Delete “${query.name}”?`} does={() => remove(query)}><span aria-hidden="true">✕</span><span class="quiet">Delete this query</span></Act>}
              </li>
            ))}
          </ul>
        </details>
      ))}
      <Rest of={list} />
    </div>
  );
}

export function Save({ sql, chart, known, onDone }: { sql: string; chart: ChartChoice | undefined; known: SavedQueryView | undefined; onDone: (query: SavedQueryView) => void }) {
  const [name, setName] = useState(known?.name ?? "");
  const [about, setAbout] = useState(known ? described(known).text : "");
  const send = async () => {
    const body = { name, ...stored(about, sql, chart) };
    const isSame = known && known.name === name;
    const query = isSame
      ? await api("PATCH /api/v1/bi/saved-queries/{id}", { path: { id: known.id }, body })
      : await api("POST /api/v1/bi/saved-queries", { body });
    toast("Saved");
    onDone(query);
  };
  return (
    <Form send="Save" onSend={send}>
      <Field label="Name" hint="“folder/name” puts it into a folder.">
        <Text required maxLength={200} value={name} onText={setName} />
      </Field>
      <Field label="Description">
        <textarea rows={2} value={about} onInput={(event) => setAbout(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}

/** Characters of a statement that the history keeps. */
const KEPT_CHARS = 1_000;

export function History({ turn, onOpen }: { turn: number; onOpen: (sql: string) => void }) {
  const list = useList((cursor, signal) => api("GET /api/v1/bi/queries", { query: { limit: 40, ...(cursor && { cursor }) }, signal }), [turn]);
  if (list.error && !list.items) return <Trouble error={list.error} retry={list.reload} />;
  if (!list.items) return <Bones />;
  if (list.items.length === 0) return <Empty title="Nothing was asked yet" />;
  const open = (sql: string) => {
    onOpen(sql);
    if ([...sql].length >= KEPT_CHARS) toast(`The history keeps the first ${KEPT_CHARS} characters of a statement: the rest of this one is not there`, true);
  };
  return (
    <>
      <ul class="plain catalog">
        {list.items.map((one) => (
          <li key={one.jobId}>
            <button type="button" class="name cut" title={one.sqlPreview ?? ""} disabled={!one.sqlPreview} onClick={() => open(one.sqlPreview ?? "")}>
              {one.savedQueryName ?? one.sqlPreview ?? "structured query"}
            </button>
            <span class="row">
              <Badge state={one.status} />
              <Time at={one.createdAt} />
            </span>
          </li>
        ))}
      </ul>
      <Rest of={list} />
    </>
  );
}
