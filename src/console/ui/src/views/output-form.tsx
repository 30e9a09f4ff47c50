// An output as it is asked for: to an endpoint, a chat, a feed, a table of PostgreSQL, files here or away, or as letters; with its
// condition tried as one types.
import { useState } from "preact/hooks";
import { api, local } from "../api/client";
import { toast } from "../app/state";
import { Check, Choice, Field, Form, Secret, Text } from "../parts/basic";
import { zone } from "../parts/figures";
import type { ChatProduct, EmailTerms, EmailView, EmailWhen, EventView, FileFormat, FilesOfOutput, FilesView, OutputKind, OutputView, PostgresOfOutput, S3OfFiles, SftpOfFiles, SslMode, WriteMode } from "../generated/api";
import { Tried, useTrial } from "./tried";

export const KINDS = [["webhook", "Webhook"], ["chat", "Chat message"], ["feed", "Feed to subscribe to"], ["postgres", "PostgreSQL table"], ["files", "Files"], ["email", "Letters by email"]] as const;
const PRODUCTS = [["slack", "Slack"], ["mattermost", "Mattermost"], ["teams", "Microsoft Teams"], ["discord", "Discord"]] as const;
const SSL = (["verify-full", "verify-ca", "require", "prefer", "allow", "disable"] as const).map((mode) => [mode, mode] as const);
/** Every kind of the API, which the compiler sees to; what is wanted most stands in front. */
const OFFERED: Record<EventView["kind"], true> = {
  "result.new": true, "result.changed": true, "result.gone": true, "job.succeeded": true, "job.failed": true, "job.canceled": true, "job.queued": true, "job.started": true,
  "batch.completed": true, "schedule.completed": true, "schedule.failed": true, "schedule.started": true, "schedule.skipped": true, "schedule.missed": true, "schedule.disabled": true,
  "schema.drifted": true, "monitor.firing": true, "monitor.ok": true, "monitor.no_data": true, "monitor.error": true,
  "crawl.started": true, "crawl.completed": true, "crawl.failed": true, "input.ingested": true, "input.completed": true, "input.failed": true, "input.failing": true,
  "benchmark.completed": true, "suggestion.created": true, "output.disabled": true, "quota.low": true, "retention.removed": true, "site_session.expired": true,
  "storage.failing": true, "storage.moved": true, "storage.recovered": true,
};
const EVENTS = Object.keys(OFFERED);
/** Rows of results are all that tables and files take. */
const ROWS_ONLY: readonly OutputKind[] = ["postgres", "files"];
export const WHEN = [["immediately", "At once"], ["hourly", "Together, an hour after the first"], ["daily", "Together, once a day"]] as const;
const HOUR_USUAL = 8;
const listed = (text: string) => text.split(",").map((one) => one.trim()).filter(Boolean);

type Part<T> = { of: T; put: (change: Partial<T>) => void; known: boolean };

function Server({ of, put, known }: Part<PostgresOfOutput>) {
  return (
    <>
      <div class="two">
        <Field label="Host"><Text required value={of.host ?? ""} onText={(host) => put({ host })} /></Field>
        <Field label="Port"><Text type="number" min={1} max={65_535} value={String(of.port ?? 5_432)} onText={(port) => put({ port: Number(port) })} /></Field>
        <Field label="Database"><Text required value={of.database ?? ""} onText={(database) => put({ database })} /></Field>
      </div>
      <div class="two">
        <Field label="User"><Text required autocomplete="off" value={of.user ?? ""} onText={(user) => put({ user })} /></Field>
        <Field label="Password" hint={known ? "Empty: as it is." : undefined}><Text type="password" autocomplete="off" value={of.password ?? ""} onText={(password) => put({ password })} /></Field>
        <Field label="Secured (sslmode)"><Choice value={of.sslmode ?? "verify-full"} options={SSL} onPick={(sslmode: SslMode) => put({ sslmode })} /></Field>
      </div>
      <div class="two">
        <Field label="Schema"><Text value={of.schema ?? "public"} onText={(schema) => put({ schema })} /></Field>
        <Field label="Table" hint="It is made where it is not there."><Text required value={of.table ?? ""} onText={(table) => put({ table })} /></Field>
        <Field label="Rows"><Choice value={of.mode ?? "append"} options={[["append", "One a result"], ["upsert", "One a URL"]] as const} onPick={(mode: WriteMode) => put({ mode })} /></Field>
      </div>
    </>
  );
}

