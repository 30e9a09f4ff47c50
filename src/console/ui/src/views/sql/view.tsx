// SQL: an editor, what it can ask, and what came of it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, api, said } from "../../api/client";
import { useLoad } from "../../api/use";
import { ask, here, may, me, toast } from "../../app/state";
import { Badge, Bones, Dialog, Empty, Head, Panel, Tabs, Trouble, copy } from "../../parts/basic";
import { bytes, compact, many, millis, number } from "../../parts/figures";
import { lazy } from "../../parts/lazy";
import type { ExecutionView, SavedQueryView, TableView } from "../../generated/api";
import { fitting, type ChartChoice } from "./chart";
import type { EditorHandle } from "./editor";
import { Parameters } from "./parameters";
import { columnsOf, Result } from "./result";
import { bound, cancel, DRAFT, ended, errorPlace, looked, parameters, statementAt, submit, typedPlace, type Statement } from "./run";
import { described, History, Save, Saved, useSaved } from "./saved";

const Editor = lazy(() => import("./editor"));
const FIRST = `SELECT domain, page_type, count(*) AS results, round(avg(quality_composite), 3) AS quality, max(scraped_at) AS newest
FROM readings
GROUP BY domain, page_type
ORDER BY results DESC`;
/** What statements are mostly made of; the dialect knows the rest. */
const FUNCTIONS = ["count", "sum", "avg", "min", "max", "median", "date_trunc", "date_part", "now", "coalesce", "nullif", "round", "lower", "upper", "length", "substr", "regexp_replace", "regexp_match", "split_part", "string_agg", "array_agg", "percentile_cont", "row_number", "lag", "lead", "first_value", "to_char", "cast"];

interface Tables {
  all: TableView[];
  schema: Record<string, string[]>;
  /** What columns of each name are known to have. */
  samples: Map<string, string[]>;
}

async function tables(signal: AbortSignal): Promise<Tables> {
  const { items } = await api("GET /api/v1/bi/tables", { query: { limit: 200 }, signal });
  const all = await Promise.all(items.map((table) => api("GET /api/v1/bi/tables/{name}", { path: { name: table.name }, signal })));
  const samples = new Map<string, string[]>();
  for (const column of all.flatMap((table) => table.columns)) {
    const texts = (column.sampleValues ?? []).filter((value) => typeof value === "string");
    if (texts.length > 0) samples.set(column.name, [...new Set([...(samples.get(column.name) ?? []), ...texts])]);
  }
  return { all, samples, schema: { ...Object.fromEntries(FUNCTIONS.map((name) => [name, []])), ...Object.fromEntries(all.map((table) => [table.name, table.columns.map((column) => column.name)])) } };
}

function Catalog({ all, onName }: { all: TableView[]; onName: (name: string) => void }) {
  return (
    <div class="catalog">
      {all.map((table) => (
        <details key={table.name}>
          <summary title={table.description}>
            <span class="mono">{table.name}</span>
            <span class="dim">{compact(table.rowCount)}</span>
          </summary>
          <ul>
            {table.columns.map((column) => (
              <li key={column.name} title={column.description ?? ""}>
                <button type="button" class="name" onClick={() => onName(column.name)}>
                  {column.name}
                </button>
                <span class="dim">{column.type.toLowerCase()}</span>
              </li>
            ))}
          </ul>
        </details>
      ))}
    </div>
  );
}

function Told({ execution }: { execution: ExecutionView }) {
  const took = execution.startedAt && execution.finishedAt ? Date.parse(execution.finishedAt) - Date.parse(execution.startedAt) : undefined;
  const read = (name: string) => (typeof execution.dryRun[name] === "number" ? Number(execution.dryRun[name]) : undefined);
  const used: unknown = execution.dryRun["tables"];
  const [rows, size] = [read("estimatedRows"), read("estimatedBytes")];
  return (
    <div class="status" role="status">
      <Badge state={execution.status} />
      {execution.results ? <strong>{many(execution.results.totalRows, "row")}</strong> : rows !== undefined && <span>about {many(rows, "row")} to read</span>}
      {took !== undefined && <span class="dim">{millis(took)}</span>}
      {size !== undefined && <span class="dim">{bytes(size)} read at most</span>}
      {Array.isArray(used) && used.length > 0 && <span class="dim">from {used.map(String).join(", ")}</span>}
      {execution.results?.historyCoverage && <span class="warn">{number(execution.results.historyCoverage.preHorizonRows)} older rows are left out</span>}
    </div>
  );
}

