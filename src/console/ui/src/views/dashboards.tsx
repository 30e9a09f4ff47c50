// Dashboards: saved queries as tiles of one page, with filters, made anew by a schedule; edited by pointer or by keys.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { useList, useLoad } from "../api/use";
import { go, here, may, me, toast } from "../app/state";
import { Act, Bones, copy, Dialog, Empty, Field, Form, Head, Panel, Text, Trouble } from "../parts/basic";
import { Time } from "../parts/figures";
import { List } from "../parts/list";
import type { DashboardParameter, DashboardView, NewTile, TileView } from "../generated/api";
import { inWords } from "./cron";
import { Board, type Shown } from "./dashboards/board";
import { ParametersForm, RefreshForm, TileForm } from "./dashboards/forms";
import { isDay } from "./sql/parameters";
import { ended, typed } from "./sql/run";

/** While it is looked at, what is older is made anew. */
const FRESH_SEC = 60;
const LOOK_EVERY_MS = 20_000;
const LOOK_SOON_MS = 1_200;
const NEVER_OLDER_SEC = 10;

/** A tile as the box takes it back. */
const written = (tile: TileView): NewTile => {
  const { id, title, savedQueryId, params, chart, position } = tile;
  return { ...(id > 0 && { id }), title, savedQueryId, params, chart, position };
};

/** What tiles show with other values of the filters: their saved queries are run, and nothing is kept. */
async function withValues(board: DashboardView, values: ReadonlyMap<string, string>, signal: AbortSignal): Promise<Map<number, Shown>> {
  const found = new Map<number, Shown>();
  const all = new Map(board.parameters.map((one) => [one.name, one.value]));
  for (const [name, text] of values) all.set(name, typed(text));
  await Promise.all(
    board.tiles.map(async (tile) => {
      const params = tile.params.map((param) => (param && typeof param === "object" && "parameter" in param ? all.get(String(param.parameter)) : param));
      try {
        const first = await api("POST /api/v1/bi/saved-queries/{id}/run", { path: { id: tile.savedQueryId }, body: { params, waitMs: 2_000 }, signal });
        const execution = await ended(first, signal, () => undefined);
        const results = execution.results ?? (execution.error ? undefined : await api("GET /api/v1/bi/queries/{id}/results", { path: { id: execution.jobId }, query: { page: 0 }, signal }));
        found.set(tile.id, { rows: results?.rows ?? [], total: results?.totalRows ?? 0, error: execution.error?.message });
      } catch (reason) {
        found.set(tile.id, { rows: [], total: 0, error: reason instanceof Error ? reason.message : String(reason) });
      }
    }),
  );
  return found;
}

function Filters({ of, onShow, onKeep }: { of: DashboardView; onShow: (values: ReadonlyMap<string, string>) => Promise<void>; onKeep: (parameters: DashboardParameter[]) => Promise<void> }) {
  const [values, setValues] = useState<ReadonlyMap<string, string>>(new Map());
  if (of.parameters.length === 0) return null;
  const read = (one: DashboardParameter) => values.get(one.name) ?? (one.value === null ? "" : String(one.value));
  const show = async () => onShow(values);
  const keep = async () => onKeep(of.parameters.map((one) => ({ name: one.name, value: values.has(one.name) ? typed(read(one)) : one.value })));
  return (
    <section class="panel" aria-label="Filters">
      <form class="filters" onSubmit={(event) => (event.preventDefault(), void show())}>
        {of.parameters.map((one) => (
          <Field key={one.name} label={one.name}>
            <Text type={isDay(one.name) ? "date" : "text"} value={read(one)} onText={(text) => setValues(new Map(values).set(one.name, text))} />
          </Field>
        ))}
        <Act kind="main" does={show}>Show</Act>
        {may("bi:write") && <Act disabled={values.size === 0} does={keep}>Keep for everybody</Act>}
      </form>
    </section>
  );
}

type Open = { kind: "tile"; tile?: TileView } | { kind: "refresh" } | { kind: "filters" };

