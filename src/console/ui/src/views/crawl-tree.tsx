// What a run of a crawl found, as a tree of the sites' addresses: its pages by their folders, and how each of them went.
import { useMemo, useState } from "preact/hooks";
import { api } from "../api/client";
import { useLoad } from "../api/use";
import { Badge, Bones, Choice, Empty, Trouble } from "../parts/basic";
import { number } from "../parts/figures";
import type { JobView } from "../generated/api";

const PAGE = 200;
const PAGES_MAX = 25;
/** Children of one node that are shown at once. */
const SHOWN = 60;
/** A tree of fewer pages is shown open. */
const OPEN_MAX = 80;

interface Node {
  name: string;
  jobs: JobView[];
  below: Map<string, Node>;
  pages: number;
  failed: number;
}

async function jobsOf(batchId: string, signal: AbortSignal): Promise<{ jobs: JobView[]; isCut: boolean }> {
  const jobs: JobView[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < PAGES_MAX; page++) {
    const found: { items: JobView[]; nextCursor: string | null } = await api("GET /api/v1/jobs", { query: { batchId, limit: PAGE, ...(cursor && { cursor }) }, signal });
    jobs.push(...found.items);
    cursor = found.nextCursor;
    if (!cursor) return { jobs, isCut: false };
  }
  return { jobs, isCut: true };
}

const empty = (name: string): Node => ({ name, jobs: [], below: new Map(), pages: 0, failed: 0 });

/** Puts the job where `path` leads, and counts it all the way down. */
function put(root: Node, path: readonly string[], job: JobView): void {
  let node = root;
  const count = (at: Node) => {
    at.pages += 1;
    if (job.status === "failed") at.failed += 1;
  };
  count(node);
  for (const name of path) {
    let next = node.below.get(name);
    if (!next) node.below.set(name, (next = empty(name)));
    node = next;
    count(node);
  }
  node.jobs.push(job);
}

function byAddress(jobs: readonly JobView[]): Node {
  const root = empty("");
  for (const job of jobs) {
    const { host, pathname, search } = new URL(job.url);
    const parts = pathname.split("/").filter(Boolean);
    put(root, [host, ...parts.slice(0, -1), `${parts.at(-1) ?? "/"}${search}`], job);
  }
  return root;
}

/** By the page on which each was found first; what was there at the beginning stands at the top. */
function byFinding(jobs: readonly JobView[]): Node {
  const from = new Map(jobs.map((job) => [job.url, typeof job.metadata["foundOn"] === "string" ? job.metadata["foundOn"] : undefined]));
  const root = empty("");
  for (const job of [...jobs].sort((a, b) => a.id.localeCompare(b.id))) {
    const path: string[] = [];
    const passed = new Set<string>();
    for (let at: string | undefined = job.url; at !== undefined && !passed.has(at); at = from.get(at)) {
      passed.add(at);
      path.unshift(at);
    }
    put(root, path, job);
  }
  return root;
}

function Branch({ of, open }: { of: Node; open: boolean }) {
  const [shown, setShown] = useState(SHOWN);
  const below = [...of.below.values()];
  const page = of.jobs[0];
  const name = page ? <a class="cut" href={`#/jobs/${page.id}`} title={page.url}>{of.name}</a> : <span class="cut">{of.name}</span>;
  const state = page && page.status !== "succeeded" && <Badge state={page.status} />;
  if (below.length === 0) return <li class="leaf">{name} {state}</li>;
  return (
    <li>
      <details open={open}>
        <summary>
          {name} {state}
          <span class="dim">{number(of.pages)} pages{of.failed > 0 && `, ${number(of.failed)} failed`}</span>
        </summary>
        <ul>
          {below.slice(0, shown).map((one) => <Branch key={one.name} of={one} open={open} />)}
          {below.length > shown && <li class="leaf"><button type="button" class="button small" onClick={() => setShown(shown + SHOWN)}>{number(below.length - shown)} more</button></li>}
        </ul>
      </details>
    </li>
  );
}

export function CrawlTree({ batch }: { batch: string }) {
  const found = useLoad((signal) => jobsOf(batch, signal), [batch]);
  const isKnown = found.value?.jobs.some((job) => typeof job.metadata["foundOn"] === "string") ?? false;
  const [picked, setPicked] = useState<"found" | "address">();
  const order = picked ?? (isKnown ? "found" : "address");
  const tree = useMemo(() => (order === "found" ? byFinding : byAddress)(found.value?.jobs ?? []), [found.value, order]);
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  if (tree.pages === 0) return <Empty title="No pages">The run asked for none.</Empty>;
  return (
    <div class="stack">
      {isKnown && <Choice label="Order" value={order} options={[["found", "By the page on which each was found"], ["address", "By address"]] as const} onPick={setPicked} />}
      {found.value.isCut && <p class="note warn">The newest {number(found.value.jobs.length)} pages are shown.</p>}
      <ul class="tree" aria-label="Pages">{[...tree.below.values()].map((one) => <Branch key={one.name} of={one} open={tree.pages <= OPEN_MAX} />)}</ul>
    </div>
  );
}