function useRuns(editor: { current: EditorHandle | undefined }, values: ReadonlyMap<string, string>) {
  const [execution, setExecution] = useState<ExecutionView>();
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [turn, setTurn] = useState(0);
  const control = useRef<AbortController>();
  const running = useRef<string>();
  const unwanted = useRef(false);
  useEffect(() => () => control.current?.abort(), []);
  const fail = (message: string, statement: Statement) => {
    setError(message);
    // What is told is of the statement with `$1` in it; and the text may be another by now.
    const place = errorPlace(message, bound(statement.text, values).sql);
    const handle = editor.current;
    if (place === undefined || !handle) return;
    const end = Math.min(statement.to, handle.text().length);
    const from = Math.min(statement.from + typedPlace(statement.text, place), end);
    handle.select(from, Math.min(from + 1, end));
  };
  const run = async (dryRun: boolean) => {
    const handle = editor.current;
    if (!handle || busy) return;
    const { text, from, at } = handle.marked();
    const statement = text.trim() ? { text: text.trim(), from: from + text.indexOf(text.trim()), to: from + text.length } : statementAt(handle.text(), at);
    if (!statement) return;
    const { signal } = (control.current = new AbortController());
    unwanted.current = false;
    setBusy(true);
    setError(undefined);
    try {
      const { sql, params } = bound(statement.text, values);
      let one = await submit(sql, params, dryRun, signal);
      running.current = one.jobId;
      if (unwanted.current) await cancel(one.jobId);
      setExecution(one);
      one = await ended(one, signal, setExecution);
      if (one.status === "success" && !one.results && !dryRun) {
        const { jobId: id } = one;
        const results = await looked(() => api("GET /api/v1/bi/queries/{id}/results", { path: { id }, query: { page: 0 }, signal }), signal);
        one = { ...one, results };
      }
      setExecution(one);
      if (one.error) fail(one.error.message, statement);
    } catch (reason) {
      // Somebody left the view.
      if (signal.aborted) return;
      if (reason instanceof ApiError) fail(reason.message, statement);
      else setError(said(reason));
      setExecution(undefined);
    } finally {
      running.current = undefined;
      setBusy(false);
      setTurn((n) => n + 1);
    }
  };
  const stop = async () => {
    unwanted.current = true;
    if (running.current) await cancel(running.current).catch((reason: unknown) => toast(said(reason), true));
  };
  return { execution, error, busy, turn, run, stop };
}

type Tab = "tables" | "saved" | "history";

