// Numbers, times and small charts as people read them.

/** Made when it is first asked for. The first one of `Intl` in a new tab takes 40 ms and more, whatever it formats (Chromium 156), so what
 * the overview begins with does without: the time zone, and numbers as they mostly are. */
export function late<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

const count = late(() => new Intl.NumberFormat("en"));
const short = late(() => new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }));
const day = late(() => new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" }));
const dayAlone = late(() => new Intl.DateTimeFormat("en", { dateStyle: "medium" }));
const ago = late(() => new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" }));

/** Not yet in TypeScript's libraries, nor in every browser. */
const { Temporal } = globalThis as { Temporal?: { Now: { timeZoneId(): string } } };

/** The reader's time zone, by its name in the IANA database. */
export const zone = late(() => Temporal?.Now.timeZoneId() ?? new Intl.DateTimeFormat("en").resolvedOptions().timeZone);

/** The day of an instant in the reader's zone. */
export const dayOf = (at: string) => dayAlone().format(Date.parse(at));
/** In groups of three, as `Intl` does it in English. */
export const number = (value: number) => (Number.isSafeInteger(value) ? String(value).replace(/\B(?=(?:\d{3})+$)/g, ",") : count().format(value));
/** So many of them, as one says it: "1 row", "2 rows". */
export const many = (value: number, one: string) => `${number(value)} ${one}${value === 1 ? "" : "s"}`;
export const compact = (value: number) => (Number.isSafeInteger(value) && Math.abs(value) < 1_000 ? String(value) : short().format(value));
export const percent = (rate: number | null | undefined) => (rate === null || rate === undefined ? "–" : `${(rate * 100).toFixed(rate > 0.995 && rate < 1 ? 2 : 1)} %`);
export const millis = (ms: number | null | undefined) => (ms === null || ms === undefined ? "–" : ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`);

export function bytes(size: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let [value, unit] = [size, 0];
  while (value >= 1_000 && unit < units.length - 1) [value, unit] = [value / 1_000, unit + 1];
  return `${value.toFixed(value >= 100 || unit === 0 ? 0 : 1)} ${units[unit]}`;
}

const STEPS: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
  [7, "day"],
];

function relative(at: number): string {
  let value = (at - Date.now()) / 1_000;
  for (const [size, unit] of STEPS) {
    if (Math.abs(value) < size) return ago().format(Math.round(value), unit);
    value /= size;
  }
  return day().format(at);
}

/** An instant in the reader's zone; the exact one in UTC when one points at it. */
export function Time({ at, exact }: { at: string | null | undefined; exact?: boolean }) {
  if (!at) return <span class="dim">–</span>;
  const when = Date.parse(at);
  return (
    <time dateTime={at} title={at} class="nowrap">
      {exact ? day().format(when) : relative(when)}
    </time>
  );
}

/** A share as a line; parts are drawn one behind the other. */
export function Share({ parts, label }: { parts: readonly (readonly [value: number, colour: string])[]; label: string }) {
  const total = parts.reduce((sum, [value]) => sum + value, 0) || 1;
  let at = 0;
  return (
    <div class="bar" role="img" aria-label={label} title={label}>
      <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        {parts.map(([value, colour], index) => {
          const width = (value / total) * 100;
          const rect = <rect key={index} x={at} width={width} height="6" fill={`var(--${colour})`} />;
          at += width;
          return rect;
        })}
      </svg>
    </div>
  );
}

/** A value of a page or of SQL, as text: nothing in it is ever markup. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : typeof value === "object" ? JSON.stringify(value) : String(value);
}
