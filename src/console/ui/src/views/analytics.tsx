// Analytics: providers, credits, domains, and how well pages are read, over a time.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { api } from "../api/client";
import { useList, useLoad } from "../api/use";
import { ask, here } from "../app/state";
import { Bones, Choice, Empty, Head, Panel, Tabs, Trouble } from "../parts/basic";
import { bytes, compact, millis, number, percent, zone } from "../parts/figures";
import { Plot } from "../parts/lazy";
import { List, Rows } from "../parts/list";
import type { DomainSort, Metric } from "../generated/api";

const DAY_MS = 86_400_000;
const PERIODS = [["1", "24 hours"], ["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "A year"]] as const;
const TABS = [["time", "Over time"], ["providers", "Providers"], ["domains", "Domains"], ["credits", "Credits"], ["quality", "Quality"]] as const;
const METRICS: readonly (readonly [Metric, string])[] = [["jobs", "Jobs"], ["succeeded", "Succeeded"], ["failed", "Failed"], ["successRate", "Success"], ["credits", "Credits"], ["latencyP50", "Latency p50"], ["latencyP95", "Latency p95"], ["results", "Results"], ["changed", "Changed"], ["quality", "Quality"], ["attempts", "Attempts"], ["blocked", "Blocked"], ["bytes", "Bytes"]];
/** What a figure is in, where it is no count, and what it is multiplied with to be so. */
const UNITS: Partial<Record<Metric, readonly [unit: string, times: number]>> = { successRate: ["%", 100], quality: ["%", 100], latencyP50: ["ms", 1], latencyP95: ["ms", 1] };
const SORTS: readonly (readonly [DomainSort, string])[] = [["jobs", "By jobs"], ["successRate", "By success"], ["credits", "By credits"], ["latencyP95", "By latency"], ["quality", "By quality"]];

/** Bytes are shown in what the most of them are best said in. */
function unitOf(metric: Metric, most: number): readonly [unit: string, times: number] {
  if (metric !== "bytes") return UNITS[metric] ?? ["", 1];
  return most < 1e6 ? ["kB", 1e-3] : most < 1e9 ? ["MB", 1e-6] : ["GB", 1e-9];
}

interface Of {
  from: string;
}

function State({ of, children }: { of: { value: unknown; error: string | undefined; reload: () => void }; children: ComponentChildren }) {
  if (of.error) return <Trouble error={of.error} retry={of.reload} />;
  return <>{of.value === undefined ? <Bones /> : children}</>;
}

function Over({ from }: Of) {
  const metric = (here.value.query.get("metric") ?? "jobs") as Metric;
  const interval = Date.now() - Date.parse(from) <= 2 * DAY_MS ? ("hour" as const) : ("day" as const);
  const found = useLoad((signal) => api("GET /api/v1/analytics/timeseries", { query: { from, interval, timezone: zone(), metric }, signal }), [from, metric]);
  const [unit, times] = unitOf(metric, Math.max(0, ...(found.value?.points ?? []).map((point) => point.value ?? 0)));
  const name = METRICS.find(([key]) => key === metric)?.[1] ?? metric;
  const title = unit ? `${name} (${unit})` : name;
  const drawn = useMemo(() => {
    const points = found.value?.points ?? [];
    return { at: points.map((point) => Date.parse(point.at) / 1_000), series: [{ label: title, values: points.map((point) => (point.value === null ? null : point.value * times)) }] };
  }, [found.value]);
  return (
    <Panel title={`${title} by ${interval}`} side={<Choice label="Figure" value={metric} options={METRICS} onPick={(picked) => ask({ metric: picked })} />}>
      <State of={found}><Plot at={drawn.at} series={drawn.series} height={320} label={`${title} by ${interval}`} /></State>
    </Panel>
  );
}

function Providers({ from }: Of) {
  const found = useLoad((signal) => api("GET /api/v1/analytics/providers", { query: { from, timezone: zone() }, signal }), [from]);
  return (
    <Panel title="Providers" flush>
      <State of={found}>
        {found.value?.items.length === 0 ? <Empty title="Nobody was asked in this time" /> : (
          <Rows label="Providers" rows={found.value?.items ?? []} id={(row) => row.providerId} columns={[
            { title: "Provider", cell: (row) => <>{row.name ?? "not connected any more"}<div class="hint">{row.adapter}</div></> },
            { title: "Attempts", number: true, cell: (row) => number(row.attempts) },
            { title: "Success", number: true, cell: (row) => percent(row.successRate) },
            { title: "Blocked", number: true, cell: (row) => percent(row.blockRate) },
            { title: "Timeouts", number: true, cell: (row) => number(row.timeouts) },
            { title: "p50", number: true, cell: (row) => millis(row.latencyP50Ms) },
            { title: "p95", number: true, cell: (row) => millis(row.latencyP95Ms) },
            { title: "Came in", number: true, cell: (row) => bytes(row.bytes) },
            { title: "Credits", number: true, cell: (row) => number(row.credits) },
            { title: "A job", number: true, cell: (row) => row.creditsPerJob?.toFixed(1) ?? "–" },
          ]} />
        )}
      </State>
    </Panel>
  );
}

function Domains({ from }: Of) {
  const sort = (here.value.query.get("sort") ?? "jobs") as DomainSort;
  const list = useList((cursor, signal) => api("GET /api/v1/analytics/domains", { query: { from, timezone: zone(), sort, limit: 50, ...(cursor && { cursor }) }, signal }), [from, sort]);
  return (
    <Panel title="Domains" flush side={<Choice label="Order" value={sort} options={SORTS} onPick={(picked) => ask({ sort: picked })} />}>
      <List list={list} id={(row) => row.domain} label="Domains" empty={<Empty title="No jobs in this time" />} columns={[
        { title: "Domain", cell: (row) => <a href={`#/results?domain=${encodeURIComponent(row.domain)}`}>{row.domain}</a> },
        { title: "Jobs", number: true, cell: (row) => number(row.jobs) },
        { title: "Failed", number: true, cell: (row) => number(row.failed) },
        { title: "Success", number: true, cell: (row) => percent(row.successRate) },
        { title: "Results", number: true, cell: (row) => number(row.results) },
        { title: "Changed", number: true, cell: (row) => number(row.changed) },
        { title: "Quality", number: true, cell: (row) => percent(row.quality) },
        { title: "p95", number: true, cell: (row) => millis(row.latencyP95Ms) },
        { title: "Credits", number: true, cell: (row) => compact(row.credits) },
      ]} />
    </Panel>
  );
}

function Credits({ from }: Of) {
  const query = { from, timezone: zone() };
  const days = useLoad((signal) => api("GET /api/v1/analytics/credits", { query: { ...query, groupBy: "day" }, signal }), [from]);
  const payers = useLoad(async (signal) => {
    const [providers, domains] = await Promise.all((["provider", "domain"] as const).map((groupBy) => api("GET /api/v1/analytics/credits", { query: { ...query, groupBy }, signal })));
    return { providers: providers?.items ?? [], domains: domains?.items ?? [] };
  }, [from]);
  const drawn = useMemo(() => {
    const buckets = days.value?.buckets ?? [];
    return { at: buckets.map((one) => Date.parse(one.at) / 1_000), series: [{ label: "Used", bars: true, values: buckets.map((one) => one.used) }] };
  }, [days.value]);
  const charged = (title: string, whose: string, items: { key: string | null; name: string | null; jobs: number; credits: number }[]) => (
    <Panel title={title} flush>
      {items.length === 0 ? <Empty title="Nothing was charged" /> : (
        <Rows label={title} rows={items.slice(0, 20)} id={(row) => row.key ?? ""} columns={[
          { title: whose, cell: (row) => row.name ?? row.key ?? "unknown" },
          { title: "Jobs", number: true, cell: (row) => number(row.jobs) },
          { title: "Credits", number: true, cell: (row) => number(row.credits) },
        ]} />
      )}
    </Panel>
  );
  return (
    <div class="stack">
      <Panel title="Credits used by day" side={days.value && <span class="dim">{number(days.value.totals.used)} in all</span>}>
        <State of={days}><Plot at={drawn.at} series={drawn.series} height={220} label="Credits used by day" /></State>
      </Panel>
      <State of={payers}><div class="halves">{charged("By provider", "Provider", payers.value?.providers ?? [])}{charged("By domain", "Domain", payers.value?.domains ?? [])}</div></State>
    </div>
  );
}

function Quality({ from }: Of) {
  const found = useLoad(async (signal) => {
    const [domains, attributes] = await Promise.all((["domain", "attribute"] as const).map((groupBy) => api("GET /api/v1/analytics/quality", { query: { from, timezone: zone(), groupBy }, signal })));
    return { rows: domains?.items ?? [], attributes: attributes?.attributes ?? [] };
  }, [from]);
  const moved = (now: number | null, before: number | null) => (now !== null && before !== null && now < before - 0.05 ? "wrong" : "dim");
  return (
    <State of={found}>
      <div class="stack">
        <Panel title="Sites and page types" flush>
          {found.value?.rows.length === 0 ? <Empty title="No results in this time" /> : (
            <Rows label="Quality" rows={found.value?.rows ?? []} id={(row) => `${row.domain} ${row.pageType}`} columns={[
              { title: "Domain", cell: (row) => row.domain ?? "–" },
              { title: "Page type", cell: (row) => row.pageType ?? "–" },
              { title: "Results", number: true, cell: (row) => number(row.results) },
              { title: "Quality", number: true, cell: (row) => percent(row.composite) },
              { title: "Complete", number: true, cell: (row) => percent(row.completeness) },
              { title: "Valid", number: true, cell: (row) => percent(row.validation) },
              { title: "Changed", number: true, cell: (row) => number(row.changed) },
            ]} />
          )}
        </Panel>
        <Panel title="Attributes" flush>
          {found.value?.attributes.length === 0 ? <Empty title="Nothing was read by a schema" /> : (
            <Rows label="Attributes" rows={(found.value?.attributes ?? []).slice(0, 200)} id={(row) => `${row.pageType} ${row.attribute}`} columns={[
              { title: "Page type", cell: (row) => row.pageType },
              { title: "Attribute", cell: (row) => row.attribute },
              { title: "Results", number: true, cell: (row) => number(row.results) },
              { title: "Found", number: true, cell: (row) => percent(row.coverage) },
              { title: "Before", number: true, cell: (row) => <span class={moved(row.coverage, row.previousCoverage)}>{percent(row.previousCoverage)}</span> },
              { title: "Changed", number: true, cell: (row) => number(row.changed) },
            ]} />
          )}
        </Panel>
      </div>
    </State>
  );
}

export function Analytics() {
  const query = here.value.query;
  const tab = TABS.find(([key]) => key === query.get("tab"))?.[0] ?? "time";
  const days = PERIODS.find(([key]) => key === query.get("days"))?.[0] ?? "30";
  const from = useMemo(() => new Date(Date.now() - Number(days) * DAY_MS).toISOString(), [days]);
  const Shown = { time: Over, providers: Providers, domains: Domains, credits: Credits, quality: Quality }[tab];
  return (
    <>
      <Head title="Analytics" about="Equal to what SQL says of the same time.">
        <Choice label="Period" value={days} options={PERIODS} onPick={(picked) => ask({ days: picked })} />
      </Head>
      <div class="stack">
        <Tabs label="Shown" tabs={TABS} at={tab} onPick={(picked) => ask({ tab: picked })} />
        <Shown from={from} />
      </div>
    </>
  );
}
