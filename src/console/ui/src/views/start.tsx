// First steps: from nothing to a first result that is read again by itself, without reading anything. What was done stands in the
// address, so a page that is opened anew goes on where one was.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { useEvents } from "../api/live";
import { useLoad } from "../api/use";
import { ask, here, may, toast } from "../app/state";
import { Act, Badge, Choice, Field, Form, Head, Panel, Trouble } from "../parts/basic";
import { number, shown, zone } from "../parts/figures";
import { Rows } from "../parts/list";
import { inWords } from "./cron";
import { useCalm } from "./jobs";
import { Discovery } from "./schemas";

const TAG = "first";
const OFTEN = [["0 6 * * *", "Each day at 06:00"], ["0 * * * *", "Each hour"], ["0 6 * * 1", "Each Monday at 06:00"]] as const;
/** Jobs that are listed. */
const JOBS_MAX = 20;
const LOOK_EVERY_MS = 1_000;
/** A page of which nothing is read by then has nothing to be read yet. */
const LOOKS_MAX = 60;
/** Values of a result that are shown as a first look. */
const VALUES_MAX = 6;

function Collect() {
  const [urls, setUrls] = useState("");
  const send = async () => {
    const listed = [...new Set(urls.split(/\s+/).filter(Boolean))];
    const told = await api("POST /api/v1/urls", { body: { urls: listed.map((url) => ({ url, tags: [TAG] })) } });
    const refused = new Set(told.invalid.map((one) => one.index));
    const jobs = listed.filter((_, index) => !refused.has(index)).map((url) => ({ url, tags: [TAG] }));
    if (jobs.length === 0) throw new Error(`None of them can be collected: ${told.invalid[0]?.reason ?? ""}`);
    if (refused.size > 0) toast(`${number(refused.size)} were refused: ${told.invalid[0]?.reason ?? ""}`, true);
    const batch = await api("POST /api/v1/jobs/batch", { body: { name: "First steps", jobs } });
    ask({ batch: batch.batchId ?? undefined });
  };
  return (
    <Form send="Collect them" onSend={send}>
      <Field label="A few pages that you want to watch" hint="One URL a line: products of a shop, say. Three or more of a kind teach the most.">
        <textarea rows={5} required placeholder={"https://shop.example/products/1\nhttps://shop.example/products/2"} value={urls} onInput={(event) => setUrls(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}

function Came({ batch, onDomains }: { batch: string; onDomains: (domains: readonly string[]) => void }) {
  const jobs = useLoad((signal) => api("GET /api/v1/jobs", { query: { batchId: batch, limit: JOBS_MAX }, signal }), [batch]);
  const whole = useLoad((signal) => api("GET /api/v1/batches/{id}", { path: { id: batch }, signal }), [batch]);
  const again = useCalm(() => {
    jobs.reload();
    whole.reload();
  });
  useEvents("job.*,batch.*", again, again);
  const rows = jobs.value?.items ?? [];
  const domains = [...new Set(rows.filter((job) => job.status === "succeeded").map((job) => job.domain))];
  useEffect(() => onDomains(domains), [domains.join(" ")]);
  if (jobs.error && !jobs.value) return <Trouble error={jobs.error} retry={jobs.reload} />;
  // Of all jobs; those that are listed may be some of them.
  const { jobs: all = 0, byStatus } = whole.value ?? {};
  const ended = byStatus ? all - byStatus.queued - byStatus.running : 0;
  return (
    <div class="stack">
      {whole.error && <Trouble error={whole.error} retry={whole.reload} />}
      {whole.value && <p role="status">{number(ended)} of {number(all)} have come.</p>}
      <ul class="plain">
        {rows.map((job) => (
          <li key={job.id}>
            <a href={job.resultId ? `#/results/${job.resultId}` : `#/jobs/${job.id}`}>{job.url}</a>
            <Badge state={job.status} />
          </li>
        ))}
      </ul>
      {all > rows.length && rows.length > 0 && <p><a href={`#/batches/${batch}`}>All {number(all)} of them</a></p>}
    </div>
  );
}

/** What is read of the newest page, once there is something. */
function FirstValues({ domain }: { domain: string }) {
  const found = useLoad((signal) => api("GET /api/v1/extraction/results", { query: { domain, sort: "newest", limit: 1 }, signal }), [domain]);
  const row = found.value?.items[0];
  const values = Object.entries(row?.values ?? {}).filter(([, value]) => value !== null);
  const looks = useRef(0);
  useEffect(() => {
    if (!found.value || values.length > 0 || found.busy || ++looks.current > LOOKS_MAX) return;
    const timer = setTimeout(found.reload, LOOK_EVERY_MS);
    return () => clearTimeout(timer);
  }, [found.value, found.busy]);
  if (!row || values.length === 0) return null;
  return (
    <div class="stack">
      <Rows label="First values" rows={values.slice(0, VALUES_MAX)} id={([name]) => name} columns={[
        { title: "Attribute", cell: ([name]) => name },
        { title: "Value", cell: ([, value]) => <span class="cut">{shown(value)}</span> },
      ]} />
      <p><a href={`#/results/${row.id}?teach`}>Point at something else on the page</a> · <a href={`#/schemas?domain=${encodeURIComponent(domain)}`}>All that is read from {domain}</a></p>
    </div>
  );
}

function Read({ domains }: { domains: readonly string[] }) {
  const discovery = here.value.query.get("discovery") ?? undefined;
  const [turn, setTurn] = useState(0);
  const discover = (domain: string) => async () => {
    const made = await api("POST /api/v1/extraction/discover", { body: { domain } });
    ask({ discovery: made.id });
  };
  const backfill = async () => {
    const found = discovery && (await api("GET /api/v1/extraction/discoveries/{id}", { path: { id: discovery } }));
    // What it has taught holds for the pages that are there already, too.
    if (found && found.schema && found.pageType) await api("POST /api/v1/extraction/backfill", { body: { domain: found.domain, pageType: found.pageType, limit: 50 } });
    setTurn((n) => n + 1);
  };
  return (
    <div class="stack">
      <p>The box finds out by itself what pages of a site have in common. You can point at more of it, and name it.</p>
      {domains.length === 0 && <p class="hint">It begins when a page has come.</p>}
      {may("workflows:write") && !discovery && <div class="row">{domains.map((domain) => <Act key={domain} kind="main" does={discover(domain)}>Find out what pages of {domain} say</Act>)}</div>}
      {discovery && <Discovery key={discovery} id={discovery} onEnded={() => void backfill().catch(() => undefined)} />}
      {domains[0] && <FirstValues key={`${domains[0]} ${turn}`} domain={domains[0]} />}
    </div>
  );
}

function Again() {
  const [cron, setCron] = useState<(typeof OFTEN)[number][0]>("0 6 * * *");
  const [made, setMade] = useState<string>();
  const send = async () => {
    const schedule = await api("POST /api/v1/schedules", { body: { name: "First steps", cron, timezone: zone(), tagFilters: [TAG], isEnabled: true } });
    setMade(schedule.id);
  };
  if (made) return <p class="note good" role="status">{inWords(cron)}, {zone()}. <a href={`#/schedules/${made}`}>When it fires next</a></p>;
  return (
    <Form send="Make the schedule" onSend={send}>
      <Field label="How often" hint={`It collects every URL with the tag “${TAG}”; the time zone is ${zone()}.`}>
        <Choice value={cron} options={OFTEN} onPick={setCron} />
      </Field>
    </Form>
  );
}

export function Start() {
  const batch = here.value.query.get("batch");
  const [domains, setDomains] = useState<readonly string[]>([]);
  return (
    <>
      <Head title="First steps" about="Three of them, and five minutes." />
      <div class="stack reading">
        <Panel title="1. Collect a few pages">{batch ? <Came batch={batch} onDomains={setDomains} /> : may("urls:write") && may("jobs:write") ? <Collect /> : <p>Your role only reads. <a href="#/results">Results</a></p>}</Panel>
        <Panel title="2. Say what to read from them"><Read domains={domains} /></Panel>
        {may("schedules:write") && <Panel title="3. Again, by itself"><Again /></Panel>}
        <p>Then ask anything of it in <a href="#/sql">SQL</a>.</p>
      </div>
    </>
  );
}
