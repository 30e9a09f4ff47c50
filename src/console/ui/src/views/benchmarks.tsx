// Benchmarks: providers side by side on the same URLs, and a workflow made of what came out.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { useList, useLoad } from "../api/use";
import { go, here, may, toast } from "../app/state";
import { Act, Badge, Bones, Choice, Dialog, Empty, Field, Form, Head, Panel, Trouble } from "../parts/basic";
import { bytes, millis, number, percent, Share, Time } from "../parts/figures";
import { List, Rows } from "../parts/list";
import type { Rollup, Strategy } from "../generated/api";

const STRATEGIES = [["balanced", "Balanced"], ["success_rate", "Most successful first"], ["latency", "Fastest first"], ["cost", "Cheapest first"]] as const;
const LOOK_EVERY_MS = 1_500;

function Begin({ onDone }: { onDone: () => void }) {
  const [urls, setUrls] = useState("");
  const send = async () => {
    const made = await api("POST /api/v1/benchmarks", { body: { urls: urls.split(/\s+/).filter(Boolean) } });
    onDone();
    go(`/benchmarks/${made.id}`);
  };
  return (
    <Form send="Begin" onSend={send} onCancel={onDone}>
      <Field label="URLs" hint="Up to 20, one a line; each provider fetches each of them, which costs credits.">
        <textarea rows={6} required value={urls} onInput={(event) => setUrls(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}

function Bars({ rows, title, of, shown }: { rows: Rollup[]; title: string; of: (row: Rollup) => number | null; shown: (value: number | null) => string }) {
  const most = Math.max(...rows.map((row) => of(row) ?? 0), Number.MIN_VALUE);
  return (
    <div class="column-gap">
      <h3>{title}</h3>
      <div class="horizontal">
        {rows.map((row) => [
          <span class="cut" key={`${row.providerId}.name`}>{row.providerName}</span>,
          <Share key={row.providerId} label={shown(of(row))} parts={[[of(row) ?? 0, "accent"], [most - (of(row) ?? 0), "sunk"]]} />,
          <span class="number" key={`${row.providerId}.value`}>{shown(of(row))}</span>,
        ])}
      </div>
    </div>
  );
}

function BenchmarkPage({ id }: { id: string }) {
  const found = useLoad(async (signal) => {
    const one = await api("GET /api/v1/benchmarks/{id}", { path: { id }, signal });
    const results = await api("GET /api/v1/benchmarks/{id}/results", { path: { id }, signal });
    return { one, results };
  }, [id]);
  const [strategy, setStrategy] = useState<Strategy>("balanced");
  const isOpen = found.value?.one.status === "pending" || found.value?.one.status === "running";
  useEffect(() => {
    if (!isOpen || found.busy) return;
    const timer = setTimeout(found.reload, LOOK_EVERY_MS);
    return () => clearTimeout(timer);
  }, [isOpen, found.busy]);
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const { one, results } = found.value;
  const overall = results.results.filter((row) => row.domain === null).sort((a, b) => a.rank - b.rank);
  const cancel = async () => {
    await api("POST /api/v1/benchmarks/{id}/cancel", { path: { id } });
    found.reload();
  };
  const generate = async () => {
    const made = await api("POST /api/v1/benchmarks/{id}/generate-workflow", { path: { id }, body: { strategy } });
    toast("The workflow was made");
    go(`/workflows/${made.workflowId}`);
  };
  return (
    <>
      <Head title="Benchmark" about={`${one.urls.length} URLs, ${one.providerIds.length} providers`}>
        {may("workflows:write") && isOpen && <Act kind="bad" does={cancel}>Cancel</Act>}
        {may("workflows:write") && one.status === "completed" && (
          <>
            <Choice label="Strategy" value={strategy} options={STRATEGIES} onPick={setStrategy} />
            <Act kind="main" does={generate}>Make a workflow</Act>
          </>
        )}
      </Head>
      <div class="stack">
        {one.error && <p class="note bad">{one.error}</p>}
        <Panel title="Progress" side={<Badge state={one.status} />}>
          <Share label={`${one.completedProbes} of ${one.totalProbes} probes`} parts={[[one.completedProbes - one.failedProbes, "accent"], [one.failedProbes, "bad"], [one.totalProbes - one.completedProbes, "sunk"]]} />
          <p class="hint">{number(one.completedProbes)} of {number(one.totalProbes)} probes, {number(one.failedProbes)} failed</p>
        </Panel>
        {overall.length > 0 && (
          <Panel title="Providers side by side">
            <div class="halves">
              <Bars rows={overall} title="Success" of={(row) => row.successRate} shown={percent} />
              <Bars rows={overall} title="Latency p50" of={(row) => row.p50Ms} shown={millis} />
              <Bars rows={overall} title="Credits a page" of={(row) => row.avgCredits} shown={(value) => (value === null ? "–" : value.toFixed(1))} />
              <Bars rows={overall} title="Score" of={(row) => row.score} shown={(value) => (value ?? 0).toFixed(2)} />
            </div>
          </Panel>
        )}
        <Panel title="Probes" flush>
          {results.probeDetails.length === 0 ? <Empty title="No probes yet" /> : (
            <Rows
              label="Probes"
              rows={results.probeDetails}
              id={(row) => `${row.providerId} ${row.url}`}
              columns={[
                { title: "URL", cell: (row) => <span class="cut">{row.url}</span> },
                { title: "Provider", cell: (row) => overall.find((of) => of.providerId === row.providerId)?.providerName ?? row.providerId },
                { title: "Outcome", cell: (row) => <Badge state={row.outcome} /> },
                { title: "Took", number: true, cell: (row) => millis(row.durationMs) },
                { title: "Came", number: true, cell: (row) => bytes(row.bytes) },
                { title: "Credits", number: true, cell: (row) => number(row.credits) },
              ]}
            />
          )}
        </Panel>
      </div>
    </>
  );
}

export function Benchmarks() {
  const id = here.value.parts[1];
  const list = useList((cursor, signal) => api("GET /api/v1/benchmarks", { query: { limit: 50, ...(cursor && { cursor }) }, signal }), [id]);
  const [open, setOpen] = useState(false);
  if (id) return <BenchmarkPage key={id} id={id} />;
  return (
    <>
      <Head title="Benchmarks" about="The same URLs by every provider, side by side.">
        {may("workflows:write") && <button type="button" class="button main" onClick={() => setOpen(true)}>New benchmark</button>}
      </Head>
      <Panel flush>
        <List
          list={list}
          id={(row) => row.id}
          label="Benchmarks"
          empty={<Empty title="No benchmarks yet">One tells which provider is best for which site.</Empty>}
          columns={[
            { title: "Begun", cell: (row) => <a href={`#/benchmarks/${row.id}`}><Time at={row.createdAt} exact /></a> },
            { title: "State", cell: (row) => <Badge state={row.status} /> },
            { title: "URLs", number: true, cell: (row) => row.urls.length },
            { title: "Providers", number: true, cell: (row) => row.providerIds.length },
            { title: "Probes", number: true, cell: (row) => `${row.completedProbes} of ${row.totalProbes}` },
          ]}
        />
      </Panel>
      {open && <Dialog title="New benchmark" onClose={() => setOpen(false)}><Begin onDone={() => (setOpen(false), list.reload())} /></Dialog>}
    </>
  );
}