export function Sql() {
  const editor = useRef<EditorHandle>();
  const known = useLoad(tables, []);
  const saved = useSaved();
  const [text, setText] = useState(() => sessionStorage.getItem(DRAFT) ?? FIRST);
  const [values, setValues] = useState<ReadonlyMap<string, string>>(new Map());
  const [tab, setTab] = useState<Tab>("tables");
  const [chart, setChart] = useState<ChartChoice>();
  const [open, setOpen] = useState<SavedQueryView>();
  const [saving, setSaving] = useState(false);
  const { execution, error, busy, turn, run, stop } = useRuns(editor, values);
  const names = useMemo(() => parameters(text), [text]);
  const wanted = useRef<string>();
  const write = (sql: string) => {
    setText(sql);
    editor.current?.replace(sql);
  };
  /** Puts a query into the editor; of one that is no SQL, what it is in SQL. */
  const show = (query: SavedQueryView) => {
    wanted.current = query.id;
    setOpen(query);
    setChart(described(query).chart);
    write(described(query).sql);
    if (query.sql) return;
    api("POST /api/v1/bi/saved-queries/{id}/convert", { path: { id: query.id } }).then(
      (one) => wanted.current === query.id && write(one.sql),
      (reason: unknown) => toast(said(reason), true),
    );
  };
  const load = (query: SavedQueryView) => {
    show(query);
    ask({ saved: query.id });
  };
  const linked = here.value.query.get("saved");
  useEffect(() => {
    if (!linked || open?.id === linked) return;
    const control = new AbortController();
    api("GET /api/v1/bi/saved-queries/{id}", { path: { id: linked }, signal: control.signal }).then(show, (reason: unknown) => !control.signal.aborted && toast(said(reason), true));
    return () => control.abort();
  }, [linked]);
  const onChange = (next: string) => {
    setText(next);
    sessionStorage.setItem(DRAFT, next);
  };
  const rows = execution?.results?.rows ?? [];
  const drawn = chart ?? (execution && rows.length > 0 ? fitting(columnsOf(execution, rows), rows) : undefined);
  if (!me.value?.user.emailVerifiedAt) return <><Head title="SQL" /><Panel><Empty title="Your email address is not verified">SQL needs that. <a href="#/profile">Send the message again</a></Empty></Panel></>;
  return (
    <>
      <Head title={open?.name ?? "SQL"} about={open ? described(open).text : "PostgreSQL's dialect over everything that was collected."}>
        {open && <button type="button" class="button" onClick={() => void copy(location.href)}>Copy link</button>}
        {may("bi:write") && <button type="button" class="button" onClick={() => setSaving(true)}>Save</button>}
      </Head>
      <div class="bench">
        <div class="stack">
          <section class="panel">
            {known.error ? <Trouble error={known.error} retry={known.reload} /> : known.value ? <Editor key={known.value.all.length} start={text} tables={known.value.schema} samples={known.value.samples} onChange={onChange} onRun={() => void run(false)} handle={(handle) => (editor.current = handle)} /> : <Bones />}
            <Parameters sql={text} names={names} tables={known.value?.all ?? []} values={values} onSet={(name, value) => setValues(new Map(values).set(name, value))} />
            <div class="filters">
              {busy ? <button type="button" class="button bad" onClick={() => void stop()}>Cancel</button> : <button type="button" class="button main" onClick={() => void run(false)}>Run</button>}
              <button type="button" class="button" disabled={busy} onClick={() => void run(true)}>Plan only</button>
              <span class="hint"><kbd>Ctrl Enter</kbd> runs the statement at the cursor, or what is marked; <kbd>Esc</kbd> and then <kbd>Tab</kbd> leave the editor</span>
            </div>
          </section>
          {error && <p class="note bad" role="alert">{error}</p>}
          {execution && (
            <section class="panel">
              <Told execution={execution} />
              {busy ? <Bones /> : execution.results && <Result execution={execution} chart={drawn} onChart={setChart} />}
            </section>
          )}
        </div>
        <section class="panel">
          <Tabs label="Beside the editor" tabs={[["tables", "Tables"], ["saved", "Saved"], ["history", "History"]] as const} at={tab} onPick={setTab} />
          {tab === "tables" && (known.value ? <Catalog all={known.value.all} onName={(name) => editor.current?.insert(name)} /> : !known.error && <Bones />)}
          {tab === "saved" && <Saved list={saved} onOpen={load} />}
          {tab === "history" && <History turn={turn} onOpen={(sql) => editor.current?.replace(sql)} />}
        </section>
      </div>
      {saving && <Dialog title="Save the query" onClose={() => setSaving(false)}><Save sql={text} chart={chart ?? drawn} known={open} onDone={(query) => { setSaving(false); setOpen(query); ask({ saved: query.id }); saved.reload(); }} /></Dialog>}
    </>
  );
}
