// A graph as it is drawn: places of nodes, what may leave them, and changes that can be taken back.
import type { Dag, DagEdge, DagNode } from "../../generated/api";

export const NODE_WIDTH = 148;
export const NODE_HEIGHT = 48;
const [GAP_X, GAP_Y] = [70, 34];

export type Kind = DagNode["type"];
export type EdgeKind = DagEdge["type"];

/** The edges that may leave a node of this kind. */
export const LEAVING: Record<Kind, EdgeKind[]> = {
  start: ["always"],
  condition: ["true", "false"],
  provider: ["success", "failure", "blocked", "timeout"],
  race: ["success", "failure"],
  split: ["always"],
  wait: ["always"],
  extract: ["success", "low_quality"],
  output: ["always"],
  end: [],
};

export interface Spot {
  x: number;
  y: number;
}

/** Where each node stands: as it was put, or in columns by how far it is from the start. */
export function spots(dag: Dag): Map<string, Spot> {
  const depth = new Map<string, number>(dag.nodes.filter((node) => node.type === "start").map((node) => [node.id, 0]));
  for (let round = 0; round < dag.nodes.length; round++) {
    for (const edge of dag.edges) {
      const from = depth.get(edge.source);
      if (from !== undefined && (depth.get(edge.target) ?? -1) < from + 1 && from < dag.nodes.length) depth.set(edge.target, from + 1);
    }
  }
  const taken = new Map<number, number>();
  const found = new Map<string, Spot>();
  for (const node of dag.nodes) {
    const [x, y] = [node.position?.["x"], node.position?.["y"]];
    if (typeof x === "number" && typeof y === "number") {
      found.set(node.id, { x, y });
      continue;
    }
    const column = depth.get(node.id) ?? 0;
    const row = taken.get(column) ?? 0;
    taken.set(column, row + 1);
    found.set(node.id, { x: 30 + column * (NODE_WIDTH + GAP_X), y: 40 + row * (NODE_HEIGHT + GAP_Y) });
  }
  return found;
}

export function moved(dag: Dag, id: string, to: Spot): Dag {
  return { ...dag, nodes: dag.nodes.map((node) => (node.id === id ? { ...node, position: { x: Math.round(to.x), y: Math.round(to.y) } } : node)) };
}

/** A node of this kind with what it must have, which is then filled in. */
function fresh(kind: Kind, id: string, position: Spot, first: string): DagNode {
  const place = { id, position: { ...position } };
  switch (kind) {
    case "start":
      return { ...place, type: kind };
    case "condition":
      return { ...place, type: kind, config: { field: "domain", op: "eq", value: "" } };
    case "provider":
      return { ...place, type: kind, config: { providerId: first } };
    case "race":
      return { ...place, type: kind, config: { providerIds: [first] } };
    case "split":
      return { ...place, type: kind, config: { weights: {} } };
    case "wait":
      return { ...place, type: kind, config: { ms: 1_000 } };
    case "extract":
      return { ...place, type: kind };
    case "output":
      return { ...place, type: kind, config: { outputId: "" } };
    case "end":
      return { ...place, type: kind, config: { status: "succeeded" } };
  }
}

export function added(dag: Dag, kind: Kind, at: Spot, firstProvider: string): { dag: Dag; id: string } {
  let number = 1;
  while (dag.nodes.some((node) => node.id === `${kind}${number}`)) number++;
  const id = `${kind}${number}`;
  return { dag: { ...dag, nodes: [...dag.nodes, fresh(kind, id, at, firstProvider)] }, id };
}

export function removed(dag: Dag, id: string): Dag {
  return { nodes: dag.nodes.filter((node) => node.id !== id), edges: dag.edges.filter((edge) => edge.source !== id && edge.target !== id) };
}

/** The edge is there; of kinds that may leave once only, it takes the place of the one before. */
export function connected(dag: Dag, source: string, target: string, type: EdgeKind): Dag {
  const kind = dag.nodes.find((node) => node.id === source)?.type;
  const others = dag.edges.filter((edge) => edge.source !== source || (kind === "split" ? edge.target !== target : edge.type !== type));
  return { ...dag, edges: target ? [...others, { source, target, type }] : others };
}

/** What the box says of a path such as `nodes[2].config.ms`: the node that it is about. */
export function nodeOf(dag: Dag, path: string): string | undefined {
  const node = /nodes\[(\d+)\]/.exec(path);
  if (node) return dag.nodes[Number(node[1])]?.id;
  const edge = /edges\[(\d+)\]/.exec(path);
  return edge ? dag.edges[Number(edge[1])]?.source : undefined;
}
