// Providers: connected by a form that the catalog describes, tested, switched off.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useList } from "../api/use";
import { may, toast } from "../app/state";
import { Act, Badge, Bones, Dialog, Empty, Field, Form, Head, Panel, Text, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { bytes, millis, number, Time } from "../parts/figures";
import { List } from "../parts/list";
import { SchemaFields, type ObjectSchema, type Values } from "../parts/schema-form";
import type { AdapterView, ProviderView, TestView } from "../generated/api";

const filled = (values: Values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== ""));

function Connect({ adapter, known, onDone }: { adapter: AdapterView; known?: ProviderView; onDone: () => void }) {
  const [name, setName] = useState(known?.name ?? adapter.name);
  const [credentials, setCredentials] = useState<Values>({});
  const [settings, setSettings] = useState<Values>(known?.settings ?? {});
  const [most, setMost] = useState(String(known?.maxConcurrency ?? ""));
  const send = async () => {
    const body = { name, settings: filled(settings), maxConcurrency: most ? Number(most) : null, ...(Object.keys(filled(credentials)).length > 0 && { credentials: filled(credentials) }) };
    if (known) await api("PATCH /api/v1/providers/{id}", { path: { id: known.id }, body });
    else await api("POST /api/v1/providers", { body: { ...body, adapter: adapter.adapter } });
    toast(known ? "Saved" : `${name} is connected`);
    onDone();
  };
  return (
    <Form send={known ? "Save" : "Connect"} onSend={send} onCancel={onDone}>
      <p class="dim">{adapter.about}</p>
      <Field label="Name">
        <Text required maxLength={200} value={name} onText={setName} />
      </Field>
      <SchemaFields secret optional={Boolean(known)} schema={adapter.credentials as ObjectSchema} values={credentials} onChange={setCredentials} />
      {known?.credentialsSet && <p class="hint">Its credentials are kept as they are unless new ones are typed.</p>}
      <SchemaFields schema={adapter.settings as ObjectSchema} values={settings} onChange={setSettings} />
      <Field label="At most so many at once" hint="Empty: as many as its plan of the box allows.">
        <Text type="number" min={1} value={most} onText={setMost} />
      </Field>
    </Form>
  );
}

function Try({ provider }: { provider: ProviderView }) {
  const [url, setUrl] = useState("https://example.com/");
  const [told, setTold] = useState<TestView>();
  const send = async () => setTold(await api("POST /api/v1/providers/{id}/test", { path: { id: provider.id }, body: { url } }));
  return (
    <div class="stack">
      <Form send="Try it" onSend={send}>
        <Field label="URL">
          <Text type="url" required value={url} onText={setUrl} />
        </Field>
      </Form>
      {told && (
        <div role="status"><Facts of={[
          ["Outcome", <><Badge state={told.outcome} /> {told.fault?.replaceAll("_", " ")}</>],
          told.error && ["Why", <span class="wrong">{told.error}</span>],
          ["Status", told.httpStatus ?? "–"],
          ["Took", millis(told.durationMs)],
          ["Came", bytes(told.bytes)],
          ["Costs", <>{number(told.credits)} credits ({told.costSource})</>],
          told.finalUrl && ["Ended at", <span class="mono">{told.finalUrl}</span>],
        ]} /></div>
      )}
    </div>
  );
}

function Catalog({ adapters, onPick }: { adapters: AdapterView[]; onPick: (adapter: AdapterView) => void }) {
  return (
    <div class="cards">
      {adapters.map((one) => (
        <div class="panel" key={one.adapter}>
          <strong>{one.name}</strong>
          <p class="dim">{one.about}</p>
          {one.unavailable ? <p class="warn">{one.unavailable}</p> : <div><button type="button" class="button small" onClick={() => onPick(one)}>Connect {one.name}</button></div>}
        </div>
      ))}
    </div>
  );
}

type Open = { kind: "catalog" } | { kind: "connect"; adapter: AdapterView; known?: ProviderView } | { kind: "test"; provider: ProviderView };

export function Providers() {
  const list = useList((cursor, signal) => api("GET /api/v1/providers", { query: { limit: 100, ...(cursor && { cursor }) }, signal }), []);
  const catalog = useList((cursor, signal) => api("GET /api/v1/providers/catalog", { query: { limit: 200, ...(cursor && { cursor }) }, signal }), []);
  const [open, setOpen] = useState<Open>();
  const close = () => {
    setOpen(undefined);
    list.reload();
  };
  const writes = may("providers:write");
  const adapterOf = (provider: ProviderView) => catalog.items?.find((one) => one.adapter === provider.adapter);
  const toggle = (row: ProviderView) => async () => {
    await api("PATCH /api/v1/providers/{id}", { path: { id: row.id }, body: { isEnabled: !row.isEnabled } });
    list.reload();
  };
  const remove = (row: ProviderView) => async () => {
    await api("DELETE /api/v1/providers/{id}", { path: { id: row.id } });
    toast(`${row.name} is disconnected`);
    list.reload();
  };
  const edit = (row: ProviderView) => {
    const adapter = adapterOf(row);
    if (adapter) setOpen({ kind: "connect", adapter, known: row });
    else toast(catalog.error ?? "What kinds of providers there are is still being loaded", true);
  };
  return (
    <>
      <Head title="Providers" about="Whom the box asks for pages, in the order in which they were connected.">
        {writes && <button type="button" class="button main" onClick={() => setOpen({ kind: "catalog" })}>Connect a provider</button>}
      </Head>
      <Panel flush>
        <List
          list={list}
          label="Providers"
          empty={<Empty title="No providers">Connect one: without any, nothing is collected.</Empty>}
          id={(row) => row.id}
          columns={[
            { title: "Name", cell: (row) => <>{row.name}<div class="hint">{adapterOf(row)?.name ?? row.adapter}</div></> },
            { title: "State", cell: (row) => <Badge state={!row.isEnabled ? "off" : row.trouble ? "failing" : "on"} /> },
            { title: "Trouble", cell: (row) => (row.trouble ? <>{row.trouble.fault.replaceAll("_", " ")}: {row.trouble.error}<div class="hint">until <Time at={row.trouble.until} /></div></> : <span class="dim">none</span>) },
            { title: "Credits a page", cell: (row) => Object.entries(row.credits).map(([tier, price]) => `${tier} ${price.plain}/${price.render}`).join(", ") },
            { title: "", cell: (row) => writes && (
              <span class="row">
                <button type="button" class="button small" onClick={() => setOpen({ kind: "test", provider: row })}>Test</button>
                <button type="button" class="button small" onClick={() => edit(row)}>Edit</button>
                <Act small does={toggle(row)}>{row.isEnabled ? "Switch off" : "Switch on"}</Act>
                <Act small kind="bad" sure={`Disconnect ${row.name}?`} does={remove(row)}>Disconnect</Act>
              </span>
            ) },
          ]}
        />
      </Panel>
      {open?.kind === "catalog" && <Dialog wide title="Connect a provider" onClose={close}>{catalog.items ? <Catalog adapters={catalog.items} onPick={(adapter) => setOpen({ kind: "connect", adapter })} /> : catalog.error ? <Trouble error={catalog.error} retry={catalog.reload} /> : <Bones />}</Dialog>}
      {open?.kind === "connect" && <Dialog title={open.known ? `Edit ${open.known.name}` : `Connect ${open.adapter.name}`} onClose={close}><Connect {...open} onDone={close} /></Dialog>}
      {open?.kind === "test" && <Dialog title={`Test ${open.provider.name}`} onClose={close}><Try provider={open.provider} /></Dialog>}
    </>
  );
}
