// What came in, what it cost, and what needs somebody.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { api, ApiError, said } from "../api/client";
import { everyPage, useAgain, useLoad } from "../api/use";
import { may, me } from "../app/state";
import { Bones, Choice, Empty, hasFailed, Head, Panel, Trouble } from "../parts/basic";
import { bytes, compact, many, millis, number, percent, Share, Time, zone } from "../parts/figures";
import { Plot, useIsDrawn } from "../parts/lazy";
import { Rows } from "../parts/list";
import type { RunView, ScheduleView } from "../generated/api";

const DAY_MS = 86_400_000;
const PERIODS = [["1", "24 hours"], ["7", "7 days"], ["30", "30 days"], ["90", "90 days"]] as const;
type Days = (typeof PERIODS)[number][0];

function change(rate: number | null | undefined, wanted: "more" | "less"): ComponentChildren {
  if (rate === null || rate === undefined) return <span class="dim">nothing to compare</span>;
  if (Math.abs(rate) < 0.001) return <span class="dim">unchanged</span>;
  const good = rate > 0 === (wanted === "more");
  return <span class={good ? "good" : "wrong"}>{`${rate > 0 ? "+" : "−"}${Math.abs(rate * 100).toFixed(1)} %`}</span>;
}

function Figure({ title, value, children }: { title: string; value: string; children?: ComponentChildren }) {
  return (
    <div class="figure">
      <h3>{title}</h3>
      <strong>{value}</strong>
      <small>{children}</small>
    </div>
  );
}

interface Worry {
  text: string;
  about: string;
  href?: string;
  /** Why something could not be looked at; it is tried again. */
  gap?: unknown;
}

/** Failed runs are told of for so long. */
const RUNS_DAYS = 7;
/** Runs of all schedules are looked through so far; those that had none among them are asked one by one, so many of them. */
const RUNS_PAGES_MAX = 3;
const ASKED_MAX = 20;

/** Where something may wait for somebody: what is looked at, who may see it, and what is found there. */
type Look = readonly [what: string, needs: string, find: (signal: AbortSignal) => Promise<Worry[]>];

const LOOKS: readonly Look[] = [
  ["providers", "providers:read", async (signal) => {
    const all = await everyPage((cursor) => api("GET /api/v1/providers", { query: { limit: 200, ...(cursor && { cursor }) }, signal }));
    return all.flatMap((one) => (one.trouble ? [{ text: `${one.name}: ${one.trouble.fault.replaceAll("_", " ")}`, about: one.trouble.error, href: "#/providers" }] : []));
  }],
  ["drift", "workflows:read", async (signal) => {
    const all = await everyPage((cursor) => api("GET /api/v1/extraction/drift", { query: { limit: 200, ...(cursor && { cursor }) }, signal }));
    return all.flatMap((one) => (["drifting", "broken"].includes(one.state) ? [{ text: `${one.domain} has changed`, about: `${one.pageType}: ${one.state}`, href: "#/schemas?tab=drift" }] : []));
  }],
  ["suggestions", "workflows:read", async (signal) => {
    const { items } = await api("GET /api/v1/optimization/suggestions", { query: { status: "open", limit: 50 }, signal });
    return items.map((one) => ({ text: "A better ranking of providers", about: `expected gain ${percent(one.expectedGain)}`, href: `#/workflows/${one.workflowId}` }));
  }],
  ["outputs", "integrations:read", async (signal) => {
    const all = await everyPage((cursor) => api("GET /api/v1/outputs", { query: { limit: 200, ...(cursor && { cursor }) }, signal }));
    return all.flatMap((one) => (one.state === "failing" || one.disabledReason ? [{ text: `${one.name} is ${one.state}`, about: one.lastError ?? one.disabledReason?.replaceAll("_", " ") ?? "", href: `#/outputs/${one.id}` }] : []));
  }],
  ["inputs", "integrations:read", async (signal) => {
    const all = await everyPage((cursor) => api("GET /api/v1/inputs", { query: { limit: 200, ...(cursor && { cursor }) }, signal }));
    const failing = all.filter((one) => one.isEnabled && one.failures > 0);
    return [...switchedOff("inputs", all), ...failing.map((one) => ({ text: `${one.name} fails`, about: one.failures === 1 ? "its last run failed" : `its last ${number(one.failures)} runs failed`, href: `#/inputs/${one.id}` }))];
  }],
  ["schedules", "schedules:read", async (signal) => {
    const all = await everyPage((cursor) => api("GET /api/v1/schedules", { query: { limit: 200, ...(cursor && { cursor }) }, signal }));
    return [...switchedOff("schedules", all), ...(await failedLast(all, signal))];
  }],
  ["monitors", "bi:read", async (signal) => {
    const all = await Promise.all((["firing", "error"] as const).map((state) => api("GET /api/v1/monitors", { query: { state, isEnabled: true, limit: 200 }, signal })));
    return all.flatMap(({ items }) => items.map((one) => ({ text: one.state === "error" ? `${one.name} cannot be run` : `${one.name} fires`, about: one.reason ?? "", href: `#/monitors/${one.id}` })));
  }],
];

