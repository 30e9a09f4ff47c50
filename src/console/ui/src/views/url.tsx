// One URL: what is known of it, its history as a table and as a chart of each number, two versions side by side.
import { useMemo, useState } from "preact/hooks";
import { api } from "../api/client";
import { pagesFrom, useList, useLoad } from "../api/use";
import { go, may, toast } from "../app/state";
import { Act, Badge, Bones, Choice, Dialog, Empty, Field, Form, Head, Panel, Tags, Text, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { number, shown, Time } from "../parts/figures";
import { Plot } from "../parts/lazy";
import { List } from "../parts/list";
import type { ExtractionHistoryEntry, UrlView } from "../generated/api";
import { Diff } from "./diff";

/** So many visits more are drawn at once. */
const VISITS_STEP = 200;

interface Line {
  at: number[];
  values: (number | null)[];
}

const numeric = (value: unknown) => (typeof value === "number" ? value : null);

/** The values of each number at each visit, put together from what changed. */
function numbers(history: ExtractionHistoryEntry[]): Map<string, Line> {
  const found = new Map<string, Line>();
  const at = (entry: ExtractionHistoryEntry) => Date.parse(entry.scrapedAt) / 1_000;
  history.forEach((entry, visit) => {
    for (const { name, from, to } of entry.changed) {
      if (found.has(name) || (typeof to !== "number" && typeof from !== "number")) continue;
      // What it was at the visits before.
      const earlier = history.slice(0, visit);
      found.set(name, { at: earlier.map(at), values: earlier.map(() => numeric(from)) });
    }
    for (const [name, line] of found) {
      const change = entry.changed.find((one) => one.name === name);
      line.values.push(change ? numeric(change.to) : (line.values.at(-1) ?? null));
      line.at.push(at(entry));
    }
  });
  return found;
}

function Charts({ history }: { history: ExtractionHistoryEntry[] }) {
  const found = useMemo(() => numbers(history), [history]);
  const names = [...found.keys()];
  const [name, setName] = useState("");
  const at = name || names[0];
  const line = at ? found.get(at) : undefined;
  const series = useMemo(() => (line && at ? [{ label: at, values: line.values }] : []), [line, at]);
  if (!line || !at) return <Empty title="No numbers yet">A number that was read on a visit stands here, as it changes.</Empty>;
  return (
    <div class="stack">
      <Choice label="Number" value={at} options={names.map((one) => [one, one] as const)} onPick={setName} />
      <Plot at={line.at} series={series} points={line.at.length < 3} height={180} label={`${at} at each visit`} />
    </div>
  );
}

function Edit({ url, onDone }: { url: UrlView; onDone: () => void }) {
  const [tags, setTags] = useState(url.tags.join(", "));
  const [pageType, setPageType] = useState(url.pageType ?? "");
  const [metadata, setMetadata] = useState(JSON.stringify(url.metadata, null, 2));
  const send = async () => {
    const parsed: unknown = JSON.parse(metadata || "{}");
    if (!parsed || typeof parsed !== "object" || Array.isArray(parsed)) throw new Error("Metadata must be a JSON object");
    const type = pageType.trim();
    const body = { tags: tags.split(",").map((tag) => tag.trim()).filter(Boolean), metadata: parsed as Record<string, unknown> };
    await api("PATCH /api/v1/urls/{id}", { path: { id: url.id }, body: type ? { ...body, pageType: type } : { ...body, clear: ["pageType"] } });
    toast("Saved");
    onDone();
  };
  return (
    <Form send="Save" onSend={send} onCancel={onDone}>
      <Field label="Tags" hint="Separated by commas.">
        <Text value={tags} onText={setTags} />
      </Field>
      <Field label="Page type">
        <Text value={pageType} onText={setPageType} />
      </Field>
      <Field label="Metadata" hint="A JSON object of your own.">
        <textarea class="mono" rows={6} value={metadata} onInput={(event) => setMetadata(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}

export function UrlPage({ id }: { id: string }) {
  const url = useLoad((signal) => api("GET /api/v1/urls/{id}", { path: { id }, signal }), [id]);
  // The API begins with the oldest visit: the newest is on the last page.
  const history = useList((from, signal) => pagesFrom((cursor) => api("GET /api/v1/extraction/history", { query: { urlId: id, limit: 200, ...(cursor && { cursor }) }, signal }), from), [id]);
  const newest = useMemo(() => history.items && [...history.items].reverse(), [history.items]);
  const [most, setMost] = useState(VISITS_STEP);
  const list = { ...history, items: newest?.slice(0, most), more: newest && newest.length > most ? () => setMost(most + VISITS_STEP) : undefined };
  const [editing, setEditing] = useState(false);
  const [pair, setPair] = useState<string[]>([]);
  const [compare, setCompare] = useState(false);
  if (url.error && !url.value) return <Trouble error={url.error} retry={url.reload} />;
  if (!url.value) return <Bones />;
  const row = url.value;
  const collect = async () => {
    const job = await api("POST /api/v1/jobs", { body: { urlId: id } });
    go(`/jobs/${job.id}`);
  };
  const remove = async () => {
    await api("DELETE /api/v1/urls/{id}", { path: { id } });
    toast("The URL was deleted");
    go("/urls");
  };
  const pick = (result: string) => setPair((known) => (known.includes(result) ? known.filter((one) => one !== result) : [...known, result].slice(-2)));
  return (
    <>
      <Head title="URL" about={row.url}>
        {may("jobs:write") && <Act kind="main" does={collect}>Collect now</Act>}
        {may("urls:write") && <button type="button" class="button" onClick={() => setEditing(true)}>Edit</button>}
        {may("urls:write") && <Act kind="bad" sure="Delete this URL? Its results stay." does={remove}>Delete</Act>}
      </Head>
      <div class="stack">
        {url.error && <Trouble error={url.error} retry={url.reload} />}
        <div class="halves">
          <Panel title="What is known">
            <Facts of={[
              ["Address", <span class="mono">{row.url}</span>],
              ["Domain", <><a href={`#/urls?domain=${encodeURIComponent(row.domain)}`}>{row.domain}</a></>],
              ["Page type", row.pageType ?? "found out by its pages"],
              ["Tags", <Tags tags={row.tags} none="none" />],
              ["Last job", row.lastJobId ? <a href={`#/jobs/${row.lastJobId}`}>{row.lastStatus}</a> : "none yet"],
              ["Collected", <Time at={row.lastScrapedAt} />],
              ["Registered", <Time at={row.createdAt} exact />],
              ...Object.entries(row.metadata).map(([name, value]) => [name, shown(value)] as const),
            ]} />
          </Panel>
          <Panel title="Numbers over time">{history.items ? <Charts history={history.items} /> : history.error ? <Trouble error={history.error} retry={history.reload} /> : <Bones />}</Panel>
        </div>
        <Panel title="History" flush side={<button type="button" class="button small" disabled={pair.length !== 2} onClick={() => setCompare(true)}>Compare two versions</button>}>
          {history.more && (
            <p class="note warn">
              Only the first {number(newest?.length ?? 0)} visits are here; there are later ones.
              <button type="button" class="button small" disabled={history.busy} onClick={history.more}>Load later visits</button>
            </p>
          )}
          <List
            list={list}
            id={(entry) => entry.resultId}
            label="History"
            empty={<Empty title="No results yet">Collect the page to see its first one.</Empty>}
            columns={[
              { title: "", cell: (entry) => <input type="checkbox" aria-label={`Choose the version of ${entry.scrapedAt}`} checked={pair.includes(entry.resultId)} onChange={() => pick(entry.resultId)} /> },
              { title: "Visited", cell: (entry) => <a href={`#/results/${entry.resultId}`}><Time at={entry.scrapedAt} exact /></a> },
              { title: "Status", cell: (entry) => <Badge state={entry.httpStatus < 400 ? "ok" : "failed"} /> },
              { title: "Changed", cell: (entry) => <>{entry.changed.slice(0, 6).map((change) => <div key={change.name}><span class="dim">{change.name}</span> {shown(change.from).slice(0, 60) || "–"} → {shown(change.to).slice(0, 60) || "–"}</div>)}{entry.changed.length > 6 && <span class="dim">and {entry.changed.length - 6} more</span>}</> },
            ]}
          />
        </Panel>
      </div>
      {editing && <Dialog title="Edit the URL" onClose={() => setEditing(false)}><Edit url={row} onDone={() => (setEditing(false), url.reload())} /></Dialog>}
      {compare && pair[0] && pair[1] && <Dialog wide title="Two versions" onClose={() => setCompare(false)}><Diff older={pair[0] < pair[1] ? pair[0] : pair[1]} newer={pair[0] < pair[1] ? pair[1] : pair[0]} /></Dialog>}
    </>
  );
}