function DashboardPage({ id }: { id: string }) {
  const found = useLoad((signal) => api("GET /api/v1/bi/dashboards/{id}", { path: { id }, query: { maxAgeSec: FRESH_SEC }, signal }), [id]);
  const [draft, setDraft] = useState<TileView[]>();
  const [shown, setShown] = useState<Map<number, Shown>>();
  const [open, setOpen] = useState<Open>();
  const page = useRef<HTMLDivElement>(null);
  const asked = useRef<AbortController>();
  useEffect(() => () => asked.current?.abort(), []);
  const row = found.value;
  const isWaiting = row !== undefined && (row.isRefreshing || row.tiles.some((tile) => !tile.result));
  useEffect(() => {
    if (draft) return;
    const timer = setInterval(() => !document.hidden && found.reload(), isWaiting ? LOOK_SOON_MS : LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [isWaiting, draft === undefined]);
  const anew = useMemo(() => -1 - (draft ?? []).filter((tile) => tile.id < 0).length, [draft]);
  if (found.error && !row) return <Trouble error={found.error} retry={found.reload} />;
  if (!row) return <Bones />;
  const save = async () => {
    if (!draft) return;
    found.set(await api("PATCH /api/v1/bi/dashboards/{id}", { path: { id }, body: { tiles: draft.map(written) } }));
    setDraft(undefined);
    toast("Saved");
  };
  const refresh = async () => found.set(await api("GET /api/v1/bi/dashboards/{id}", { path: { id }, query: { maxAgeSec: NEVER_OLDER_SEC } }));
  const remove = async () => {
    await api("DELETE /api/v1/bi/dashboards/{id}", { path: { id } });
    go("/dashboards");
  };
  const keep = async (parameters: DashboardParameter[]) => {
    found.set(await api("PATCH /api/v1/bi/dashboards/{id}", { path: { id }, body: { parameters } }));
    await show();
    toast("These are the values for everybody now");
  };
  const put = (tile: TileView) => {
    const tiles = draft ?? row.tiles;
    setDraft(tiles.some((one) => one.id === tile.id) ? tiles.map((one) => (one.id === tile.id ? tile : one)) : [...tiles, tile]);
  };
  /** Shows tiles with these values, or with everybody's; an older wish that still runs is dropped. */
  const show = async (values?: ReadonlyMap<string, string>) => {
    asked.current?.abort();
    const control = new AbortController();
    asked.current = control;
    const tiles = values && (await withValues(row, values, control.signal));
    if (!control.signal.aborted) setShown(tiles);
  };
  const writes = may("bi:write");
  return (
    <>
      <Head title={row.name} about={row.description}>
        {draft ? (
          <>
            <button type="button" class="button" onClick={() => setOpen({ kind: "tile" })}>Add a tile</button>
            <button type="button" class="button" onClick={() => setDraft(undefined)}>Cancel</button>
            <Act kind="main" does={save}>Save</Act>
          </>
        ) : (
          <>
            <button type="button" class="button" onClick={() => void page.current?.requestFullscreen()}>Full screen</button>
            <button type="button" class="button" onClick={() => void copy(location.href)}>Copy link</button>
            <Act does={refresh}>Make anew</Act>
            {writes && <button type="button" class="button" onClick={() => setOpen({ kind: "filters" })}>Filters</button>}
            {writes && <button type="button" class="button" onClick={() => setOpen({ kind: "refresh" })}>Refresh</button>}
            {writes && <button type="button" class="button main" onClick={() => setDraft(row.tiles)}>Edit</button>}
            {writes && <Act kind="bad" sure={`Delete “${row.name}”? Its saved queries stay.`} does={remove}>Delete</Act>}
          </>
        )}
      </Head>
      <div ref={page} class="stack dashboard">
        {found.error && <Trouble error={found.error} retry={found.reload} />}
        {!draft && <Filters key={row.updatedAt} of={row} onShow={show} onKeep={keep} />}
        {shown && <p class="note">With values of your own, which nobody else sees. <button type="button" class="button small" onClick={() => void show()}>As everybody sees it</button></p>}
        {draft && <p class="hint">A tile is moved by the arrow keys, or by its title with the pointer; with Shift it grows and shrinks.</p>}
        {(draft ?? row.tiles).length === 0 ? (
          <Panel><Empty title="No tiles yet">{writes ? <>A tile shows a saved query. <button type="button" class="button" onClick={() => (setDraft(row.tiles), setOpen({ kind: "tile" }))}>Add a tile</button></> : "Somebody with bi:write adds them."}</Empty></Panel>
        ) : (
          <Board tiles={draft ?? row.tiles} shown={shown} onChange={draft && setDraft} onEdit={draft && ((tile) => setOpen({ kind: "tile", tile }))} />
        )}
        {!draft && (
          <p class="hint" role="status">
            {row.isRefreshing ? "It is being made anew. " : row.refreshedAt && <>Made <Time at={row.refreshedAt} />. </>}
            {row.refresh ? <>By itself: {inWords(row.refresh.cron)} ({row.refresh.timezone ?? "UTC"}){row.nextRefreshAt && <>; next <Time at={row.nextRefreshAt} exact /></>}</> : "Made anew while somebody looks at it."}
          </p>
        )}
      </div>
      {open?.kind === "tile" && <Dialog title={open.tile ? "Edit the tile" : "Add a tile"} onClose={() => setOpen(undefined)}><TileForm known={open.tile} parameters={row.parameters} anew={anew} tiles={draft ?? row.tiles} onDone={(tile) => (put(tile), setOpen(undefined))} onCancel={() => setOpen(undefined)} /></Dialog>}
      {open?.kind === "refresh" && <Dialog title="Made anew by itself" onClose={() => setOpen(undefined)}><RefreshForm of={row} onDone={(next) => (found.set(next), setOpen(undefined))} /></Dialog>}
      {open?.kind === "filters" && <Dialog title="Filters" onClose={() => setOpen(undefined)}><ParametersForm of={row} onDone={(next) => (found.set(next), setOpen(undefined))} /></Dialog>}
    </>
  );
}

function Make({ onDone }: { onDone: () => void }) {
  const [name, setName] = useState("");
  const [about, setAbout] = useState("");
  const send = async () => {
    const made = await api("POST /api/v1/bi/dashboards", { body: { name, description: about.trim() || null } });
    onDone();
    go(`/dashboards/${made.id}`);
  };
  return (
    <Form send="Make the dashboard" onSend={send} onCancel={onDone}>
      <Field label="Name"><Text required maxLength={200} value={name} onText={setName} /></Field>
      <Field label="Description"><Text maxLength={1_000} value={about} onText={setAbout} /></Field>
    </Form>
  );
}

export function Dashboards() {
  const id = here.value.parts[1];
  const isVerified = Boolean(me.value?.user.emailVerifiedAt);
  const list = useList((cursor, signal) => (isVerified ? api("GET /api/v1/bi/dashboards", { query: { limit: 50, ...(cursor && { cursor }) }, signal }) : Promise.resolve({ items: [], nextCursor: null })), [id, isVerified]);
  const [making, setMaking] = useState(false);
  if (id) return <DashboardPage key={id} id={id} />;
  return (
    <>
      <Head title="Dashboards" about="Saved queries on one page.">
        {may("bi:write") && isVerified && <button type="button" class="button main" onClick={() => setMaking(true)}>New dashboard</button>}
      </Head>
      <Panel flush>
        <List
          list={list}
          id={(row) => row.id}
          label="Dashboards"
          empty={isVerified ? <Empty title="No dashboards yet">One shows saved queries as tiles, for everybody of the organization.</Empty> : <Empty title="Your email address is not verified">Dashboards need that. <a href="#/profile">Send the message again</a></Empty>}
          columns={[
            { title: "Name", cell: (row) => <><a href={`#/dashboards/${row.id}`}>{row.name}</a><div class="hint">{row.description}</div></> },
            { title: "Tiles", number: true, cell: (row) => row.tiles.length },
            { title: "Made anew", cell: (row) => (row.refresh ? inWords(row.refresh.cron) : <span class="dim">while it is looked at</span>) },
            { title: "Last", cell: (row) => <Time at={row.refreshedAt} /> },
          ]}
        />
      </Panel>
      {making && <Dialog title="New dashboard" onClose={() => setMaking(false)}><Make onDone={() => (setMaking(false), list.reload())} /></Dialog>}
    </>
  );
}
