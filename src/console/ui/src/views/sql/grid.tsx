// The rows of a result, however many: only what is in view is drawn, and pages come as one scrolls to them.
import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { api, said } from "../../api/client";
import { toast } from "../../app/state";
import { Dialog } from "../../parts/basic";
import { shown } from "../../parts/figures";

export type Row = Record<string, unknown>;
const ROW_PX = 26;
export const PAGE_ROWS = 200;
const AROUND_ROWS = 6;
/** Many enough to be crossed rarely, few enough for a browser to place exactly. */
const SLAB_ROWS = 1_000;
/** Browsers do not draw taller elements truly; further rows are reached by a coarser scroll. */
const TALL_PX_MAX = 8_000_000;
const PAGES_KEPT = 40;
/** What is scrolled past is not asked for. */
const REST_MS = 70;
/** Of a cell's text, when it is pointed at. */
const TITLE_MAX = 400;
/** Of a bar that scrolls sideways. */
const BAR_PX = 16;

interface Props {
  id: string;
  columns: readonly string[];
  total: number;
  first: Row[];
}

/** Pages of the result that were asked for, the oldest forgotten first. */
function usePages(id: string, first: Row[]) {
  const [, drawn] = useReducer((n: number) => n + 1, 0);
  const pages = useMemo(() => new Map<number, Row[] | "asked">([[0, first]]), [id, first]);
  const want = (page: number) => {
    if (pages.has(page)) return;
    pages.set(page, "asked");
    for (const old of [...pages.keys()].slice(0, Math.max(0, pages.size - PAGES_KEPT))) if (old !== 0) pages.delete(old);
    api("GET /api/v1/bi/queries/{id}/results", { path: { id }, query: { page, pageSize: PAGE_ROWS } })
      .then((found) => void pages.set(page, found.rows))
      .catch((reason: unknown) => {
        // It is asked for again when somebody comes back to it.
        pages.delete(page);
        toast(said(reason), true);
      })
      .finally(() => drawn(0));
  };
  return { pages, want };
}

const widthOf = (name: string, rows: Row[]) => {
  const longest = rows.slice(0, 60).reduce((most, row) => Math.max(most, shown(row[name]).length), name.length + 2);
  return Math.min(Math.max(longest * 7.6 + 24, 70), 380);
};

const WIDTH_MIN_PX = 48;
const WIDTH_MAX_PX = 1_600;
const WIDTH_STEP_PX = 24;

/** Widths of the columns: what their first rows need, or what somebody pulled them to. */
function useWidths(columns: readonly string[], first: Row[]) {
  const [own, setOwn] = useState<ReadonlyMap<string, number>>(new Map());
  const widths = useMemo(() => columns.map((name) => own.get(name) ?? widthOf(name, first)), [columns, first, own]);
  const set = (name: string, width: number) => setOwn((known) => new Map(known).set(name, Math.min(Math.max(width, WIDTH_MIN_PX), WIDTH_MAX_PX)));
  const pull = (name: string, width: number) => (event: PointerEvent) => {
    event.preventDefault();
    const handle = event.currentTarget as HTMLElement;
    const from = event.clientX;
    handle.setPointerCapture(event.pointerId);
    const follow = (now: PointerEvent) => set(name, width + now.clientX - from);
    handle.addEventListener("pointermove", follow);
    handle.addEventListener("lostpointercapture", () => handle.removeEventListener("pointermove", follow), { once: true });
  };
  return { widths, set, pull };
}

/** Where an element is scrolled to, what follows that, and what tells it at once. It is told after the frame that scrolls: with its work in one task, some
 * frames took longer than 50 ms. */
function useScrolled() {
  const [[top, left], set] = useState<readonly [top: number, left: number]>([0, 0]);
  const waits = useRef(false);
  const tell = (element: HTMLElement) => set([element.scrollTop, element.scrollLeft]);
  const follow = (event: Event) => {
    if (waits.current) return;
    waits.current = true;
    const element = event.currentTarget as HTMLElement;
    setTimeout(() => {
      waits.current = false;
      tell(element);
    });
  };
  return { top, left, follow, tell };
}

