// The graph of a workflow: nodes are moved by pointer or arrow keys, and everything else is done beside it.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../../api/client";
import { useLoad } from "../../api/use";
import { may } from "../../app/state";
import { Act } from "../../parts/basic";
import { many, number } from "../../parts/figures";
import type { Dag, DagNode, ValidationView } from "../../generated/api";
import { Settings } from "./settings";
import { added, LEAVING, moved, NODE_HEIGHT, NODE_WIDTH, nodeOf, removed, type Kind, type Spot, spots } from "./shape";

const KINDS: readonly Kind[] = ["provider", "race", "condition", "split", "wait", "extract", "output", "end"];
const CHECK_AFTER_MS = 400;
const STEP = 10;

function about(node: DagNode, nameOf: (provider: string) => string): string {
  switch (node.type) {
    case "provider":
      return nameOf(node.config.providerId);
    case "race":
      return node.config.providerIds.map(nameOf).join(", ");
    case "condition":
      return `${node.config.field} ${node.config.op} ${String(node.config.value ?? "")}`;
    case "wait":
      return `${node.config.ms} ms`;
    case "end":
      return node.config.status;
    default:
      return node.id;
  }
}

const cut = (text: string) => (text.length > 19 ? `${text.slice(0, 18)}…` : text);

function Edge({ from, to, kind }: { from: Spot; to: Spot; kind: string }) {
  const [x1, y1] = [from.x + NODE_WIDTH, from.y + NODE_HEIGHT / 2];
  const [x2, y2] = [to.x, to.y + NODE_HEIGHT / 2];
  const bend = Math.max(40, Math.abs(x2 - x1) / 2);
  return (
    <g>
      <path class={`edge ${kind}`} d={`M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} marker-end="url(#arrow)" />
      {kind !== "always" && <text class="edge" x={(x1 + x2) / 2} y={(y1 + y2) / 2 - 5} text-anchor="middle">{kind.replace("_", " ")}</text>}
    </g>
  );
}

/** What the box says of the graph while it is drawn. */
function useFaults(dag: Dag): ValidationView | undefined {
  const [told, setTold] = useState<ValidationView>();
  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(() => {
      api("POST /api/v1/workflows/validate", { body: { dag }, signal: control.signal }).then(setTold, () => undefined);
    }, CHECK_AFTER_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [dag]);
  return told;
}

interface Props {
  start: Dag;
  /** Nodes that differ from those of another version. */
  marked?: ReadonlySet<string>;
  onSave?: (dag: Dag) => Promise<void>;
}

export function Graph({ start, marked, onSave }: Props) {
  const [past, setPast] = useState<Dag[]>([]);
  const [dag, setDag] = useState(start);
  const [chosen, setChosen] = useState<string>();
  const drag = useRef<{ id: string; dx: number; dy: number; before: Dag }>();
  const svg = useRef<SVGSVGElement>(null);
  const faults = useFaults(dag);
  const providers = useLoad((signal) => (may("providers:read") ? api("GET /api/v1/providers", { query: { limit: 200 }, signal }) : Promise.resolve({ items: [], nextCursor: null })), []);
  const names = new Map(providers.value?.items.map((one) => [one.id, one.name]));
  const nameOf = (provider: string) => names.get(provider) ?? "not connected";
  const places = spots(dag);
  const wrong = new Map(faults?.errors.map((fault) => [nodeOf(dag, fault.path), fault.message]));
  const change = (next: Dag) => {
    setPast([...past.slice(-49), dag]);
    setDag(next);
  };
  const undo = () => {
    const before = past.at(-1);
    if (!before) return;
    setDag(before);
    setPast(past.slice(0, -1));
  };
  const width = Math.max(900, ...[...places.values()].map((spot) => spot.x + NODE_WIDTH + 40));
  const height = Math.max(420, ...[...places.values()].map((spot) => spot.y + NODE_HEIGHT + 40));
  const point = (event: PointerEvent): Spot => {
    const matrix = svg.current?.getScreenCTM()?.inverse();
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    return { x: at.x, y: at.y };
  };
  const grab = (id: string, spot: Spot) => (event: PointerEvent) => {
    setChosen(id);
    if (!onSave) return;
    const at = point(event);
    drag.current = { id, dx: at.x - spot.x, dy: at.y - spot.y, before: dag };
    svg.current?.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    const held = drag.current;
    if (!held) return;
    const at = point(event);
    setDag(moved(dag, held.id, { x: Math.max(0, at.x - held.dx), y: Math.max(0, at.y - held.dy) }));
  };
  const drop = () => {
    if (drag.current && drag.current.before !== dag) setPast([...past.slice(-49), drag.current.before]);
    drag.current = undefined;
  };
  const keys = (id: string, spot: Spot) => (event: KeyboardEvent) => {
    const steps: Record<string, Spot> = { ArrowLeft: { x: -STEP, y: 0 }, ArrowRight: { x: STEP, y: 0 }, ArrowUp: { x: 0, y: -STEP }, ArrowDown: { x: 0, y: STEP } };
    const step = steps[event.key];
    if (event.key === "Enter" || event.key === " ") setChosen(id);
    else if (onSave && step) change(moved(dag, id, { x: Math.max(0, spot.x + step.x), y: Math.max(0, spot.y + step.y) }));
    else if (onSave && event.key === "Delete") change(removed(dag, id));
    else if (onSave && event.key === "z" && event.ctrlKey) undo();
    else return;
    event.preventDefault();
  };
  const put = (kind: Kind) => {
    const made = added(dag, kind, { x: 260, y: Math.max(0, ...[...places.values()].map((spot) => spot.y)) + NODE_HEIGHT + 28 }, providers.value?.items[0]?.id ?? "");
    change(made.dag);
    setChosen(made.id);
  };
  const node = dag.nodes.find((one) => one.id === chosen);
  return (
    <div>
      {onSave && (
        <div class="filters">
          {KINDS.map((kind) => <button type="button" class="button small" key={kind} onClick={() => put(kind)}>+ {kind}</button>)}
          <span class="grow" />
          <button type="button" class="button small" disabled={past.length === 0} onClick={undo}>Undo</button>
          <Act small kind="main" disabled={past.length === 0 || faults?.valid === false} does={() => onSave(dag)}>Save as a new version</Act>
        </div>
      )}
      <div class="scroll" tabIndex={0} role="region" aria-label="Graph of the workflow">
        <svg ref={svg} class="graph" style={marked && { minWidth: "640px" }} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="xMinYMin meet" onPointerMove={move} onPointerUp={drop} onPointerCancel={drop}>
          <defs>
            <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="var(--line-strong)" /></marker>
          </defs>
          {dag.edges.map((edge, index) => {
            const [from, to] = [places.get(edge.source), places.get(edge.target)];
            return from && to && <Edge key={index} from={from} to={to} kind={edge.type} />;
          })}
          {dag.nodes.map((one) => {
            const spot = places.get(one.id) ?? { x: 0, y: 0 };
            const fault = wrong.get(one.id);
            const isMarked = marked?.has(one.id);
            return (
              <g key={one.id} class={`node ${one.id === chosen ? "chosen" : ""} ${fault ? "wrong" : ""}`} transform={`translate(${spot.x} ${spot.y})`} tabindex={0} role="button" aria-label={`${one.type} ${one.id}${isMarked ? ", differs" : ""}${fault ? `: ${fault}` : ""}`} onPointerDown={grab(one.id, spot)} onKeyDown={keys(one.id, spot)}>
                <rect width={NODE_WIDTH} height={NODE_HEIGHT} rx="8" style={isMarked ? { stroke: "var(--warn)", strokeWidth: 2.4, strokeDasharray: "6 3" } : undefined} />
                <text class="kind" x="12" y="19">{one.type}</text>
                <text x="12" y="37">{cut(about(one, nameOf))}</text>
                {fault && <title>{fault}</title>}
              </g>
            );
          })}
        </svg>
      </div>
      {faults && (
        <div class="status" role="status">
          <span class={`badge ${faults.valid ? "good" : "bad"}`}>{faults.valid ? "holds" : many(faults.errors.length, "fault")}</span>
          {faults.maxCredits !== null && <span class="dim">at most {number(faults.maxCredits)} credits a job</span>}
          {[...faults.errors, ...faults.warnings].slice(0, 4).map((fault) => <span key={`${fault.path}${fault.code}`} class="warn">{fault.path}: {fault.message}</span>)}
        </div>
      )}
      {node && onSave && <Settings key={node.id} dag={dag} node={node} providers={providers.value?.items ?? []} leaving={LEAVING[node.type]} onChange={change} onRemove={() => (change(removed(dag, node.id)), setChosen(undefined))} />}
    </div>
  );
}
