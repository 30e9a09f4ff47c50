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

/** Loads when `keys` change; what came before stays in view meanwhile. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, keys: readonly unknown[]): Loaded<T> {
  const [value, set] = useState<T>();
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(true);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    setBusy(true);
    patient(load, control.signal)
      .then((loaded) => {
        set(() => loaded);
        setError(undefined);
        setBusy(false);
      })
      .catch((reason: unknown) => {
        if (control.signal.aborted) return;
        setError(said(reason));
        setBusy(false);
      });
    return () => control.abort();
  }, [...keys, turn]);
  useEffect(() => {
    if (!error) return;
    const again = () => setTurn((n) => n + 1);
    const events = ["online", SIGNED_IN_AGAIN];
    events.forEach((name) => window.addEventListener(name, again));
    return () => events.forEach((name) => window.removeEventListener(name, again));
  }, [error]);
  return { value, error, busy, reload: () => setTurn((n) => n + 1), set: (next) => set(() => next) };
}

export interface Page<T> {
  items: T[];
  nextCursor: string | null;
}

const PAGES_MAX = 25;

/** Every row of a list, for a choice among all of them; of a very long one those of its first pages. */
export async function everyPage<T>(load: (cursor: string | undefined) => Promise<Page<T>>): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const found = await load(cursor);
    all.push(...found.items);
    if (!found.nextCursor) break;
    cursor = found.nextCursor;
  }
  return all;
}

export interface Listed<T> {
  items: T[] | undefined;
  error: string | undefined;
  busy: boolean;
  more: (() => void) | undefined;
  reload: () => void;
  change: (edit: (items: T[]) => T[]) => void;
}

/** A list of the API: its first page, and more of it when asked. */
export function useList<T>(
  load: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>,
  keys: readonly unknown[],
): Listed<T> {
  const first = useLoad((signal) => load(undefined, signal), keys);
  const [rest, setRest] = useState<Page<T>>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const since = useRef(first.value);
  if (since.current !== first.value) {
    since.current = first.value;
    if (rest) setRest(undefined);
  }
  const cursor = rest ? rest.nextCursor : first.value?.nextCursor;
  const items = first.value && [...first.value.items, ...(rest?.items ?? [])];
  const more = () => {
    if (!cursor || busy) return;
    setBusy(true);
    setError(undefined);
    const before = since.current;
    load(cursor, new AbortController().signal)
      .then((page) => {
        // It goes on from a list that was asked with other filters, or anew since.
        if (since.current !== before) return;
        setRest((known) => ({ items: [...(known?.items ?? []), ...page.items], nextCursor: page.nextCursor }));
      })
      .catch((reason: unknown) => setError(said(reason)))
      .finally(() => setBusy(false));
  };
  const change = (edit: (known: T[]) => T[]) => {
    if (!items) return;
    first.set({ items: edit(items), nextCursor: cursor ?? null });
  };
  return {
    items,
    error: first.error ?? error,
    busy: first.busy || busy,
    more: cursor ? more : undefined,
    reload: first.reload,
    change,
  };
}
