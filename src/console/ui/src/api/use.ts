// Data of views: loaded, loading, failed; lists that go on page by page.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, said, SIGNED_IN_AGAIN } from "./client";

export interface Loaded<T> {
  value: T | undefined;
  error: string | undefined;
  busy: boolean;
  reload: () => void;
  set: (value: T) => void;
}

/** A box that is busy for a moment (503) is asked again so often, so long after. */
const BUSY_TRIES = 3;
const BUSY_AFTER_MS = 1_500;

async function patient<T>(load: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let left = BUSY_TRIES; ; left--) {
    try {
      return await load(signal);
    } catch (error) {
      const isBusy = error instanceof ApiError && error.status === 503;
      if (!isBusy || left === 0 || signal.aborted) throw error;
      await new Promise((resume) => setTimeout(resume, BUSY_AFTER_MS));
      signal.throwIfAborted();
    }
  }
}

/** What a proxy says of a box that is not there, and a box that is too busy. */
const AWAY_STATUS = [0, 502, 503, 504];
/** A box that cannot be reached is asked again by itself: so long after, and ever later up to the second. */
const AWAY_AFTER_MS = 2_000;
const AWAY_AFTER_MS_MAX = 30_000;

/**
 * Asks again what failed (`error`; undefined if nothing did): when the network is back, when a session that had ended goes on, and
 * by itself where the box did not answer (an error of no status is one of the network). The network's return alone is not enough:
 * a request that was on its way then may fail after it, and a box that is restarted behind a network that works tells nobody.
 */
export function useAgain(error: unknown, again: () => void): void {
  const hasFailed = error !== undefined;
  const isAway = hasFailed && !(error instanceof ApiError && !AWAY_STATUS.includes(error.status));
  useEffect(() => {
    if (!hasFailed) return;
    const events = ["online", SIGNED_IN_AGAIN];
    events.forEach((name) => window.addEventListener(name, again));
    let timer: ReturnType<typeof setTimeout> | undefined;
    const later = (pause: number) => {
      timer = setTimeout(() => {
        if (!document.hidden) again();
        later(Math.min(pause * 2, AWAY_AFTER_MS_MAX));
      }, pause);
    };
    if (isAway) later(AWAY_AFTER_MS);
    return () => {
      events.forEach((name) => window.removeEventListener(name, again));
      clearTimeout(timer);
    };
  }, [hasFailed, isAway]);
}

/** A load on its way, and whether another was asked for meanwhile. */
interface Running {
  control: AbortController;
  again: boolean;
}

/** Loads when `keys` change; what came before stays in view meanwhile. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, keys: readonly unknown[]): Loaded<T> {
  const [value, set] = useState<T>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(true);
  const [turn, setTurn] = useState(0);
  const running = useRef<Running>();
  const begin = () => setTurn((n) => n + 1);
  // One that is on its way is waited for: where answers are slower than what asks for them, aborting each would show none.
  const reload = () => {
    if (running.current) running.current.again = true;
    else begin();
  };
  useEffect(() => {
    const control = new AbortController();
    const one = { control, again: false };
    running.current = one;
    setBusy(true);
    const ended = (failed: unknown) => {
      running.current = undefined;
      setError(() => failed);
      if (one.again) begin();
      else setBusy(false);
    };
    patient(load, control.signal).then(
      (loaded) => {
        if (control.signal.aborted) return;
        set(() => loaded);
        ended(undefined);
      },
      (reason: unknown) => control.signal.aborted || ended(reason),
    );
    return () => {
      control.abort();
      if (running.current === one) running.current = undefined;
    };
  }, [...keys, turn]);
  useAgain(error, reload);
  // What is on its way is older than this, or was asked with other keys: it is asked again.
  const put = (next: T) => {
    if (running.current) {
      running.current.control.abort();
      running.current = undefined;
      begin();
    }
    set(() => next);
  };
  return { value, error: error === undefined ? undefined : said(error), busy, reload, set: put };
}

export interface Page<T> {
  items: T[];
  nextCursor: string | null;
}

const PAGES_MAX = 25;

/** The pages from a cursor on as one; of very many the first, with the cursor at which they go on. */
export async function pagesFrom<T>(load: (cursor: string | undefined) => Promise<Page<T>>, cursor?: string): Promise<Page<T>> {
  const items: T[] = [];
  for (let page = 0; page < PAGES_MAX; page++) {
    const found = await load(cursor);
    items.push(...found.items);
    if (!found.nextCursor) return { items, nextCursor: null };
    cursor = found.nextCursor;
  }
  return { items, nextCursor: cursor ?? null };
}

/** Every row of a list, for a choice among all of them; of a very long one those of its first pages. */
export async function everyPage<T>(load: (cursor: string | undefined) => Promise<Page<T>>): Promise<T[]> {
  return (await pagesFrom(load)).items;
}

