// URLs: filters, tags, bulk changes, upload, and the page of one.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { useList } from "../api/use";
import { ask, here, may, toast } from "../app/state";
import { Act, Badge, Choice, Dialog, Empty, Field, Form, Head, Panel, Tags, Text } from "../parts/basic";
import { many, number, Time } from "../parts/figures";
import { List } from "../parts/list";
import type { JobStatus, UrlView } from "../generated/api";
import { BulkTag, BulkType, BulkUntag, collect, Going, remove, useEverything, useParts, words, type Everything } from "./bulk";
import { UrlPage } from "./url";
import { Upload } from "./upload";

const STATES = [["", "Any state"], ["succeeded", "Succeeded"], ["failed", "Failed"], ["running", "Running"], ["queued", "Queued"], ["canceled", "Canceled"]] as const;
const SHOWN_AT_ONCE = 100;
/** The most that a page of the API has. */
const GATHERED_AT_ONCE = 200;
/** More than so many jobs are submitted only when that was meant. */
const ASKED_FROM = 1_000;

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

type Open = "add" | "upload" | "tag" | "untag" | "type" | undefined;

/** What the filter asks for. */
interface Asked {
  q: string;
  tag: string;
  domain: string;
  lastStatus: JobStatus | "";
}

function pageOf({ q, tag, domain, lastStatus }: Asked, limit: number) {
  const query = { q, domain, limit, ...(tag && { tag: [tag] }), ...(lastStatus && { lastStatus }) };
  return (cursor: string | undefined, signal: AbortSignal) => api("GET /api/v1/urls", { query: { ...query, ...(cursor && { cursor }) }, signal });
}

interface Choosing {
  chosen: ReadonlyMap<string, UrlView>;
  toggle: (url: UrlView) => void;
  none: () => void;
  shown: (rows: readonly UrlView[]) => void;
  /** Takes those away from what is chosen by now. */
  without: (rows: readonly UrlView[]) => void;
  everything: () => Promise<void>;
  /** Whether all that fits was asked for, and whether there is more than that. */
  whole: { isCut: boolean } | undefined;
  gathering: Everything;
}

/** Which rows are chosen: some of those that are loaded, or everything that fits the filter. */
function useChoice(asked: Asked): Choosing {
  const [chosen, setChosen] = useState<ReadonlyMap<string, UrlView>>(new Map());
  const [whole, setWhole] = useState<{ isCut: boolean }>();
  const gathering = useEverything();
  // Grows with each choice: what was asked for before it does not come over it.
  const turn = useRef(0);
  const put = (rows: readonly UrlView[], isWhole?: { isCut: boolean }) => {
    turn.current += 1;
    setChosen(new Map(rows.map((url) => [url.id, url])));
    setWhole(isWhole);
  };
  const pick = (rows: readonly UrlView[]) => {
    gathering.stop();
    put(rows);
  };
  // What other filters had shown is in view no longer, and nothing is done to what one cannot see.
  const filter = JSON.stringify(asked);
  useEffect(() => () => pick([]), [filter]);
  const toggle = (url: UrlView) => {
    const next = new Map(chosen);
    if (!next.delete(url.id)) next.set(url.id, url);
    pick([...next.values()]);
  };
  const without = (rows: readonly UrlView[]) => {
    gathering.stop();
    turn.current += 1;
    const gone = new Set(rows.map((url) => url.id));
    // By what is chosen when it comes to it: this is called after a while.
    setChosen((now) => new Map([...now].filter(([id]) => !gone.has(id))));
    setWhole(undefined);
  };
  const everything = async () => {
    const begun = turn.current;
    const { found, isCut } = await gathering.gather(pageOf(asked, GATHERED_AT_ONCE));
    if (turn.current === begun && found.length > 0) put(found, { isCut });
  };
  return { chosen, toggle, none: () => pick([]), shown: pick, without, everything, whole, gathering };
}

