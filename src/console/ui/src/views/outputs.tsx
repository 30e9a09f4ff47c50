// Outputs: what leaves by itself, with the condition tried as one types, and the log of deliveries.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { useList, useLoad } from "../api/use";
import { go, here, may, toast } from "../app/state";
import { Act, Badge, Bones, Choice, Dialog, Empty, Field, Form, Head, Panel, Tags, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { millis, number, Time } from "../parts/figures";
import { List, Rows } from "../parts/list";
import type { DeliveryState, DisabledReason, EmailView, OutputView } from "../generated/api";
import { KINDS, OutputForm, WHEN } from "./output-form";

const RECOVER_HOURS = [["1", "the last hour"], ["24", "the last day"], ["168", "the last seven days"]] as const;

function Recover({ id, onDone }: { id: string; onDone: () => void }) {
  const [hours, setHours] = useState<(typeof RECOVER_HOURS)[number][0]>("24");
  const send = async () => {
    const told = await api("POST /api/v1/outputs/{id}/recover", { path: { id }, body: { since: new Date(Date.now() - Number(hours) * 3_600_000).toISOString() } });
    toast(told.isIncomplete ? "What is still kept of that time is delivered" : "What was not delivered is delivered now");
    onDone();
  };
  return (
    <Form send="Deliver it" onSend={send} onCancel={onDone}>
      <Field label="What failed, or happened while it was off, in"><Choice value={hours} options={RECOVER_HOURS} onPick={setHours} /></Field>
    </Form>
  );
}

/** How often a delivery is looked at that is on its way. */
const LOOK_EVERY_MS = 2_000;

/** `onLook` is called whenever the deliveries are looked at again by themselves. */
function Deliveries({ id, isOn, onLook }: { id: string; isOn: boolean; onLook: () => void }) {
  const [state, setState] = useState<DeliveryState | "">("");
  const list = useList((cursor, signal) => api("GET /api/v1/outputs/{id}/deliveries", { path: { id }, query: { ...(state && { state }), limit: 40, ...(cursor && { cursor }) }, signal }), [id, state]);
  const again = (delivery: string) => async () => {
    await api("POST /api/v1/deliveries/{id}/redeliver", { path: { id: delivery } });
    toast("It is tried again");
    list.reload();
  };
  const due = Math.min(...(list.items ?? []).map((row) => (row.state === "pending" && row.nextTryAt !== null ? Date.parse(row.nextTryAt) : Infinity)));
  const look = useRef(() => {});
  look.current = () => {
    list.refresh();
    onLook();
  };
  useEffect(() => {
    // While the output is off nothing is tried, however long ago it was due.
    if (!isOn || due === Infinity) return;
    let timer: ReturnType<typeof setTimeout>;
    const wait = (ms: number) => {
      timer = setTimeout(() => {
        if (!document.hidden) look.current();
        // A try takes its time: it is looked at again until something else is due.
        wait(LOOK_EVERY_MS);
      }, ms);
    };
    wait(Math.max(LOOK_EVERY_MS, due - Date.now()));
    return () => clearTimeout(timer);
  }, [isOn, due]);
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
          { title: "", cell: (row) => may("integrations:write") && (row.state !== "pending" || row.attempts.length > 0) && <Act small does={again(row.id)}>{row.state === "pending" ? "Try now" : "Redeliver"}</Act> },
        ]}
      />
    </Panel>
  );
}

const DISABLED: Record<DisabledReason, string> = {
  gone: "its endpoint said that it is gone for good",
  failing: "nothing was delivered for five days",
  no_recipients: "nobody is left who gets its letters",
  restored: "the organization came back from a backup, and what it would send now was sent before",
};

/** Recipients that are named in a line. */
const NAMED = 3;

/** Where it leads, in a line. */
function whereTo(row: OutputView): string {
  if (row.postgres) return `${row.postgres.database} at ${row.postgres.host}:${row.postgres.port}, table ${row.postgres.schema}.${row.postgres.table}`;
  if (row.files) {
    const { delta, format, path, s3, sftp } = row.files;
    const place = s3 ? `the bucket ${s3.bucket}, ` : sftp ? `${sftp.host}:${sftp.port}, ` : "";
    const folders = [s3?.prefix ?? sftp?.folder, path].filter(Boolean).join("/");
    return `${delta ? "Delta Lake" : format} files in ${place}${folders}`;
  }
  if (row.email) {
    const all = row.email.recipients.map((one) => one.address);
    return all.length > NAMED ? `${all.slice(0, NAMED).join(", ")} and ${all.length - NAMED} more` : all.join(", ");
  }
  if (row.tokenPrefix) return `Feed ${row.tokenPrefix}…`;
  return row.url ?? row.host ?? "";
}