/** Those that the box itself switched off. */
function switchedOff(place: string, all: readonly { id: string; name: string; disabledReason: string | null }[]): Worry[] {
  return all.flatMap((one) => (one.disabledReason ? [{ text: `${one.name} was switched off`, about: one.disabledReason, href: `#/${place}/${one.id}` }] : []));
}

const hasEnded = (run: RunView) => ["completed", "no_urls", "failed"].includes(run.status);

/** Schedules that are on and whose newest run came to nothing. */
async function failedLast(all: readonly ScheduleView[], signal: AbortSignal): Promise<Worry[]> {
  const from = new Date(Date.now() - RUNS_DAYS * DAY_MS).toISOString();
  const left = new Map(all.filter((one) => one.isEnabled && one.lastRunAt && one.lastRunAt >= from).map((one) => [one.id, one]));
  const found: Worry[] = [];
  const look = (run: RunView) => {
    const schedule = left.get(run.scheduleId);
    if (!schedule || !hasEnded(run)) return;
    left.delete(schedule.id);
    if (hasFailed(run)) found.push({ text: `${schedule.name}: the last run failed`, about: run.message ?? `${many(run.failed, "job")} failed, none succeeded`, href: `#/schedules/${schedule.id}` });
  };
  let cursor: string | null = null;
  for (let page = 0; page < RUNS_PAGES_MAX && left.size > 0; page++) {
    const runs: { items: RunView[]; nextCursor: string | null } = await api("GET /api/v1/schedules/runs", { query: { from, limit: 200, ...(cursor && { cursor }) }, signal });
    runs.items.forEach(look);
    cursor = runs.nextCursor;
    if (!cursor) return found;
  }
  const rest = [...left.keys()].slice(0, ASKED_MAX).map((scheduleId) => api("GET /api/v1/schedules/runs", { query: { scheduleId, from, limit: 5 }, signal }));
  for (const { items } of await Promise.all(rest)) items.forEach(look);
  return found;
}

/** What the plan does not include is no fault. */
const isRefused = (reason: unknown) => reason instanceof ApiError && reason.status === 403;

/** What waits for somebody, from everywhere where one may look; where one could not is told, too. */
async function worries(signal: AbortSignal): Promise<Worry[]> {
  const looks = LOOKS.filter(([, needs]) => may(needs));
  const settled = await Promise.allSettled(looks.map(([, , find]) => find(signal)));
  const found = settled.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  const failed = settled.flatMap((one, index) => (one.status === "rejected" && !isRefused(one.reason) ? [{ what: looks[index]?.[0], reason: one.reason as unknown }] : []));
  if (failed[0] && !settled.some((one) => one.status === "fulfilled")) throw failed[0].reason;
  if (failed[0]) found.unshift({ text: `Could not be looked at: ${failed.map((one) => one.what).join(", ")}`, about: said(failed[0].reason), gap: failed[0].reason });
  if (!me.value?.user.emailVerifiedAt) found.unshift({ text: "Your email address is not verified", about: "SQL and invitations need it", href: "#/profile" });
  return found;
}

