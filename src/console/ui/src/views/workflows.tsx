// Workflows: the list, one with its versions and suggestions, and its graph.
import { useState } from "preact/hooks";
import { api, said, send as request } from "../api/client";
import { useList, useLoad } from "../api/use";
import { go, here, may, toast } from "../app/state";
import { Act, Badge, Bones, Choice, Dialog, Empty, Field, Form, Head, Panel, Text, Trouble } from "../parts/basic";
import { many, millis, number, percent, Time } from "../parts/figures";
import { List, Rows } from "../parts/list";
import type { Dag, Mode, Strategy, WorkflowView } from "../generated/api";
import { Graph } from "./graph/view";

const STRATEGIES = [["balanced", "Balanced"], ["success_rate", "Most successful first"], ["latency", "Fastest first"], ["cost", "Cheapest first"]] as const;
/** What a drawn workflow begins with: the provider that was connected first. */
function first(providerId: string): Dag {
  return {
    nodes: [
      { id: "start", type: "start", position: { x: 40, y: 140 } },
      { id: "provider1", type: "provider", config: { providerId }, position: { x: 260, y: 140 } },
      { id: "done", type: "end", config: { status: "succeeded" }, position: { x: 520, y: 80 } },
      { id: "lost", type: "end", config: { status: "failed" }, position: { x: 520, y: 220 } },
    ],
    edges: [
      { source: "start", target: "provider1", type: "always" },
      { source: "provider1", target: "done", type: "success" },
      { source: "provider1", target: "lost", type: "failure" },
    ],
  };
}

async function draw(name: string): Promise<WorkflowView> {
  const { items } = await api("GET /api/v1/providers", { query: { limit: 200 } });
  const provider = items.at(-1);
  if (!provider) throw new Error("Connect a provider first: a workflow says whom to ask.");
  return api("POST /api/v1/workflows", { body: { name, dag: first(provider.id) } });
}

function New({ onDone }: { onDone: () => void }) {
  const [kind, setKind] = useState<"drawn" | "smart">("drawn");
  const [name, setName] = useState("");
  const [strategy, setStrategy] = useState<Strategy>("balanced");
  const make = async () => {
    const made = kind === "drawn" ? await draw(name) : await api("POST /api/v1/workflows/smart", { body: { name: name || null, strategy } });
    onDone();
    go(`/workflows/${made.workflowId}`);
  };
  return (
    <Form send="Make the workflow" onSend={make} onCancel={onDone}>
      <Field label="Kind" hint={kind === "smart" ? "Ranks the connected providers by itself, and learns." : "You draw whom it asks, and what then."}>
        <Choice value={kind} options={[["drawn", "Drawn"], ["smart", "Smart"]] as const} onPick={setKind} />
      </Field>
      <Field label="Name"><Text required={kind === "drawn"} maxLength={200} value={name} onText={setName} /></Field>
      {kind === "smart" && <Field label="Strategy"><Choice value={strategy} options={STRATEGIES} onPick={setStrategy} /></Field>}
    </Form>
  );
}

function Routing({ of, onDone }: { of: WorkflowView; onDone: () => void }) {
  const [route, setRoute] = useState(of.route ?? "");
  const save = async () => {
    await api("PUT /api/v1/workflows/{id}/routing", { path: { id: of.workflowId }, body: { route: route.trim() || null } });
    toast("Saved");
    onDone();
  };
  return (
    <Form send="Save" onSend={save} onCancel={onDone}>
      <Field label="Route" hint="“domain:shop.example” takes that site's jobs, “*” all that no other takes; empty takes those that name it.">
        <Text class="mono" placeholder="domain:shop.example" value={route} onText={setRoute} />
      </Field>
    </Form>
  );
}