/** What is known of files, as it is given back: whole, but for what is only shown. */
function filesOf(known: FilesView | undefined): FilesOfOutput {
  if (!known) return {};
  const { s3, sftp, ...files } = known;
  if (s3) return { ...files, s3 };
  if (!sftp) return files;
  const { hasPassword: _, hasPrivateKey: __, ...server } = sftp;
  return { ...files, sftp: server };
}

const PLACES = [["box", "A folder of the box"], ["s3", "S3 bucket"], ["sftp", "SFTP server"]] as const;
const AS_IT_IS = "Empty: as it is. Given again where the place changes.";

function Bucket({ of, put, known }: Part<S3OfFiles>) {
  return (
    <>
      <div class="two">
        <Field label="Bucket" hint="It must be there."><Text required value={of.bucket ?? ""} onText={(bucket) => put({ bucket })} /></Field>
        <Field label="Server" hint={known ? "Empty: as it is." : "Empty: Amazon's own."}><Text type="url" placeholder="https://minio.example:9000" value={of.endpoint ?? ""} onText={(endpoint) => put({ endpoint: endpoint || null })} /></Field>
        <Field label="Region"><Text placeholder="us-east-1" value={of.region ?? ""} onText={(region) => put({ region: region || null })} /></Field>
      </div>
      <div class="two">
        <Field label="Access key"><Text required autocomplete="off" value={of.accessKeyId ?? ""} onText={(accessKeyId) => put({ accessKeyId })} /></Field>
        <Field label="Secret" hint={known ? AS_IT_IS : undefined}><Text type="password" autocomplete="off" required={!known} value={of.secretAccessKey ?? ""} onText={(secret) => put({ secretAccessKey: secret || null })} /></Field>
        <Field label="Prefix" hint="What keys begin with."><Text value={of.prefix ?? ""} onText={(prefix) => put({ prefix })} /></Field>
      </div>
      <Check label="The bucket stands in the path, not in the host" on={of.pathStyle ?? Boolean(of.endpoint)} onSet={(pathStyle) => put({ pathStyle })} />
      <Check label="The server knows conditional puts (If-None-Match)" on={of.conditionalPuts ?? true} onSet={(conditionalPuts) => put({ conditionalPuts })} />
    </>
  );
}

function Sftp({ of, put, known }: Part<SftpOfFiles>) {
  return (
    <>
      <div class="two">
        <Field label="Host"><Text required value={of.host ?? ""} onText={(host) => put({ host })} /></Field>
        <Field label="Port"><Text type="number" min={1} max={65_535} value={String(of.port ?? 22)} onText={(port) => put({ port: Number(port) || null })} /></Field>
        <Field label="User"><Text required autocomplete="off" value={of.user ?? ""} onText={(user) => put({ user })} /></Field>
      </div>
      <Field label="Key of the server" hint="As ssh-keyscan -t ed25519 prints it, or its fingerprint (SHA256:…)."><Text class="mono" required value={of.hostKey ?? ""} onText={(hostKey) => put({ hostKey })} /></Field>
      <div class="two">
        <Field label="Password" hint={known ? AS_IT_IS : "This, or a private key."}><Text type="password" autocomplete="off" disabled={Boolean(of.privateKey)} required={!known && !of.privateKey} value={of.password ?? ""} onText={(password) => put({ password: password || null })} /></Field>
        <Field label="Begins in" hint="Absolute, or below the folder of the login."><Text value={of.folder ?? ""} onText={(folder) => put({ folder })} /></Field>
      </div>
      <Field label="Private key" hint="OpenSSH or PEM, without a passphrase.">
        <textarea class="mono" rows={3} autocomplete="off" spellcheck={false} disabled={Boolean(of.password)} value={of.privateKey ?? ""} onInput={(event) => put({ privateKey: event.currentTarget.value || null })} />
      </Field>
    </>
  );
}

