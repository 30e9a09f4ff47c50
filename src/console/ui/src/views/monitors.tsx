// Monitors: statements that the box runs by itself, what they found, when that changed, and the condition tried before it is
// kept.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { useEvents } from "../api/live";
import { everyPage, useList, useLoad } from "../api/use";
import { ask, go, here, may, me, toast } from "../app/state";
import { Act, Badge, Bones, Check, Choice, Dialog, Empty, Field, Form, Head, Panel, Text, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { number, shown, Time, zone } from "../parts/figures";
import { List } from "../parts/list";
import type { EventView, MonitorCondition, MonitorConditionInput, MonitorOperator, MonitorState, MonitorView, NewMonitor } from "../generated/api";
import { inWords } from "./cron";
import { useCalm } from "./jobs";
import { ended, submit } from "./sql/run";

const OPERATORS = [["gt", "is more than"], ["gte", "is at least"], ["lt", "is less than"], ["lte", "is at most"], ["eq", "is"], ["ne", "is not"]] as const;
const HOLDS: Record<MonitorOperator, (value: number, than: number) => boolean> = {
  gt: (a, b) => a > b,
  gte: (a, b) => a >= b,
  lt: (a, b) => a < b,
  lte: (a, b) => a <= b,
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
};
const KINDS = ["monitor.firing", "monitor.ok", "monitor.no_data", "monitor.error"] as const;

/** A condition as a sentence. */
function sentence(of: MonitorCondition): string {
  const operator = OPERATORS.find(([key]) => key === of.op)?.[1] ?? of.op;
  const value = of.value === "rows" ? "the number of rows" : of.value;
  const times = (of.for ?? 1) > 1 ? `, ${of.for} runs in a row` : "";
  if (of.changePercent === null) return `${value} ${operator} ${number(of.threshold ?? 0)}${times}`;
  const since = !of.over || of.over === "previous" ? "the run before" : `${of.over} before`;
  return `the change of ${value} since ${since} ${operator} ${number(of.changePercent)} %${times}`;
}

interface Tried {
  value: number | null;
  told: string;
  holds: boolean | undefined;
}

/** Runs the statement once as the console does, and says what the condition makes of it. */
async function tried(sql: string, condition: MonitorConditionInput, before: number | null | undefined): Promise<Tried> {
  const execution = await ended(await submit(sql, [], false), new AbortController().signal, () => undefined);
  if (execution.error) return { value: null, told: execution.error.message, holds: undefined };
  const results = execution.results ?? (await api("GET /api/v1/bi/queries/{id}/results", { path: { id: execution.jobId }, query: { page: 0 } }));
  const first = results.rows[0];
  const found: unknown = condition.value === "rows" ? results.totalRows : first?.[condition.value];
  if (condition.value !== "rows" && first && !(condition.value in first)) return { value: null, told: `The result has no column “${condition.value}”; it has ${Object.keys(first).join(", ")}.`, holds: undefined };
  const value = typeof found === "number" ? found : typeof found === "string" && found !== "" && Number.isFinite(Number(found)) ? Number(found) : null;
  if (value === null) return { value, told: first ? `“${shown(found)}” is no number` : "The statement gives no row, so there is no value.", holds: undefined };
  if (condition.threshold !== null && condition.threshold !== undefined) return { value, told: "", holds: HOLDS[condition.op](value, condition.threshold) };
  if (typeof before !== "number" || before === 0) return { value, told: "What it changed from is known after its first run.", holds: undefined };
  const change = ((value - before) / Math.abs(before)) * 100;
  return { value, told: `${change >= 0 ? "+" : "−"}${Math.abs(change).toFixed(1)} % since the last run (${number(before)}).`, holds: HOLDS[condition.op](change, condition.changePercent ?? 0) };
}

function TriedNote({ of }: { of: Tried }) {
  return (
    <p class={`note ${of.holds ? "warn" : of.holds === undefined ? "" : "good"}`} role="status">
      {of.value !== null && <>It gives <strong>{number(of.value)}</strong> now. </>}
      {of.told} {of.holds === true && "The condition holds: it would fire."}{of.holds === false && "The condition does not hold."}
    </p>
  );
}

/** The fields of a monitor as they are typed. */
interface Typed {
  name: string;
  source: "sql" | "saved";
  sql: string;
  savedQueryId: string;
  value: string;
  op: MonitorOperator;
  by: "threshold" | "change";
  than: string;
  over: string;
  times: string;
  when: "cron" | "schedule";
  cron: string;
  timezone: string;
  scheduleId: string;
  isEnabled: boolean;
}

function typedOf(known: MonitorView | undefined): Typed {
  const { condition, on } = known ?? {};
  return {
    name: known?.name ?? "",
    source: known?.savedQueryId ? "saved" : "sql",
    sql: known?.sql ?? "SELECT count(*) AS failed FROM jobs WHERE status = 'failed' AND created_at > now() - INTERVAL '1 hour'",
    savedQueryId: known?.savedQueryId ?? "",
    value: condition?.value ?? "failed",
    op: condition?.op ?? "gt",
    by: condition && condition.changePercent !== null ? "change" : "threshold",
    than: String(condition?.threshold ?? condition?.changePercent ?? "10"),
    over: condition?.over ?? "previous",
    times: String(condition?.for ?? 1),
    when: on?.scheduleId ? "schedule" : "cron",
    cron: on?.cron ?? "*/15 * * * *",
    timezone: on?.timezone ?? zone(),
    scheduleId: on?.scheduleId ?? "",
    isEnabled: known?.isEnabled ?? true,
  };
}

function conditionOf(typed: Typed): MonitorConditionInput {
  const than = Number(typed.than);
  const bound = typed.by === "threshold" ? { threshold: than } : { changePercent: than, over: typed.over };
  return { value: typed.value.trim(), op: typed.op, ...bound, for: Number(typed.times) || 1 };
}

function bodyOf(typed: Typed): NewMonitor {
  return {
    name: typed.name,
    ...(typed.source === "sql" ? { sql: typed.sql } : { savedQueryId: typed.savedQueryId }),
    condition: conditionOf(typed),
    on: typed.when === "cron" ? { cron: typed.cron, timezone: typed.timezone } : { scheduleId: typed.scheduleId },
    isEnabled: typed.isEnabled,
  };
}

const NONE = ["", "Choose one"] as const;

function MonitorForm({ known, onDone }: { known?: MonitorView; onDone: () => void }) {
  const [typed, setTyped] = useState(() => typedOf(known));
  const [result, setResult] = useState<Tried>();
  const saved = useLoad((signal) => everyPage((cursor) => api("GET /api/v1/bi/saved-queries", { query: { limit: 200, ...(cursor && { cursor }) }, signal })), []);
  const schedules = useLoad((signal) => (may("schedules:read") ? everyPage((cursor) => api("GET /api/v1/schedules", { query: { limit: 200, ...(cursor && { cursor }) }, signal })) : Promise.resolve([])), []);
  const put = (change: Partial<Typed>) => setTyped({ ...typed, ...change });
  const send = async () => {
    if (known) await api("PATCH /api/v1/monitors/{id}", { path: { id: known.id }, body: bodyOf(typed) });
    const made = known ?? (await api("POST /api/v1/monitors", { body: bodyOf(typed) }));
    toast(known ? "Saved" : "The monitor was made; it runs now for the first time");
    onDone();
    go(`/monitors/${made.id}`);
  };
  const statement = async () => {
    if (typed.source === "sql") return typed.sql;
    const query = await api("GET /api/v1/bi/saved-queries/{id}", { path: { id: typed.savedQueryId } });
    return query.sql ?? (await api("POST /api/v1/bi/saved-queries/{id}/convert", { path: { id: query.id } })).sql;
  };
  const look = async () => setResult(await tried(await statement(), conditionOf(typed), known?.lastValue));
  return (
    <Form send={known ? "Save" : "Make the monitor"} onSend={send} onCancel={onDone}>
      <div class="two">
        <Field label="Name"><Text required maxLength={200} value={typed.name} onText={(name) => put({ name })} /></Field>
        <Field label="It runs"><Choice value={typed.source} options={[["sql", "a statement"], ["saved", "a saved query"]] as const} onPick={(source) => put({ source })} /></Field>
      </div>
      {typed.source === "sql" ? (
        <Field label="Statement" hint="One SELECT, whose first row has the value."><textarea class="mono" rows={4} required value={typed.sql} onInput={(event) => put({ sql: event.currentTarget.value })} /></Field>
      ) : (
        <Field label="Saved query">
          <select required value={typed.savedQueryId} onChange={(event) => put({ savedQueryId: event.currentTarget.value })}>
            {[NONE, ...(saved.value ?? []).map((one) => [one.id, one.name] as const)].map(([id, name]) => <option key={id} value={id}>{name}</option>)}
          </select>
        </Field>
      )}
      <div class="two">
        <Field label="Value" hint="A column of the first row; “rows” counts them."><Text required value={typed.value} onText={(value) => put({ value })} /></Field>
        <Field label="Compared"><Choice value={typed.by} options={[["threshold", "itself"], ["change", "its change in percent"]] as const} onPick={(by) => put({ by })} /></Field>
      </div>
      <div class="two">
        <Field label="Fires when it"><Choice value={typed.op} options={OPERATORS} onPick={(op) => put({ op })} /></Field>
        <Field label={typed.by === "threshold" ? "Number" : "Percent"}><Text type="number" step="any" required value={typed.than} onText={(than) => put({ than })} /></Field>
        <Field label="Runs in a row"><Text type="number" min={1} required value={typed.times} onText={(times) => put({ times })} /></Field>
        {typed.by === "change" && <Field label="Since" hint="“previous”, or such as 6h or 7d."><Text required value={typed.over} onText={(over) => put({ over })} /></Field>}
      </div>
      <div class="two">
        <Field label="When"><Choice value={typed.when} options={[["cron", "By the clock"], ["schedule", "After each run of a schedule"]] as const} onPick={(when) => put({ when })} /></Field>
        {typed.when === "cron" ? (
          <Field label="Expression" hint={inWords(typed.cron)}><Text class="mono" required value={typed.cron} onText={(cron) => put({ cron })} /></Field>
        ) : (
          <Field label="Schedule">
            <select required value={typed.scheduleId} onChange={(event) => put({ scheduleId: event.currentTarget.value })}>
              {[NONE, ...(schedules.value ?? []).map((one) => [one.id, one.name] as const)].map(([id, name]) => <option key={id} value={id}>{name}</option>)}
            </select>
          </Field>
        )}
        {typed.when === "cron" && <Field label="Time zone"><Text required value={typed.timezone} onText={(timezone) => put({ timezone })} /></Field>}
      </div>
      <Check label="Switched on" on={typed.isEnabled} onSet={(isEnabled) => put({ isEnabled })} />
      <div class="row"><Act small does={look}>Try it now</Act></div>
      {result && <TriedNote of={result} />}
    </Form>
  );
}

const figure = (value: unknown) => (typeof value === "number" ? number(value) : "–");

/** What became of it: each change of its state, as the organization's log has them. */
function Changes({ id, turn }: { id: string; turn: number }) {
  const list = useList<EventView>((cursor, signal) => api("GET /api/v1/events", { query: { subject: id, kind: [...KINDS], limit: 50, ...(cursor && { cursor }) }, signal }), [id]);
  useEffect(() => void (turn > 0 && list.refresh()), [turn]);
  return (
    <Panel title="Changes of its state" flush>
      <List
        list={list}
        id={(one) => one.id}
        label="Changes of its state"
        empty={<Empty title="None yet">It stands here when the condition begins to hold, and when it no longer does.</Empty>}
        columns={[
          { title: "At", cell: (one) => <Time at={one.at} exact /> },
          { title: "Before", cell: (one) => <Badge state={shown(one.data["before"])} /> },
          { title: "Then", cell: (one) => <Badge state={shown(one.data["state"])} /> },
          { title: "Value", number: true, cell: (one) => figure(one.data["value"]) },
          { title: "Compared with", number: true, cell: (one) => figure(one.data["comparedWith"] ?? one.data["threshold"]) },
          { title: "Why", cell: (one) => <span class="dim">{shown(one.data["reason"])}</span> },
        ]}
      />
    </Panel>
  );
}

function MonitorPage({ id }: { id: string }) {
  const found = useLoad((signal) => api("GET /api/v1/monitors/{id}", { path: { id }, signal }), [id]);
  const [editing, setEditing] = useState(false);
  const [turn, setTurn] = useState(0);
  const again = useCalm(() => {
    found.reload();
    setTurn((n) => n + 1);
  });
  useEvents("monitor.*", (event) => event.subject.id === id && again(), again);
  if (found.error && !found.value) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const row = found.value;
  const toggle = async () => {
    await api("PATCH /api/v1/monitors/{id}", { path: { id }, body: { isEnabled: !row.isEnabled } });
    found.reload();
  };
  const remove = async () => {
    await api("DELETE /api/v1/monitors/{id}", { path: { id } });
    go("/monitors");
  };
  return (
    <>
      <Head title={row.name} about={`Fires when ${sentence(row.condition)}`}>
        <button type="button" class="button" onClick={again}>Look again</button>
        {may("bi:write") && (
          <>
            <button type="button" class="button main" onClick={() => setEditing(true)}>Edit</button>
            <Act does={toggle}>{row.isEnabled ? "Switch off" : "Switch on"}</Act>
            <Act kind="bad" sure={`Delete “${row.name}”? Its events stay.`} does={remove}>Delete</Act>
          </>
        )}
      </Head>
      <div class="stack">
        {found.error && <Trouble error={found.error} retry={found.reload} />}
        {row.reason && <p class={`note ${row.state === "error" ? "bad" : "warn"}`}>{row.reason}</p>}
        <div class="halves">
          <Panel title="What it found" side={<Badge state={row.isEnabled ? row.state : "off"} />}>
            <Facts of={[
              ["Value", <strong>{row.lastValue === null ? "none yet" : number(row.lastValue)}</strong>],
              row.comparedWith !== null && ["Compared with", number(row.comparedWith)],
              ["Since", <Time at={row.since} />],
              ["Last run", <Time at={row.lastRunAt} />],
              row.missed > 0 && ["Missed before it", number(row.missed)],
              ["Next run", row.isEnabled ? row.nextRunAt ? <Time at={row.nextRunAt} /> : "when its schedule's run has ended" : "switched off"],
            ]} />
          </Panel>
          <Panel title="What it watches">
            <Facts of={[
              ["Fires when", sentence(row.condition)],
              ["When", row.on.scheduleId ? <a href={`#/schedules/${row.on.scheduleId}`}>after each run of its schedule</a> : `${inWords(row.on.cron ?? "")} (${row.on.timezone ?? "UTC"})`],
              row.savedQueryId && ["Saved query", <a href={`#/sql?saved=${row.savedQueryId}`}>Open it</a>],
              row.sql && ["Statement", <pre>{row.sql}</pre>],
              ["Made", <Time at={row.createdAt} exact />],
              ["To be told", <a href="#/outputs">An output of the events monitor.firing and monitor.ok</a>],
            ]} />
          </Panel>
        </div>
        <Changes id={id} turn={turn} />
      </div>
      {editing && <Dialog wide title="Edit the monitor" onClose={() => setEditing(false)}><MonitorForm known={row} onDone={() => (setEditing(false), found.reload())} /></Dialog>}
    </>
  );
}

const STATES = [["", "Any state"], ["ok", "All right"], ["firing", "Firing"], ["no_data", "No data"], ["error", "Error"]] as const;

export function Monitors() {
  const id = here.value.parts[1];
  const state = (here.value.query.get("state") ?? "") as MonitorState | "";
  const list = useList((cursor, signal) => api("GET /api/v1/monitors", { query: { ...(state && { state }), limit: 50, ...(cursor && { cursor }) }, signal }), [state, id]);
  const [making, setMaking] = useState(false);
  useEvents("monitor.*", useCalm(list.refresh));
  if (id) return <MonitorPage key={id} id={id} />;
  return (
    <>
      <Head title="Monitors" about="Statements that the box runs by itself, and that say when what they find is not as it should be.">
        {may("bi:write") && <button type="button" class="button main" disabled={!me.value?.user.emailVerifiedAt} onClick={() => setMaking(true)}>New monitor</button>}
      </Head>
      <Panel flush>
        <div class="filters"><Choice label="State" value={state} options={STATES} onPick={(picked) => ask({ state: picked })} /></div>
        <List
          list={list}
          id={(row) => row.id}
          label="Monitors"
          empty={<Empty title={state ? "None is in this state" : "No monitors yet"}>One tells when prices fall, pages fail, or nothing comes any more.</Empty>}
          columns={[
            { title: "Name", cell: (row) => <a href={`#/monitors/${row.id}`}>{row.name}</a> },
            { title: "State", cell: (row) => <Badge state={row.isEnabled ? row.state : "off"} /> },
            { title: "Fires when", cell: (row) => sentence(row.condition) },
            { title: "Value", number: true, cell: (row) => (row.lastValue === null ? "–" : number(row.lastValue)) },
            { title: "Since", cell: (row) => <Time at={row.since} /> },
            { title: "Last run", cell: (row) => <Time at={row.lastRunAt} /> },
          ]}
        />
      </Panel>
      {making && <Dialog wide title="New monitor" onClose={() => setMaking(false)}><MonitorForm onDone={() => (setMaking(false), list.reload())} /></Dialog>}
    </>
  );
}
