// Jobs: a list that follows what happens, and the page of one with its attempts.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { useEvents } from "../api/live";
import { useList, useLoad } from "../api/use";
import { ask, go, here, may, toast } from "../app/state";
import { Act, Badge, Bones, Choice, Empty, Head, Panel, Tags, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { bytes, many, millis, number, shown, Time } from "../parts/figures";
import { List } from "../parts/list";
import type { AttemptView, JobStatus, Outcome } from "../generated/api";

const STATES = [["", "Any state"], ["queued", "Queued"], ["running", "Running"], ["succeeded", "Succeeded"], ["failed", "Failed"], ["canceled", "Canceled"]] as const;
const REFRESH_MS = 1_000;

/** Calls at most once in a while, and once more at the end, however often it is asked to. */
export function useCalm(does: () => void): () => void {
  const timer = useRef<number>();
  const latest = useRef(does);
  latest.current = does;
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    timer.current ??= window.setTimeout(() => {
      timer.current = undefined;
      latest.current();
    }, REFRESH_MS);
  };
}

type Filters = Partial<Record<"status" | "domain" | "tag" | "error", string>>;

/** The filters of a page stand in its address, so that a link leads to them; those of a dialog are gone with it. */
function useFilters(inDialog: boolean): [Filters, (change: Filters) => void] {
  const [own, setOwn] = useState<Filters>({});
  if (inDialog) return [own, (change) => setOwn({ ...own, ...change })];
  return [Object.fromEntries(here.value.query), ask];
}

export function JobList({ fixed, inDialog = false }: { fixed?: { batchId?: string; scheduleRunId?: string }; inDialog?: boolean }) {
  const [filters, put] = useFilters(inDialog);
  const { domain = "", tag = "" } = filters;
  const status = (filters.status ?? "") as JobStatus | "";
  const error = (filters.error ?? "") as Outcome | "";
  const list = useList(
    (cursor, signal) =>
      api("GET /api/v1/jobs", { query: { ...fixed, ...(status && { status }), domain, ...(tag && { tag: [tag] }), ...(error && { error }), limit: 50, ...(cursor && { cursor }) }, signal }),
    [status, domain, tag, error, fixed?.batchId, fixed?.scheduleRunId],
  );
  const again = useCalm(list.refresh);
  const live = useEvents("job.*", again, again);
  return (
    <Panel flush>
      <div class="filters">
        <Choice label="State" value={status} options={STATES} onPick={(picked) => put({ status: picked })} />
        <input type="text" placeholder="Domain" aria-label="Domain" value={domain} onInput={(event) => put({ domain: event.currentTarget.value })} />
        <input type="text" placeholder="Tag" aria-label="Tag" value={tag} onInput={(event) => put({ tag: event.currentTarget.value })} />
        <span class={`badge ${live ? "good" : ""}`} title={live ? "The list follows what happens" : "Not connected to the events; the list is as it was loaded"}>
          {live ? "live" : "not live"}
        </span>
      </div>
      <List
        list={list}
        id={(job) => job.id}
        label="Jobs"
        empty={<Empty title={status || domain || tag ? "No job fits these filters" : "No jobs yet"}>Choose URLs and collect them, or make a schedule.</Empty>}
        columns={[
          { title: "URL", cell: (job) => <a class="cut" href={`#/jobs/${job.id}`} title={job.url}>{job.url}</a> },
          { title: "State", cell: (job) => <Badge state={job.status} /> },
          { title: "Why", cell: (job) => <span class="cut dim" title={job.error ?? ""}>{job.error ?? job.waiting?.reason.replaceAll("_", " ") ?? ""}</span> },
          { title: "Attempts", number: true, cell: (job) => job.attempts.length },
          { title: "Credits", number: true, cell: (job) => number(job.creditsCharged) },
          { title: "Submitted", cell: (job) => <Time at={job.createdAt} /> },
        ]}
      />
    </Panel>
  );
}

