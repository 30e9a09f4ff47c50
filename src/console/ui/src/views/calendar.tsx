// Past runs of a schedule by the days of a month: how many went well, failed, were left out or missed.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useLoad } from "../api/use";
import { Badge, Bones, Empty, hasFailed, Panel, Trouble } from "../parts/basic";
import { late, number, Time } from "../parts/figures";
import { Rows } from "../parts/list";
import type { RunView } from "../generated/api";

const PAGE = 200;
/** A schedule of each minute has 45,000 runs a month: so many pages of its newest are shown, and where they begin is said. */
const PAGES_MAX = 50;
/** A year below this is one that somebody is about to type. */
const YEAR_MIN = 1970;
const WEEK = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const GROUPS = [["accent", "completed", "went well"], ["bad", "failed", "failed"], ["warn", "skipped_overlap", "left out"], ["info", "skipped_misfire", "missed"]] as const;
const monthName = late(() => new Intl.DateTimeFormat("en", { month: "long", year: "numeric" }));
const dayName = late(() => new Intl.DateTimeFormat("en", { dateStyle: "full" }));

const dayOf = (at: Date) => `${at.getFullYear()}-${at.getMonth()}-${at.getDate()}`;

interface Month {
  days: Map<string, RunView[]>;
  /** The oldest run that is shown, where there are older ones in the month. */
  cutAt: string | undefined;
}

/** The runs that were due in the month, by days of the reader's zone. */
async function month(id: string, from: Date, signal: AbortSignal): Promise<Month> {
  const to = new Date(from.getFullYear(), from.getMonth() + 1, 1);
  const query = { scheduleId: id, from: from.toISOString(), to: to.toISOString(), limit: PAGE };
  const days = new Map<string, RunView[]>();
  let cursor: string | null = null;
  let oldest: RunView | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const found: { items: RunView[]; nextCursor: string | null } = await api("GET /api/v1/schedules/runs", { query: { ...query, ...(cursor && { cursor }) }, signal });
    for (const run of found.items) {
      const day = dayOf(new Date(run.scheduledFor));
      const known = days.get(day);
      if (known) known.push(run);
      else days.set(day, [run]);
    }
    oldest = found.items.at(-1) ?? oldest;
    cursor = found.nextCursor;
    if (!cursor) return { days, cutAt: undefined };
  }
  return { days, cutAt: oldest?.scheduledFor };
}

const groupOf = (run: RunView) => (hasFailed(run) ? "failed" : run.status === "no_urls" ? "completed" : run.status);