function Suggestions({ id, onApplied }: { id: string; onApplied: () => void }) {
  const list = useList((cursor, signal) => api("GET /api/v1/optimization/suggestions", { query: { workflowId: id, limit: 10, ...(cursor && { cursor }) }, signal }), [id]);
  const providers = useLoad((signal) => (may("providers:read") ? api("GET /api/v1/providers", { query: { limit: 200 }, signal }) : Promise.resolve({ items: [], nextCursor: null })), []);
  const nameOf = (provider: string) => providers.value?.items.find((one) => one.id === provider)?.name ?? provider.slice(-8);
  if (list.error && !list.items) return <Trouble error={`Suggestions could not be loaded. ${list.error}`} retry={list.reload} />;
  if ((list.items?.length ?? 0) === 0) return null;
  const resolve = (suggestion: string, how: "apply" | "dismiss") => async () => {
    if (how === "apply") await api("POST /api/v1/optimization/suggestions/{id}/apply", { path: { id: suggestion } });
    else await api("POST /api/v1/optimization/suggestions/{id}/dismiss", { path: { id: suggestion } });
    list.reload();
    onApplied();
  };
  return (
    <>
      {list.items?.slice(0, 3).map((one) => (
        <Panel key={one.id} title={`Suggestion: ${one.proposedRanking[0]?.providerIds.map(nameOf).join(", then ")}`} side={<Badge state={one.status} />}>
          <div class="stack">
            <p>Expected gain {percent(one.expectedGain)}; <Time at={one.createdAt} /></p>
            <Rows label="Evidence" rows={one.evidence} id={(row) => `${row.providerId} ${row.domain}`} columns={[
              { title: "Provider", cell: (row) => nameOf(row.providerId) },
              { title: "Domain", cell: (row) => row.domain ?? "all" },
              { title: "Samples", number: true, cell: (row) => number(row.samples) },
              { title: "Success", number: true, cell: (row) => percent(row.successRate) },
              { title: "p50", number: true, cell: (row) => millis(row.p50Ms) },
              { title: "Credits", number: true, cell: (row) => row.avgCredits.toFixed(1) },
            ]} />
            {one.status === "open" && may("workflows:write") && <div class="row"><Act kind="main" does={resolve(one.id, "apply")}>Apply</Act><Act does={resolve(one.id, "dismiss")}>Dismiss</Act></div>}
          </div>
        </Panel>
      ))}
    </>
  );
}

/** What a node says and where it leads to, but not where it is drawn. */
function saying(dag: Dag): Map<string, string> {
  const leads = (id: string) => dag.edges.filter((edge) => edge.source === id).map((edge) => `${edge.type} ${edge.target}`).sort();
  return new Map(dag.nodes.map(({ position: _, ...node }) => [node.id, JSON.stringify([node, leads(node.id)])]));
}

/** The nodes of a graph that are not in the other one, or are different there. */
function differing(dag: Dag, other: Dag): ReadonlySet<string> {
  const there = saying(other);
  return new Set([...saying(dag)].filter(([id, said]) => there.get(id) !== said).map(([id]) => id));
}

const told = (count: number) => (count === 0 ? "no node differs" : `${many(count, "node")} of it ${count === 1 ? "differs" : "differ"}`);

function Versions({ of }: { of: WorkflowView }) {
  const list = useList((cursor, signal) => api("GET /api/v1/workflows/{id}/versions", { path: { id: of.workflowId }, query: { limit: 20, ...(cursor && { cursor }) }, signal }), [of.workflowId, of.version]);
  const [open, setOpen] = useState<WorkflowView>();
  return (
    <>
      <Panel title="Versions" flush>
        <List list={list} id={(row) => row.id} label="Versions" empty={<Empty title="None" />} columns={[
          { title: "Version", cell: (row) => row.version },
          { title: "Made", cell: (row) => <Time at={row.createdAt} exact /> },
          { title: "Nodes", number: true, cell: (row) => row.dag.nodes.length },
          { title: "", cell: (row) => <button type="button" class="button small" onClick={() => setOpen(row)}>{row.version === of.version ? "Look" : "Compare"}</button> },
        ]} />
      </Panel>
      {open && (
        <Dialog wide title={`Version ${open.version}${open.version === of.version ? "" : ` beside ${of.version}`}`} onClose={() => setOpen(undefined)}>
          {open.version === of.version ? (
            <Graph start={open.dag} />
          ) : (
            <div class="halves" style={{ gridTemplateColumns: "repeat(auto-fit, minmax(min(340px, 100%), 1fr))" }}>
              {[open, of].map((one) => (
                <Panel key={one.id} flush title={`Version ${one.version}`} side={<span class="dim">{told(differing(one.dag, one === open ? of.dag : open.dag).size)}</span>}>
                  <Graph start={one.dag} marked={differing(one.dag, one === open ? of.dag : open.dag)} />
                </Panel>
              ))}
            </div>
          )}
        </Dialog>
      )}
    </>
  );
}

