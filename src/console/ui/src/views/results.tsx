// Results: found as one types, narrowed by facets; one of them with its values, its text and its stored page.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, local } from "../api/client";
import { useList, useLoad } from "../api/use";
import { ask, here, may, toast } from "../app/state";
import { Act, Badge, Bones, Choice, Dialog, Empty, Head, Panel, Tabs, Tags, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { number, percent, shown, Time } from "../parts/figures";
import { List, Rows } from "../parts/list";
import { Picker } from "./picker";
import type { FacetsView, FoundResult } from "../generated/api";

const TYPE_AFTER_MS = 200;

/** A highlight of the box: text that was escaped, with the words that were found between asterisks. */
function Highlight({ text }: { text: string }) {
  const plain = text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&#x27;", "'").replaceAll("&#39;", "'").replaceAll("&amp;", "&");
  return <>{plain.split(/(\*[^*]+\*|<em>.*?<\/em>|<b>.*?<\/b>|<mark>.*?<\/mark>)/).map((part, index) => (index % 2 ? <mark key={index}>{part.replace(/^(\*|<\w+>)|(\*|<\/\w+>)$/g, "")}</mark> : part))}</>;
}

function preview(row: FoundResult): string {
  const values = Object.entries(row.values).filter(([, value]) => value !== null && typeof value !== "object");
  return values.slice(0, 4).map(([name, value]) => `${name}: ${shown(value).slice(0, 60)}`).join("  ·  ");
}

function Facets({ facets }: { facets: FacetsView }) {
  const one = (title: string, name: string, counts: FacetsView["domain"]) =>
    counts.length > 0 && (
      <Panel title={title} flush>
        <ul class="plain">
          {counts.slice(0, 12).map(({ value, count }) => {
            const isOn = here.value.query.get(name) === value;
            return (
              <li key={value}>
                <button type="button" class="button bare small" aria-pressed={isOn} onClick={() => ask({ [name]: isOn ? undefined : value })}>
                  <span class="cut">{value}</span>
                </button>
                <span class="dim">{number(count)}</span>
              </li>
            );
          })}
        </ul>
      </Panel>
    );
  return <div class="stack">{one("Domain", "domain", facets.domain)}{one("Page type", "pageType", facets.pageType)}</div>;
}

/** A facet that is chosen; it is taken away here, also where nothing fits and there are no facets. */
function Narrowed({ label, name, value }: { label: string; name: string; value: string | undefined }) {
  if (!value) return null;
  return (
    <button type="button" class="button small" aria-label={`Remove the filter ${label}: ${value}`} onClick={() => ask({ [name]: undefined })}>
      <span class="cut">{label}: {value}</span> <span aria-hidden="true">✕</span>
    </button>
  );
}

function Found() {
  const query = here.value.query;
  const asked = query.get("q") ?? "";
  const [q, setQ] = useState(asked);
  const [domain, pageType, changed] = ["domain", "pageType", "changed"].map((name) => query.get(name) ?? "");
  const sort = query.get("sort") === "newest" || !asked ? ("newest" as const) : ("relevance" as const);
  const own = useRef(asked);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (q === asked) return;
      own.current = q;
      ask({ q });
    }, TYPE_AFTER_MS);
    return () => clearTimeout(timer);
  }, [q]);
  useEffect(() => {
    // Asked from elsewhere, by the palette or the history.
    if (asked === own.current) return;
    own.current = asked;
    setQ(asked);
  }, [asked]);
  const [facets, setFacets] = useState<FacetsView>();
  const [total, setTotal] = useState(0);
  const list = useList(
    async (cursor, signal) => {
      const page = await api("GET /api/v1/extraction/results", { query: { ...(asked && { q: asked }), ...(domain && { domain }), ...(pageType && { pageType }), ...(changed && { changed: true }), sort, limit: 30, ...(cursor && { cursor }) }, signal });
      // Those of a further page say nothing new, and those of an older question nothing that holds.
      if (!cursor && !signal.aborted) {
        setFacets(page.facets);
        setTotal(page.total);
      }
      return page;
    },
    [asked, domain, pageType, changed, sort],
  );
  return (
    <>
      <Head title="Results" about="What was read from pages, found by its words." />
      <div class="sides">
        <Panel flush>
          <div class="filters">
            <input type="search" placeholder="Words to find" aria-label="Words to find" value={q} onInput={(event) => setQ(event.currentTarget.value)} />
            <Choice label="Order" value={sort} options={[["relevance", "Best first"], ["newest", "Newest first"]] as const} onPick={(picked) => ask({ sort: picked })} />
            <label class="check"><input type="checkbox" checked={Boolean(changed)} onChange={(event) => ask({ changed: event.currentTarget.checked ? "true" : undefined })} /> Changed only</label>
            <span class="dim" role="status">{list.items ? `${number(total)} found` : ""}</span>
          </div>
          {(domain || pageType) && (
            <div class="filters">
              <Narrowed label="Domain" name="domain" value={domain} />
              <Narrowed label="Page type" name="pageType" value={pageType} />
            </div>
          )}
          <List
            list={list}
            id={(row) => row.id}
            label="Results"
            empty={<Empty title={asked || domain || pageType || changed ? "Nothing fits" : "No results yet"}>{asked ? "Try fewer words." : domain || pageType || changed ? "Take a filter away to see more." : "Collect some pages first."}</Empty>}
            columns={[
              { title: "Result", cell: (row) => <><a class="cut" href={`#/results/${row.id}`} title={row.url}>{row.url}</a><div class="hint">{row.highlights.length > 0 ? <Highlight text={row.highlights[0] ?? ""} /> : preview(row)}</div></> },
              { title: "Page type", cell: (row) => row.pageType ?? "–" },
              { title: "Quality", number: true, cell: (row) => percent(row.quality?.composite) },
              { title: "Changed", number: true, cell: (row) => row.changed.length || "" },
              { title: "Visited", cell: (row) => <Time at={row.scrapedAt} /> },
            ]}
          />
        </Panel>
        {facets && <Facets facets={facets} />}
      </div>
    </>
  );
}

