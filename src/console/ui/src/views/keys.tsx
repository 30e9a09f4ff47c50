// API keys: made, shown once, ended.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useList } from "../api/use";
import { may, me } from "../app/state";
import { Act, Choice, Dialog, Empty, Field, Form, Head, Panel, Secret, Text } from "../parts/basic";
import { Time } from "../parts/figures";
import { List } from "../parts/list";
import type { KeyKind, NewApiKeyRequest } from "../generated/api";

/** The end of a day of the reader's zone. */
const endOf = (day: string) => new Date(`${day}T23:59:59.999`).toISOString();

function NewKey({ onDone }: { onDone: () => void }) {
  const [name, setName] = useState("");
  const [kind, setKind] = useState<KeyKind>(may("org:write") ? "organization" : "personal");
  const [until, setUntil] = useState("");
  const [chosen, setChosen] = useState<readonly string[]>(me.value?.permissions ?? []);
  const [secret, setSecret] = useState<string>();
  const send = async () => {
    const all = chosen.length === me.value?.permissions.length;
    const permissions = chosen as NonNullable<NewApiKeyRequest["permissions"]>;
    const made = await api("POST /api/v1/api-keys", { body: { name, kind, ...(!all && { permissions }), ...(until && { expiresAt: endOf(until) }) } });
    setSecret(made.secret);
  };
  if (secret) {
    return (
      <div class="stack">
        <Secret text={secret} label="This is the key." />
        <div class="row end"><button type="button" class="button main" onClick={onDone}>Done</button></div>
      </div>
    );
  }
  const toggle = (permission: string) => setChosen(chosen.includes(permission) ? chosen.filter((one) => one !== permission) : [...chosen, permission]);
  return (
    <Form send="Make the key" onSend={send} onCancel={onDone}>
      <Field label="Name" hint="What it is for.">
        <Text required maxLength={200} value={name} onText={setName} />
      </Field>
      <div class="two">
        <Field label="Whose" hint={kind === "personal" ? "Yours alone; ends with your membership." : "The organization's; administrators see it."}>
          <Choice value={kind} options={may("org:write") ? ([["organization", "The organization's"], ["personal", "Personal"]] as const) : ([["personal", "Personal"]] as const)} onPick={setKind} />
        </Field>
        <Field label="Ends" hint="Empty: it goes on until it is deleted.">
          <Text type="date" value={until} onText={setUntil} />
        </Field>
      </div>
      <fieldset class="permissions">
        <legend>What it may do</legend>
        {me.value?.permissions.map((permission) => (
          <label class="check" key={permission}>
            <input type="checkbox" checked={chosen.includes(permission)} onChange={() => toggle(permission)} /> <code>{permission}</code>
          </label>
        ))}
      </fieldset>
    </Form>
  );
}

export function Keys() {
  const list = useList((cursor, signal) => api("GET /api/v1/api-keys", { query: { limit: 100, ...(cursor && { cursor }) }, signal }), []);
  const [making, setMaking] = useState(false);
  const remove = (id: string) => async () => {
    await api("DELETE /api/v1/api-keys/{id}", { path: { id } });
    list.reload();
  };
  return (
    <>
      <Head title="API keys" about="For programs; each may do what its maker may, or less.">
        <button type="button" class="button main" onClick={() => setMaking(true)}>New key</button>
      </Head>
      <Panel flush>
        <List
          list={list}
          id={(key) => key.id}
          label="API keys"
          empty={<Empty title="No keys yet">Programs and command lines call the API with one.</Empty>}
          columns={[
            { title: "Name", cell: (key) => key.name },
            { title: "Begins with", cell: (key) => <code>{key.prefix}…</code> },
            { title: "Whose", cell: (key) => key.kind },
            { title: "May", cell: (key) => <span class="nowrap" title={key.permissions.join(", ")}>{key.permissions.length} permissions</span> },
            { title: "Last used", cell: (key) => <Time at={key.lastUsedAt} /> },
            { title: "Ends", cell: (key) => (key.expiresAt ? <Time at={key.expiresAt} /> : <span class="dim">never</span>) },
            { title: "", cell: (key) => <Act small kind="bad" sure={`End “${key.name}”? Whoever uses it is refused at once.`} does={remove(key.id)}>End</Act> },
          ]}
        />
      </Panel>
      {making && <Dialog title="New API key" onClose={() => (setMaking(false), list.reload())}><NewKey onDone={() => (setMaking(false), list.reload())} /></Dialog>}
    </>
  );
}
