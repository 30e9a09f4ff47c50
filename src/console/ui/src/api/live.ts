// Events of the organization as they happen: Server-Sent Events read from a fetch, because EventSource cannot send the header
// that the session's cookie needs.
import { useEffect, useState } from "preact/hooks";
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

/**
 * Tells of each event of these kinds until the view is gone; says whether it is connected. `opened` is called whenever a
 * stream begins: what happened between the view's first look and then is in no event.
 */
export function useEvents(kinds: string, told: (event: EventView) => void, opened: () => void = () => undefined): boolean {
  const [live, setLive] = useState(false);
  useEffect(() => {
    const control = new AbortController();
    let [last, pause]: [string | undefined, number] = [undefined, RETRY_MS];
    const path = `api/v1/events?kind=${encodeURIComponent(kinds)}`;
    const run = async () => {
      while (!control.signal.aborted) {
        const came = (id: string) => {
          last = id;
          pause = RETRY_MS;
          setLive(true);
        };
        await follow(path, last, told, came, opened, control.signal).catch(() => undefined);
        setLive(false);
        await new Promise((resume) => setTimeout(resume, pause));
        pause = Math.min(pause * 2, RETRY_MS_MAX);
      }
    };
    void run();
    return () => control.abort();
  }, [kinds]);
  return live;
}