interface Cell {
  row: number;
  at: number;
}

/** Where a key leads from a cell; undefined for keys that lead nowhere. */
function moved(key: string, from: Cell, last: Cell, page: number): Cell | undefined {
  const to = (row: number, at: number) => ({ row: Math.min(Math.max(row, 0), last.row), at: Math.min(Math.max(at, 0), last.at) });
  switch (key) {
    case "ArrowDown":
      return to(from.row + 1, from.at);
    case "ArrowUp":
      return to(from.row - 1, from.at);
    case "ArrowRight":
      return to(from.row, from.at + 1);
    case "ArrowLeft":
      return to(from.row, from.at - 1);
    case "PageDown":
      return to(from.row + page, from.at);
    case "PageUp":
      return to(from.row - page, from.at);
    case "Home":
      return to(from.row, 0);
    case "End":
      return to(from.row, last.at);
    default:
      return undefined;
  }
}

/** Where the cells of a column lie in their line, as CSS has it. */
type Place = Record<"left" | "width", string>;
const NUMBERS_PX = 64;

interface LineProps {
  id: string;
  index: number;
  columns: readonly string[];
  isNumber: readonly boolean[];
  places: readonly Place[];
  /** The columns in view: the first, and the one behind the last. */
  from: number;
  to: number;
  /** From the slab's top, in pixels. */
  top: number;
  /** Undefined until its page is here. */
  row: Row | undefined;
  /** The column of the active cell, where it is in this line. */
  at: number | undefined;
}

/**
 * One row of the result. It is compared with what is there only if something of it has changed. A cell that is used again mostly
 * changes its text alone: hardly an element comes or goes while one scrolls down, so little is left to collect, which the
 * browser does in one task.
 */
function Line({ id, index, columns, isNumber, places, from, to, top, row, at: active }: LineProps) {
  const cell = (name: string, nth: number) => {
    const at = from + nth;
    const value = row?.[name];
    const isActive = active === at;
    const text = row ? (value === null ? "null" : shown(value)) : nth === 0 || isActive ? "…" : "";
    return (
      <span key={name} role="gridcell" aria-colindex={at + 2} id={isActive ? `${id}-${index}-${at}` : undefined} class={`${row && isNumber[at] ? "n" : ""} ${value === null ? "null" : ""} ${isActive ? "active" : ""}`} style={places[at]}>
        {text}
      </span>
    );
  };
  return useMemo(
    () => (
      <div class="line" role="row" aria-rowindex={index + 2} aria-busy={!row} style={{ top: `${top}px` }}>
        <span class="n dim" role="rowheader" aria-colindex={1}>{index + 1}</span>
        {columns.slice(from, to).map(cell)}
      </div>
    ),
    [id, index, columns, isNumber, places, from, to, top, row, active],
  );
}

/** The cell that an event is of. */
function cellOf(event: Event): { cell: HTMLElement; row: number; at: number } | undefined {
  const cell = (event.target as Element).closest<HTMLElement>("[role=gridcell]");
  const line = cell?.parentElement;
  return cell && line ? { cell, row: Number(line.ariaRowIndex) - 2, at: Number(cell.ariaColIndex) - 2 } : undefined;
}