function Attention() {
  const found = useLoad(worries, []);
  useAgain(found.value?.find((one) => one.gap)?.gap, found.reload);
  return (
    <Panel title="Needs attention" flush>
      {found.error && <Trouble error={found.error} retry={found.reload} />}
      {!found.value ? (
        !found.error && <Bones />
      ) : found.value.length === 0 ? (
        <Empty title="Nothing">Providers answer, schemas hold, outputs deliver.</Empty>
      ) : (
        <ul class="plain">
          {found.value.map((one, index) => (
            <li key={index}>
              {one.href ? <a href={one.href}>{one.text}</a> : <span class="wrong">{one.text}</span>}
              <span class="dim">{one.about}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Jobs({ from }: { from: string }) {
  const interval = Date.now() - Date.parse(from) <= 2 * DAY_MS ? ("hour" as const) : ("day" as const);
  const found = useLoad(async (signal) => {
    const query = { from, interval, timezone: zone() };
    const [good, bad] = await Promise.all(
      (["succeeded", "failed"] as const).map((metric) => api("GET /api/v1/analytics/timeseries", { query: { ...query, metric }, signal })),
    );
    return { good: good?.points ?? [], bad: bad?.points ?? [] };
  }, [from]);
  const drawn = useMemo(() => {
    const points = found.value?.good ?? [];
    return {
      at: points.map((point) => Date.parse(point.at) / 1_000),
      series: [
        { label: "Succeeded", colour: "accent", values: points.map((point) => point.value) },
        { label: "Failed", colour: "bad", values: (found.value?.bad ?? []).map((point) => point.value) },
      ],
    };
  }, [found.value]);
  return (
    <Panel title="Jobs over time" side={<span class="legend"><i class="accent" /> succeeded <i class="bad" /> failed</span>}>
      {found.error ? <Trouble error={found.error} retry={found.reload} /> : !found.value ? <Bones /> : <Plot at={drawn.at} series={drawn.series} height={200} label={`Succeeded and failed jobs by ${interval}`} />}
    </Panel>
  );
}

function Domains({ from }: { from: string }) {
  const found = useLoad((signal) => api("GET /api/v1/analytics/domains", { query: { from, limit: 8, timezone: zone() }, signal }), [from]);
  const items = found.value?.items;
  return (
    <Panel title="Busiest domains" flush>
      {found.error && <Trouble error={found.error} retry={found.reload} />}
      {!items ? (
        <Bones />
      ) : items.length === 0 ? (
        <Empty title="No jobs yet">Submit some from the list of URLs.</Empty>
      ) : (
        <Rows
          label="Busiest domains"
          rows={items}
          id={(row) => row.domain}
          columns={[
            { title: "Domain", cell: (row) => <a href={`#/results?domain=${encodeURIComponent(row.domain)}`}>{row.domain}</a> },
            { title: "Jobs", number: true, cell: (row) => number(row.jobs) },
            { title: "Success", number: true, cell: (row) => percent(row.successRate) },
            { title: "Quality", number: true, cell: (row) => percent(row.quality) },
            { title: "p95", number: true, cell: (row) => millis(row.latencyP95Ms) },
            { title: "Credits", number: true, cell: (row) => compact(row.credits) },
          ]}
        />
      )}
    </Panel>
  );
}

export function Overview() {
  const [days, setDays] = useState<Days>("30");
  const isDrawn = useIsDrawn();
  const from = useMemo(() => new Date(Date.now() - Number(days) * DAY_MS).toISOString(), [days]);
  return (
    <>
      <Head title="Overview" about={me.value?.organization?.name}>
        <Choice label="Period" value={days} options={PERIODS} onPick={setDays} />
      </Head>
      {isDrawn && <Panels from={from} />}
    </>
  );
}

function Panels({ from }: { from: string }) {
  const overview = useLoad((signal) => api("GET /api/v1/analytics/overview", { query: { from, timezone: zone() }, signal }), [from]);
  const plan = useLoad((signal) => (may("billing:read") ? api("GET /api/v1/plans/current", { signal }) : Promise.resolve(undefined)), []);
  const { totals, change: moved } = overview.value ?? {};
  const none = totals?.jobs === 0;
  return (
    <div class="stack">
      {overview.error && <Trouble error={overview.error} retry={overview.reload} />}
      {none && (
        <p class="note">
          Nothing was collected in this time. <a href="#/start">First steps</a>
        </p>
      )}
      {totals && moved ? (
        <div class="figures" key="figures">
          <Figure title="Jobs" value={compact(totals.jobs)}>{change(moved.jobs, "more")}</Figure>
          <Figure title="Success" value={percent(totals.successRate)}>
            <Share label={`${totals.byStatus.succeeded} succeeded, ${totals.byStatus.failed} failed`} parts={[[totals.byStatus.succeeded, "accent"], [totals.byStatus.failed, "bad"], [totals.byStatus.queued + totals.byStatus.running, "info"]]} />
          </Figure>
          <Figure title="Results" value={compact(totals.results ?? 0)}>{number(totals.changed ?? 0)} with changes</Figure>
          <Figure title="Quality" value={percent(totals.quality)}>{change(moved.quality, "more")}</Figure>
          <Figure title="Latency p95" value={millis(totals.latencyP95Ms)}>p50 {millis(totals.latencyP50Ms)}</Figure>
          <Figure title="Credits used" value={compact(totals.credits)}>{plan.value ? `${compact(plan.value.remainingCredits)} left` : change(moved.credits, "less")}</Figure>
          <Figure title="Came in" value={bytes(totals.bytes ?? 0)}>{many(totals.domains, "domain")}, {compact(totals.urls)} {totals.urls === 1 ? "URL" : "URLs"}</Figure>
        </div>
      ) : (
        !overview.error && <Bones />
      )}
      <Jobs from={from} />
      <div class="halves" key="halves">
        <Domains from={from} />
        <Attention />
      </div>
      {overview.value && (
        <p class="hint">
          Figures are at most {Math.max(1, overview.value.freshnessSec)} s old, since <Time at={overview.value.period.from} exact />.
        </p>
      )}
    </div>
  );
}
