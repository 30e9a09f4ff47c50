// The audit log, with its filters.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { everyPage, useList, useLoad } from "../api/use";
import { ask, here, may } from "../app/state";
import { Choice, Dialog, Empty, Head, Panel } from "../parts/basic";
import { Time } from "../parts/figures";
import { List } from "../parts/list";
import type { AuditLogView, Operations } from "../generated/api";

type Action = NonNullable<Operations["listAuditLogs"]["query"]["action"]>;

/** Where a day of the reader's zone begins, so many days on. */
function dayAt(text: string, days: number): string {
  const at = new Date(`${text}T00:00`);
  at.setDate(at.getDate() + days);
  return Number.isNaN(at.getTime()) ? text : at.toISOString();
}

export function Audit() {
  const query = here.value.query;
  const [actor, action, resourceType, from, to] = ["actor", "action", "resource", "from", "to"].map((name) => query.get(name) ?? "") as [string, Action | "", string, string, string];
  const [open, setOpen] = useState<AuditLogView>();
  const list = useList(
    (cursor, signal) => api("GET /api/v1/audit-logs", { query: { ...(actor && { actor }), ...(action && { action }), ...(resourceType && { resourceType }), ...(from && { from: dayAt(from, 0) }), ...(to && { to: dayAt(to, 1) }), limit: 50, ...(cursor && { cursor }) }, signal }),
    [actor, action, resourceType, from, to],
  );
  const members = useLoad((signal) => (may("org:read") ? everyPage((cursor) => api("GET /api/v1/orgs/current/members", { query: { limit: 200, ...(cursor && { cursor }) }, signal })) : Promise.resolve([])), []);
  const people = (members.value ?? []).map((one) => [one.userId, one.name] as const);
  // A link may name a key, or somebody who is no member any more.
  const who = [["", "Anybody"] as const, ...people, ...(actor && !people.some(([id]) => id === actor) ? [[actor, actor] as const] : [])];
  const filter = (name: string, label: string, value: string | undefined, type = "text") => <input type={type} placeholder={label} aria-label={label} value={value} onChange={(event) => ask({ [name]: event.currentTarget.value })} />;
  return (
    <>
      <Head title="Audit log" about="Every change, and every refusal; each row is chained to the one before." />
      <Panel flush>
        <div class="filters">
          <Choice label="Who" value={actor} options={who} onPick={(picked) => ask({ actor: picked })} />
          {filter("action", "Action, such as job.submitted", action)}
          {filter("resource", "Kind of thing, such as job", resourceType)}
          {filter("from", "From", from, "date")}
          {filter("to", "To", to, "date")}
        </div>
        <List
          list={list}
          id={(row) => row.id}
          label="Audit log"
          empty={<Empty title="Nothing fits these filters" />}
          columns={[
            { title: "When", cell: (row) => <Time at={row.at} exact /> },
            { title: "Who", cell: (row) => <>{row.actor.name ?? row.actor.type}<div class="hint">{row.ip}</div></> },
            { title: "Did", cell: (row) => <code>{row.action}</code> },
            { title: "To", cell: (row) => <>{row.resourceType} <span class="dim">{row.resourceId?.slice(-12)}</span></> },
            { title: "", cell: (row) => <button type="button" class="button small" onClick={() => setOpen(row)}>Details</button> },
          ]}
        />
      </Panel>
      {open && (
        <Dialog title={open.action} onClose={() => setOpen(undefined)}>
          <pre>{JSON.stringify(open, null, 2)}</pre>
        </Dialog>
      )}
    </>
  );
}
