// A stored page in a frame without scripts, whose elements are chosen by a pointer or by keys.
import { useEffect, useRef } from "preact/hooks";
import { api, local, send } from "../api/client";
import { useLoad } from "../api/use";
import { Bones, Trouble } from "../parts/basic";
import type { ResultView } from "../generated/api";

const MARK = "2px solid #0f766e";
const CHOSEN = "3px solid #b45309";
const TEXT_CHARS_MAX = 1_000;
/** Attributes whose values are read of an element, where it has them. */
const READ = ["href", "src", "content", "datetime", "alt", "title"];

/** What somebody has pointed at. */
export interface PointedAt {
  /** The way from the root by positions, as the box has the page. */
  path: string;
  text: string;
  /** Whether `text` is all of it. */
  isWhole: boolean;
  tag: string;
  /** Attributes that could be read. */
  attributes: string[];
}

/** The stored page as an address of this browser's own: nothing of it is fetched, and nothing in it runs. */
async function stored(id: string, signal: AbortSignal): Promise<string> {
  const link = await api("GET /api/v1/extraction/results/by-id/{id}/html", { path: { id }, signal });
  const page = await (await send(local(link.url), { signal })).arrayBuffer();
  return URL.createObjectURL(new Blob([page], { type: link.contentType ?? "text/html" }));
}

function pathOf(element: Element): string {
  const steps: string[] = [];
  for (let at: Element | null = element; at; at = at.parentElement) {
    const name = at.localName;
    let [place, isOnly] = [1, true];
    for (let other = at.previousElementSibling; other; other = other.previousElementSibling) if (other.localName === name) [place, isOnly] = [place + 1, false];
    for (let other = at.nextElementSibling; isOnly && other; other = other.nextElementSibling) isOnly = other.localName !== name;
    // A name that is no name of XPath is left to the text.
    const step = /^[a-z][a-z0-9-]*$/.test(name) ? name : "*";
    steps.unshift(isOnly ? step : `${step}[${place}]`);
  }
  return `/${steps.join("/")}`;
}

export function pointedAt(element: Element): PointedAt {
  const text = (element.textContent ?? "").replace(/\s+/g, " ").trim();
  const attributes = READ.filter((name) => element.getAttribute(name)?.trim());
  return { path: pathOf(element), text: text.slice(0, TEXT_CHARS_MAX), isWhole: text.length <= TEXT_CHARS_MAX, tag: element.localName, attributes };
}

/** What is drawn: an element that nobody sees is not walked to. */
const isSeen = (element: Element | null): element is HTMLElement => element !== null && element.getClientRects().length > 0;

function sibling(of: Element, way: "nextElementSibling" | "previousElementSibling"): Element | null {
  let at = of[way];
  while (at && !isSeen(at)) at = at[way];
  return at;
}

/** Where an arrow key leads from an element: into it, out of it, or to what stands beside it. */
function walked(key: string, from: Element, body: Element): Element | null | undefined {
  switch (key) {
    case "ArrowRight":
      return [...from.children].find(isSeen) ?? from;
    case "ArrowLeft":
      return from === body ? from : from.parentElement;
    case "ArrowDown":
      return sibling(from, "nextElementSibling") ?? from;
    case "ArrowUp":
      return sibling(from, "previousElementSibling") ?? from;
    default:
      return undefined;
  }
}

/** Listens in the page of a frame; what is pressed there leads nowhere. */
function listen(page: Document, pick: (element: Element) => void, walk: (element: Element) => void): void {
  let [marked, chosen]: (HTMLElement | undefined)[] = [];
  // Of another window, whose classes are not ours.
  const inner = (event: Event) => event.target as HTMLElement | null;
  const outline = (element: HTMLElement | undefined, line: string) => {
    if (element?.style) element.style.outline = element === chosen ? CHOSEN : line;
  };
  const mark = (element: HTMLElement | null) => {
    outline(marked, "");
    marked = element ?? undefined;
    outline(marked, MARK);
  };
  const choose = (element: HTMLElement) => {
    const before = chosen;
    chosen = element;
    outline(before, "");
    outline(chosen, CHOSEN);
    pick(element);
  };
  page.addEventListener("mouseover", (event) => mark(inner(event)));
  page.addEventListener("click", (event) => {
    event.preventDefault();
    const element = inner(event);
    if (element && element !== page.documentElement) choose(element);
  });
  page.addEventListener("submit", (event) => event.preventDefault());
  if (!page.body) return;
  page.body.tabIndex = 0;
  page.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && marked && marked !== page.body) {
      event.preventDefault();
      return choose(marked);
    }
    const next = walked(event.key, marked ?? page.body, page.body);
    if (next === undefined) return;
    event.preventDefault();
    mark(next as HTMLElement | null);
    marked?.scrollIntoView({ block: "nearest" });
    if (marked) walk(marked);
  });
}

interface Props {
  of: ResultView;
  onPick: (at: PointedAt) => void;
  /** Told of each element that keys lead to, so that it can be said. */
  onWalk: (at: PointedAt) => void;
}

export function PageFrame({ of, onPick, onWalk }: Props) {
  const page = useLoad((signal) => stored(of.id, signal), [of.id]);
  const frame = useRef<HTMLIFrameElement>(null);
  const calls = useRef({ onPick, onWalk });
  calls.current = { onPick, onWalk };
  useEffect(() => () => void (page.value && URL.revokeObjectURL(page.value)), [page.value]);
  if (page.error) return <Trouble error={page.error} retry={page.reload} />;
  if (!page.value) return <Bones />;
  const begin = () => {
    const inside = frame.current?.contentDocument;
    if (inside) listen(inside, (element) => calls.current.onPick(pointedAt(element)), (element) => calls.current.onWalk(pointedAt(element)));
  };
  return <iframe ref={frame} class="pageframe" title="The stored page; arrow keys go from element to element, Enter chooses one" sandbox="allow-same-origin" src={page.value} onLoad={begin} />;
}
