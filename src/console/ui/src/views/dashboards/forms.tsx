// What is asked of a tile, of the filters of a dashboard, and of when it is made anew.
import { useState } from "preact/hooks";
import { api } from "../../api/client";
import { everyPage, useLoad } from "../../api/use";
import { Bones, Choice, Empty, Field, Form, Text, Trouble } from "../../parts/basic";
import { zone } from "../../parts/figures";
import type { ChartKind, DashboardParameter, DashboardView, SavedQueryView, TileView } from "../../generated/api";
import { inWords } from "../cron";
import { typed } from "../sql/run";
import { described } from "../sql/saved";
import { COLUMNS } from "./board";

const KINDS = [["table", "Table"], ["line", "Line"], ["bar", "Bars"], ["scatter", "Points"], ["number", "One number"]] as const;
const listed = (text: string) => text.split(",").map((one) => one.trim()).filter(Boolean);
/** How many `$1`, `$2` … a statement has. */
const places = (query: SavedQueryView | undefined) => Math.max(0, ...[...(query?.sql ?? "").matchAll(/\$(\d+)/g)].map((match) => Number(match[1])));

function paramText(value: unknown): string {
  if (value && typeof value === "object" && "parameter" in value) return `{{${String(value.parameter)}}}`;
  return value === null || value === undefined ? "" : String(value);
}

function paramValue(text: string): unknown {
  const named = /^\{\{\s*(\w+)\s*\}\}$/.exec(text.trim());
  if (named) return { parameter: named[1] };
  return typed(text);
}

interface TileProps {
  known: TileView | undefined;
  parameters: readonly DashboardParameter[];
  anew: number;
  tiles: readonly TileView[];
  onDone: (tile: TileView) => void;
  onCancel: () => void;
}

export function TileForm({ known, parameters, anew, tiles, onDone, onCancel }: TileProps) {
  const saved = useLoad((signal) => everyPage((cursor) => api("GET /api/v1/bi/saved-queries", { query: { limit: 200, ...(cursor && { cursor }) }, signal })), []);
  const [query, setQuery] = useState(known?.savedQueryId ?? "");
  const [title, setTitle] = useState(known?.title ?? "");
  const [kind, setKind] = useState<ChartKind>(known?.chart.type ?? "table");
  const [x, setX] = useState(known?.chart.x ?? "");
  const [y, setY] = useState(known?.chart.y.join(", ") ?? "");
  const [params, setParams] = useState<readonly string[]>(known?.params.map(paramText) ?? []);
  if (saved.error) return <Trouble error={saved.error} retry={saved.reload} />;
  if (!saved.value) return <Bones />;
  const queries = saved.value;
  if (queries.length === 0) return <Empty title="No saved queries">A tile shows one: <a href="#/sql">write and save it</a> first.</Empty>;
  const chosen = queries.find((one) => one.id === query);
  const count = places(chosen);
  const pick = (id: string) => {
    setQuery(id);
    const of = queries.find((one) => one.id === id);
    const drawn = of && described(of).chart;
    if (!drawn || known) return;
    setKind(drawn.kind);
    setX(drawn.x);
    setY(drawn.y);
  };
  const send = async () => {
    const below = Math.max(0, ...tiles.map((tile) => tile.position.y + tile.position.h));
    const position = known?.position ?? { x: 0, y: below, w: kind === "number" ? 3 : COLUMNS / 2, h: kind === "number" ? 2 : 5 };
    // Of a query that is not there any more nobody knows how many it takes: they stay.
    const values = chosen ? Array.from({ length: count }, (_, index) => paramValue(params[index] ?? "")) : (known?.params ?? []);
    onDone({ id: known?.id ?? anew, title: title.trim() || chosen?.name || null, savedQueryId: query, params: values, chart: { type: kind, x: x.trim() || null, y: listed(y) }, position, result: null });
  };
  return (
    <Form send={known ? "Change the tile" : "Add the tile"} onSend={send} onCancel={onCancel}>
      <Field label="Saved query">
        <select required value={query} onChange={(event) => pick(event.currentTarget.value)}>
          <option value="">Choose one</option>
          {queries.map((one) => <option key={one.id} value={one.id}>{one.name}</option>)}
        </select>
      </Field>
      <div class="two">
        <Field label="Title" hint="Empty: the query's name."><Text maxLength={200} value={title} onText={setTitle} /></Field>
        <Field label="Shown as"><Choice value={kind} options={KINDS} onPick={setKind} /></Field>
      </div>
      {kind !== "table" && (
        <div class="two">
          {kind !== "number" && <Field label="By" hint="A column: of times, names or numbers."><Text value={x} onText={setX} /></Field>}
          <Field label="Of" hint={kind === "line" ? "Columns of numbers, separated by commas." : "A column of numbers."}><Text value={y} onText={setY} /></Field>
        </div>
      )}
      {Array.from({ length: count }, (_, index) => (
        <Field key={index} label={`Value of $${index + 1}`} hint={parameters.length > 0 ? `A value, or a filter: ${parameters.map((one) => `{{${one.name}}}`).join(", ")}` : "Filters of the dashboard can be named here, once it has some."}>
          <Text value={params[index] ?? ""} onText={(text) => setParams(Array.from({ length: count }, (_, at) => (at === index ? text : (params[at] ?? ""))))} />
        </Field>
      ))}
    </Form>
  );
}

