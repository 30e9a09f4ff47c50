// Inputs: where URLs come from by themselves, and what each run found.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useEvents } from "../api/live";
import { useList, useLoad } from "../api/use";
import { go, here, may, toast } from "../app/state";
import { Act, Badge, Bones, Check, Choice, Dialog, Empty, Field, Form, Head, Panel, Secret, Tags, Text, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { number, Time, zone } from "../parts/figures";
import { List } from "../parts/list";
import type { InputKind, InputRunView, InputView, NewInput } from "../generated/api";
import { CrawlTree } from "./crawl-tree";
import { inWords } from "./cron";
import { useCalm } from "./jobs";

const KINDS = [["sitemap", "Sitemap"], ["feed", "Feed (RSS, Atom)"], ["csv", "CSV at an address"], ["crawl", "Crawl of a site"], ["webhook", "Webhook"]] as const;
const listed = (text: string) => text.split(/[\n,]/).map((one) => one.trim()).filter(Boolean);

function InputForm({ onDone }: { onDone: () => void }) {
  const [kind, setKind] = useState<InputKind>("sitemap");
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [tags, setTags] = useState("");
  const [pageType, setPageType] = useState("");
  const [include, setInclude] = useState("");
  const [exclude, setExclude] = useState("");
  const [cron, setCron] = useState("");
  const [depth, setDepth] = useState("3");
  const [most, setMost] = useState("500");
  const [jobs, setJobs] = useState(true);
  const [ingest, setIngest] = useState<string>();
  const send = async () => {
    const body: NewInput = { kind, name: name || null, tags: listed(tags), pageType: pageType.trim() || null, ...(kind !== "crawl" && { submitJobs: jobs }) };
    if (kind === "crawl") Object.assign(body, { startUrls: listed(url), depth: Number(depth), maxPages: Number(most) });
    else if (kind !== "webhook") body.url = url;
    if (kind !== "webhook") Object.assign(body, { include: listed(include), exclude: listed(exclude), cron: cron.trim() || null, timezone: cron.trim() ? zone() : null });
    const made = await api("POST /api/v1/inputs", { body });
    if (made.ingestUrl) return setIngest(made.ingestUrl);
    onDone();
    go(`/inputs/${made.id}`);
  };
  if (ingest) {
    return (
      <div class="stack">
        <Secret text={ingest} label="URLs are sent here as JSON; whoever knows the address may send." />
        <div class="row end"><button type="button" class="button main" onClick={onDone}>Done</button></div>
      </div>
    );
  }
  return (
    <Form send="Make the input" onSend={send} onCancel={onDone}>
      <div class="two">
        <Field label="Kind"><Choice value={kind} options={KINDS} onPick={setKind} /></Field>
        <Field label="Name"><Text maxLength={200} value={name} onText={setName} /></Field>
      </div>
      {kind !== "webhook" && <Field label={kind === "crawl" ? "Begins at" : "Address"} hint={kind === "crawl" ? "One URL or several, one a line." : undefined}>{kind === "crawl" ? <textarea rows={2} required value={url} onInput={(event) => setUrl(event.currentTarget.value)} /> : <Text type="url" required value={url} onText={setUrl} />}</Field>}
      {kind === "crawl" && (
        <div class="two">
          <Field label="Links deep"><Text type="number" min={0} required value={depth} onText={setDepth} /></Field>
          <Field label="Pages at most"><Text type="number" min={1} required value={most} onText={setMost} /></Field>
        </div>
      )}
      {kind !== "webhook" && (
        <div class="two">
          <Field label="Only URLs like" hint="* stands for anything; one a comma."><Text value={include} onText={setInclude} /></Field>
          <Field label="None like"><Text value={exclude} onText={setExclude} /></Field>
        </div>
      )}
      <div class="two">
        <Field label="Tags of new URLs"><Text value={tags} onText={setTags} /></Field>
        <Field label="Their page type"><Text value={pageType} onText={setPageType} /></Field>
      </div>
      {kind !== "webhook" && <Field label="Again" hint={cron.trim() ? inWords(cron) : "Empty: when somebody runs it."}><Text class="mono" placeholder="0 6 * * *" value={cron} onText={setCron} /></Field>}
      {kind !== "crawl" && <Check label="Collect what is new at once" on={jobs} onSet={setJobs} />}
    </Form>
  );
}

function Run({ of }: { of: InputRunView }) {
  const told = [`${number(of.found)} found`, `${number(of.added)} new`, of.changed && `${number(of.changed)} changed`, of.filtered && `${number(of.filtered)} left out`, of.refused && `${number(of.refused)} refused`, of.jobsCreated && `${number(of.jobsCreated)} jobs`];
  return (
    <>
      {told.filter(Boolean).join(", ")}
      {of.crawl && <div class="hint">{number(of.crawl.pagesWalked)} pages walked, {number(of.crawl.pagesLeft)} left, {of.crawl.depthReached} deep{of.crawl.traps.length > 0 && `, ${of.crawl.traps.length} traps left alone`}</div>}
      {of.notes.slice(0, 3).map((note) => <div class="hint" key={`${note.document}${note.line}${note.message}`}>{note.document}, line {note.line}: {note.message}</div>)}
    </>
  );
}

const stateOf = (row: InputView) => (!row.isEnabled ? "off" : row.failures > 0 ? "failing" : "on");

function InputPage({ id }: { id: string }) {
  const found = useLoad((signal) => api("GET /api/v1/inputs/{id}", { path: { id }, signal }), [id]);
  const runs = useList((cursor, signal) => (found.value?.kind === "webhook" ? Promise.resolve({ items: [], nextCursor: null }) : api("GET /api/v1/inputs/{id}/runs", { path: { id }, query: { limit: 25, ...(cursor && { cursor }) }, signal })), [id, found.value?.kind]);
  const [tree, setTree] = useState<string>();
  const again = useCalm(() => {
    runs.refresh();
    found.reload();
  });
  useEvents("input.*,batch.completed", again, again);
  if (found.error && !found.value) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const row = found.value;
  const run = async () => {
    await api("POST /api/v1/inputs/{id}/run", { path: { id }, body: {} });
    toast("It runs");
    runs.reload();
  };
  const toggle = async () => {
    await api("PATCH /api/v1/inputs/{id}", { path: { id }, body: { isEnabled: !row.isEnabled } });
    found.reload();
  };
  const remove = async () => {
    await api("DELETE /api/v1/inputs/{id}", { path: { id } });
    go("/inputs");
  };
  return (
    <>
      <Head title={row.name} about={row.url ?? row.startUrls?.join(", ") ?? `Token ${row.tokenPrefix}…`}>
        {may("integrations:write") && (
          <>
            {row.kind !== "webhook" && <Act kind="main" does={run}>Run now</Act>}
            <Act does={toggle}>{row.isEnabled ? "Switch off" : "Switch on"}</Act>
            <Act kind="bad" sure={`Delete “${row.name}”? Its URLs stay.`} does={remove}>Delete</Act>
          </>
        )}
      </Head>
      <div class="stack">
        {found.error && <Trouble error={found.error} retry={found.reload} />}
        {row.disabledReason && <p class="note warn">{row.disabledReason}</p>}
        {row.isEnabled && row.failures > 0 && <p class="note warn">{row.failures === 1 ? "Its last run failed" : `Its last ${number(row.failures)} runs failed`}; why stands beside the run below.</p>}
        <Panel title="Settings" side={<Badge state={stateOf(row)} />}>
          <Facts of={[
            ["Kind", row.kind],
            ["When", row.cron ? `${inWords(row.cron)} (${row.timezone})` : "when somebody runs it"],
            ["Next", <Time at={row.nextRunAt} />],
            ["Only", row.include.join(", ") || "all"],
            ["None like", row.exclude.join(", ") || "–"],
            ["Tags", <Tags tags={row.tags} none="none" />],
            row.kind !== "crawl" && ["Collects", row.submitJobs ? "what is new, at once" : "nothing by itself"],
          ]} />
        </Panel>
        {row.kind !== "webhook" && (
          <Panel title="Runs" flush side={<button type="button" class="button small" onClick={runs.reload}>Look again</button>}>
            <List
              list={runs}
              id={(one) => one.id}
              label="Runs"
              empty={<Empty title="No runs yet" />}
              columns={[
                { title: "Due", cell: (one) => <Time at={one.scheduledFor} exact /> },
                { title: "State", cell: (one) => <Badge state={one.status} /> },
                { title: "Found", cell: (one) => <Run of={one} /> },
                { title: "", cell: (one) => (
                  <span class="row">
                    {one.message && <span class="dim">{one.message}</span>}
                    {one.batchId && <a href={`#/batches/${one.batchId}`}>Batch</a>}
                    {one.batchId && row.kind === "crawl" && <button type="button" class="button small" onClick={() => setTree(one.batchId ?? undefined)}>Tree</button>}
                  </span>
                ) },
              ]}
            />
          </Panel>
        )}
      </div>
      {tree && <Dialog wide title="What was found" onClose={() => setTree(undefined)}><CrawlTree batch={tree} /></Dialog>}
    </>
  );
}

export function Inputs() {
  const id = here.value.parts[1];
  const list = useList((cursor, signal) => api("GET /api/v1/inputs", { query: { limit: 100, ...(cursor && { cursor }) }, signal }), [id]);
  const [making, setMaking] = useState(false);
  if (id) return <InputPage key={id} id={id} />;
  const close = () => {
    setMaking(false);
    list.reload();
  };
  const when = (row: InputView) => (row.kind === "webhook" ? "as it is sent" : row.cron ? inWords(row.cron) : "when somebody runs it");
  return (
    <>
      <Head title="Inputs" about="Where URLs come from by themselves.">
        {may("integrations:write") && <button type="button" class="button main" onClick={() => setMaking(true)}>New input</button>}
      </Head>
      <Panel flush>
        <List
          list={list}
          id={(row) => row.id}
          label="Inputs"
          empty={<Empty title="No inputs yet">Sitemaps, feeds, files at an address, crawls, and webhooks that others send to.</Empty>}
          columns={[
            { title: "Name", cell: (row) => <a href={`#/inputs/${row.id}`}>{row.name}</a> },
            { title: "Kind", cell: (row) => row.kind },
            { title: "When", cell: when },
            { title: "State", cell: (row) => <Badge state={stateOf(row)} /> },
            { title: "Last", cell: (row) => <Time at={row.lastRunAt} /> },
            { title: "Next", cell: (row) => <Time at={row.nextRunAt} /> },
          ]}
        />
      </Panel>
      {making && <Dialog title="New input" onClose={close}><InputForm onDone={close} /></Dialog>}
    </>
  );
}