export function Grid({ id, columns, total, first }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { top, left, follow, tell: tellScrolled } = useScrolled();
  const [[tall, across], setSize] = useState<readonly [tall: number, across: number]>([400, 1_200]);
  const [sort, setSort] = useState<{ name: string; down: boolean; page: number }>();
  const [cell, setCell] = useState<{ name: string; value: unknown }>();
  const { pages, want } = usePages(id, first);
  const { widths, set: setWidth, pull } = useWidths(columns, first);
  const [active, setActive] = useState<Cell>();
  const isNumber = useMemo(() => columns.map((name) => first.some((row) => typeof row[name] === "number")), [columns, first]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setSize([element.clientHeight, element.clientWidth]));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    setSort(undefined);
    setActive(undefined);
    box.current?.scrollTo(0, 0);
    if (box.current) tellScrolled(box.current);
  }, [id]);
  const inner = Math.min(total * ROW_PX, TALL_PX_MAX);
  const most = Math.max(inner + ROW_PX - tall, 1);
  const scale = inner < total * ROW_PX ? (total * ROW_PX + ROW_PX - tall) / most : 1;
  const from = Math.max(0, Math.floor((top * scale) / ROW_PX) - AROUND_ROWS);
  const drawn = Math.ceil(tall / ROW_PX) + 2 * AROUND_ROWS;
  const to = Math.min(total, from + drawn);
  const [firstPage, lastPage] = [Math.floor(from / PAGE_ROWS), Math.floor(Math.max(to - 1, 0) / PAGE_ROWS)];
  useEffect(() => {
    const timer = setTimeout(() => {
      for (let page = firstPage; page <= lastPage; page++) want(page);
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [id, firstPage, lastPage]);
  const isCut = total > PAGE_ROWS;
  const held = sort && pages.get(sort.page);
  const sorted = useMemo(() => {
    if (!sort || !held || held === "asked") return undefined;
    const rank = (row: Row) => row[sort.name];
    const order = (a: unknown, b: unknown) => (a === null ? 1 : b === null ? -1 : typeof a === "number" && typeof b === "number" ? a - b : shown(a).localeCompare(shown(b)));
    return [...held].sort((a, b) => order(rank(a), rank(b)) * (sort.down ? -1 : 1));
  }, [held, sort]);
  const template = useMemo(() => [NUMBERS_PX, ...widths].map((width) => `${width}px`).join(" "), [widths]);
  const wide = widths.reduce((sum, width) => sum + width, NUMBERS_PX);
  const [places, ends] = useMemo(() => {
    const ends: number[] = [];
    const places = widths.map((width): Place => {
      const begin = ends.at(-1) ?? NUMBERS_PX;
      ends.push(begin + width);
      return { left: `${begin}px`, width: `${width}px` };
    });
    return [places, ends];
  }, [widths]);
  // A page type may have 500 columns; those that are out of view are not drawn.
  const fromColumn = Math.max(ends.findIndex((end) => end > left), 0);
  const behind = ends.findIndex((end) => end >= left + across);
  const toColumn = behind < 0 ? columns.length : behind + 1;
  const rowAt = (index: number): Row | undefined => {
    const number = Math.floor(index / PAGE_ROWS);
    const page = number === sort?.page && sorted ? sorted : pages.get(number);
    return page && page !== "asked" ? page[index % PAGE_ROWS] : undefined;
  };
  const open = ({ row, at }: Cell) => {
    const [found, name] = [rowAt(row), columns[at]];
    if (found && name !== undefined) setCell({ name, value: found[name] });
  };
  // What was pointed at is heard once for all cells.
  const choose = (event: Event) => {
    const of = cellOf(event);
    if (of) setActive({ row: of.row, at: of.at });
  };
  const openPointed = (event: Event) => {
    const of = cellOf(event);
    if (of) open(of);
  };
  const pointed = useRef<HTMLElement>();
  const title = () => {
    const text = pointed.current?.textContent.slice(0, TITLE_MAX) ?? "";
    if (pointed.current && pointed.current.title !== text) pointed.current.title = text;
  };
  const tell = (event: Event) => {
    pointed.current = cellOf(event)?.cell;
    title();
  };
  const untell = () => {
    pointed.current?.removeAttribute("title");
    pointed.current = undefined;
  };
  // A text may come under a pointer that rests.
  useEffect(title);
  const show = ({ row, at }: Cell) => {
    const element = box.current;
    if (!element) return;
    const [above, below] = [(row * ROW_PX) / scale, ((row + 2) * ROW_PX + BAR_PX - tall) / scale];
    if (element.scrollTop > above) element.scrollTop = above;
    else if (element.scrollTop < below) element.scrollTop = below;
    const left = widths.slice(0, at).reduce((sum, width) => sum + width, NUMBERS_PX);
    if (element.scrollLeft > left - NUMBERS_PX) element.scrollLeft = left - NUMBERS_PX;
    else element.scrollLeft = Math.max(element.scrollLeft, left + (widths[at] ?? 0) - element.clientWidth);
    // What a key leads to is there in the next frame.
    tellScrolled(element);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey) return;
    const from = active ?? { row: Math.ceil((top * scale) / ROW_PX), at: 0 };
    const name = columns[from.at] ?? "";
    if (event.altKey && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      setWidth(name, (widths[from.at] ?? 0) + (event.key === "ArrowLeft" ? -WIDTH_STEP_PX : WIDTH_STEP_PX));
    } else if (event.key === "Enter" && active) {
      open(active);
    } else {
      const next = moved(event.key, from, { row: total - 1, at: columns.length - 1 }, Math.max(Math.floor(tall / ROW_PX) - 2, 1));
      if (!next) return;
      const landed = active ? next : from;
      setActive(landed);
      show(landed);
    }
    event.preventDefault();
  };
  // Lines lie in a slab that scrolling moves, so that one stays as it is while others come.
  const slab = Math.floor(from / SLAB_ROWS) * SLAB_ROWS;
  const slabTop = (scale === 1 ? slab * ROW_PX : top + slab * ROW_PX - top * scale) + ROW_PX;
  const lines = [];
  for (let index = from; index < to; index++) {
    const at = active?.row === index ? active.at : undefined;
    // What leaves the view is used again for what comes into it.
    lines.push(<Line key={index % drawn} {...{ id, index, columns, isNumber, places, at }} from={fromColumn} to={toColumn} top={(index - slab) * ROW_PX} row={rowAt(index)} />);
  }
  // Of many rows those of the page in the middle of the view are sorted: the others are not here.
  const inView = Math.floor(Math.min((top * scale + tall / 2) / ROW_PX, total - 1) / PAGE_ROWS);
  const here = sort?.page === inView ? sort : undefined;
  const press = (name: string) =>
    setSort((known) => (known?.name !== name || known.page !== inView ? { name, down: false, page: inView } : known.down ? undefined : { ...known, down: true }));
  return (
    <>
      <div ref={box} class="grid" style={{ height: `min(52vh, ${inner + ROW_PX + BAR_PX}px)` }} role="grid" tabIndex={0} aria-label="Rows of the result; arrow keys go from cell to cell, Enter opens one, Alt with arrows makes its column wider" aria-activedescendant={active && `${id}-${active.row}-${active.at}`} onKeyDown={keys} aria-rowcount={total + 1} aria-colcount={columns.length + 1} onScroll={follow}>
        <div class="lines" style={{ height: `${inner + ROW_PX}px`, width: `${wide}px` }}>
          <div class="line names" role="row" style={{ gridTemplateColumns: template }}>
            <span class="n dim" role="columnheader" aria-label="Number">#</span>
            {columns.map((name, at) => (
              <span key={name} role="columnheader" class={isNumber[at] ? "n" : ""} aria-sort={here?.name === name ? (here.down ? "descending" : "ascending") : "none"}>
                <button type="button" title={isCut ? `Sort the rows of this page by ${name}` : `Sort by ${name}`} onClick={() => press(name)}>
                  {name}
                  {here?.name === name && (here.down ? " ↓" : " ↑")}
                </button>
                <i class="sizer" aria-hidden="true" onPointerDown={pull(name, widths[at] ?? 0)} />
              </span>
            ))}
          </div>
          <div class="slab" role="presentation" style={{ top: `${slabTop}px` }} onClick={choose} onDblClick={openPointed} onMouseOver={tell} onMouseOut={untell}>
            {lines}
          </div>
        </div>
      </div>
      {cell && (
        <Dialog wide title={cell.name} onClose={() => setCell(undefined)}>
          <pre>{typeof cell.value === "object" ? JSON.stringify(cell.value, null, 2) : shown(cell.value)}</pre>
        </Dialog>
      )}
    </>
  );
}
