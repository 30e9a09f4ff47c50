// Outputs: what leaves by itself, with the condition tried as one types, and the log of deliveries.
import { useEffect, useState } from "preact/hooks";
import { api, said } from "../api/client";
import { useList, useLoad } from "../api/use";
import { go, here, may, toast } from "../app/state";
import { Act, Badge, Bones, Check, Choice, Dialog, Empty, Field, Form, Head, Panel, Secret, Tags, Text, Trouble } from "../parts/basic";
import { millis, number, Time } from "../parts/figures";
import { List } from "../parts/list";
import type { DeliveryState, DryRunView, OutputView } from "../generated/api";

const EVENTS = ["result.new", "result.changed", "job.succeeded", "job.failed", "batch.completed", "schedule.completed", "schedule.failed", "schema.drifted"];
const TYPE_AFTER_MS = 350;
const listed = (text: string) => text.split(",").map((one) => one.trim()).filter(Boolean);

/** What the output would say of the last events, while its condition is being typed. */
function Tried({ id, condition }: { id: string; condition: string }) {
  const [told, setTold] = useState<DryRunView | string>();
  useEffect(() => {
    const timer = setTimeout(() => {
      api("POST /api/v1/outputs/{id}/test", { path: { id }, body: { dryRun: true, condition: condition.trim() || null } }).then((view) => setTold(view.dryRun ?? undefined), (error: unknown) => setTold(said(error)));
    }, TYPE_AFTER_MS);
    return () => clearTimeout(timer);
  }, [id, condition]);
  if (told === undefined) return null;
  if (typeof told === "string") return <p class="note warn" role="status">{told}</p>;
  const matching = told.events.filter((event) => event.verdict === "delivered");
  return (
    <p class="note" role="status">
      Of the last {number(told.events.length)} events {number(matching.length)} would be delivered
      {matching[0] && <>, the newest <Time at={matching[0].at} /> ({matching[0].kind})</>}.
    </p>
  );
}

function OutputForm({ known, onDone }: { known?: OutputView; onDone: () => void }) {
  const [name, setName] = useState(known?.name ?? "");
  const [url, setUrl] = useState(known?.url ?? "");
  const [events, setEvents] = useState<readonly string[]>(known?.events ?? ["result.changed"]);
  const [tags, setTags] = useState(known?.tags.join(", ") ?? "");
  const [domain, setDomain] = useState(known?.domain ?? "");
  const [pageTypes, setPageTypes] = useState(known?.pageTypes.join(", ") ?? "");
  const [condition, setCondition] = useState(known?.condition ?? "");
  const [secrets, setSecrets] = useState<string[]>();
  const send = async () => {
    const body = { name: name || null, url, events: [...events], tags: listed(tags), pageTypes: listed(pageTypes) };
    if (known) {
      const clear = [...(domain ? [] : ["domain" as const]), ...(condition.trim() ? [] : ["condition" as const])];
      await api("PATCH /api/v1/outputs/{id}", { path: { id: known.id }, body: { ...body, domain: domain || null, condition: condition.trim() || null, clear } });
      toast("Saved");
      return onDone();
    }
    const made = await api("POST /api/v1/outputs", { body: { ...body, kind: "webhook", domain: domain || null, condition: condition.trim() || null } });
    setSecrets(made.secrets ?? []);
  };
  if (secrets) {
    return (
      <div class="stack">
        {secrets.map((secret) => <Secret key={secret} text={secret} label="The receiver verifies signatures with this." />)}
        <div class="row end"><button type="button" class="button main" onClick={onDone}>Done</button></div>
      </div>
    );
  }
  const all = [...new Set([...EVENTS, ...events])];
  const toggle = (kind: string) => setEvents(events.includes(kind) ? events.filter((one) => one !== kind) : [...events, kind]);
  return (
    <Form send={known ? "Save" : "Make the output"} onSend={send} onCancel={onDone}>
      <div class="two">
        <Field label="Name"><Text maxLength={200} value={name} onText={setName} /></Field>
        <Field label="Endpoint" hint="Gets each event as a signed POST."><Text type="url" required placeholder="https://hooks.example/gleaner" value={url} onText={setUrl} /></Field>
      </div>
      <fieldset class="permissions">
        <legend>Events</legend>
        {all.map((kind) => <Check key={kind} label={kind} on={events.includes(kind)} onSet={() => toggle(kind)} />)}
      </fieldset>
      <div class="two">
        <Field label="Tags" hint="All must be there."><Text value={tags} onText={setTags} /></Field>
        <Field label="Domain"><Text value={domain} onText={setDomain} /></Field>
        <Field label="Page types"><Text value={pageTypes} onText={setPageTypes} /></Field>
      </div>
      <Field label="Condition" hint='Such as: drop(price) > 10% or availability == "in_stock"'>
        <textarea class="mono" rows={3} value={condition} onInput={(event) => setCondition(event.currentTarget.value)} />
      </Field>
      {known && <Tried id={known.id} condition={condition} />}
    </Form>
  );
}

