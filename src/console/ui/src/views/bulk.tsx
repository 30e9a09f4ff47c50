// What is done with many URLs at once: all that fit a filter are chosen page by page, and changed part by part.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, said } from "../api/client";
import type { Page } from "../api/use";
import { go, toast } from "../app/state";
import { Choice, Empty, Field, Form, Text } from "../parts/basic";
import { many, number } from "../parts/figures";
import type { UrlRefusal, UrlsUpdate, UrlView } from "../generated/api";

/** So many URLs are held in the window for one choice. */
const CHOSEN_MAX = 50_000;
/** What a batch of jobs takes. Of URLs a request takes more; that one sees how far it is matters more. */
const PART = 1_000;

export const words = (text: string) => text.split(/[\s,]+/).map((word) => word.trim()).filter(Boolean);
const urls = (count: number) => many(count, "URL");

export interface Ran {
  /** How many it was done for: fewer than all where it was stopped. */
  done: number;
  /** Whether the view that it was begun in went away meanwhile: whoever left it is led nowhere, and nothing of it is closed. */
  isLeft: boolean;
}

export interface Parts {
  /** How far work is that takes more than one request, while it goes on. */
  at: { done: number; total: number } | undefined;
  isBusy: boolean;
  stop: () => void;
  /** Does it part by part. */
  run: <T>(all: readonly T[], size: number, does: (part: T[]) => Promise<unknown>) => Promise<Ran>;
}

/** Work that takes many requests: how far it is, and a way to stop it between two of them. */
export function useParts(): Parts {
  const [at, setAt] = useState<Parts["at"]>();
  const [isBusy, setBusy] = useState(false);
  const control = useRef<AbortController>();
  const isLeft = useRef(false);
  const stop = () => control.current?.abort();
  // What was begun in a dialog ends with it.
  useEffect(() => () => {
    isLeft.current = true;
    stop();
  }, []);
  const run: Parts["run"] = async (all, size, does) => {
    const { signal } = (control.current = new AbortController());
    let done = 0;
    setBusy(true);
    try {
      for (; done < all.length && !signal.aborted; done = Math.min(done + size, all.length)) {
        if (all.length > size) setAt({ done, total: all.length });
        await does(all.slice(done, done + size));
      }
      return { done, isLeft: isLeft.current };
    } catch (error) {
      if (done === 0) throw error;
      throw new Error(`It was done for ${number(done)} of ${urls(all.length)}, and not for the others: ${said(error)}`);
    } finally {
      setAt(undefined);
      setBusy(false);
    }
  };
  return { at, isBusy, stop, run };
}

export function Going({ parts: { at, stop } }: { parts: Parts }) {
  if (!at) return null;
  return (
    <div class="row" role="status">
      <progress class="grow" value={at.done} max={at.total} aria-label="Done" />
      <span class="dim">{number(at.done)} of {number(at.total)}</span>
      <button type="button" class="button small" onClick={stop}>Stop</button>
    </div>
  );
}

/** What came of it; `right` are those of the done that were not refused. */
function toldOf(done: number, total: number, what: string, right = done): string {
  return `${done < total ? "Stopped: " : ""}${right < total ? `${number(right)} of ` : ""}${urls(total)} ${total === 1 ? "was" : "were"} ${what}`;
}

export interface Everything {
  /** While pages are asked for: how many URLs came so far. */
  count: number | undefined;
  stop: () => void;
  gather: (load: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<UrlView>>) => Promise<{ found: UrlView[]; isCut: boolean }>;
}

/** Everything that fits a filter, asked for page by page up to a bound; stopped, it gives what came so far. */
export function useEverything(): Everything {
  const [count, setCount] = useState<number>();
  const control = useRef<AbortController>();
  const stop = () => control.current?.abort();
  useEffect(() => stop, []);
  const gather: Everything["gather"] = async (load) => {
    const { signal } = (control.current = new AbortController());
    const found: UrlView[] = [];
    setCount(0);
    try {
      let cursor: string | undefined;
      do {
        const page = await load(cursor, signal);
        found.push(...page.items);
        cursor = page.nextCursor ?? undefined;
        setCount(found.length);
      } while (cursor && found.length < CHOSEN_MAX);
      return { found, isCut: cursor !== undefined };
    } catch (error) {
      if (!signal.aborted) throw error;
      return { found, isCut: true };
    } finally {
      setCount(undefined);
    }
  };
  return { count, stop, gather };
}

interface Bulk {
  chosen: UrlView[];
  onDone: () => void;
}

/** Says what came of it: a fault in the form, or, where that is gone, beside the page. */
function tell(ran: Ran, text: string, isFault: boolean): void {
  if (isFault && !ran.isLeft) throw new Error(text);
  toast(text, isFault);
}

