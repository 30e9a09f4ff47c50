// Schedules: when they fire next in their zone and in the reader's, what came of past runs, pause, trigger.
import { useEffect, useState } from "preact/hooks";
import { api, said } from "../api/client";
import { useEvents } from "../api/live";
import { useList, useLoad } from "../api/use";
import { go, here, may, toast } from "../app/state";
import { Act, Badge, Bones, Check, Choice, Dialog, Empty, Field, Form, Head, Panel, Tags, Text, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { number, Time, zone } from "../parts/figures";
import { List } from "../parts/list";
import type { ScheduleView } from "../generated/api";
import { Calendar } from "./calendar";
import { inWords } from "./cron";
import { JobList, useCalm } from "./jobs";

const COMMON = [["0 6 * * *", "Each day at 06:00"], ["0 * * * *", "Each hour"], ["*/15 * * * *", "Each 15 minutes"], ["0 6 * * 1-5", "Weekdays at 06:00"], ["0 6 * * 1", "Mondays at 06:00"], ["0 6 1 * *", "The first of each month"]] as const;

function ScheduleForm({ known, onDone }: { known?: ScheduleView; onDone: () => void }) {
  const [name, setName] = useState(known?.name ?? "");
  const [cron, setCron] = useState(known?.cron ?? "0 6 * * *");
  const [timezone, setZone] = useState(known?.timezone ?? zone());
  const [tags, setTags] = useState(known?.tagFilters.join(", ") ?? "");
  const [overlap, setOverlap] = useState(known?.overlap ?? "skip");
  const [misfire, setMisfire] = useState(known?.misfire ?? "run_once");
  const [jitter, setJitter] = useState(String(known?.jitterSeconds ?? 0));
  const [enabled, setEnabled] = useState(true);
  const send = async () => {
    const tagFilters = tags.split(",").map((tag) => tag.trim()).filter(Boolean);
    const body = { name, cron, timezone, tagFilters, overlap, misfire, jitterSeconds: Number(jitter) || 0 };
    if (known) {
      const { workflowId, urlIds, options, catchUpSeconds } = known;
      await api("PUT /api/v1/schedules/{id}", { path: { id: known.id }, body: { ...body, workflowId, urlIds, options, catchUpSeconds } });
      toast("Saved");
      return onDone();
    }
    const made = await api("POST /api/v1/schedules", { body: { ...body, isEnabled: enabled } });
    toast("The schedule was made");
    onDone();
    go(`/schedules/${made.id}`);
  };
  return (
    <Form send={known ? "Save" : "Make the schedule"} onSend={send} onCancel={onDone}>
      <Field label="Name">
        <Text required maxLength={200} value={name} onText={setName} />
      </Field>
      <div class="two">
        <Field label="When" hint={inWords(cron)}>
          <Text class="mono" required value={cron} onText={setCron} list="crons" />
          <datalist id="crons">
            {COMMON.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
          </datalist>
        </Field>
        <Field label="Time zone">
          <Text required value={timezone} onText={setZone} />
        </Field>
      </div>
      <Field label="URLs with any of these tags" hint="Separated by commas; empty is every URL.">
        <Text value={tags} onText={setTags} />
      </Field>
      <div class="two">
        <Field label="While a run goes on">
          <Choice value={overlap} options={[["skip", "Leave the next one out"], ["queue", "Let the next one wait"]] as const} onPick={setOverlap} />
        </Field>
        <Field label="Missed while the box was off">
          <Choice value={misfire} options={[["run_once", "Make up for it once"], ["skip", "Leave it out"]] as const} onPick={setMisfire} />
        </Field>
        <Field label="Spread over seconds">
          <Text type="number" min={0} value={jitter} onText={setJitter} />
        </Field>
      </div>
      {!known && <Check label="Switched on" on={enabled} onSet={setEnabled} />}
    </Form>
  );
}

/** The next fires, each in the schedule's zone and in the reader's. */
function Fires({ id, timezone }: { id: string; timezone: string }) {
  const found = useLoad((signal) => api("GET /api/v1/schedules/{id}/preview", { path: { id }, query: { count: 10 }, signal }), [id]);
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const inZone = new Intl.DateTimeFormat("en", { timeZone: timezone, weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  if (found.value.fires.length === 0) return <Empty title="It never fires">No date fits the expression.</Empty>;
  return (
    <ul class="plain">
      {found.value.fires.map((at) => (
        <li key={at}>
          <span title={at}>{inZone.format(Date.parse(at))}</span>
          <span class="dim"><Time at={at} />{timezone !== zone() && <>, here <Time at={at} exact /></>}</span>
        </li>
      ))}
    </ul>
  );
}

/** How often the counts of a run that goes on are looked at. */
const LOOK_EVERY_MS = 2_000;

function Runs({ id, turn }: { id: string; turn: number }) {
  const list = useList((cursor, signal) => api("GET /api/v1/schedules/runs", { query: { scheduleId: id, limit: 25, ...(cursor && { cursor }) }, signal }), [id]);
  const goesOn = list.items?.some((run) => run.status === "queued" || run.status === "running") ?? false;
  useEffect(() => void (turn > 0 && list.reload()), [turn]);
  useEffect(() => {
    if (!goesOn) return;
    const timer = setInterval(() => !document.hidden && list.refresh(), LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [goesOn]);
  const [open, setOpen] = useState<string>();
  return (
    <>
      <Calendar id={id} turn={turn} onJobs={setOpen} />
      <Panel title="Runs" flush>
        <List
          list={list}
          id={(run) => run.id}
          label="Runs"
          empty={<Empty title="No runs yet">Trigger one, or wait for the next fire.</Empty>}
          columns={[
            { title: "Due", cell: (run) => <Time at={run.scheduledFor} exact /> },
            { title: "By", cell: (run) => run.trigger },
            { title: "State", cell: (run) => <Badge state={run.status} /> },
            { title: "Jobs", number: true, cell: (run) => number(run.jobsCreated) },
            { title: "Succeeded", number: true, cell: (run) => number(run.succeeded) },
            { title: "Failed", number: true, cell: (run) => number(run.failed) },
            { title: "", cell: (run) => <span class="dim">{run.message ?? (run.truncated ? "More URLs matched than a run takes" : "")}</span> },
            { title: "", cell: (run) => run.jobsCreated > 0 && <span class="row"><a class="button small" href={`#/batches/${run.id}`}>Progress</a><button type="button" class="button small" onClick={() => setOpen(run.id)}>Jobs</button></span> },
          ]}
        />
      </Panel>
      {open && <Dialog wide title="Jobs of the run" onClose={() => setOpen(undefined)}><JobList inDialog fixed={{ scheduleRunId: open }} /></Dialog>}
    </>
  );
}

function SchedulePage({ id }: { id: string }) {
  const found = useLoad((signal) => api("GET /api/v1/schedules/{id}", { path: { id }, signal }), [id]);
  const [editing, setEditing] = useState(false);
  const [turn, setTurn] = useState(0);
  const again = useCalm(() => {
    setTurn((n) => n + 1);
    found.reload();
  });
  useEvents("schedule.*", (event) => event.subject.id === id && again());
  if (found.error && !found.value) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const row = found.value;
  const toggle = async () => {
    await api("PATCH /api/v1/schedules/{id}/toggle", { path: { id }, body: { isEnabled: !row.isEnabled } });
    found.reload();
  };
  const trigger = async () => {
    const told = await api("POST /api/v1/schedules/{id}/trigger", { path: { id } });
    toast(told.message ?? `${number(told.jobsCreated)} jobs were submitted`);
    setTurn((n) => n + 1);
  };
  const remove = async () => {
    await api("DELETE /api/v1/schedules/{id}", { path: { id } });
    go("/schedules");
  };
  return (
    <>
      <Head title={row.name} about={inWords(row.cron)}>
        {may("schedules:write") && (
          <>
            <Act kind="main" does={trigger}>Trigger now</Act>
            <Act does={toggle}>{row.isEnabled ? "Pause" : "Switch on"}</Act>
            <button type="button" class="button" onClick={() => setEditing(true)}>Edit</button>
            <Act kind="bad" sure={`Delete “${row.name}”?`} does={remove}>Delete</Act>
          </>
        )}
      </Head>
      <div class="stack">
        {found.error && <Trouble error={found.error} retry={found.reload} />}
        {row.disabledReason && <p class="note warn">{row.disabledReason}</p>}
        <div class="halves">
          <Panel title="Settings" side={<Badge state={row.isEnabled ? "on" : "paused"} />}>
            <Facts of={[
              ["Expression", <span class="mono">{row.cron}</span>],
              ["Zone", row.timezone],
              ["URLs", row.urlIds ? `${number(row.urlIds.length)} named ones` : <Tags tags={row.tagFilters} none="all" />],
              ["Overlap", row.overlap === "skip" ? "left out" : "waits"],
              ["Missed", row.misfire === "skip" ? "left out" : "made up for once"],
              ["Spread", <>{row.jitterSeconds} s</>],
              ["Last run", <Time at={row.lastRunAt} />],
            ]} />
          </Panel>
          <Panel title="Next fires" flush>{row.isEnabled ? <Fires key={`${row.cron} ${row.timezone}`} id={id} timezone={row.timezone} /> : <Empty title="Paused">Switched on, it goes on with the next fire.</Empty>}</Panel>
        </div>
        <Runs id={id} turn={turn} />
      </div>
      {editing && <Dialog title="Edit the schedule" onClose={() => setEditing(false)}><ScheduleForm known={row} onDone={() => (setEditing(false), found.reload())} /></Dialog>}
    </>
  );
}

export function Schedules() {
  const id = here.value.parts[1];
  const list = useList((cursor, signal) => api("GET /api/v1/schedules", { query: { limit: 50, ...(cursor && { cursor }) }, signal }), []);
  const [making, setMaking] = useState(here.value.query.has("new"));
  useEffect(() => {
    if (!id) list.reload();
  }, [id]);
  if (id) return <SchedulePage key={id} id={id} />;
  const toggle = (row: ScheduleView) => async () => {
    await api("PATCH /api/v1/schedules/{id}/toggle", { path: { id: row.id }, body: { isEnabled: !row.isEnabled } }).catch((error: unknown) => toast(said(error), true));
    list.reload();
  };
  return (
    <>
      <Head title="Schedules" about="What is collected again and again.">
        {may("schedules:write") && <button type="button" class="button main" onClick={() => setMaking(true)}>New schedule</button>}
      </Head>
      <Panel flush>
        <List
          list={list}
          id={(row) => row.id}
          label="Schedules"
          empty={<Empty title="No schedules yet">One collects the URLs with a tag whenever its time comes.</Empty>}
          columns={[
            { title: "Name", cell: (row) => <a href={`#/schedules/${row.id}`}>{row.name}</a> },
            { title: "When", cell: (row) => <>{inWords(row.cron)}<div class="hint">{row.timezone}</div></> },
            { title: "URLs", cell: (row) => <Tags tags={row.tagFilters} none={row.urlIds ? "named ones" : "all"} /> },
            { title: "Next", cell: (row) => (row.isEnabled ? <Time at={row.nextFireAt} /> : <span class="dim">paused</span>) },
            { title: "Last", cell: (row) => <Time at={row.lastRunAt} /> },
            { title: "", cell: (row) => may("schedules:write") && <Act small does={toggle(row)}>{row.isEnabled ? "Pause" : "Switch on"}</Act> },
          ]}
        />
      </Panel>
      {making && <Dialog title="New schedule" onClose={() => setMaking(false)}><ScheduleForm onDone={() => (setMaking(false), list.reload())} /></Dialog>}
    </>
  );
}
