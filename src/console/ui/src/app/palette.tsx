// Ctrl-K: every view, and everything that has the typed words.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, said } from "../api/client";
import { PLACES, OTHERS } from "./places";
import { seen } from "./shell";
import { go, may, palette, theme } from "./state";

interface Entry {
  title: string;
  about: string;
  does: () => void;
}

const LOOK_AFTER_MS = 180;

const fits = (text: string, typed: string) => {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => text.toLowerCase().includes(word));
};

function own(typed: string): Entry[] {
  const places = [...PLACES, ...OTHERS].filter(seen).map((one) => ({ title: one.title, about: one.group || "View", does: () => go(`/${one.path}`) }));
  const themes = (["light", "dark"] as const).map((name) => ({ title: `Theme: ${name}`, about: "Setting", does: () => (theme.value = name) }));
  return [...places, ...themes].filter((entry) => fits(`${entry.title} ${entry.about}`, typed));
}

interface Named {
  id: string;
  name: string;
}

/** Where things with names are: what one is called, who may see it, where it is listed, and where one leads. What has no place
 * of its own has no id here. */
const NAMED: readonly (readonly [about: string, needs: string, list: (signal: AbortSignal) => Promise<Named[]>, to: string])[] = [
  ["Saved query", "bi:read", (signal) => api("GET /api/v1/bi/saved-queries", { query: { limit: 200 }, signal }).then((page) => page.items), "/sql?saved="],
  ["Dashboard", "bi:read", (signal) => api("GET /api/v1/bi/dashboards", { query: { limit: 200 }, signal }).then((page) => page.items), "/dashboards/"],
  ["Monitor", "bi:read", (signal) => api("GET /api/v1/monitors", { query: { limit: 200 }, signal }).then((page) => page.items), "/monitors/"],
  ["Conversation", "agents:read", (signal) => api("GET /api/v1/agents", { query: { limit: 200 }, signal }).then((page) => page.items), "/agents/"],
  ["Schedule", "schedules:read", (signal) => api("GET /api/v1/schedules", { query: { limit: 200 }, signal }).then((page) => page.items), "/schedules/"],
  ["Input", "integrations:read", (signal) => api("GET /api/v1/inputs", { query: { limit: 200 }, signal }).then((page) => page.items), "/inputs/"],
  ["Output", "integrations:read", (signal) => api("GET /api/v1/outputs", { query: { limit: 200 }, signal }).then((page) => page.items), "/outputs/"],
  ["Provider", "providers:read", (signal) => api("GET /api/v1/providers", { query: { limit: 200 }, signal }).then((page) => page.items.map((one) => ({ id: "", name: one.name }))), "/providers"],
  ["Schemas", "workflows:read", (signal) => api("GET /api/v1/extraction/schemas", { query: { limit: 200 }, signal }).then((page) => [...new Set(page.items.map((one) => one.domain))].map((domain) => ({ id: encodeURIComponent(domain), name: domain }))), "/schemas?domain="],
  ["Batch", "jobs:read", (signal) => api("GET /api/v1/batches", { query: { limit: 200 }, signal }).then((page) => page.items.flatMap(({ id, name }) => (name ? [{ id, name }] : []))), "/batches/"],
  ["Member", "org:read", (signal) => api("GET /api/v1/orgs/current/members", { query: { limit: 200 }, signal }).then((page) => page.items.map((one) => ({ id: "", name: `${one.name} (${one.email})` }))), "/members"],
  ["API key", "org:read", (signal) => api("GET /api/v1/api-keys", { query: { limit: 200 }, signal }).then((page) => page.items.map((one) => ({ id: "", name: one.name }))), "/keys"],
  ["Workflow", "workflows:read", (signal) => api("GET /api/v1/workflows", { query: { limit: 200 }, signal }).then((page) => page.items.map((one) => ({ id: one.workflowId, name: one.name }))), "/workflows/"],
];
const OF_EACH = 5;

/** URLs and results with these words, and everything whose name has them. */
async function stored(typed: string, signal: AbortSignal): Promise<Entry[]> {
  const urls = async (): Promise<Entry[]> => {
    const { items } = await api("GET /api/v1/urls", { query: { q: typed, limit: OF_EACH }, signal });
    return items.map((url) => ({ title: url.url, about: "URL", does: () => go(`/urls/${url.id}`) }));
  };
  const results = async (): Promise<Entry[]> => {
    const { total } = await api("GET /api/v1/extraction/results", { query: { q: typed, limit: 1 }, signal });
    return total > 0 ? [{ title: `Results with “${typed}” (${total})`, about: "Search", does: () => go(`/results?q=${encodeURIComponent(typed)}`) }] : [];
  };
  const named = NAMED.filter(([, needs]) => may(needs)).map(async ([about, , list, to]) => {
    const all = await list(signal);
    return all.filter((one) => fits(one.name, typed)).slice(0, OF_EACH).map((one) => ({ title: one.name, about, does: () => go(to + one.id) }));
  });
  const found = await Promise.allSettled([...(may("urls:read") ? [urls()] : []), ...named, ...(may("workflows:read") ? [results()] : [])]);
  const failed = found.find((one) => one.status === "rejected");
  if (failed && found.every((one) => one.status === "rejected")) throw failed.reason;
  return found.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
}

export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const [found, setFound] = useState<Entry[]>([]);
  const [looking, setLooking] = useState(false);
  const [error, setError] = useState<string>();
  useLayoutEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    setAt(0);
    setFound([]);
    setError(undefined);
    const isLong = typed.trim().length >= 2;
    setLooking(isLong);
    if (!isLong) return;
    const control = new AbortController();
    const ended = (does: () => void) => {
      if (control.signal.aborted) return;
      does();
      setLooking(false);
    };
    const look = () => stored(typed.trim(), control.signal).then((all) => ended(() => setFound(all)), (reason: unknown) => ended(() => setError(said(reason))));
    const timer = setTimeout(() => void look(), LOOK_AFTER_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [typed]);
  const entries = [...own(typed), ...found].slice(0, 40);
  useEffect(() => document.getElementById(`palette-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);
  const told = looking ? "Looking …" : error ? `It could not be looked for: ${error}` : entries.length === 0 ? "Nothing found" : "";
  const close = () => (palette.value = false);
  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    close();
    entry.does();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt((at + 1) % Math.max(entries.length, 1));
    else if (event.key === "ArrowUp") setAt((at + entries.length - 1) % Math.max(entries.length, 1));
    else if (event.key === "Enter") choose(entries[at]);
    // The dialog would close itself and say so later; who presses Ctrl-K meanwhile would close it once more instead of opening it.
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Find anything" onClose={close}>
      <input
        value={typed}
        placeholder="Views, URLs, results, and whatever has a name"
        aria-label="What to find"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-found"
        aria-activedescendant={`palette-${at}`}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={keys}
      />
      <ul id="palette-found" role="listbox" aria-label="Found">
        {entries.map((entry, index) => (
          <li key={`${entry.about} ${entry.title} ${index}`} id={`palette-${index}`} role="option" aria-selected={index === at} onClick={() => choose(entry)}>
            <span class="cut">{entry.title}</span>
            <small>{entry.about}</small>
          </li>
        ))}
        {told && (
          <li role="option" aria-selected="false" aria-disabled="true">
            <span class={error ? "wrong" : "dim"}>{told}</span>
          </li>
        )}
      </ul>
    </dialog>
  );
}