/** Changes all of them alike; those that are refused are told, and so are those that were removed meanwhile. */
async function changeAll(parts: Parts, all: UrlView[], what: string, change: Omit<UrlsUpdate, "ids" | "filter" | "cursor">): Promise<Ran> {
  let [refused, gone, same] = [0, 0, 0];
  let such: UrlRefusal | undefined;
  const ran = await parts.run(all, PART, async (part) => {
    const told = await api("POST /api/v1/urls/update", { body: { ids: part.map(({ id }) => id), ...change } });
    refused += told.refused;
    gone += told.missing.length;
    same += told.unchanged;
    such ??= told.refusals[0];
  });
  const told = toldOf(ran.done, all.length, what, ran.done - refused - gone);
  const missed = `${same > 0 ? `; ${number(same)} ${same === 1 ? "was" : "were"} so already` : ""}${gone > 0 ? `; ${number(gone)} had been removed meanwhile` : ""}`;
  tell(ran, `${told}${missed}${such ? `; ${number(refused)} ${refused === 1 ? "was" : "were"} refused, such as ${such.url}: ${such.reason}` : ""}`, refused > 0);
  return ran;
}

export function BulkUntag({ chosen, onDone }: Bulk) {
  const tags = [...new Set(chosen.flatMap((url) => url.tags))].sort();
  const [tag, setTag] = useState(tags[0] ?? "");
  const parts = useParts();
  const having = chosen.filter((url) => url.tags.includes(tag));
  const send = async () => {
    const { isLeft } = await changeAll(parts, having, "changed", { removeTags: [tag] });
    if (!isLeft) onDone();
  };
  if (tags.length === 0) return <Empty title="None of them has a tag" />;
  return (
    <Form send={`Take it from ${urls(having.length)}`} onSend={send} onCancel={onDone}>
      <Field label="Tag">
        <Choice value={tag} options={tags.map((one) => [one, one] as const)} onPick={setTag} />
      </Field>
      <Going parts={parts} />
    </Form>
  );
}

export function BulkType({ chosen, onDone }: Bulk) {
  const [typed, setTyped] = useState("");
  const parts = useParts();
  const send = async () => {
    const pageType = typed.trim();
    const { isLeft } = await changeAll(parts, chosen, "changed", pageType ? { pageType } : { clear: ["pageType"] });
    if (!isLeft) onDone();
  };
  return (
    <Form send={`Change ${urls(chosen.length)}`} onSend={send} onCancel={onDone}>
      <Field label="Page type" hint="Such as product; found out if left empty.">
        <Text pattern="[a-z][a-z0-9_]*" maxLength={40} value={typed} onText={setTyped} />
      </Field>
      <Going parts={parts} />
    </Form>
  );
}

export function BulkTag({ chosen, onDone }: Bulk) {
  const [tags, setTags] = useState("");
  const parts = useParts();
  const send = async () => {
    const { isLeft } = await changeAll(parts, chosen, "tagged", { addTags: words(tags) });
    if (!isLeft) onDone();
  };
  return (
    <Form send={`Tag ${urls(chosen.length)}`} onSend={send} onCancel={onDone}>
      <Field label="Tags to add" hint="Separated by commas.">
        <Text required value={tags} onText={setTags} />
      </Field>
      <Going parts={parts} />
    </Form>
  );
}

/**
 * Submits a job for each; a batch for each part, and the list of batches where there are several. Where a part fails, those of
 * the parts before it are given to `drop`: pressed again, they would be submitted twice.
 */
export async function collect(parts: Parts, all: UrlView[], drop: (finished: UrlView[]) => void): Promise<void> {
  let [jobs, batches, last] = [0, 0, ""];
  const finished: UrlView[] = [];
  const ran = parts.run(all, PART, async (part) => {
    const told = await api("POST /api/v1/jobs/batch", { body: { jobs: part.map((url) => ({ urlId: url.id })) } });
    jobs += told.jobs.length;
    batches += 1;
    last = told.batchId ?? "";
    finished.push(...part);
  });
  const { done, isLeft } = await ran.catch((error: unknown) => {
    if (finished.length > 0) drop(finished);
    throw error;
  });
  toast(`${done < all.length ? "Stopped: " : ""}${many(jobs, "job")} ${jobs === 1 ? "was" : "were"} submitted${batches > 1 ? ` in ${number(batches)} batches` : ""}`);
  if (!isLeft) go(batches > 1 ? "/batches" : last ? `/batches/${last}` : "/jobs");
}

/** Deletes them; gives how many. */
export async function remove(parts: Parts, all: UrlView[]): Promise<void> {
  const { done } = await parts.run(all, PART, (part) => api("POST /api/v1/urls/delete", { body: { ids: part.map((url) => url.id) } }));
  toast(toldOf(done, all.length, "deleted"));
}
