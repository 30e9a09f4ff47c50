// What a chosen node is set to, and where its edges lead.
import { Check, Choice, Field, Text } from "../../parts/basic";
import type { ConditionConfig, Dag, DagNode, ProviderView } from "../../generated/api";
import { connected, type EdgeKind } from "./shape";

const FIELDS = ["url", "domain", "pageType", "tag", "attempts", "httpStatus"] as const;
const OPERATORS = ["eq", "ne", "in", "not_in", "contains", "starts_with", "ends_with", "matches", "lt", "lte", "gt", "gte", "is_null", "not_null"] as const;
const same = <T extends string>(list: readonly T[]) => list.map((one) => [one, one.replaceAll("_", " ")] as const);

interface Props {
  dag: Dag;
  node: DagNode;
  providers: readonly ProviderView[];
  leaving: readonly EdgeKind[];
  onChange: (dag: Dag) => void;
  onRemove: () => void;
}

function Condition({ config, onSet }: { config: ConditionConfig; onSet: (config: ConditionConfig) => void }) {
  const text = Array.isArray(config.value) ? config.value.join(", ") : String(config.value ?? "");
  const read = (typed: string): Pick<ConditionConfig, "value"> => {
    const one = (part: string) => (["attempts", "httpStatus"].includes(config.field) && part.trim() !== "" && Number.isFinite(Number(part)) ? Number(part) : part.trim());
    return { value: config.op === "in" || config.op === "not_in" ? typed.split(",").map(one) : one(typed) };
  };
  return (
    <>
      <Field label="Field"><Choice value={config.field} options={same(FIELDS)} onPick={(field) => onSet({ ...config, field })} /></Field>
      <Field label="Is"><Choice value={config.op as (typeof OPERATORS)[number]} options={same(OPERATORS)} onPick={(op) => onSet({ ...config, op })} /></Field>
      <Field label="Value"><Text value={text} onText={(typed) => onSet({ ...config, ...read(typed) })} /></Field>
    </>
  );
}

function Config({ node, providers, set }: { node: DagNode; providers: readonly ProviderView[]; set: (node: DagNode) => void }) {
  const all = providers.map((one) => [one.id, one.name] as const);
  switch (node.type) {
    case "provider":
      return (
        <>
          <Field label="Provider"><Choice value={node.config.providerId} options={all} onPick={(providerId) => set({ ...node, config: { ...node.config, providerId } })} /></Field>
          <Field label="Country"><Text placeholder="any" maxLength={2} value={node.config.country ?? ""} onText={(country) => { const { country: _, ...rest } = node.config; set({ ...node, config: country ? { ...rest, country: country.toUpperCase() } : rest }); }} /></Field>
          <Field label="Tries again"><Text type="number" min={0} value={String(node.config.retries ?? 0)} onText={(retries) => set({ ...node, config: { ...node.config, retries: Number(retries) } })} /></Field>
          <Check label="With its scripts run" on={node.config.render ?? false} onSet={(render) => set({ ...node, config: { ...node.config, render } })} />
          <Check label="Premium" on={node.config.premium ?? false} onSet={(premium) => set({ ...node, config: { ...node.config, premium } })} />
        </>
      );
    case "race":
      return (
        <fieldset class="permissions">
          <legend>Asked at once</legend>
          {all.map(([id, name]) => <Check key={id} label={name} on={node.config.providerIds.includes(id)} onSet={(on) => set({ ...node, config: { ...node.config, providerIds: on ? [...node.config.providerIds, id] : node.config.providerIds.filter((one) => one !== id) } })} />)}
        </fieldset>
      );
    case "condition":
      return <Condition config={node.config} onSet={(config) => set({ ...node, config })} />;
    case "wait":
      return <Field label="Milliseconds"><Text type="number" min={0} max={60_000} value={String(node.config.ms)} onText={(ms) => set({ ...node, config: { ms: Number(ms) } })} /></Field>;
    case "extract":
      return <Field label="Quality at least" hint="0 to 1; below it the edge “low quality” is taken."><Text type="number" min={0} max={1} step={0.05} value={String(node.config?.minQuality ?? "")} onText={(text) => set({ ...node, config: text ? { minQuality: Number(text) } : {} })} /></Field>;
    case "output":
      return <Field label="Output's id"><Text value={node.config.outputId} onText={(outputId) => set({ ...node, config: { outputId } })} /></Field>;
    case "end":
      return <Field label="The job has"><Choice value={node.config.status} options={[["succeeded", "succeeded"], ["failed", "failed"]] as const} onPick={(status) => set({ ...node, config: { status } })} /></Field>;
    default:
      return null;
  }
}

export function Settings({ dag, node, providers, leaving, onChange, onRemove }: Props) {
  const set = (next: DagNode) => onChange({ ...dag, nodes: dag.nodes.map((one) => (one.id === node.id ? next : one)) });
  const targets = [["", "nowhere"] as const, ...dag.nodes.filter((one) => one.id !== node.id && one.type !== "start").map((one) => [one.id, `${one.type} ${one.id}`] as const)];
  const weigh = (target: string, weight: string) => {
    if (node.type !== "split") return;
    const weights = { ...node.config.weights, [target]: Number(weight) };
    if (!weight || Number(weight) <= 0) delete weights[target];
    const next = { ...dag, nodes: dag.nodes.map((one) => (one.id === node.id ? { ...node, config: { ...node.config, weights } } : one)) };
    onChange(connected(next, node.id, target, "always"));
  };
  return (
    <div class="settings form">
      <div class="row">
        <h2 class="grow">{node.type} {node.id}</h2>
        {node.type !== "start" && <button type="button" class="button small bad" onClick={onRemove}>Delete the node</button>}
      </div>
      <div class="two"><Config node={node} providers={providers} set={set} /></div>
      <div class="two">
        {node.type === "split"
          ? targets.slice(1).map(([id, name]) => <Field key={id} label={`Weight of ${name}`}><Text type="number" min={0} value={String(node.config.weights[id] ?? "")} onText={(weight) => weigh(id, weight)} /></Field>)
          : leaving.map((kind) => (
              <Field key={kind} label={`${kind.replace("_", " ")} leads to`}>
                <Choice value={dag.edges.find((edge) => edge.source === node.id && edge.type === kind)?.target ?? ""} options={targets} onPick={(target) => onChange(connected(dag, node.id, target, kind))} />
              </Field>
            ))}
      </div>
    </div>
  );
}
