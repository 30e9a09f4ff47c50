// Schemas: what is read from pages of a domain; attributes of one's own, tried as one types; drift.
import { useEffect, useState } from "preact/hooks";
import { api, ApiError, said } from "../api/client";
import { useLoad } from "../api/use";
import { ask, here, may, toast } from "../app/state";
import { Act, Badge, Bones, Choice, Dialog, Empty, Field, Form, Head, Panel, Tabs, Text, Trouble } from "../parts/basic";
import { many, number, percent, shown, Time } from "../parts/figures";
import { Rows } from "../parts/list";
import { Progress, useReading } from "./backfill";
import { DriftList } from "./drift";
import { TYPES } from "./kinds";
import type { AttributeType, DiscoveryView, OwnAttribute, XpathTestView } from "../generated/api";

const TYPE_AFTER_MS = 300;
const LOOK_EVERY_MS = 1_000;
/** The list of schemas has no further pages. */
const SHOWN_MAX = 200;

interface Own {
  domain: string;
  pageType: string;
}

/** Tries XPaths on a stored page while they are typed, and saves them as an attribute. */
function Try({ domain, pageType, onSaved }: Own & { onSaved: () => void }) {
  const [type, setType] = useState(pageType);
  const [name, setName] = useState("");
  const [kind, setKind] = useState<AttributeType>("text");
  const [paths, setPaths] = useState("");
  const [told, setTold] = useState<XpathTestView | string>();
  const xpaths = paths.split("\n").map((one) => one.trim()).filter(Boolean);
  const attribute = { name: name || "tried", type: kind, xpaths };
  useEffect(() => {
    if (xpaths.length === 0 || !type) return setTold(undefined);
    const control = new AbortController();
    const timer = setTimeout(() => {
      api("POST /api/v1/extraction/test-xpath", { body: { domain, pageType: type, attributes: [attribute] }, signal: control.signal }).then(setTold, (error: unknown) => !control.signal.aborted && setTold(said(error)));
    }, TYPE_AFTER_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [domain, type, name, kind, paths]);
  const save = async () => {
    await api("POST /api/v1/extraction/attributes/{domain}", { path: { domain }, body: { ...attribute, name, pageType: type || null } });
    toast(`${name} is read from now on`);
    onSaved();
  };
  return (
    <Form send="Save the attribute" onSend={save}>
      <div class="two">
        <Field label="Name"><Text required pattern="[A-Za-z_][A-Za-z0-9_]*" placeholder="price" value={name} onText={setName} /></Field>
        <Field label="Kind"><Choice value={kind} options={TYPES} onPick={setKind} /></Field>
        <Field label="Page type"><Text required value={type} onText={setType} /></Field>
      </div>
      <Field label="XPaths" hint="One a line; the first that yields a value is taken.">
        <textarea class="mono" rows={3} required placeholder="//h1/text()" value={paths} onInput={(event) => setPaths(event.currentTarget.value)} />
      </Field>
      {typeof told === "string" && <p class="note warn" role="status">{told}</p>}
      {told && typeof told !== "string" && (
        <div class="note" role="status">
          <p>On {told.url}: <strong>{shown(told.values[attribute.name]) || "nothing"}</strong></p>
          {told.attributes[0]?.xpaths.map((trial, index) => <p key={index} class="hint">{xpaths[index]}: {trial.nodes === null ? trial.reason?.replaceAll("_", " ") : `${number(trial.nodes)} nodes`} {trial.detail} {trial.first && `<${trial.first.tag ?? ""}> ${trial.first.text.slice(0, 80)}`}</p>)}
        </div>
      )}
    </Form>
  );
}

export function Discovery({ id, onEnded }: { id: string; onEnded: () => void }) {
  const [found, setFound] = useState<DiscoveryView>();
  const [error, setError] = useState<string>();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let gone = false;
    const look = async () => {
      while (!gone) {
        const one = await api("GET /api/v1/extraction/discoveries/{id}", { path: { id } });
        setFound(one);
        if (one.status === "succeeded" || one.status === "failed") return onEnded();
        await new Promise((resume) => setTimeout(resume, LOOK_EVERY_MS));
      }
    };
    setError(undefined);
    look().catch((reason: unknown) => !gone && setError(said(reason)));
    return () => void (gone = true);
  }, [id, turn]);
  const trouble = error && <Trouble error={error} retry={() => setTurn((n) => n + 1)} />;
  if (!found) return trouble || <Bones />;
  return (
    <Panel title="Discovery" side={<Badge state={found.status} />}>
      <div class="stack">
        {trouble}
        {found.error && <p class="note bad">{found.error}</p>}
        {found.notes.map((note) => <p class="hint" key={note}>{note}</p>)}
        {found.notSaved && <p class="note warn">Nothing was saved: {found.notSaved.replaceAll("_", " ")}</p>}
        <p>{many(found.attributes.length, "attribute")} from {many(found.sample.length, "page")}{found.confidence !== null && `, confidence ${percent(found.confidence)}`}.</p>
        {found.attributes.length > 0 && <Rows label="Found" rows={found.attributes} id={(one) => one.name} columns={[
          { title: "Attribute", cell: (one) => one.name },
          { title: "Kind", cell: (one) => one.type },
          { title: "XPaths", cell: (one) => <code class="cut">{one.xpaths[0]}</code> },
          { title: "Confidence", number: true, cell: (one) => percent(one.confidence) },
        ]} />}
      </div>
    </Panel>
  );
}