function Files({ of, put, known }: Part<FilesOfOutput>) {
  const format = of.format ?? "parquet";
  const place = of.s3 ? "s3" : of.sftp ? "sftp" : "box";
  return (
    <>
      {!known && <Field label="Where"><Choice value={place} options={PLACES} onPick={(picked) => put({ s3: picked === "s3" ? {} : null, sftp: picked === "sftp" ? {} : null })} /></Field>}
      {of.s3 && <Bucket of={of.s3} known={known} put={(change) => put({ s3: { ...of.s3, ...change } })} />}
      {of.sftp && <Sftp of={of.sftp} known={known} put={(change) => put({ sftp: { ...of.sftp, ...change } })} />}
      <div class="two">
        <Field label="Format"><Choice value={format} options={[["parquet", "Parquet"], ["csv", "CSV"], ["jsonl", "JSON lines"]] as const} onPick={(picked: FileFormat) => put({ format: picked, ...(picked !== "parquet" && { delta: false }) })} /></Field>
        <Field label="Folder" hint={place === "box" ? "Below that of the organization." : place === "s3" ? "Below the prefix." : "Below where it begins."}><Text value={of.path ?? ""} onText={(path) => put({ path: path || null })} /></Field>
        <Field label="A file is whole after minutes"><Text type="number" min={1} max={1_440} value={String(of.everyMinutes ?? 15)} onText={(minutes) => put({ everyMinutes: Number(minutes) })} /></Field>
        <Field label="Or with so many results"><Text type="number" min={1} max={20_000} value={String(of.maxRows ?? 10_000)} onText={(rows) => put({ maxRows: Number(rows) })} /></Field>
      </div>
      {format === "parquet" && !known && <Check label="With a Delta Lake log" on={of.delta ?? false} onSet={(delta) => put({ delta })} />}
    </>
  );
}

/** Letters as they are typed. */
interface Letters {
  recipients: string;
  when: EmailWhen;
  hour: string;
  timezone: string;
}

function lettersOf(known: EmailView | undefined): Letters {
  return {
    recipients: known?.recipients.map((one) => one.address).join("\n") ?? "",
    when: known?.when ?? "immediately",
    hour: String(known?.hour ?? HOUR_USUAL),
    timezone: known?.timezone ?? zone(),
  };
}

/** What is asked of letters. Recipients are named only where they are others than before: who is named again may be asked again. */
function termsOf(typed: Letters, known: EmailView | undefined): EmailTerms {
  const isSame = known !== undefined && typed.recipients === lettersOf(known).recipients;
  return {
    when: typed.when,
    ...(!isSame && { recipients: typed.recipients.split(/[\s,;]+/).filter(Boolean) }),
    ...(typed.when === "daily" && { hour: Number(typed.hour), timezone: typed.timezone.trim() }),
  };
}

function LetterFields({ of, put }: Pick<Part<Letters>, "of" | "put">) {
  return (
    <>
      <Field label="Recipients" hint="One address a line, up to 50. Members get letters at once; anybody else is asked first.">
        <textarea rows={3} required autocomplete="off" spellcheck={false} value={of.recipients} onInput={(event) => put({ recipients: event.currentTarget.value })} />
      </Field>
      <div class="two">
        <Field label="When"><Choice value={of.when} options={WHEN} onPick={(when: EmailWhen) => put({ when })} /></Field>
        {of.when === "daily" && <Field label="Hour" hint="0 to 23"><Text type="number" required min={0} max={23} value={of.hour} onText={(hour) => put({ hour })} /></Field>}
        {of.when === "daily" && <Field label="Time zone"><Text required value={of.timezone} onText={(timezone) => put({ timezone })} /></Field>}
      </div>
    </>
  );
}

function Kept({ kind, secrets, onDone }: { kind: OutputKind; secrets: string[]; onDone: () => void }) {
  return (
    <div class="stack">
      {secrets.map((secret) => <Secret key={secret} text={kind === "feed" ? new URL(local(secret), location.href).href : secret} label={kind === "feed" ? "Whoever knows this address may read the feed." : "The receiver verifies signatures with this."} />)}
      <div class="row end"><button type="button" class="button main" onClick={onDone}>Done</button></div>
    </div>
  );
}