/** Who gets letters, who has not agreed yet, and whose address refuses them. */
function Recipients({ of }: { of: EmailView }) {
  return (
    <Panel title="Recipients" flush>
      {of.fullUntil && <p class="note warn">As many letters were sent this hour as may be; the next go out <Time at={of.fullUntil} />.</p>}
      <Rows label="Recipients" rows={of.recipients} id={(one) => one.address} columns={[
        { title: "Address", cell: (one) => <span class="cut" title={one.address}>{one.address}</span> },
        { title: "State", cell: (one) => <Badge state={one.state} /> },
        { title: "Since", cell: (one) => <Time at={one.since} /> },
        { title: "Last letter", cell: (one) => <Time at={one.lastSentAt} /> },
        { title: "Refused", cell: (one) => one.refused > 0 && <>{one.refused} in a row <span class="dim">{one.lastError}</span></> },
      ]} />
    </Panel>
  );
}

/** When letters go out, in words. */
function whenOf(of: EmailView): string {
  if (of.when === "daily") return `daily at ${of.hour}:00 (${of.timezone})`;
  return WHEN.find(([key]) => key === of.when)?.[1].toLowerCase() ?? of.when;
}

function OutputPage({ id }: { id: string }) {
  const found = useLoad((signal) => api("GET /api/v1/outputs/{id}", { path: { id }, signal }), [id]);
  const [open, setOpen] = useState<"edit" | "recover">();
  if (found.error && !found.value) return <Trouble error={found.error} retry={found.reload} />;
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
      <Head title={row.name} about={whereTo(row)}>
        {may("integrations:write") && (
          <>
            <Act kind="main" does={test}>Send a test</Act>
            <button type="button" class="button" onClick={() => setOpen("edit")}>Edit</button>
            <button type="button" class="button" onClick={() => setOpen("recover")}>Recover</button>
            <Act does={toggle}>{row.isEnabled ? "Switch off" : "Switch on"}</Act>
            <Act kind="bad" sure={`Delete “${row.name}”?`} does={remove}>Delete</Act>
          </>
        )}
      </Head>
      <div class="stack">
        {found.error && <Trouble error={found.error} retry={found.reload} />}
        {row.disabledReason && <p class="note warn">The box switched it off <Time at={row.disabledAt} />: {DISABLED[row.disabledReason]}.</p>}
        {row.lastError && row.state !== "ok" && <p class="note bad">{row.lastError}</p>}
        <div class="halves">
          <Panel title="What is delivered" side={<Badge state={row.isEnabled ? row.state : "off"} />}>
            <Facts of={[
              ["Kind", KINDS.find(([kind]) => kind === row.kind)?.[1] ?? row.kind],
                row.product && ["For", row.product],
                row.postgres && ["Rows", row.postgres.mode === "append" ? "one a result" : "one a URL"],
                row.files && ["A file", `each ${row.files.everyMinutes} minutes, or of ${number(row.files.maxRows)} results`],
              row.email && ["Letters", whenOf(row.email)],
              row.email && ["Waiting for a letter", number(row.email.waiting)],
                ["Events", <Tags tags={row.events} />],
              ["Tags", <Tags tags={row.tags} none="any" />],
              ["Domain", row.domain ?? "any"],
              ["Page types", row.pageTypes.join(", ") || "any"],
              ["Condition", <span class="mono">{row.condition ?? "none"}</span>],
            ]} />
          </Panel>
          <Panel title="How it goes">
            <Facts of={[
              ["Delivered", number(row.delivered)],
              ["Waiting", number(row.pending)],
              ["Failed", number(row.failed)],
              ["Missed", number(row.missed)],
              ["Last", <Time at={row.lastDeliveredAt} />],
            ]} />
          </Panel>
        </div>
        {row.email && <Recipients of={row.email} />}
        {/* The box may have switched the output off. What a form was opened with stays as it is. */}
        <Deliveries id={id} isOn={row.isEnabled} onLook={() => open || found.reload()} />
      </div>
      {open === "edit" && <Dialog title="Edit the output" onClose={() => setOpen(undefined)}><OutputForm known={row} onDone={() => (setOpen(undefined), found.reload())} /></Dialog>}
      {open === "recover" && <Dialog title="Deliver what was not" onClose={() => setOpen(undefined)}><Recover id={id} onDone={() => (setOpen(undefined), found.reload())} /></Dialog>}
    </>
  );
}

export function Outputs() {
  const id = here.value.parts[1];
  const list = useList((cursor, signal) => api("GET /api/v1/outputs", { query: { limit: 100, ...(cursor && { cursor }) }, signal }), [id]);
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
          empty={<Empty title="No outputs yet">One sends what happens to an endpoint, a chat, a feed, a table, files, or people by email.</Empty>}
          columns={[
            { title: "Name", cell: (row) => <a href={`#/outputs/${row.id}`}>{row.name}</a> },
            { title: "Kind", cell: (row) => KINDS.find(([kind]) => kind === row.kind)?.[1] ?? row.kind },
            { title: "Leads to", cell: (row) => <span class="cut" title={whereTo(row)}>{whereTo(row)}</span> },
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