/** Those of one's own; a domain of which nothing was written down has none. */
async function ownAttributes(domain: string, signal: AbortSignal): Promise<OwnAttribute[]> {
  try {
    return (await api("GET /api/v1/extraction/attributes/{domain}", { path: { domain }, signal })).attributes;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return [];
    throw error;
  }
}

function Domain({ domain }: { domain: string }) {
  const schemas = useLoad((signal) => api("GET /api/v1/extraction/schemas", { query: { domain, limit: SHOWN_MAX }, signal }).then((list) => list.items), [domain]);
  const own = useLoad((signal) => ownAttributes(domain, signal), [domain]);
  const [trying, setTrying] = useState(false);
  const [discovery, setDiscovery] = useState(here.value.query.get("discovery") ?? undefined);
  const reload = () => {
    schemas.reload();
    own.reload();
  };
  const discover = async () => setDiscovery((await api("POST /api/v1/extraction/discover", { body: { domain } })).id);
  const remove = (name: string) => async () => {
    await api("DELETE /api/v1/extraction/attributes/{domain}/{name}", { path: { domain, name } });
    own.reload();
  };
  const pageType = schemas.value?.[0]?.pageType ?? "product";
  const reading = useReading();
  const backfill = async () => {
    const types = [...(schemas.value ?? []), ...(own.value ?? [])].flatMap((one) => one.pageType ?? []);
    const count = await reading.read(domain, types.length > 0 ? [...new Set(types)] : [pageType]);
    toast(`${many(count, "stored page")} read anew`);
  };
  return (
    <div class="stack">
      <Head title={domain} about="What is read from its pages.">
        {may("workflows:write") && <Act does={discover}>Discover</Act>}
        {may("workflows:write") && <Act disabled={!schemas.value || !own.value} does={backfill}>Read stored pages anew</Act>}
        <Progress of={reading} />
        {may("workflows:write") && <button type="button" class="button main" onClick={() => setTrying(true)}>New attribute</button>}
      </Head>
      {discovery && <Discovery id={discovery} onEnded={reload} />}
      <Panel title="Your own attributes" flush>
        {own.error ? <Trouble error={own.error} retry={own.reload} /> : !own.value ? <Bones /> : own.value.length === 0 ? <Empty title="None yet">One of yours goes before the platform's of the same name.</Empty> : (
          <Rows label="Your own attributes" rows={own.value} id={(one) => `${one.name} ${one.pageType}`} columns={[
            { title: "Attribute", cell: (one) => one.name },
            { title: "Kind", cell: (one) => one.type },
            { title: "Page type", cell: (one) => one.pageType ?? "all" },
            { title: "XPaths", cell: (one) => one.xpaths.map((path) => <code class="cut" key={path}>{path}</code>) },
            { title: "", cell: (one) => may("workflows:write") && <Act small kind="bad" sure={`Delete ${one.name}?`} does={remove(one.name)}>Delete</Act> },
          ]} />
        )}
      </Panel>
      {schemas.error ? <Trouble error={schemas.error} retry={schemas.reload} /> : !schemas.value ? <Bones /> : schemas.value.length === 0 && <Panel><Empty title="No schema yet">Discover what the pages of {domain} say, or write attributes of your own.</Empty></Panel>}
      {schemas.value?.map((schema) => (
        <Panel key={schema.id} flush title={`${schema.pageType}, version ${schema.version}`} side={<span class="dim">{schema.discoveredBy.replaceAll("_", " ")}, confidence {percent(schema.confidence)}, {schema.sampleCount} pages</span>}>
          <Rows label={schema.pageType} rows={schema.attributes} id={(one) => one.name} columns={[
            { title: "Attribute", cell: (one) => <>{one.name}<div class="hint">{one.description}</div></> },
            { title: "Kind", cell: (one) => one.type },
            { title: "XPaths", cell: (one) => [...one.xpaths, ...(one.jsonPaths ?? [])].slice(0, 3).map((path) => <code class="cut" key={path} title={path}>{path}</code>) },
          ]} />
        </Panel>
      ))}
      {schemas.value?.length === SHOWN_MAX && <p class="hint">Its newest {SHOWN_MAX} are shown.</p>}
      {trying && <Dialog title={`New attribute of ${domain}`} onClose={() => setTrying(false)}><Try domain={domain} pageType={pageType} onSaved={() => (setTrying(false), own.reload())} /></Dialog>}
    </div>
  );
}