export function OutputForm({ known, onDone }: { known?: OutputView; onDone: () => void }) {
  const [kind, setKind] = useState<OutputKind>(known?.kind ?? "webhook");
  const [name, setName] = useState(known?.name ?? "");
  const [url, setUrl] = useState(known?.url ?? "");
  const [product, setProduct] = useState<ChatProduct>(known?.product ?? "slack");
  const [postgres, setPostgres] = useState<PostgresOfOutput>(() => {
    const { hasPassword: _, ...server } = known?.postgres ?? { hasPassword: false };
    return server;
  });
  const [files, setFiles] = useState<FilesOfOutput>(() => filesOf(known?.files));
  const [letters, setLetters] = useState(() => lettersOf(known?.email));
  const [events, setEvents] = useState<readonly string[]>(known?.events ?? ["result.changed"]);
  const [tags, setTags] = useState(known?.tags.join(", ") ?? "");
  const [domain, setDomain] = useState(known?.domain ?? "");
  const [pageTypes, setPageTypes] = useState(known?.pageTypes.join(", ") ?? "");
  const [condition, setCondition] = useState(known?.condition ?? "");
  const [secrets, setSecrets] = useState<string[]>();
  const hasUrl = kind === "webhook" || kind === "chat";
  const isRows = ROWS_ONLY.includes(kind);
  // Those that it has are shown, too: rows may be asked for by job.succeeded or result.*.
  const shownEvents = [...new Set([...(isRows ? ["result.new", "result.changed"] : EVENTS), ...(known?.events ?? [])])];
  const chosen = isRows ? events.filter((one) => shownEvents.includes(one)) : [...events];
  const filter = { events: chosen, tags: listed(tags), pageTypes: listed(pageTypes), domain: domain.trim() || null, condition: condition.trim() || null };
  const trial = useTrial(filter);
  const send = async () => {
    const body = {
      name: name || null,
      ...filter,
      ...(hasUrl && url && { url }),
      ...(kind === "chat" && { product }),
      ...(kind === "postgres" && { postgres: { ...postgres, password: postgres.password || null } }),
      ...(kind === "files" && { files }),
      ...(kind === "email" && { email: termsOf(letters, known?.email) }),
    };
    if (known) {
      const clear = [...(filter.domain ? [] : ["domain" as const]), ...(filter.condition ? [] : ["condition" as const])];
      await api("PATCH /api/v1/outputs/{id}", { path: { id: known.id }, body: { ...body, clear } });
      toast("Saved");
      return onDone();
    }
    const made = await api("POST /api/v1/outputs", { body: { ...body, kind } });
    if (made.secrets?.length) return setSecrets(made.secrets);
    toast("The output was made");
    onDone();
  };
  if (secrets) return <Kept kind={kind} secrets={secrets} onDone={onDone} />;
  const toggle = (event: string) => setEvents(events.includes(event) ? events.filter((one) => one !== event) : [...events, event]);
  return (
    <Form send={known ? "Save" : "Make the output"} onSend={send} onCancel={onDone}>
      <div class="two">
        {!known && <Field label="Kind"><Choice value={kind} options={KINDS} onPick={setKind} /></Field>}
        <Field label="Name"><Text maxLength={200} value={name} onText={setName} /></Field>
        {kind === "chat" && <Field label="Of"><Choice value={product} options={PRODUCTS} onPick={setProduct} /></Field>}
      </div>
      {hasUrl && <Field label="Endpoint" hint={kind === "webhook" ? "Gets each event as a signed POST." : known ? "Empty: as it is; it is not shown again." : "The address that the chat gave for messages."}><Text type="url" required={!known || kind === "webhook"} placeholder="https://hooks.example/gleaner" value={url} onText={setUrl} /></Field>}
      {kind === "postgres" && <Server of={postgres} known={Boolean(known)} put={(change) => setPostgres({ ...postgres, ...change })} />}
      {kind === "files" && <Files of={files} known={Boolean(known)} put={(change) => setFiles({ ...files, ...change })} />}
      {kind === "email" && <LetterFields of={letters} put={(change) => setLetters({ ...letters, ...change })} />}
      <fieldset class="permissions">
        <legend>Events</legend>
        {trial.faults.events && <small class="wrong" role="status">{trial.faults.events}</small>}
        {shownEvents.map((event) => <Check key={event} label={event} on={events.includes(event)} onSet={() => toggle(event)} />)}
      </fieldset>
      <div class="two">
        <Field label="Tags" hint="All must be there." fault={trial.faults.tags}><Text value={tags} onText={setTags} /></Field>
        <Field label="Domain" fault={trial.faults.domain}><Text value={domain} onText={setDomain} /></Field>
        <Field label="Page types" fault={trial.faults.pageTypes}><Text value={pageTypes} onText={setPageTypes} /></Field>
      </div>
      <Field label="Condition" fault={trial.faults.condition} hint='Such as: drop(price) > 10% or availability == "in_stock"'>
        <textarea class="mono" rows={3} value={condition} onInput={(event) => setCondition(event.currentTarget.value)} />
      </Field>
      <Tried trial={trial} />
    </Form>
  );
}
