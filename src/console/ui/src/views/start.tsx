// First steps: from nothing to a first result without reading anything.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useEvents } from "../api/live";
import { useLoad } from "../api/use";
import { go, may, toast } from "../app/state";
import { Act, Badge, Field, Form, Head, Panel, Trouble } from "../parts/basic";
import { number } from "../parts/figures";
import { useCalm } from "./jobs";

const TAG = "first";

function Collect({ onDone }: { onDone: (batch: string | null) => void }) {
  const [urls, setUrls] = useState("");
  const send = async () => {
    const listed = [...new Set(urls.split(/\s+/).filter(Boolean))];
    const told = await api("POST /api/v1/urls", { body: { urls: listed.map((url) => ({ url, tags: [TAG] })) } });
    if (told.invalid.length > 0) toast(`${number(told.invalid.length)} were refused: ${told.invalid[0]?.reason}`, true);
    const refused = new Set(told.invalid.map((one) => one.index));
    const jobs = listed.filter((_, index) => !refused.has(index)).map((url) => ({ url, tags: [TAG] }));
    onDone((await api("POST /api/v1/jobs/batch", { body: { name: "First steps", jobs } })).batchId);
  };
  return (
    <Form send="Collect them" onSend={send}>
      <Field label="A few pages that you want to watch" hint="One URL a line: products of a shop, say.">
        <textarea rows={5} required placeholder="https://shop.example/products/1" value={urls} onInput={(event) => setUrls(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}

function Came({ batch }: { batch: string }) {
  const jobs = useLoad((signal) => api("GET /api/v1/jobs", { query: { batchId: batch, limit: 20 }, signal }), [batch]);
  const again = useCalm(jobs.reload);
  useEvents("job.*", again, again);
  const discover = (domain: string) => async () => {
    await api("POST /api/v1/extraction/discover", { body: { domain } });
    toast(`The schema of ${domain} is being found out`);
    go(`/schemas?domain=${encodeURIComponent(domain)}`);
  };
  if (jobs.error) return <Trouble error={jobs.error} retry={jobs.reload} />;
  const rows = jobs.value?.items ?? [];
  const domains = [...new Set(rows.filter((job) => job.status === "succeeded").map((job) => job.domain))];
  return (
    <div class="stack">
      <ul class="plain">
        {rows.map((job) => (
          <li key={job.id}>
            <a href={job.resultId ? `#/results/${job.resultId}` : `#/jobs/${job.id}`}>{job.url}</a>
            <Badge state={job.status} />
          </li>
        ))}
      </ul>
      {may("workflows:write") && domains.map((domain) => <p key={domain}><Act kind="main" does={discover(domain)}>Find out what pages of {domain} say</Act></p>)}
    </div>
  );
}

export function Start() {
  const [batch, setBatch] = useState<string | null>();
  return (
    <>
      <Head title="First steps" about="Three of them, and five minutes." />
      <div class="stack">
        <Panel title="1. Collect a few pages">{batch ? <Came batch={batch} /> : <Collect onDone={setBatch} />}</Panel>
        <Panel title="2. Say what to read from them">
          <p>The box finds out attributes of a site's pages by itself; you can add your own by name and XPath, and try them as you type. <a href="#/schemas">Schemas</a></p>
        </Panel>
        <Panel title="3. Again, by itself">
          <p>A schedule collects the URLs with a tag whenever its time comes; these have the tag “{TAG}”. <a href="#/schedules?new">New schedule</a></p>
        </Panel>
        <p>Then ask anything of it in <a href="#/sql">SQL</a>.</p>
      </div>
    </>
  );
}