export function RefreshForm({ of, onDone }: { of: DashboardView; onDone: (next: DashboardView) => void }) {
  const [cron, setCron] = useState(of.refresh?.cron ?? "");
  const [timezone, setZone] = useState(of.refresh?.timezone ?? zone());
  const send = async () => {
    const body = cron.trim() ? { refresh: { cron: cron.trim(), timezone } } : { clear: ["refresh" as const] };
    onDone(await api("PATCH /api/v1/bi/dashboards/{id}", { path: { id: of.id }, body }));
  };
  return (
    <Form send="Save" onSend={send}>
      <Field label="When" hint={cron.trim() ? inWords(cron) : "Empty: while somebody looks at it."}><Text class="mono" placeholder="0 6 * * *" value={cron} onText={setCron} /></Field>
      <Field label="Time zone"><Text required value={timezone} onText={setZone} /></Field>
    </Form>
  );
}

export function ParametersForm({ of, onDone }: { of: DashboardView; onDone: (next: DashboardView) => void }) {
  const [rows, setRows] = useState(of.parameters.map((one) => ({ name: one.name, value: one.value === null ? "" : String(one.value) })));
  const put = (index: number, change: Partial<(typeof rows)[number]>) => setRows(rows.map((one, at) => (at === index ? { ...one, ...change } : one)));
  const send = async () => {
    const parameters = rows.map((one) => ({ name: one.name, value: paramValue(one.value) }));
    onDone(await api("PATCH /api/v1/bi/dashboards/{id}", { path: { id: of.id }, body: { parameters } }));
  };
  return (
    <Form send="Save the filters" onSend={send}>
      <p class="hint">A tile takes one as a value of its query's $1, $2 …</p>
      {rows.map((one, index) => (
        <div class="two" key={index}>
          <Field label="Name"><Text required pattern="[A-Za-z_][A-Za-z0-9_]*" value={one.name} onText={(name) => put(index, { name })} /></Field>
          <Field label="Value"><Text value={one.value} onText={(value) => put(index, { value })} /></Field>
          <div class="row end"><button type="button" class="button small bad" aria-label={`Remove the filter ${one.name}`} onClick={() => setRows(rows.filter((_, at) => at !== index))}>Remove</button></div>
        </div>
      ))}
      <div class="row"><button type="button" class="button small" onClick={() => setRows([...rows, { name: "", value: "" }])}>Add a filter</button></div>
    </Form>
  );
}
