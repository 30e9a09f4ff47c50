// What came of a statement: rows as a grid, a chart, or text to copy; exports with their progress.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, local, said } from "../../api/client";
import { copy, Choice, Empty, Tabs, Trouble } from "../../parts/basic";
import { bytes, number } from "../../parts/figures";
import type { ExecutionView, ExportFormat, ExportView } from "../../generated/api";
import { may, toast } from "../../app/state";
import { Chart, type ChartChoice } from "./chart";
import { csv, json, markdown } from "./copy";
import { Grid, type Row } from "./grid";
import { looked } from "./run";

const FORMATS = [["", "Export …"], ["csv", "CSV"], ["jsonl", "JSON lines"], ["parquet", "Parquet"], ["arrow", "Arrow"], ["xlsx", "Excel"]] as const;
const LOOK_EVERY_MS = 700;

/** The columns in their order: as the plan names them, or as the first row has them. */
export function columnsOf(execution: ExecutionView, rows: readonly Row[]): string[] {
  const planned: unknown = execution.dryRun["columns"];
  if (Array.isArray(planned)) {
    const names = planned.map((column: unknown) => (column && typeof column === "object" && "name" in column ? String(column.name) : ""));
    if (names.length > 0 && names.every(Boolean)) return names;
  }
  return Object.keys(rows[0] ?? {});
}

function Exports({ id }: { id: string }) {
  const [made, setMade] = useState<ExportView>();
  const [failed, setFailed] = useState<{ format: ExportFormat; error: string }>();
  const control = useRef<AbortController>();
  useEffect(() => () => control.current?.abort(), []);
  const ask = async (format: ExportFormat) => {
    control.current?.abort();
    const { signal } = (control.current = new AbortController());
    setFailed(undefined);
    try {
      let { export: one } = await api("POST /api/v1/bi/queries/{id}/exports", { path: { id }, body: { format }, signal });
      setMade(one);
      while (one.status === "queued" || one.status === "running") {
        await new Promise((resume) => setTimeout(resume, LOOK_EVERY_MS));
        signal.throwIfAborted();
        const path = { id: one.id };
        one = (await looked(() => api("GET /api/v1/bi/exports/{id}", { path, signal }), signal)).export;
        setMade(one);
      }
      if (one.error) toast(one.error.message, true);
    } catch (error) {
      if (signal.aborted) return;
      setMade(undefined);
      setFailed({ format, error: said(error) });
    }
  };
  return (
    <>
      {failed && <Trouble error={failed.error} retry={() => void ask(failed.format)} />}
      {made && (made.status === "success" && made.downloadUrl ? (
        <a class="button small main" href={local(made.downloadUrl)} download>
          Download {made.format} ({bytes(made.byteSize ?? 0)})
        </a>
      ) : (
        <span class="dim" role="status">
          {made.status === "failed" ? "The export failed" : `${made.format}: ${number(made.rowCount)} rows`}
        </span>
      ))}
      <Choice label="Export" value="" options={FORMATS} onPick={(format) => format && void ask(format)} />
    </>
  );
}

interface Props {
  execution: ExecutionView;
  chart: ChartChoice | undefined;
  onChart: (chart: ChartChoice) => void;
}

export function Result({ execution, chart, onChart }: Props) {
  const [tab, setTab] = useState<"rows" | "chart">("rows");
  const rows = execution.results?.rows ?? [];
  const columns = columnsOf(execution, rows);
  const total = execution.results?.totalRows ?? 0;
  if (total === 0) return <Empty title="No rows">The statement ran and found nothing.</Empty>;
  const texts = { CSV: csv, JSON: json, Markdown: markdown };
  return (
    <>
      <div class="filters">
        <Tabs label="Shown as" tabs={[["rows", "Rows"], ["chart", "Chart"]] as const} at={tab} onPick={setTab} />
        <span class="grow" />
        {Object.entries(texts).map(([name, written]) => (
          <button type="button" class="button small" key={name} title={total > rows.length ? `Copy the first ${rows.length} rows` : "Copy all rows"} onClick={() => void copy(written(columns, rows))}>
            Copy {name}
          </button>
        ))}
        {may("bi:write") && <Exports key={execution.jobId} id={execution.jobId} />}
      </div>
      {tab === "rows" ? <Grid id={execution.jobId} columns={columns} total={total} first={rows} /> : <Chart columns={columns} rows={rows} choice={chart} onChoose={onChart} />}
    </>
  );
}
