// The tiles of a dashboard on a grid of twelve columns; on a small window one below the other.
import { useRef } from "preact/hooks";
import { Empty } from "../../parts/basic";
import { compact, number, shown as asText, Time } from "../../parts/figures";
import { Rows } from "../../parts/list";
import type { TilePosition, TileView } from "../../generated/api";
import { Bars, Points } from "../sql/chart";
import type { Row } from "../sql/grid";

export const COLUMNS = 12;
const ROW_MAX = 1_000;
const HIGH_MAX = 24;
/** Height of a row of the grid, and the space between two. */
const ROW_PX = 56;
const GAP_PX = 12;
const TABLE_ROWS = 200;

/** What a tile shows in the place of what the box keeps. */
export interface Shown {
  rows: Row[];
  total: number;
  error: string | undefined;
}

function One({ of, rows, total }: { of: TileView; rows: Row[]; total: number }) {
  const { type, x, y } = of.chart;
  const names = of.result?.columns.map((column) => column.name) ?? Object.keys(rows[0] ?? {});
  const high = of.position.h * (ROW_PX + GAP_PX) - GAP_PX - 76;
  if (rows.length === 0) return <Empty title="No rows" />;
  const first = y[0] ?? names.find((name) => typeof rows[0]?.[name] === "number") ?? names[0] ?? "";
  const by = x ?? names.find((name) => name !== first) ?? first;
  switch (type) {
    case "number": {
      const value = rows[0]?.[first];
      return <p class="big">{typeof value === "number" ? (Math.abs(value) >= 1e6 ? compact(value) : number(value)) : asText(value)}</p>;
    }
    case "bar":
      return <div class="inner" tabIndex={0} role="group" aria-label={of.title ?? "Chart"}><Bars rows={rows} x={by} y={first} /></div>;
    case "line":
    case "scatter":
      return <div class="inner" tabIndex={0} role="group" aria-label={of.title ?? "Chart"}><Points rows={rows} x={by} y={y.length > 0 ? y : [first]} scattered={type === "scatter"} height={Math.max(high, 90)} /></div>;
    default: {
      const listed = rows.slice(0, TABLE_ROWS).map((row, index) => ({ row, index }));
      return (
        <>
          <Rows label={of.title ?? "Rows"} rows={listed} id={(one) => String(one.index)} columns={names.map((name) => ({ title: name, number: typeof rows[0]?.[name] === "number", cell: (one: (typeof listed)[number]) => <span class="cut" title={asText(one.row[name])}>{asText(one.row[name])}</span> }))} />
          {total > listed.length && <p class="hint">{number(listed.length)} of {number(total)} rows</p>}
        </>
      );
    }
  }
}

const within = (value: number, least: number, most: number) => Math.min(Math.max(value, least), most);

/** The position moved, or grown, by so many cells; it stays on the grid. */
export function moved(at: TilePosition, right: number, down: number, grows: boolean): TilePosition {
  if (grows) return { ...at, w: within(at.w + right, 1, COLUMNS - at.x), h: within(at.h + down, 1, HIGH_MAX) };
  return { ...at, x: within(at.x + right, 0, COLUMNS - at.w), y: within(at.y + down, 0, ROW_MAX) };
}

const KEYS: Record<string, readonly [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

interface Props {
  tiles: readonly TileView[];
  shown: ReadonlyMap<number, Shown> | undefined;
  onChange: ((tiles: TileView[]) => void) | undefined;
  onEdit: ((tile: TileView) => void) | undefined;
}

export function Board({ tiles, shown, onChange, onEdit }: Props) {
  const board = useRef<HTMLDivElement>(null);
  const put = (tile: TileView, position: TilePosition) => onChange?.(tiles.map((one) => (one.id === tile.id ? { ...one, position } : one)));
  const keys = (tile: TileView) => (event: KeyboardEvent) => {
    const step = KEYS[event.key];
    if (!onChange || !step || event.target !== event.currentTarget) return;
    event.preventDefault();
    put(tile, moved(tile.position, step[0], step[1], event.shiftKey));
  };
  const drag = (tile: TileView) => (event: PointerEvent) => {
    if (!onChange || event.button !== 0 || !board.current || (event.target as Element).closest("button")) return;
    event.preventDefault();
    const handle = event.currentTarget as HTMLElement;
    const cell = (board.current.clientWidth + GAP_PX) / COLUMNS;
    const [x, y, grows] = [event.clientX, event.clientY, event.shiftKey];
    handle.setPointerCapture(event.pointerId);
    const follow = (now: PointerEvent) => put(tile, moved(tile.position, Math.round((now.clientX - x) / cell), Math.round((now.clientY - y) / (ROW_PX + GAP_PX)), grows));
    const end = () => handle.removeEventListener("pointermove", follow);
    handle.addEventListener("pointermove", follow);
    handle.addEventListener("pointerup", end, { once: true });
    handle.addEventListener("pointercancel", end, { once: true });
  };
  const inOrder = [...tiles].sort((a, b) => a.position.y - b.position.y || a.position.x - b.position.x);
  return (
    <div ref={board} class={`board ${onChange ? "editing" : ""}`}>
      {inOrder.map((tile) => {
        const { x, y, w, h } = tile.position;
        const other = shown?.get(tile.id);
        const error = other ? other.error : tile.result?.error;
        const title = tile.title ?? "Tile";
        return (
          <section
            key={tile.id}
            class="panel tile"
            style={{ gridColumn: `${x + 1} / span ${w}`, gridRow: `${y + 1} / span ${h}` }}
            aria-label={onChange ? `${title}: column ${x + 1}, row ${y + 1}, ${w} wide, ${h} high` : title}
            tabIndex={onChange ? 0 : undefined}
            onKeyDown={keys(tile)}
          >
            <header onPointerDown={drag(tile)}>
              <h2>{title}</h2>
              {onEdit && (
                <span class="row">
                  <button type="button" class="button small" onClick={() => onEdit(tile)}>Edit</button>
                  <button type="button" class="button small bad" aria-label={`Remove ${title}`} onClick={() => onChange?.(tiles.filter((one) => one.id !== tile.id))}>✕</button>
                </span>
              )}
              {!onEdit && !other && tile.result && <span class="hint"><Time at={tile.result.refreshedAt} /></span>}
            </header>
            {error && <p class="note bad">{error}</p>}
            {other ? <One of={tile} rows={other.rows} total={other.total} /> : tile.result ? <One of={tile} rows={tile.result.rows} total={tile.result.totalRows} /> : <p class="hint inner">{tile.id < 0 ? "Shown when it is saved." : "It is being made …"}</p>}
          </section>
        );
      })}
    </div>
  );
}
