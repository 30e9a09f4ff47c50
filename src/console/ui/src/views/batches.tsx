// Batches: many jobs that were submitted together, how far they are, and why some failed.
import { api } from "../api/client";
import { useEvents } from "../api/live";
import { useList, useLoad } from "../api/use";
import { here, may, toast } from "../app/state";
import { Act, Badge, Bones, Empty, Head, Panel, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { many, number, Share, Time } from "../parts/figures";
import { List, Rows } from "../parts/list";
import type { BatchRetryView, BatchView } from "../generated/api";
import { JobList, useCalm } from "./jobs";

function Progress({ of }: { of: BatchView }) {
  const { succeeded, failed, canceled, running, queued } = of.byStatus;
  const label = `${number(succeeded)} succeeded, ${number(failed)} failed, ${number(canceled)} canceled, ${number(running)} running, ${number(queued)} queued`;
  return <Share label={label} parts={[[succeeded, "accent"], [failed, "bad"], [canceled, "line-strong"], [running, "info"], [queued, "sunk"]]} />;
}

const left = (batch: BatchView) => batch.byStatus.queued + batch.byStatus.running;

function state(batch: BatchView): string {
  if (batch.canceledAt) return batch.endedAt ? "canceled" : "canceling";
  return batch.endedAt ? "completed" : "running";
}

/** What became of submitting again what had failed. */
function Retried({ of: { finishedAt, submitted, refused, message } }: { of: BatchRetryView }) {
  return (
    <p class={`note ${message ? "warn" : ""}`}>
      {finishedAt ? "The last retry" : "A retry goes on; it"} has submitted {many(submitted, "job")}{refused > 0 && `, and ${number(refused)} were refused`}{message ? `: ${message}` : "."}
    </p>
  );
}

function BatchPage({ id }: { id: string }) {
  const batch = useLoad((signal) => api("GET /api/v1/batches/{id}", { path: { id }, signal }), [id]);
  const again = useCalm(batch.reload);
  useEvents("job.*,batch.*", again, again);
  if (batch.error && !batch.value) return <Trouble error={batch.error} retry={batch.reload} />;
  if (!batch.value) return <Bones />;
  const row = batch.value;
  const cancel = async () => {
    await api("POST /api/v1/batches/{id}/cancel", { path: { id } });
    toast("What has not ended is being canceled");
    batch.reload();
  };
  const retry = async () => {
    await api("POST /api/v1/batches/{id}/retry", { path: { id } });
    toast("What failed is being submitted again");
    batch.reload();
  };
  const isRetrying = row.retry !== null && !row.retry.finishedAt;
  const mayRetry = row.byStatus.failed > row.retried && left(row) === 0 && !row.canceledAt && !isRetrying;
  return (
    <>
      <Head title={row.name ?? "Batch"} about={`${number(row.jobs)} jobs, from ${row.source}`}>
        {may("jobs:write") && left(row) > 0 && !row.canceledAt && <Act kind="bad" does={cancel}>Cancel the rest</Act>}
        {may("jobs:write") && mayRetry && <Act kind="main" does={retry}>Retry what failed</Act>}
      </Head>
      <div class="stack">
        {batch.error && <Trouble error={batch.error} retry={batch.reload} />}
        {row.retry && <Retried of={row.retry} />}
        <div class="halves">
          <Panel title="Progress" side={<Badge state={state(row)} />}>
            <div class="stack">
              <Progress of={row} />
              <Facts of={[
                ...Object.entries(row.byStatus).map(([name, count]) => [name, number(count)] as const),
                row.retried > 0 && ["Submitted again", number(row.retried)],
                // Of the last minute, which says nothing of a batch that has ended.
                !row.endedAt && ["Speed", <>{row.ratePerSec.toFixed(1)} a second</>],
                ["Submitted", <Time at={row.createdAt} exact />],
                row.canceledAt && ["Canceled", <Time at={row.canceledAt} exact />],
                row.expectedEndAt && ["Ends about", <Time at={row.expectedEndAt} />],
                row.endedAt && ["Ended", <Time at={row.endedAt} exact />],
              ]} />
            </div>
          </Panel>
          <Panel title="Why jobs failed" flush>
            {row.errors.length === 0 && row.otherErrors === 0 ? <Empty title="None failed" /> : (
              <Rows
                label="Why jobs failed"
                rows={row.errors}
                id={(one) => `${one.outcome} ${one.rule}`}
                columns={[
                  { title: "Outcome", cell: (one) => <Badge state={one.outcome ?? "failed"} /> },
                  { title: "Rule", cell: (one) => one.rule ?? "–" },
                  { title: "Jobs", number: true, cell: (one) => number(one.count) },
                  { title: "", cell: (one) => <a href={`#/jobs/${one.exampleJobId}`}>Example</a> },
                ]}
              />
            )}
            {row.otherErrors > 0 && <p class="inner hint">{many(row.otherErrors, "job")} failed in other ways.</p>}
          </Panel>
        </div>
        <JobList fixed={{ batchId: id }} />
      </div>
    </>
  );
}

export function Batches() {
  const id = here.value.parts[1];
  const list = useList((cursor, signal) => api("GET /api/v1/batches", { query: { limit: 50, ...(cursor && { cursor }) }, signal }), []);
  const again = useCalm(list.refresh);
  useEvents("job.*,batch.*", again, again);
  if (id) return <BatchPage key={id} id={id} />;
  return (
    <>
      <Head title="Batches" about="Jobs that were submitted together." />
      <Panel flush>
        <List
          list={list}
          id={(batch) => batch.id}
          label="Batches"
          empty={<Empty title="No batches yet">Collecting several URLs at once makes one.</Empty>}
          columns={[
            { title: "Batch", cell: (batch) => <a href={`#/batches/${batch.id}`}>{batch.name ?? batch.id.slice(-12)}</a> },
            { title: "From", cell: (batch) => batch.source },
            { title: "Progress", cell: (batch) => <Progress of={batch} /> },
            { title: "Jobs", number: true, cell: (batch) => number(batch.jobs) },
            { title: "Failed", number: true, cell: (batch) => number(batch.byStatus.failed) },
            { title: "Submitted", cell: (batch) => <Time at={batch.createdAt} /> },
            { title: "Ends", cell: (batch) => <Time at={batch.endedAt ?? batch.expectedEndAt} /> },
          ]}
        />
      </Panel>
    </>
  );
}