/** Where all rows in view are chosen: how to choose those behind them, too, and how far that is. */
function Wider({ of, shown, isFiltered }: { of: Choosing; shown: number; isFiltered: boolean }) {
  const { count, stop } = of.gathering;
  if (count !== undefined) {
    return (
      <div class="filters" role="status">
        <span>{number(count)} so far …</span>
        <button type="button" class="button small" onClick={stop}>Stop</button>
      </div>
    );
  }
  if (of.whole) {
    return (
      <div class="filters" role="status">
        <span>{of.whole.isCut ? `The first ${many(of.chosen.size, "URL")} ${isFiltered ? "that fit the filter " : ""}are chosen; there are more.` : isFiltered ? `All ${many(of.chosen.size, "URL")} that fit the filter are chosen.` : `All ${many(of.chosen.size, "URL")} are chosen.`}</span>
      </div>
    );
  }
  return (
    <div class="filters">
      <span>All {number(shown)} loaded are chosen.</span>
      <Act small does={of.everything}>{isFiltered ? "Choose everything that fits the filter" : "Choose every URL"}</Act>
    </div>
  );
}

function Actions({ of, onOpen, onDone }: { of: Choosing; onOpen: (open: Open) => void; onDone: () => void }) {
  const parts = useParts();
  const picked = [...of.chosen.values()];
  if (parts.at) return <div class="filters"><div class="grow"><Going parts={parts} /></div></div>;
  return (
    <div class="filters">
      <span>{number(picked.length)} chosen</span>
      <button type="button" class="button small" onClick={of.none}>Choose none</button>
      {may("jobs:write") && <Act small {...(picked.length > ASKED_FROM && { sure: `Collect ${number(picked.length)} URLs now? Each costs credits.` })} disabled={parts.isBusy} does={() => collect(parts, picked, of.without)}>Collect now</Act>}
      {may("urls:write") && (
        <>
          <button type="button" class="button small" onClick={() => onOpen("tag")}>Tag</button>
          <button type="button" class="button small" onClick={() => onOpen("untag")}>Take a tag away</button>
          <button type="button" class="button small" onClick={() => onOpen("type")}>Page type</button>
          <Act small kind="bad" sure={`Delete ${many(picked.length, "URL")}? Their results stay.`} disabled={parts.isBusy} does={() => remove(parts, picked).finally(onDone)}>Delete</Act>
        </>
      )}
    </div>
  );
}

function All() {
  const query = here.value.query;
  const [q, tag, domain, lastStatus] = ["q", "tag", "domain", "status"].map((name) => query.get(name) ?? "") as [string, string, string, JobStatus | ""];
  const asked = { q, tag, domain, lastStatus };
  const [open, setOpen] = useState<Open>();
  const list = useList(pageOf(asked, SHOWN_AT_ONCE), [q, tag, domain, lastStatus]);
  const choosing = useChoice(asked);
  const { chosen } = choosing;
  const picked = [...chosen.values()];
  const close = () => {
    setOpen(undefined);
    choosing.none();
    list.reload();
  };
  const shown = list.items?.length ?? 0;
  const isAllShown = shown > 0 && (list.items ?? []).every((url) => chosen.has(url.id));
  const isFiltered = Boolean(q || tag || domain || lastStatus);
  return (
    <>
      <Head title="URLs" about="What is collected, once or by schedule.">
        {may("urls:write") && (
          <>
            <button type="button" class="button" onClick={() => setOpen("upload")}>Upload a file</button>
            <button type="button" class="button main" onClick={() => setOpen("add")}>Add URLs</button>
          </>
        )}
      </Head>
      <Panel flush>
        <div class="filters">
          <input type="search" placeholder="Part of the URL" aria-label="Part of the URL" value={q} onInput={(event) => ask({ q: event.currentTarget.value })} />
          <input type="text" placeholder="Tag" aria-label="Tag" value={tag} onInput={(event) => ask({ tag: event.currentTarget.value })} />
          <input type="text" placeholder="Domain" aria-label="Domain" value={domain} onInput={(event) => ask({ domain: event.currentTarget.value })} />
          <Choice label="Last state" value={lastStatus} options={STATES} onPick={(status) => ask({ status })} />
          {shown > 0 && <button type="button" class="button small" disabled={isAllShown} onClick={() => choosing.shown(list.items ?? [])}>Choose all {number(shown)} shown</button>}
        </div>
        {isAllShown && (list.more || choosing.whole) && <Wider of={choosing} shown={shown} isFiltered={isFiltered} />}
        {chosen.size > 0 && <Actions of={choosing} onOpen={setOpen} onDone={close} />}
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
            { title: "", cell: (url) => <input type="checkbox" aria-label={`Choose ${url.url}`} checked={chosen.has(url.id)} onChange={() => choosing.toggle(url)} /> },
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