function Content({ id }: { id: string }) {
  const found = useLoad((signal) => api("GET /api/v1/extraction/results/by-id/{id}/content", { path: { id }, query: { format: "markdown" }, signal }), [id]);
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  return <pre>{found.value.content || "The page has no text."}</pre>;
}

function ResultPage({ id }: { id: string }) {
  const found = useLoad((signal) => api("GET /api/v1/extraction/results/by-id/{id}", { path: { id }, signal }), [id]);
  const [tab, setTab] = useState<"values" | "text">("values");
  const [teaching, setTeaching] = useState(here.value.query.has("teach"));
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  if ("indexingPending" in found.value) return <Empty title="Not indexed yet"><button type="button" class="button" onClick={found.reload}>Look again</button></Empty>;
  const row = found.value;
  const download = async () => {
    const link = await api("GET /api/v1/extraction/results/by-id/{id}/html", { path: { id } });
    location.assign(local(link.url));
  };
  const remove = async () => {
    await api("DELETE /api/v1/extraction/results/by-id/{id}", { path: { id } });
    toast("The result was deleted");
    history.back();
  };
  const missing = new Map(row.attributeErrors.map((one) => [one.name, one]));
  const names = [...new Set([...Object.keys(row.values), ...missing.keys()])];
  return (
    <>
      <Head title="Result" about={row.url}>
        {row.urlId && <a class="button" href={`#/urls/${row.urlId}`}>History</a>}
        {may("workflows:write") && <button type="button" class="button" onClick={() => setTeaching(true)}>Teach by pointing</button>}
        <Act does={download}>Download the page</Act>
        {may("workflows:write") && <Act kind="bad" sure="Delete this result?" does={remove}>Delete</Act>}
      </Head>
      <div class="sides">
        <section class="panel">
          <Tabs label="Shown" tabs={[["values", "Values"], ["text", "Text"]] as const} at={tab} onPick={setTab} />
          {tab === "text" ? <div class="inner"><Content id={id} /></div> : names.length === 0 ? <Empty title="No values">No schema reads pages like this one yet. <a href={`#/schemas?domain=${encodeURIComponent(row.domain)}`}>Schemas</a></Empty> : (
            <Rows
              label="Values"
              rows={names}
              id={(name) => name}
              columns={[
                { title: "Attribute", cell: (name) => <>{name} {row.changed.includes(name) && <Badge state="changed" />}</> },
                { title: "Value", cell: (name) => (missing.has(name) && (row.values[name] ?? null) === null ? <span class="dim">none: {missing.get(name)?.reason.replaceAll("_", " ")} {missing.get(name)?.detail}</span> : <code class="whole">{shown(row.values[name])}</code>) },
              ]}
            />
          )}
        </section>
        <Panel title="Where it is from">
          <Facts of={[
            ["URL", <span class="mono">{row.finalUrl}</span>],
            row.redirects.length > 0 && ["Redirects", row.redirects.length],
            ["Status", row.httpStatus],
            ["Provider", row.provider],
            ["Page type", row.pageType ?? "–"],
            ["Schema", row.schemaVersion ? `version ${row.schemaVersion}` : "none"],
            ["Quality", percent(row.quality?.composite)],
            ["Visited", <Time at={row.scrapedAt} exact />],
            ["Job", <><a href={`#/jobs/${row.jobId}`}>{row.jobId.slice(-12)}</a></>],
            ["Tags", <Tags tags={row.tags} none="none" />],
          ]} />
        </Panel>
      </div>
      {teaching && <Dialog wide title={`Teach what pages of ${row.domain} say`} onClose={() => setTeaching(false)}><Picker of={row} onSaved={() => (setTeaching(false), found.reload())} /></Dialog>}
    </>
  );
}

export function Results() {
  const id = here.value.parts[1];
  return id ? <ResultPage key={id} id={id} /> : <Found />;
}
