// A chart of a result: which one fits its columns, and the choice of another.
import { useMemo } from "preact/hooks";
import { Choice, Empty } from "../../parts/basic";
import { compact, shown } from "../../parts/figures";
import { Plot } from "../../parts/lazy";
import type { Row } from "./grid";

export type Kind = "line" | "bar" | "scatter";
export interface ChartChoice {
  kind: Kind;
  x: string;
  y: string;
}

const BARS_MAX = 40;
const numeric = (rows: Row[], name: string) => rows.some((row) => typeof row[name] === "number") && rows.every((row) => row[name] === null || typeof row[name] === "number");
const dated = (rows: Row[], name: string) => rows.length > 0 && rows.every((row) => typeof row[name] === "string" && /^\d{4}-\d\d-\d\d/.test(row[name]));

/** The chart that the columns' kinds suggest; none without a number. */
export function fitting(columns: readonly string[], rows: Row[]): ChartChoice | undefined {
  const numbers = columns.filter((name) => numeric(rows, name));
  const y = numbers.at(-1);
  if (!y) return undefined;
  const time = columns.find((name) => dated(rows, name));
  if (time) return { kind: "line", x: time, y };
  const text = columns.find((name) => !numbers.includes(name));
  if (text) return { kind: "bar", x: text, y };
  const other = numbers.find((name) => name !== y);
  return other ? { kind: "scatter", x: other, y } : undefined;
}

export function Bars({ rows, x, y }: { rows: Row[]; x: string; y: string }) {
  const most = Math.max(...rows.map((row) => Math.abs(Number(row[y]) || 0)), Number.MIN_VALUE);
  return (
    <div class="horizontal" role="img" aria-label={`${y} by ${x}`}>
      {rows.slice(0, BARS_MAX).map((row, index) => {
        const value = Number(row[y]) || 0;
        return [
          <span class="cut" key={`${index}.name`} title={shown(row[x])}>{shown(row[x]) || "null"}</span>,
          <div class="bar" key={index}>
            <svg viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">
              <rect width={(Math.abs(value) / most) * 100} height="12" fill={value < 0 ? "var(--bad)" : "var(--accent)"} />
            </svg>
          </div>,
          <span class="number" key={`${index}.value`}>{compact(value)}</span>,
        ];
      })}
    </div>
  );
}

/** Lines, or points, of one column or several by another. */
export function Points({ rows, x, y, scattered = false, height = 320 }: { rows: Row[]; x: string; y: readonly string[]; scattered?: boolean; height?: number }) {
  const isTime = dated(rows, x);
  const drawn = useMemo(() => {
    const found = rows.map((row) => ({ x: isTime ? Date.parse(String(row[x])) / 1_000 : Number(row[x]), row }));
    found.sort((a, b) => a.x - b.x);
    const value = (row: Row, name: string) => (typeof row[name] === "number" ? Number(row[name]) : null);
    return { at: found.map((point) => point.x), series: y.map((name) => ({ label: name, values: found.map((point) => value(point.row, name)) })) };
  }, [rows, x, y.join("\n")]);
  return <Plot at={drawn.at} series={drawn.series} time={isTime} points={scattered} height={height} label={`${y.join(", ")} by ${x}`} />;
}

export function Chart({ columns, rows, choice, onChoose }: { columns: readonly string[]; rows: Row[]; choice: ChartChoice | undefined; onChoose: (choice: ChartChoice) => void }) {
  const at = choice ?? fitting(columns, rows);
  if (!at || !columns.includes(at.x) || !columns.includes(at.y)) return <Empty title="Nothing to draw">A chart needs a column of numbers, and one to draw it by.</Empty>;
  const names = columns.map((name) => [name, name] as const);
  return (
    <div class="stack">
      <div class="filters">
        <Choice label="Kind of chart" value={at.kind} options={[["line", "Line"], ["bar", "Bars"], ["scatter", "Points"]] as const} onPick={(kind) => onChoose({ ...at, kind })} />
        <Choice label="By" value={at.x} options={names} onPick={(x) => onChoose({ ...at, x })} />
        <Choice label="Of" value={at.y} options={names} onPick={(y) => onChoose({ ...at, y })} />
        {rows.length >= 200 && <span class="hint">Of the first {rows.length} rows</span>}
      </div>
      <div class="inner chart">{at.kind === "bar" ? <Bars rows={rows} x={at.x} y={at.y} /> : <Points rows={rows} x={at.x} y={[at.y]} scattered={at.kind === "scatter"} />}</div>
    </div>
  );
}
