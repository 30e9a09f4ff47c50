// URLs: filters, tags, bulk changes, upload, and the page of one.
import { useState } from "preact/hooks";
import { api, said } from "../api/client";
import { useList } from "../api/use";
import { ask, go, here, may, toast } from "../app/state";
import { Act, Badge, Choice, Dialog, Empty, Field, Form, Head, Panel, Tags, Text } from "../parts/basic";
import { number, Time } from "../parts/figures";
import { List } from "../parts/list";
import type { JobStatus, UrlUpdate, UrlView } from "../generated/api";
import { UrlPage } from "./url";
import { Upload } from "./upload";

const STATES = [["", "Any state"], ["succeeded", "Succeeded"], ["failed", "Failed"], ["running", "Running"], ["queued", "Queued"], ["canceled", "Canceled"]] as const;
const BATCH_MAX = 1_000;
/** What the API does for one URL a call is done for so many, a few at once. */
const CHANGED_MAX = 1_000;
const AT_ONCE = 4;

const words = (text: string) => text.split(/[\s,]+/).map((word) => word.trim()).filter(Boolean);

function Add({ onDone }: { onDone: () => void }) {
  const [urls, setUrls] = useState("");
  const [tags, setTags] = useState("");
  const [pageType, setPageType] = useState("");
  const [refused, setRefused] = useState<string[]>([]);
  const send = async () => {
    const listed = urls.split(/\s+/).filter(Boolean);
    const entries = listed.map((url) => ({ url, tags: words(tags), pageType: pageType.trim() || null }));
    const told = await api("POST /api/v1/urls", { body: { urls: entries } });
    toast(`${number(told.created)} new, ${number(told.updated)} changed, ${number(told.duplicates)} known`);
    setRefused(told.invalid.map((one) => `${one.url}: ${one.reason}`));
    if (told.invalid.length === 0) onDone();
    else setUrls(told.invalid.map((one) => one.url).join("\n"));
  };
  return (
    <Form send="Add" onSend={send} onCancel={onDone}>
      <Field label="URLs" hint="One a line.">
        <textarea rows={7} required value={urls} onInput={(event) => setUrls(event.currentTarget.value)} />
      </Field>
      <div class="two">
        <Field label="Tags" hint="Separated by commas.">
          <Text value={tags} onText={setTags} />
        </Field>
        <Field label="Page type" hint="Such as product; found out if left empty.">
          <Text value={pageType} onText={setPageType} />
        </Field>
      </div>
      {refused.length > 0 && (
        <div class="note warn">
          {refused.map((line) => (
            <p key={line}>{line}</p>
          ))}
        </div>
      )}
    </Form>
  );
}

interface Bulk {
  chosen: UrlView[];
  onDone: () => void;
}

