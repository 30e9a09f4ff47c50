// Drift: how well attributes are found beside their past, what was mended where a site has changed, and what can be done about
// the rest.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useList } from "../api/use";
import { go, may, toast } from "../app/state";
import { Act, Badge, Dialog, Empty } from "../parts/basic";
import { many, number, percent, Time } from "../parts/figures";
import { List, Rows } from "../parts/list";
import type { AttributeDrift, AttributeRepair, Drift, DriftRepair } from "../generated/api";

/** What is said of a repair that was refused. */
const REASONS: Record<string, string> = {
  not_found: "its values stand nowhere on the new pages",
  too_few_pages: "too few new pages are stored",
  too_little_evidence: "too little speaks for any expression",
  ambiguous: "several expressions fit and say different things",
  no_agreement: "the pages do not agree",
  implausible: "what was found looks unlike what it gave before",
  unsupported: "it is read by nothing that could be learned anew",
  not_better: "nothing was found that is better",
  budget: "the work would have been too much",
  too_often: "it was repaired too often lately",
  no_attribute: "there is no such attribute any more",
  interrupted: "the box was stopped meanwhile",
};

const RESULTS: Record<AttributeRepair["result"], string> = {
  repaired: "It has new expressions.",
  refused: "It was left as it is",
  right: "Its expressions give what the newest pages show.",
  absent: "The pages do not show it any more.",
  other_page: "The pages are something else now.",
};

function told(repair: AttributeRepair): string {
  const text = RESULTS[repair.result];
  return repair.result === "refused" ? `${text}: ${REASONS[repair.reason ?? ""] ?? repair.reason?.replaceAll("_", " ") ?? "nothing could be trusted"}.` : text;
}

/** Where somebody should look: it is found less than before, or was not mended. */
const isUnwell = (one: AttributeDrift) => ["drifting", "broken", "absent"].includes(one.state);

function Repair({ of }: { of: DriftRepair }) {
  const versions = [
    of.fromVersion !== null && of.fromVersion !== of.toVersion && `the schema went from version ${of.fromVersion} to ${of.toVersion ?? "none"}`,
    of.attributesFromVersion !== null && of.attributesFromVersion !== of.attributesToVersion && `your own attributes went from version ${of.attributesFromVersion} to ${of.attributesToVersion ?? "none"}`,
  ].filter(Boolean);
  return (
    <>
      <p>
        Looked at <Time at={of.at} exact /> on {many(of.pages, "stored page")}{versions.length > 0 && `: ${versions.join(", ")}`}. {many(of.backfilled, "result")} read anew{of.isBackfilling && ", and more are being"}.
      </p>
      <Rows label="What came of the repair" rows={of.attributes} id={(one) => one.name} columns={[
        { title: "Attribute", cell: (one) => one.name },
        { title: "Repair", cell: (one) => <Badge state={one.result} /> },
        { title: "Why", cell: (one) => told(one) },
      ]} />
    </>
  );
}

function Page({ of }: { of: Drift }) {
  const point = async () => {
    const { items } = await api("GET /api/v1/extraction/results", { query: { domain: of.domain, pageType: of.pageType, sort: "newest", limit: 1 } });
    const newest = items[0];
    if (!newest) throw new Error("No page of this kind is stored any more");
    go(`/results/${newest.id}?teach`);
  };
  const discover = async () => {
    const { id } = await api("POST /api/v1/extraction/discover", { body: { domain: of.domain, pageType: of.pageType } });
    toast("The stored pages are being looked through for new expressions");
    go(`/schemas?domain=${encodeURIComponent(of.domain)}&discovery=${id}`);
  };
  return (
    <div class="stack">
      <Rows label="Attributes" rows={of.attributes} id={(one) => one.name} columns={[
        { title: "Attribute", cell: (one) => one.name },
        { title: "State", cell: (one) => <Badge state={one.state} /> },
        { title: "Found lately", number: true, cell: (one) => <>{percent(one.recent.found)} <span class="dim">of {number(one.recent.pages)}</span></> },
        { title: "Before", number: true, cell: (one) => <>{percent(one.baseline.found)} <span class="dim">of {number(one.baseline.pages)}</span></> },
        { title: "Since", cell: (one) => <Time at={one.since} /> },
      ]} />
      {of.lastRepair ? <Repair of={of.lastRepair} /> : <p class="hint">No repair was necessary yet. Where the pages still show what an attribute gave, the box finds it again by itself.</p>}
      {may("workflows:write") && (
        <div class="row">
          <Act kind={of.attributes.some(isUnwell) ? "main" : undefined} does={discover}>Propose new expressions</Act>
          <Act does={point}>Show it on the newest page</Act>
        </div>
      )}
    </div>
  );
}

export function DriftList() {
  const list = useList((cursor, signal) => api("GET /api/v1/extraction/drift", { query: { limit: 50, ...(cursor && { cursor }) }, signal }), []);
  const [open, setOpen] = useState<Drift>();
  return (
    <>
      <List list={list} id={(row) => `${row.domain} ${row.pageType}`} label="Drift" empty={<Empty title="Nothing is watched yet">Sites are watched once enough of their pages were read.</Empty>} columns={[
        { title: "Domain", cell: (row) => <a href={`#/schemas?domain=${encodeURIComponent(row.domain)}`}>{row.domain}</a> },
        { title: "Page type", cell: (row) => row.pageType },
        { title: "State", cell: (row) => <Badge state={row.state} /> },
        { title: "Since", cell: (row) => <Time at={row.since} /> },
        { title: "Not as before", cell: (row) => row.attributes.filter((one) => one.state !== "ok").slice(0, 5).map((one) => <div key={one.name}>{one.name}: {percent(one.recent.found)} of pages <span class="dim">before {percent(one.baseline.found)}</span></div>) },
        { title: "Last repair", cell: (row) => (row.lastRepair ? <><Time at={row.lastRepair.at} /><div class="hint">{row.lastRepair.attributes.map((one) => `${one.name} ${one.result.replaceAll("_", " ")}`).join(", ")}</div></> : <span class="dim">none</span>) },
        { title: "", cell: (row) => <button type="button" class="button small" onClick={() => setOpen(row)}>Details</button> },
      ]} />
      {open && <Dialog wide title={`${open.pageType} pages of ${open.domain}`} onClose={() => setOpen(undefined)}><Page of={open} /></Dialog>}
    </>
  );
}
