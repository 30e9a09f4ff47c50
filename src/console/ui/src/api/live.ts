// Events of the organization as they happen: Server-Sent Events read from a fetch, because EventSource cannot send the header
// that the session's cookie needs.
import { useEffect, useRef, useState } from "preact/hooks";
import type { EventView } from "../generated/api";
import { send } from "./client";

const RETRY_MS = 2_000;
const RETRY_MS_MAX = 30_000;

async function follow(path: string, from: string | undefined, told: (event: EventView) => void, came: (id: string) => void, opened: () => void, signal: AbortSignal) {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (from) headers["last-event-id"] = from;
  const response = await send(path, { headers, signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  opened();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
      const [id, data, kind] = [fields.get("id"), fields.get("data"), fields.get("event") ?? ""];
      if (id) came(id);
      if (data && !kind.startsWith("stream.")) told(JSON.parse(data) as EventView);
    }
  }
}

/** Somebody who is told of events of these kinds. */
interface Listener {
  kinds: readonly string[];
  told: (event: EventView) => void;
  opened: () => void;
  setLive: (isLive: boolean) => void;
}

/**
 * One stream for all of a page, because a browser has six connections to a box without TLS, for all of its tabs: those that
 * nobody sees have none.
 */
const listeners = new Set<Listener>();
let stream: { control: AbortController; kinds: string } | undefined;
let last: string | undefined;
let isLive = false;

function live(now: boolean): void {
  isLive = now;
  listeners.forEach((one) => one.setLive(now));
}

const means = (kinds: readonly string[], kind: string) => kinds.some((one) => one === kind || (one.endsWith("*") && kind.startsWith(one.slice(0, -1))));

async function run(kinds: string, signal: AbortSignal): Promise<void> {
  let pause = RETRY_MS;
  const came = (id: string) => {
    last = id;
    pause = RETRY_MS;
    live(true);
  };
  const told = (event: EventView) => listeners.forEach((one) => means(one.kinds, event.kind) && one.told(event));
  const opened = () => listeners.forEach((one) => one.opened());
  while (!signal.aborted) {
    await follow(`api/v1/events?kind=${encodeURIComponent(kinds)}`, last, told, came, opened, signal).catch(() => undefined);
    if (signal.aborted) return;
    live(false);
    await new Promise((resume) => setTimeout(resume, pause));
    pause = Math.min(pause * 2, RETRY_MS_MAX);
  }
}

/** Begins the stream that those who listen now need, where it is another one. */
function fit(): void {
  const wanted = document.hidden ? "" : [...new Set([...listeners].flatMap((one) => one.kinds))].sort().join(",");
  if ((stream?.kinds ?? "") === wanted) return;
  stream?.control.abort();
  stream = undefined;
  live(false);
  // Nobody listens any more: who listens next may be of another organization, whose log has places of its own.
  if (listeners.size === 0) last = undefined;
  if (!wanted) return;
  stream = { control: new AbortController(), kinds: wanted };
  void run(wanted, stream.control.signal);
}

document.addEventListener("visibilitychange", fit);

/**
 * Tells of each event of these kinds until the view is gone; says whether it is connected. `opened` is called whenever a
 * stream begins: what happened between the view's first look and then is in no event.
 */
export function useEvents(kinds: string, told: (event: EventView) => void, opened: () => void = () => undefined): boolean {
  const [live, setLive] = useState(false);
  const latest = useRef({ told, opened });
  latest.current = { told, opened };
  useEffect(() => {
    const one: Listener = { kinds: kinds.split(","), told: (event) => latest.current.told(event), opened: () => latest.current.opened(), setLive };
    listeners.add(one);
    setLive(isLive);
    fit();
    return () => {
      listeners.delete(one);
      // Another view that comes in this one's place may need the same.
      setTimeout(fit);
    };
  }, [kinds]);
  return live;
}