/** Changes each of them by what it is now; those that it cannot do are told. */
async function changeEach(urls: UrlView[], change: (now: UrlView) => UrlUpdate): Promise<void> {
  if (urls.length > CHANGED_MAX) throw new Error(`Choose ${number(CHANGED_MAX)} URLs at most`);
  const left = [...urls];
  const failed: string[] = [];
  const work = async () => {
    for (let url = left.pop(); url; url = left.pop()) {
      const path = { id: url.id };
      try {
        await api("PATCH /api/v1/urls/{id}", { path, body: change(await api("GET /api/v1/urls/{id}", { path })) });
      } catch (error) {
        failed.push(`${url.url}: ${said(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (failed.length > 0) throw new Error(`${number(urls.length - failed.length)} URLs were changed, ${number(failed.length)} were not, such as ${failed[0]}`);
  toast(`${number(urls.length)} URLs were changed`);
}

function BulkUntag({ chosen, onDone }: Bulk) {
  const tags = [...new Set(chosen.flatMap((url) => url.tags))].sort();
  const [tag, setTag] = useState(tags[0] ?? "");
  const having = chosen.filter((url) => url.tags.includes(tag));
  const send = async () => {
    await changeEach(having, (now) => ({ tags: now.tags.filter((one) => one !== tag) }));
    onDone();
  };
  if (tags.length === 0) return <Empty title="None of them has a tag" />;
  return (
    <Form send={`Take it from ${number(having.length)} URLs`} onSend={send} onCancel={onDone}>
      <Field label="Tag">
        <Choice value={tag} options={tags.map((one) => [one, one] as const)} onPick={setTag} />
      </Field>
    </Form>
  );
}

function BulkType({ chosen, onDone }: Bulk) {
  const [pageType, setPageType] = useState("");
  const send = async () => {
    await changeEach(chosen, () => (pageType.trim() ? { pageType: pageType.trim() } : { clear: ["pageType"] }));
    onDone();
  };
  return (
    <Form send={`Change ${number(chosen.length)} URLs`} onSend={send} onCancel={onDone}>
      <Field label="Page type" hint="Such as product; found out if left empty.">
        <Text value={pageType} onText={setPageType} />
      </Field>
    </Form>
  );
}

function BulkTag({ chosen, onDone }: Bulk) {
  const [tags, setTags] = useState("");
  const send = async () => {
    const entries = chosen.map((url) => ({ url: url.url, tags: words(tags) }));
    const told = await api("POST /api/v1/urls", { body: { urls: entries } });
    toast(`${number(told.updated)} URLs were tagged`);
    onDone();
  };
  return (
    <Form send={`Tag ${number(chosen.length)} URLs`} onSend={send} onCancel={onDone}>
      <Field label="Tags to add" hint="Separated by commas.">
        <Text required value={tags} onText={setTags} />
      </Field>
    </Form>
  );
}

async function collect(urls: UrlView[]): Promise<void> {
  const jobs = urls.slice(0, BATCH_MAX).map((url) => ({ urlId: url.id }));
  const told = await api("POST /api/v1/jobs/batch", { body: { jobs } });
  toast(`${number(told.jobs.length)} jobs were submitted${urls.length > BATCH_MAX ? `: a batch takes no more of the ${number(urls.length)} URLs` : ""}`);
  go(told.batchId ? `/batches/${told.batchId}` : "/jobs");
}

type Open = "add" | "upload" | "tag" | "untag" | "type" | undefined;

function All() {
  const query = here.value.query;
  const [q, tag, domain, lastStatus] = ["q", "tag", "domain", "status"].map((name) => query.get(name) ?? "") as [string, string, string, JobStatus | ""];
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState<Open>();
  const list = useList(
    (cursor, signal) => api("GET /api/v1/urls", { query: { q, domain, ...(tag && { tag: [tag] }), ...(lastStatus && { lastStatus }), ...(cursor && { cursor }), limit: 100 }, signal }),
    [q, tag, domain, lastStatus],
  );
  const picked = (list.items ?? []).filter((url) => chosen.has(url.id));
  const close = () => {
    setOpen(undefined);
    setChosen(new Set());
    list.reload();
  };
  const shown = list.items?.length ?? 0;
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const remove = async () => {
    const told = await api("POST /api/v1/urls/delete", { body: { ids: picked.map((url) => url.id) } });
    toast(`${number(told.deleted)} URLs were deleted`);
    close();
  };
  const isFiltered = Boolean(q || tag || domain || lastStatus);
  return (
    <>
      <Head title="URLs" about="What is collected, once or by schedule.">
        {may("urls:write") && (
          <>
            <button type="button" class="button" onClick={() => setOpen("upload")}>
              Upload a file
            </button>
            <button type="button" class="button main" onClick={() => setOpen("add")}>
              Add URLs
            </button>
          </>
        )}
      </Head>
      <Panel flush>
        <div class="filters">
          <input type="search" placeholder="Part of the URL" aria-label="Part of the URL" value={q} onInput={(event) => ask({ q: event.currentTarget.value })} />
          <input type="text" placeholder="Tag" aria-label="Tag" value={tag} onInput={(event) => ask({ tag: event.currentTarget.value })} />
          <input type="text" placeholder="Domain" aria-label="Domain" value={domain} onInput={(event) => ask({ domain: event.currentTarget.value })} />
          <Choice label="Last state" value={lastStatus} options={STATES} onPick={(status) => ask({ status })} />
          {shown > 0 && <button type="button" class="button small" disabled={picked.length === shown} onClick={() => setChosen(new Set(list.items?.map((url) => url.id)))}>Choose all {number(shown)} shown</button>}
        </div>
        {picked.length > 0 && (
          <div class="filters">
            <span>{number(picked.length)} chosen</span>
            <button type="button" class="button small" onClick={() => setChosen(new Set())}>Choose none</button>
            {may("jobs:write") && (
              <Act small does={() => collect(picked)}>
                Collect now
              </Act>
            )}
            {may("urls:write") && (
              <>
                <button type="button" class="button small" onClick={() => setOpen("tag")}>
                  Tag
                </button>
                <button type="button" class="button small" onClick={() => setOpen("untag")}>Take a tag away</button>
                <button type="button" class="button small" onClick={() => setOpen("type")}>Page type</button>
                <Act small kind="bad" sure={`Delete ${picked.length} URLs? Their results stay.`} does={remove}>
                  Delete
                </Act>
              </>
            )}
          </div>
        )}
        <List
          list={list}
          id={(url) => url.id}
          label="URLs"
          empty={
            <Empty title={isFiltered ? "No URL fits these filters" : "No URLs yet"}>
              {isFiltered ? "Take one away to see more." : "Add some, upload a file, or connect an input that finds them."}
            </Empty>
          }
          columns={[
            { title: "", cell: (url) => <input type="checkbox" aria-label={`Choose ${url.url}`} checked={chosen.has(url.id)} onChange={() => toggle(url.id)} /> },
            { title: "URL", cell: (url) => <a class="cut" href={`#/urls/${url.id}`} title={url.url}>{url.url}</a> },
            { title: "Page type", cell: (url) => url.pageType ?? <span class="dim">–</span> },
            { title: "Tags", cell: (url) => <Tags tags={url.tags} /> },
            { title: "Last", cell: (url) => (url.lastStatus ? <Badge state={url.lastStatus} /> : <span class="dim">never</span>) },
            { title: "Collected", cell: (url) => <Time at={url.lastScrapedAt} /> },
          ]}
        />
      </Panel>
      {open === "add" && <Dialog title="Add URLs" onClose={close}><Add onDone={close} /></Dialog>}
      {open === "upload" && <Dialog title="Upload URLs" onClose={close}><Upload onDone={close} /></Dialog>}
      {open === "tag" && <Dialog title="Tag" onClose={() => setOpen(undefined)}><BulkTag chosen={picked} onDone={close} /></Dialog>}
      {open === "untag" && <Dialog title="Take a tag away" onClose={() => setOpen(undefined)}><BulkUntag chosen={picked} onDone={close} /></Dialog>}
      {open === "type" && <Dialog title="Page type" onClose={() => setOpen(undefined)}><BulkType chosen={picked} onDone={close} /></Dialog>}
    </>
  );
}

export function Urls() {
  const id = here.value.parts[1];
  return id ? <UrlPage key={id} id={id} /> : <All />;
}