function Deliveries({ id }: { id: string }) {
  const [state, setState] = useState<DeliveryState | "">("");
  const list = useList((cursor, signal) => api("GET /api/v1/outputs/{id}/deliveries", { path: { id }, query: { ...(state && { state }), limit: 40, ...(cursor && { cursor }) }, signal }), [id, state]);
  const again = (delivery: string) => async () => {
    await api("POST /api/v1/deliveries/{id}/redeliver", { path: { id: delivery } });
    toast("It is tried again");
    list.reload();
  };
  return (
    <Panel title="Deliveries" flush side={<Choice label="State" value={state} options={[["", "All"], ["pending", "Waiting"], ["delivered", "Delivered"], ["failed", "Failed"]] as const} onPick={setState} />}>
      <List
        list={list}
        id={(row) => row.id}
        label="Deliveries"
        empty={<Empty title="No deliveries">They stand here for seven days.</Empty>}
        columns={[
          { title: "Number", number: true, cell: (row) => row.sequence },
          { title: "Event", cell: (row) => <>{row.eventKind}<div class="hint"><Time at={row.eventAt} /></div></> },
          { title: "State", cell: (row) => <Badge state={row.state} /> },
          { title: "Tries", cell: (row) => row.attempts.map((one) => <div key={one.at}>{one.status ?? "–"} <span class="dim">{millis(one.durationMs)} {one.told.slice(0, 120)}</span></div>) },
          { title: "Next", cell: (row) => <Time at={row.nextTryAt} /> },
          { title: "", cell: (row) => may("integrations:write") && row.state !== "pending" && <Act small does={again(row.id)}>Redeliver</Act> },
        ]}
      />
    </Panel>
  );
}

function OutputPage({ id }: { id: string }) {
  const found = useLoad((signal) => api("GET /api/v1/outputs/{id}", { path: { id }, signal }), [id]);
  const [editing, setEditing] = useState(false);
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const row = found.value;
  const test = async () => {
    const { sent } = await api("POST /api/v1/outputs/{id}/test", { path: { id }, body: {} });
    toast(sent ? `${sent.isDelivered ? "Delivered" : "Not delivered"}: ${sent.status ?? ""} ${sent.told.slice(0, 200)}` : "Nothing was sent", !sent?.isDelivered);
  };
  const toggle = async () => {
    await api("PATCH /api/v1/outputs/{id}", { path: { id }, body: { isEnabled: !row.isEnabled } });
    found.reload();
  };
  const remove = async () => {
    await api("DELETE /api/v1/outputs/{id}", { path: { id } });
    go("/outputs");
  };
  return (
    <>
      <Head title={row.name} about={row.url}>
        {may("integrations:write") && (
          <>
            <Act kind="main" does={test}>Send a test</Act>
            <button type="button" class="button" onClick={() => setEditing(true)}>Edit</button>
            <Act does={toggle}>{row.isEnabled ? "Switch off" : "Switch on"}</Act>
            <Act kind="bad" sure={`Delete “${row.name}”?`} does={remove}>Delete</Act>
          </>
        )}
      </Head>
      <div class="stack">
        {row.lastError && row.state !== "ok" && <p class="note bad">{row.lastError}</p>}
        <div class="halves">
          <Panel title="What is delivered" side={<Badge state={row.isEnabled ? row.state : "off"} />}>
            <dl class="facts">
              <dt>Events</dt><dd><Tags tags={row.events} /></dd>
              <dt>Tags</dt><dd>{row.tags.length > 0 ? <Tags tags={row.tags} /> : "any"}</dd>
              <dt>Domain</dt><dd>{row.domain ?? "any"}</dd>
              <dt>Page types</dt><dd>{row.pageTypes.join(", ") || "any"}</dd>
              <dt>Condition</dt><dd class="mono">{row.condition ?? "none"}</dd>
            </dl>
          </Panel>
          <Panel title="How it goes">
            <dl class="facts">
              <dt>Delivered</dt><dd>{number(row.delivered)}</dd>
              <dt>Waiting</dt><dd>{number(row.pending)}</dd>
              <dt>Failed</dt><dd>{number(row.failed)}</dd>
              <dt>Missed</dt><dd>{number(row.missed)}</dd>
              <dt>Last</dt><dd><Time at={row.lastDeliveredAt} /></dd>
            </dl>
          </Panel>
        </div>
        <Deliveries id={id} />
      </div>
      {editing && <Dialog title="Edit the output" onClose={() => setEditing(false)}><OutputForm known={row} onDone={() => (setEditing(false), found.reload())} /></Dialog>}
    </>
  );
}

export function Outputs() {
  const id = here.value.parts[1];
  const list = useList((cursor, signal) => api("GET /api/v1/outputs", { query: { limit: 100, ...(cursor && { cursor }) }, signal }), []);
  const [making, setMaking] = useState(false);
  if (id) return <OutputPage key={id} id={id} />;
  const close = () => {
    setMaking(false);
    list.reload();
  };
  return (
    <>
      <Head title="Outputs" about="What leaves by itself when something happens.">
        {may("integrations:write") && <button type="button" class="button main" onClick={() => setMaking(true)}>New output</button>}
      </Head>
      <Panel flush>
        <List
          list={list}
          id={(row) => row.id}
          label="Outputs"
          empty={<Empty title="No outputs yet">One sends each new or changed result to an endpoint of yours, signed.</Empty>}
          columns={[
            { title: "Name", cell: (row) => <a href={`#/outputs/${row.id}`}>{row.name}</a> },
            { title: "Endpoint", cell: (row) => <span class="cut">{row.url}</span> },
            { title: "Events", cell: (row) => <Tags tags={row.events} /> },
            { title: "State", cell: (row) => <Badge state={row.isEnabled ? row.state : "off"} /> },
            { title: "Delivered", number: true, cell: (row) => number(row.delivered) },
            { title: "Waiting", number: true, cell: (row) => number(row.pending) },
          ]}
        />
      </Panel>
      {making && <Dialog title="New output" onClose={close}><OutputForm onDone={close} /></Dialog>}
    </>
  );
}
