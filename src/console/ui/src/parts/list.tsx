// A list of the API as a table, with its states: loading, failed, empty, more.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Listed } from "../api/use";
import { Bones, Trouble } from "./basic";

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  number?: boolean;
}

interface Props<T> {
  list: Listed<T>;
  columns: readonly Column<T>[];
  id: (row: T) => string;
  /** What stands there when there is nothing. */
  empty: ComponentChildren;
  label: string;
}

export function Rows<T>({ rows, columns, id, label }: { rows: readonly T[]; columns: readonly Column<T>[]; id: (row: T) => string; label: string }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="list">
        <thead>
          <tr>
            {columns.map((column, index) => (
              <th key={index} class={column.number ? "number" : ""} scope="col">
                {column.title || <span aria-hidden="true">&nbsp;</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((column, index) => (
                <td key={index} class={column.number ? "number" : ""}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Pages on which nothing fitted are passed over so often before somebody has to ask for more. */
const EMPTY_PAGES_MAX = 30;

export function List<T>({ list, columns, id, empty, label }: Props<T>) {
  const passed = useRef(0);
  const goesOn = list.items?.length === 0 && list.more !== undefined && !list.busy && !list.error && passed.current < EMPTY_PAGES_MAX;
  useEffect(() => {
    if (!goesOn) return;
    passed.current += 1;
    list.more?.();
  }, [goesOn]);
  if (list.error && !list.items) return <Trouble error={list.error} retry={list.reload} />;
  if (!list.items) return <Bones />;
  if (list.items.length === 0 && !list.more) return <>{empty}</>;
  if (list.items.length === 0 && (goesOn || list.busy)) return <Bones />;
  return (
    <>
      <Rows rows={list.items} columns={columns} id={id} label={label} />
      {list.error && <Trouble error={list.error} retry={list.reload} />}
      {list.more && (
        <div class="more">
          <button type="button" class="button small" disabled={list.busy} onClick={list.more}>
            {list.busy ? "Loading …" : `More (${list.items.length} shown)`}
          </button>
        </div>
      )}
    </>
  );
}