function WorkflowPage({ id }: { id: string }) {
  const found = useLoad((signal) => api("GET /api/v1/workflows/{id}", { path: { id }, signal }), [id]);
  const [routing, setRouting] = useState(false);
  if (found.error && !found.value) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const row = found.value;
  const writes = may("workflows:write");
  const save = async (dag: Dag) => {
    await api("PUT /api/v1/workflows/{id}", { path: { id }, body: { dag } });
    toast("A new version was saved");
    found.reload();
  };
  const publish = async () => {
    await request(`api/v1/workflows/${encodeURIComponent(id)}/${row.status === "published" ? "unpublish" : "publish"}`, { method: "POST" });
    found.reload();
  };
  const clone = async () => go(`/workflows/${(await api("POST /api/v1/workflows/{id}/clone", { path: { id } })).workflowId}`);
  const archive = async () => {
    await api("DELETE /api/v1/workflows/{id}", { path: { id } });
    go("/workflows");
  };
  const mode = async (next: Mode) => {
    // Where it is refused, the choice goes back to what holds.
    await api("PUT /api/v1/workflows/{id}/smart/mode", { path: { id }, body: { mode: next } }).catch((error: unknown) => toast(said(error), true));
    found.reload();
  };
  return (
    <>
      <Head title={row.name} about={<>Version {row.version}; {row.route ? <>takes <code>{row.route}</code></> : "takes jobs that name it"} <Badge state={row.status} /></>}>
        {writes && row.status !== "archived" && (
          <>
            {row.smart && <Choice label="Mode" value={row.smart.mode} options={[["auto", "Applies what it learns"], ["suggest", "Suggests what it learns"]] as const} onPick={(next) => void mode(next)} />}
            <button type="button" class="button" onClick={() => setRouting(true)}>Route</button>
            <Act kind="main" does={publish}>{row.status === "published" ? "Unpublish" : "Publish"}</Act>
            <Act does={clone}>Clone</Act>
            <Act kind="bad" sure={`Archive “${row.name}”?`} does={archive}>Archive</Act>
          </>
        )}
      </Head>
      <div class="stack">
        {found.error && <Trouble error={found.error} retry={found.reload} />}
        <Suggestions id={id} onApplied={found.reload} />
        <section class="panel"><Graph key={row.id} start={row.dag} {...(writes && !row.smart && row.status !== "archived" && { onSave: save })} /></section>
        <Versions of={row} />
      </div>
      {routing && <Dialog title="Route" onClose={() => setRouting(false)}><Routing of={row} onDone={() => (setRouting(false), found.reload())} /></Dialog>}
    </>
  );
}

export function Workflows() {
  const id = here.value.parts[1];
  const list = useList((cursor, signal) => api("GET /api/v1/workflows", { query: { limit: 50, ...(cursor && { cursor }) }, signal }), [id]);
  const [making, setMaking] = useState(false);
  if (id) return <WorkflowPage key={id} id={id} />;
  return (
    <>
      <Head title="Workflows" about="Whom a job asks, in which order, and what then.">
        {may("workflows:write") && <button type="button" class="button main" onClick={() => setMaking(true)}>New workflow</button>}
      </Head>
      <Panel flush>
        <List
          list={list}
          id={(row) => row.workflowId}
          label="Workflows"
          empty={<Empty title="No workflows yet">Without one, jobs ask the connected providers in their order.</Empty>}
          columns={[
            { title: "Name", cell: (row) => <a href={`#/workflows/${row.workflowId}`}>{row.name}</a> },
            { title: "State", cell: (row) => <Badge state={row.status} /> },
            { title: "Kind", cell: (row) => (row.smart ? `smart, ${row.smart.strategy.replace("_", " ")}` : "drawn") },
            { title: "Takes", cell: (row) => (row.route ? <code>{row.route}</code> : <span class="dim">jobs that name it</span>) },
            { title: "Version", number: true, cell: (row) => row.version },
            { title: "Changed", cell: (row) => <Time at={row.updatedAt} /> },
          ]}
        />
      </Panel>
      {making && <Dialog title="New workflow" onClose={() => setMaking(false)}><New onDone={() => (setMaking(false), list.reload())} /></Dialog>}
    </>
  );
}