function Attempt({ one, name }: { one: AttemptView; name: string }) {
  return (
    <li>
      <div class="row">
        <Badge state={one.outcome} />
        <strong>{name}</strong>
        {one.httpStatus !== null && <span class="dim">HTTP {one.httpStatus}</span>}
        <span class="dim">{millis(one.durationMs)}</span>
        <span class="dim">{bytes(one.bytes)}</span>
        <span class="dim">{many(one.credits, "credit")} ({one.costSource})</span>
      </div>
      {one.error && <p class="wrong">{one.error}</p>}
      {one.rule && <p class="dim">Seen by the rule {one.rule}</p>}
      <span class="hint">
        Attempt {one.n}, <Time at={one.startedAt} exact />
        {one.nodeId && `, at the node ${one.nodeId}`}
      </span>
    </li>
  );
}

function JobPage({ id }: { id: string }) {
  const job = useLoad((signal) => api("GET /api/v1/jobs/{id}", { path: { id }, signal }), [id]);
  const providers = useLoad((signal) => (may("providers:read") ? api("GET /api/v1/providers", { query: { limit: 200 }, signal }).then((page) => new Map(page.items.map((one) => [one.id, one.name]))) : Promise.resolve(new Map<string, string>())), []);
  const again = useCalm(job.reload);
  useEvents("job.*", (event) => event.subject.id === id && again(), again);
  if (job.error && !job.value) return <Trouble error={job.error} retry={job.reload} />;
  if (!job.value) return <Bones />;
  const row = job.value;
  const isEnded = !["queued", "running"].includes(row.status);
  const cancel = async () => {
    await api("POST /api/v1/jobs/{id}/cancel", { path: { id } });
    toast("The job is canceled");
    job.reload();
  };
  const retry = async () => {
    const next = await api("POST /api/v1/jobs/{id}/retry", { path: { id } });
    go(`/jobs/${next.id}`);
  };
  return (
    <>
      <Head title="Job" about={row.url}>
        {row.resultId && !row.resultDeleted && <a class="button" href={`#/results/${row.resultId}`}>Result</a>}
        {may("jobs:write") && (isEnded ? <Act kind="main" does={retry}>Retry</Act> : <Act kind="bad" does={cancel}>Cancel</Act>)}
      </Head>
      {job.error && <Trouble error={job.error} retry={job.reload} />}
      <div class="halves">
        <Panel title="What happened" side={<Badge state={row.status} />}>
          <div class="stack">
            {row.error && <p class="note bad">{row.error}</p>}
            {row.waiting && <p class="note">Waits: {row.waiting.reason.replaceAll("_", " ")}{row.waiting.until && <>, until <Time at={row.waiting.until} exact /></>}</p>}
            <ol class="timeline">
              <li><strong>Submitted</strong><span class="hint"><Time at={row.createdAt} exact /></span></li>
              {row.startedAt && <li><strong>Began</strong><span class="hint"><Time at={row.startedAt} exact /></span></li>}
              {row.attempts.map((one) => <Attempt key={one.n} one={one} name={providers.value?.get(one.providerId) ?? one.providerId} />)}
              {row.finishedAt && <li><strong>Ended: {row.status}</strong><span class="hint"><Time at={row.finishedAt} exact />, {many(row.creditsCharged, "credit")} charged</span></li>}
            </ol>
          </div>
        </Panel>
        <Panel title="What was asked">
          <Facts of={[
            ["URL", <span class="mono">{row.urlId ? <a href={`#/urls/${row.urlId}`}>{row.url}</a> : row.url}</span>],
            ["Page type", row.pageType ?? "found out by the page"],
            ["Priority", row.priority],
            ["Workflow", row.workflowId ? <a href={`#/workflows/${row.workflowId}`}>{row.workflowId}</a> : "the usual way"],
            row.batchId && ["Batch", <><a href={`#/batches/${row.batchId}`}>{row.batchId}</a></>],
            row.scheduleId && ["Schedule", <><a href={`#/schedules/${row.scheduleId}`}>{row.scheduleId}</a></>],
            row.externalId && ["Your own id", row.externalId],
            ["Tags", <Tags tags={row.tags} none="none" />],
            ["Options", <><pre>{JSON.stringify(row.options, null, 1)}</pre></>],
            ...Object.entries(row.metadata).map(([name, value]) => [name, shown(value)] as const),
          ]} />
        </Panel>
      </div>
    </>
  );
}

export function Jobs() {
  const id = here.value.parts[1];
  if (id) return <JobPage key={id} id={id} />;
  return (
    <>
      <Head title="Jobs" about="One visit of one page each; the newest in front." />
      <JobList />
    </>
  );
}