export interface Listed<T> {
  items: T[] | undefined;
  error: string | undefined;
  busy: boolean;
  more: (() => void) | undefined;
  /** Asks for every page in view again, after a change of one's own. */
  reload: () => void;
  /** Asks for what is new at the top, when something happened. */
  refresh: () => void;
}

/** What is in view of a list: what it was asked with, and whether further pages were put to its first one. */
interface Shown<T> extends Page<T> {
  keys: readonly unknown[];
  isLonger: boolean;
}

/** A list that follows what happens does not grow for ever: from so many rows on it begins anew. */
const ROWS_MAX = 5_000;
/** So many pages are asked for until what is new meets what is known. */
const NEW_PAGES_MAX = 5;

const idOf = (row: unknown) => (row && typeof row === "object" && "id" in row ? row.id : undefined);

/** Where in the known rows the last of the new ones is that is among them; -1 if none is. */
function meeting<T>(known: readonly T[], items: readonly T[]): number {
  const places = new Map(known.map((row, place) => [idOf(row), place]));
  const last = items.findLast((row) => idOf(row) !== undefined && places.has(idOf(row)));
  return last ? (places.get(idOf(last)) ?? -1) : -1;
}

/** New first rows, and the known ones behind them: one before the place where they meet that is not new has gone. */
function merged<T>(known: Shown<T>, found: Page<T>): Page<T> {
  const place = meeting(known.items, found.items);
  // Where nothing fitted so far, further pages were looked through, too.
  if (found.nextCursor && known.items.length + found.items.length === 0) return known;
  if (!found.nextCursor || place < 0 || known.items.length > ROWS_MAX) return found;
  const ids = new Set(found.items.map(idOf));
  const behind = known.items.slice(place + 1).filter((row) => !ids.has(idOf(row)));
  return behind.length > 0 ? { items: [...found.items, ...behind], nextCursor: known.nextCursor } : found;
}

/** A list of the API: its first page, and more of it when asked. */
export function useList<T>(
  load: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>,
  keys: readonly unknown[],
): Listed<T> {
  const asked = useRef(keys);
  if (keys.length !== asked.current.length || keys.some((key, place) => key !== asked.current[place])) asked.current = keys;
  const shown = useRef<Shown<T>>();
  // How often all of it was to be asked for, and how often that was done.
  const whole = useRef({ wanted: 0, done: 0 });
  const now = asked.current;
  const first = useLoad<Shown<T>>(async (signal) => {
    const { wanted, done } = whole.current;
    const known = () => (shown.current?.keys === now && shown.current.isLonger ? shown.current : undefined);
    const lacks = (before: Shown<T>, items: T[]) => (wanted > done ? items.length < before.items.length : before.items.length > 0 && meeting(before.items, items) < 0);
    let found = await load(undefined, signal);
    let page = 1;
    for (; page < (wanted > done ? PAGES_MAX : NEW_PAGES_MAX); page++) {
      const before = known();
      if (!before || !found.nextCursor || !lacks(before, found.items)) break;
      const next = await load(found.nextCursor, signal);
      found = { items: [...found.items, ...next.items], nextCursor: next.nextCursor };
    }
    const before = known();
    const result = before && wanted === done ? merged(before, found) : found;
    if (!signal.aborted) whole.current.done = wanted;
    return { ...result, keys: now, isLonger: page > 1 || result !== found };
  }, keys);
  shown.current = first.value;
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const cursor = first.value?.nextCursor;
  const more = () => {
    if (!cursor || busy || first.value?.keys !== now) return;
    setBusy(true);
    setError(undefined);
    load(cursor, new AbortController().signal)
      .then((page) => {
        const before = shown.current;
        // It goes on from a list that was asked with other filters, or anew since.
        if (!before || before.keys !== now || asked.current !== now || before.nextCursor !== cursor) return;
        const ids = new Set(before.items.map(idOf));
        const further = page.items.filter((row) => idOf(row) === undefined || !ids.has(idOf(row)));
        first.set({ ...before, items: [...before.items, ...further], nextCursor: page.nextCursor, isLonger: true });
      })
      .catch((reason: unknown) => setError(said(reason)))
      .finally(() => setBusy(false));
  };
  const reload = () => {
    whole.current.wanted += 1;
    setError(undefined);
    first.reload();
  };
  return {
    items: first.value?.items,
    error: first.error ?? error,
    // What follows by itself is not waited for.
    busy: busy || (first.busy && (first.value?.keys !== now || whole.current.wanted > whole.current.done)),
    more: cursor ? more : undefined,
    reload,
    refresh: first.reload,
  };
}