function told(runs: readonly RunView[]): string {
  const counts = GROUPS.map(([, status, word]) => [runs.filter((run) => groupOf(run) === status).length, word] as const);
  return counts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`).join(", ") || `${runs.length} under way`;
}

function Day({ at, runs, isOpen, onOpen }: { at: Date; runs: readonly RunView[]; isOpen: boolean; onOpen: () => void }) {
  const isToday = dayOf(at) === dayOf(new Date());
  if (runs.length === 0) return <span class={`day ${isToday ? "today" : ""}`}>{at.getDate()}</span>;
  return (
    <button type="button" class={`day ${isToday ? "today" : ""}`} aria-pressed={isOpen} title={told(runs)} onClick={onOpen}>
      {at.getDate()}
      <span class="dots" aria-hidden="true">
        {GROUPS.map(([colour, status]) => {
          const count = runs.filter((run) => groupOf(run) === status).length;
          return count > 0 && <i key={status} class={colour}>{count > 99 ? "99+" : count}</i>;
        })}
      </span>
      <span class="quiet">{dayName().format(at)}: {told(runs)}</span>
    </button>
  );
}

export function Calendar({ id, turn, onJobs }: { id: string; turn: number; onJobs: (run: string) => void }) {
  const [from, setFrom] = useState(() => new Date(new Date().getFullYear(), new Date().getMonth(), 1));
  const [open, setOpen] = useState<string>();
  // What stands in the field of the month until it is left.
  const [typed, setTyped] = useState<string>();
  const found = useLoad((signal) => month(id, from, signal), [id, from.getTime(), turn]);
  const show = (year: number, monthOfYear: number) => {
    setOpen(undefined);
    setFrom(new Date(year, monthOfYear, 1));
  };
  const step = (months: number) => show(from.getFullYear(), from.getMonth() + months);
  // While a year is typed digit by digit it is none yet. Where a browser has no such field, a text of this shape is typed.
  const pick = (text: string | undefined) => {
    const [, year, picked] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text ?? "") ?? [];
    if (text !== inView && Number(year) >= YEAR_MIN) show(Number(year), Number(picked) - 1);
  };
  const type = (text: string) => {
    setTyped(text);
    pick(text);
  };
  const count = new Date(from.getFullYear(), from.getMonth() + 1, 0).getDate();
  const lead = (from.getDay() + 6) % 7;
  const runs = open ? (found.value?.days.get(open) ?? []) : [];
  const inView = `${String(from.getFullYear()).padStart(4, "0")}-${String(from.getMonth() + 1).padStart(2, "0")}`;
  const isNow = from.getTime() >= new Date(new Date().getFullYear(), new Date().getMonth(), 1).getTime();
  return (
    <Panel
      title={`Runs of ${monthName().format(from)}`}
      side={
        <>
          <span class="legend">{GROUPS.map(([colour, , word]) => <span key={word}><i class={colour} /> {word}</span>)}</span>
          <span class="row whole">
            <button type="button" class="button small" aria-label="The month before" onClick={() => step(-1)}>←</button>
            <input type="month" class="month" aria-label="Month" placeholder="2026-01" value={typed ?? inView} onInput={(event) => type(event.currentTarget.value)} onBlur={() => setTyped(undefined)} onKeyDown={(event) => event.key === "Enter" && setTyped(undefined)} />
            <button type="button" class="button small" aria-label="The month after" disabled={isNow} onClick={() => step(1)}>→</button>
          </span>
        </>
      }
    >
      {found.error ? <Trouble error={found.error} retry={found.reload} /> : !found.value ? <Bones /> : (
        <div class="stack">
          <div class="calendar">
            {WEEK.map((name) => <span class="hint" key={name}>{name}</span>)}
            {Array.from({ length: lead }, (_, index) => <span key={`lead ${index}`} />)}
            {Array.from({ length: count }, (_, index) => {
              const at = new Date(from.getFullYear(), from.getMonth(), index + 1);
              const day = dayOf(at);
              return <Day key={day} at={at} runs={found.value?.days.get(day) ?? []} isOpen={day === open} onOpen={() => setOpen(day === open ? undefined : day)} />;
            })}
          </div>
          {found.value.cutAt && <p class="note warn">It ran more than {number(PAGE * PAGES_MAX)} times this month. Shown are the newest of them, from <Time at={found.value.cutAt} exact /> on; days before that are not empty.</p>}
          {open && (runs.length === 0 ? <Empty title="No runs that day" /> : (
            <Rows label="Runs of the day" rows={runs} id={(run) => run.id} columns={[
              { title: "Due", cell: (run) => <Time at={run.scheduledFor} exact /> },
              { title: "By", cell: (run) => run.trigger },
              { title: "State", cell: (run) => <Badge state={run.status} /> },
              { title: "Succeeded", number: true, cell: (run) => number(run.succeeded) },
              { title: "Failed", number: true, cell: (run) => number(run.failed) },
              { title: "", cell: (run) => <span class="dim">{run.message}</span> },
              { title: "", cell: (run) => run.jobsCreated > 0 && <button type="button" class="button small" onClick={() => onJobs(run.id)}>Jobs</button> },
            ]} />
          ))}
        </div>
      )}
    </Panel>
  );
}
