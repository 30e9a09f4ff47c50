// Pointing: an element of a stored page is pressed, expressions are proposed for it, and what they give here and on the other
// stored pages stands beside them before they are kept.
import { useEffect, useState } from "preact/hooks";
import { api, said } from "../api/client";
import { toast } from "../app/state";
import { Bones, Check, Choice, Field, Form, Text } from "../parts/basic";
import { many, percent, shown } from "../parts/figures";
import { Rows } from "../parts/list";
import type { AttributeType, ResultView, XpathWishView } from "../generated/api";
import { Progress, useReading } from "./backfill";
import { TYPES } from "./kinds";
import { PageFrame, type PointedAt } from "./page-frame";

const PAGE_TYPE = "product";

interface Wish {
  at: PointedAt;
  /** Of the element, or empty for its text. */
  attribute: string;
  isList: boolean;
}

/** What is read of an element unless somebody wants something else: of a picture its address. */
const first = (at: PointedAt): Wish => ({ at, attribute: at.text ? "" : (at.attributes[0] ?? ""), isList: false });

function Given({ told, of }: { told: XpathWishView; of: readonly number[] }) {
  return (
    <Rows label="What they give" rows={told.pages} id={(page) => page.jobId} columns={[
      { title: "Page", cell: (page) => <span class="cut" title={page.url}>{page.jobId === told.pages[0]?.jobId ? "This page" : page.url}</span> },
      ...of.map((index) => ({ title: of.length > 1 ? `Expression ${index + 1}` : "Value", cell: (page: XpathWishView["pages"][number]) => (page.values[index] === null ? <span class="dim">nothing</span> : <span class="cut">{shown(page.values[index])}</span>) })),
    ]} />
  );
}

function Proposals({ told, chosen, onChoose }: { told: XpathWishView; chosen: readonly number[]; onChoose: (chosen: readonly number[]) => void }) {
  const toggle = (index: number) => onChoose(chosen.includes(index) ? chosen.filter((one) => one !== index) : [...chosen, index].sort());
  return (
    <Rows label="Proposed expressions" rows={told.proposals.map((one, index) => ({ ...one, index }))} id={(one) => one.xpath} columns={[
      { title: "Keep", cell: (one) => <input type="checkbox" aria-label={`Keep ${one.xpath}`} checked={chosen.includes(one.index)} onChange={() => toggle(one.index)} /> },
      { title: "XPath", cell: (one) => <code class="whole">{one.xpath}</code> },
      { title: "Here", number: true, cell: (one) => many(one.nodes, "node") },
      { title: "Found on others", number: true, cell: (one) => percent(one.coverage) },
    ]} />
  );
}

interface Keeping {
  of: ResultView;
  wish: Wish;
  told: XpathWishView;
  onSaved: () => void;
}

function Keep({ of, wish, told, onSaved }: Keeping) {
  const [name, setName] = useState("");
  const [kind, setKind] = useState<AttributeType>(told.type);
  const [pageType, setPageType] = useState(of.pageType ?? PAGE_TYPE);
  const [chosen, setChosen] = useState<readonly number[]>(() => told.proposals.map((_, index) => index));
  const reading = useReading();
  const save = async () => {
    const xpaths = chosen.map((index) => told.proposals[index]?.xpath ?? "").filter(Boolean);
    if (xpaths.length === 0) throw new Error("Keep one expression at least");
    await api("POST /api/v1/extraction/attributes/{domain}", { path: { domain: of.domain }, body: { name, type: kind, xpaths, pageType: pageType || null } });
    // The attribute is saved: what fails from here on is told, and nothing is to be sent again.
    const count = await reading.read(of.domain, [pageType || PAGE_TYPE]).catch((error: unknown) => void toast(said(error), true));
    if (count !== undefined) toast(`${name} is read from now on; ${many(count, "stored page")} read anew`);
    onSaved();
  };
  return (
    <Form send="Save the attribute" onSend={save}>
      <Proposals told={told} chosen={chosen} onChoose={setChosen} />
      <Given told={told} of={chosen.length > 0 ? chosen : [0]} />
      {told.notes.map((note) => <p class="hint" key={note}>{note}</p>)}
      <div class="two">
        <Field label="Name"><Text required pattern="[A-Za-z_][A-Za-z0-9_]*" placeholder="price" value={name} onText={setName} /></Field>
        <Field label="Kind"><Choice value={kind} options={TYPES} onPick={setKind} /></Field>
        <Field label="Page type"><Text required value={pageType} onText={setPageType} /></Field>
      </div>
      {wish.attribute && <p class="hint">Its {wish.attribute} is read, and not its text.</p>}
      <Progress of={reading} />
    </Form>
  );
}

export function Point({ of, onSaved }: { of: ResultView; onSaved: () => void }) {
  const [wish, setWish] = useState<Wish>();
  const [told, setTold] = useState<XpathWishView | string>();
  const [walked, setWalked] = useState<PointedAt>();
  useEffect(() => {
    if (!wish) return;
    setTold(undefined);
    const control = new AbortController();
    const { at, attribute, isList } = wish;
    const body = { domain: of.domain, pageType: of.pageType ?? PAGE_TYPE, jobId: of.jobId, element: at.path, ...(at.isWhole && at.text && { text: at.text }), attribute: attribute || null, list: isList };
    api("POST /api/v1/extraction/propose-xpath", { body, signal: control.signal }).then(setTold, (error: unknown) => !control.signal.aborted && setTold(said(error)));
    return () => control.abort();
  }, [wish, of.id]);
  const reads = wish ? [["", "its text"] as const, ...wish.at.attributes.map((name) => [name, `its ${name}`] as const)] : [];
  return (
    <div class="stack">
      <p class="hint">Press what is to be read. With keys: <kbd>Tab</kbd> into the page, <kbd>→</kbd> and <kbd>←</kbd> go into an element and out of it, <kbd>↓</kbd> and <kbd>↑</kbd> to the one beside it, <kbd>Enter</kbd> chooses it.</p>
      <PageFrame of={of} onPick={(at) => setWish(first(at))} onWalk={setWalked} />
      <p class="quiet" role="status">{walked && `${walked.tag}: ${walked.text.slice(0, 120) || "no text"}`}</p>
      {wish && (
        <div class="filters bare">
          <span>Of <code>{wish.at.tag}</code> “{wish.at.text.slice(0, 60)}{wish.at.text.length > 60 && "…"}”:</span>
          <Choice label="What is read of it" value={wish.attribute} options={reads} onPick={(attribute) => setWish({ ...wish, attribute })} />
          <Check label="and all that is like it, as a list" on={wish.isList} onSet={(isList) => setWish({ ...wish, isList })} />
        </div>
      )}
      {wish && !told && <Bones />}
      {typeof told === "string" && <p class="note warn" role="alert">{told}</p>}
      {wish && told && typeof told !== "string" && (told.proposals.length === 0 ? (
        <p class="note warn" role="status">Nothing on the page is like it. Press another, or take it by itself.</p>
      ) : (
        <Keep key={JSON.stringify(wish)} of={of} wish={wish} told={told} onSaved={onSaved} />
      ))}
    </div>
  );
}