function All() {
  const [domain, setDomain] = useState("");
  const schemas = useLoad((signal) => api("GET /api/v1/extraction/schemas", { query: { limit: SHOWN_MAX }, signal }).then((list) => list.items), []);
  const open = async () => ask({ domain: domain.trim() });
  return (
    <div class="stack">
      <div class="reading"><Panel><Form send="Open" onSend={open}><Field label="Domain" hint="Any that was collected, also one without a schema."><Text required placeholder="shop.example" value={domain} onText={setDomain} /></Field></Form></Panel></div>
      <Panel flush>
        {schemas.error && !schemas.value ? <Trouble error={schemas.error} retry={schemas.reload} /> : !schemas.value ? <Bones /> : schemas.value.length === 0 ? <Empty title="No schemas yet">Open a domain and discover what its pages say.</Empty> : (
          <Rows label="Schemas" rows={schemas.value} id={(row) => row.id} columns={[
            { title: "Domain", cell: (row) => <a href={`#/schemas?domain=${encodeURIComponent(row.domain)}`}>{row.domain}</a> },
            { title: "Page type", cell: (row) => row.pageType },
            { title: "Version", number: true, cell: (row) => row.version },
            { title: "Attributes", number: true, cell: (row) => row.attributes.length },
            { title: "Confidence", number: true, cell: (row) => percent(row.confidence) },
            { title: "Found by", cell: (row) => row.discoveredBy.replaceAll("_", " ") },
            { title: "Made", cell: (row) => <Time at={row.createdAt} /> },
          ]} />
        )}
        {schemas.value?.length === SHOWN_MAX && <p class="hint inner">The newest {SHOWN_MAX} are shown; open a domain for others of its own.</p>}
      </Panel>
    </div>
  );
}

export function Schemas() {
  const query = here.value.query;
  const domain = query.get("domain");
  const tab = query.get("tab") === "drift" ? ("drift" as const) : ("schemas" as const);
  if (domain) return <Domain key={domain} domain={domain} />;
  return (
    <>
      <Head title="Schemas" about="What is read from pages, and where sites have changed under it." />
      <div class="stack">
        <Tabs label="Shown" tabs={[["schemas", "Schemas"], ["drift", "Drift"]] as const} at={tab} onPick={(picked) => ask({ tab: picked })} />
        {tab === "drift" ? <Panel flush><DriftList /></Panel> : <All />}
      </div>
    </>
  );
}
