// Where the organization's pages lie: in the box, or in storage of its own; a test of that, and how a move goes.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { useLoad } from "../api/use";
import { may, toast } from "../app/state";
import { Act, Badge, Bones, Check, Choice, Dialog, Field, Form, Head, Panel, Text, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { bytes, millis, number, Share, Time } from "../parts/figures";
import { Rows } from "../parts/list";
import type { ChecksumKind, NewStorage, PagesView, ProbeView, StorageView } from "../generated/api";

const LOOK_EVERY_MS = 2_000;
const CHECKSUMS = [["none", "None"], ["sha256", "SHA-256"], ["crc64nvme", "CRC-64/NVME"]] as const;
const pages = (of: PagesView) => `${number(of.pages)} pages, ${bytes(of.bytes)}`;

function Probe({ of }: { of: ProbeView }) {
  return (
    <div class="stack" role="status">
      <p class={`note ${of.isOk ? "good" : "bad"}`}>{of.isOk ? "Every step went well." : "It cannot be used like this."}</p>
      <Rows label="Steps of the test" rows={of.steps} id={(step) => step.step} columns={[
        { title: "Step", cell: (step) => step.step.replaceAll("_", " ") },
        { title: "State", cell: (step) => <Badge state={step.isOk ? "ok" : "failed"} /> },
        { title: "Took", number: true, cell: (step) => millis(step.durationMs) },
        { title: "Why", cell: (step) => <>{step.fault?.replaceAll("_", " ")}<div class="hint">{step.message}</div></> },
      ]} />
    </div>
  );
}

function StorageForm({ known, onDone }: { known: StorageView; onDone: () => void }) {
  const isS3 = known.kind === "s3";
  const [bucket, setBucket] = useState(known.bucket ?? "");
  const [endpoint, setEndpoint] = useState(known.endpoint ?? "");
  const [region, setRegion] = useState(known.region ?? "");
  const [prefix, setPrefix] = useState(known.prefix ?? "");
  const [accessKeyId, setKey] = useState(known.accessKeyId ?? "");
  const [secret, setSecret] = useState("");
  const [pathStyle, setPathStyle] = useState(known.pathStyle ?? true);
  const [conditionalPuts, setConditional] = useState(known.conditionalPuts ?? true);
  const [checksum, setChecksum] = useState<ChecksumKind>(known.checksum ?? "none");
  const [told, setTold] = useState<ProbeView>();
  const wanted = (): NewStorage => ({
    kind: "s3",
    bucket: bucket.trim(),
    endpoint: endpoint.trim() || null,
    region: region.trim() || null,
    prefix: prefix.trim() || null,
    accessKeyId: accessKeyId.trim(),
    secretAccessKey: secret || null,
    pathStyle,
    conditionalPuts,
    checksum,
  });
  const test = async () => setTold(await api("POST /api/v1/storage/test", { body: wanted() }));
  const send = async () => {
    await api("PUT /api/v1/storage", { body: wanted() });
    toast("Pages go there from now on; those that there are move by themselves");
    onDone();
  };
  return (
    <Form send="Keep pages there" onSend={send} onCancel={onDone}>
      <div class="two">
        <Field label="Bucket" hint="It must be there."><Text required value={bucket} onText={setBucket} /></Field>
        <Field label="Prefix" hint="What keys begin with."><Text value={prefix} onText={setPrefix} /></Field>
      </div>
      <div class="two">
        <Field label="Endpoint" hint="Empty: Amazon's own."><Text type="url" placeholder="https://minio.example:9000" value={endpoint} onText={setEndpoint} /></Field>
        <Field label="Region"><Text placeholder="us-east-1" value={region} onText={setRegion} /></Field>
      </div>
      <div class="two">
        <Field label="Access key"><Text required autocomplete="off" value={accessKeyId} onText={setKey} /></Field>
        <Field label="Secret" hint={isS3 ? "Empty: as it is, where bucket and access key stay." : "It is kept sealed and never shown."}><Text type="password" autocomplete="off" required={!isS3} value={secret} onText={setSecret} /></Field>
      </div>
      <Field label="Checksum beside the signature"><Choice value={checksum} options={CHECKSUMS} onPick={setChecksum} /></Field>
      <Check label="The bucket stands in the path, not in the host" on={pathStyle} onSet={setPathStyle} />
      <Check label="The server knows conditional puts (If-None-Match)" on={conditionalPuts} onSet={setConditional} />
      <div class="row"><Act small does={test}>Test it</Act></div>
      {told && <Probe of={told} />}
    </Form>
  );
}

function Move({ of }: { of: StorageView }) {
  const { move, local, remote, kind } = of;
  const there = kind === "s3" ? remote : local;
  const total = there.pages + move.left.pages;
  const done = total === 0 ? 1 : there.pages / total;
  return (
    <Panel title="On the way" side={<Badge state={move.state} />}>
      <div class="stack">
        <Share label={`${number(there.pages)} of ${number(total)} pages are where they are to lie`} parts={[[there.pages, "accent"], [move.left.pages, move.state === "failing" ? "bad" : "sunk"]]} />
        <Facts of={[
          ["There", `${pages(there)} (${Math.floor(done * 100)} %)`],
          ["Left", pages(move.left)],
          move.objectsToRemove > 0 && ["Still to be removed", `${number(move.objectsToRemove)}${move.objectsToRemove >= 100_000 ? " or more" : ""} objects`],
        ]} />
        {move.state === "no_room" && <p class="note bad">The box has no room for the pages that are to come back.</p>}
        {move.error && (
          <p class="note bad">
            {move.error.bucket}: {move.error.fault.replaceAll("_", " ")}. {move.error.message} Since <Time at={move.error.since} />. It is asked again by itself.
          </p>
        )}
      </div>
    </Panel>
  );
}

export function Storage() {
  const found = useLoad((signal) => api("GET /api/v1/storage", { signal }), []);
  const [open, setOpen] = useState(false);
  const [told, setTold] = useState<ProbeView>();
  const isMoving = found.value !== undefined && found.value.move.state !== "done";
  useEffect(() => {
    if (!isMoving) return;
    const timer = setInterval(() => !document.hidden && found.reload(), LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [isMoving]);
  if (found.error && !found.value) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const row = found.value;
  const writes = may("integrations:write");
  const isS3 = row.kind === "s3";
  const test = async () => {
    const { bucket, endpoint, region, prefix, accessKeyId, pathStyle, conditionalPuts, checksum } = row;
    setTold(await api("POST /api/v1/storage/test", { body: { kind: "s3", bucket, endpoint, region, prefix, accessKeyId, pathStyle, conditionalPuts, checksum } }));
  };
  const back = async () => {
    await api("DELETE /api/v1/storage");
    toast("Pages come back into the box by themselves");
    setTold(undefined);
    found.reload();
  };
  return (
    <>
      <Head title="Storage" about="Where the pages lie that were collected.">
        {writes && isS3 && <Act does={test}>Test it</Act>}
        {writes && isS3 && <Act kind="bad" sure="Bring all pages back into the box?" does={back}>Back into the box</Act>}
        {writes && <button type="button" class="button main" onClick={() => setOpen(true)}>{isS3 ? "Change" : "Use storage of your own"}</button>}
      </Head>
      <div class="stack">
        {found.error && <Trouble error={found.error} retry={found.reload} />}
        {told && <Probe of={told} />}
        <div class="halves">
          <Panel title="Where pages are to lie" side={<Badge state={isS3 ? "s3" : "in the box"} />}>
            <Facts of={[
              isS3 && ["Bucket", <span class="mono">{row.bucket}</span>],
              isS3 && ["Endpoint", <span class="mono">{row.endpoint ?? "Amazon's own"}</span>],
              isS3 && ["Region", row.region ?? "us-east-1"],
              isS3 && ["Prefix", row.prefix ?? "none"],
              isS3 && ["Access key", <span class="mono">{row.accessKeyId}</span>],
              ["In the box", pages(row.local)],
              ["In storage of your own", pages(row.remote)],
              row.updatedAt && ["Chosen", <Time at={row.updatedAt} exact />],
            ]} />
          </Panel>
          <Move of={row} />
        </div>
      </div>
      {open && <Dialog wide title="Storage of your own" onClose={() => setOpen(false)}><StorageForm known={row} onDone={() => (setOpen(false), found.reload())} /></Dialog>}
    </>
  );
}
