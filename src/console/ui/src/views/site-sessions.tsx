// Signed-in sessions of sites: cookies or headers that jobs are sent with; kept sealed, and never shown again.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useList } from "../api/use";
import { ask, here, may, toast } from "../app/state";
import { Act, Badge, Choice, copy, Dialog, Empty, Field, Form, Head, Panel, Tags, Text } from "../parts/basic";
import { Time } from "../parts/figures";
import { List } from "../parts/list";
import type { SiteSessionKind } from "../generated/api";

const BYTES_MAX = 1_000_000;

function SessionForm({ onDone }: { onDone: () => void }) {
  const [domain, setDomain] = useState("");
  const [name, setName] = useState("");
  const [kind, setKind] = useState<SiteSessionKind>("cookies");
  const [values, setValues] = useState("");
  const read = async (file: File | undefined) => {
    if (!file) return;
    if (file.size > BYTES_MAX) return toast(`${file.name} is larger than a session can be`, true);
    setValues(await file.text());
  };
  const send = async () => {
    const made = await api("POST /api/v1/site-sessions", { body: { domain: domain.trim(), name: name.trim() || null, kind, values } });
    toast(made.leftOut ? `Kept; ${made.leftOut} cookies of other domains, or over, were left out` : "Kept; it is not shown again");
    onDone();
  };
  return (
    <Form send="Keep it" onSend={send} onCancel={onDone}>
      <div class="two">
        <Field label="Site" hint="A host or a URL; the session is for all of its domain."><Text required value={domain} onText={setDomain} /></Field>
        <Field label="Name" hint="Empty: the domain."><Text maxLength={200} value={name} onText={setName} /></Field>
        <Field label="Kind"><Choice value={kind} options={[["cookies", "Cookies"], ["headers", "Headers"]] as const} onPick={setKind} /></Field>
      </div>
      <Field label={kind === "cookies" ? "Cookies" : "Headers"} hint={kind === "cookies" ? "As a browser's extension exports them (JSON), a cookies.txt, or a Cookie header." : "One a line, as Name: value."}>
        <textarea class="mono" rows={6} required spellcheck={false} autocomplete="off" value={values} onInput={(event) => setValues(event.currentTarget.value)} />
      </Field>
      <Field label="Or from a file"><input type="file" accept=".txt,.json,text/plain,application/json" onChange={(event) => void read(event.currentTarget.files?.[0])} /></Field>
    </Form>
  );
}

export function SiteSessions() {
  const domain = here.value.query.get("domain") ?? "";
  const list = useList((cursor, signal) => api("GET /api/v1/site-sessions", { query: { ...(domain && { domain }), limit: 50, ...(cursor && { cursor }) }, signal }), [domain]);
  const [making, setMaking] = useState(false);
  const remove = (id: string) => async () => {
    await api("DELETE /api/v1/site-sessions/{id}", { path: { id } });
    list.reload();
  };
  return (
    <>
      <Head title="Site sessions" about="What the box is signed in with at sites; jobs and URLs name one.">
        {may("providers:write") && <button type="button" class="button main" onClick={() => setMaking(true)}>New session</button>}
      </Head>
      <Panel flush>
        <div class="filters"><input type="text" placeholder="Domain" aria-label="Domain" value={domain} onInput={(event) => ask({ domain: event.currentTarget.value })} /></div>
        <List
          list={list}
          id={(row) => row.id}
          label="Site sessions"
          empty={<Empty title={domain ? "None of this domain" : "No site sessions"}>Pages behind a login need one: sign in with a browser, and give its cookies here.</Empty>}
          columns={[
            { title: "Name", cell: (row) => <>{row.name}<div class="hint">{row.domain}</div></> },
            { title: "State", cell: (row) => <Badge state={row.state} /> },
            { title: "Consists of", cell: (row) => <><span class="dim">{row.kind}</span> <Tags tags={row.names.slice(0, 8)} />{row.names.length > 8 && <span class="dim">and {row.names.length - 8} more</span>}</> },
            { title: "Ends", cell: (row) => <Time at={row.expiresAt} exact /> },
            { title: "Last used", cell: (row) => <Time at={row.lastUsedAt} /> },
            { title: "Kept", cell: (row) => <Time at={row.createdAt} /> },
            { title: "", cell: (row) => (
              <span class="row">
                <button type="button" class="button small" onClick={() => void copy(row.id)}>Copy id</button>
                {may("providers:write") && <Act small kind="bad" sure={`Forget “${row.name}”? Jobs that name it fail from then on.`} does={remove(row.id)}>Forget</Act>}
              </span>
            ) },
          ]}
        />
      </Panel>
      {making && <Dialog title="New site session" onClose={() => setMaking(false)}><SessionForm onDone={() => (setMaking(false), list.reload())} /></Dialog>}
    </>
  );
}
