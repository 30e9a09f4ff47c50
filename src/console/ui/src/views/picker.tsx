// Teaching: by pointing at an element, or by examples on several pages; what comes of it is shown on the site's other pages
// before it is saved.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useLoad } from "../api/use";
import { toast } from "../app/state";
import { Act, Bones, Field, Form, Tabs, Text, Trouble } from "../parts/basic";
import { percent, shown } from "../parts/figures";
import { Rows } from "../parts/list";
import type { LessonView, ResultView } from "../generated/api";
import { PageFrame } from "./page-frame";
import { Point } from "./point";

function Learned({ told }: { told: LessonView }) {
  const names = told.attributes.map((one) => one.name);
  return (
    <div class="stack" role="status">
      {told.leftOut.length > 0 && <p class="note warn">Nothing was learned of {told.leftOut.join(", ")}: the texts do not stand so on the page.</p>}
      {told.attributes.length > 0 && <Rows label="Learned" rows={told.attributes} id={(one) => one.name} columns={[
        { title: "Attribute", cell: (one) => one.name },
        { title: "Kind", cell: (one) => one.type },
        { title: "XPath", cell: (one) => <code class="cut" title={one.xpaths.join("\n")}>{one.xpaths[0]}</code> },
        { title: "Confidence", number: true, cell: (one) => percent(one.confidence) },
      ]} />}
      {told.preview.length > 0 && <Rows label="On other pages" rows={told.preview.slice(0, 12)} id={(one) => one.jobId} columns={[
        { title: "Page", cell: (one) => <span class="cut" title={one.url}>{one.url}</span> },
        ...names.map((name) => ({ title: name, cell: (one: LessonView["preview"][number]) => shown(one.values[name]) || "nothing" })),
      ]} />}
    </div>
  );
}

/** What was chosen: a name, and its text on each of the pages. */
interface Choice {
  name: string;
  texts: readonly string[];
}

const PAGES = 3;
const EXAMPLES_MIN = 2;

/** The page itself and others like it, each of another address. */
async function likes(of: ResultView, signal: AbortSignal): Promise<ResultView[]> {
  const query = { domain: of.domain, ...(of.pageType && { pageType: of.pageType }), limit: 50 };
  const { items } = await api("GET /api/v1/extraction/results", { query, signal });
  const others = new Map(items.filter((one) => one.url !== of.url).map((one) => [one.url, one]));
  return [of, ...others.values()].slice(0, PAGES);
}

function Examples({ of, onSaved }: { of: ResultView; onSaved: () => void }) {
  const pages = useLoad((signal) => likes(of, signal), [of.id]);
  const [at, setAt] = useState("0");
  const [chosen, setChosen] = useState<readonly Choice[]>([]);
  const [told, setTold] = useState<LessonView>();
  const [walked, setWalked] = useState("");
  if (pages.error) return <Trouble error={pages.error} retry={pages.reload} />;
  if (!pages.value) return <Bones />;
  const all = pages.value;
  const here = all[Number(at)];
  if (all.length < EXAMPLES_MIN || !here) return <p class="note warn">Two stored pages of this kind are needed, and there is one. Collect another of {of.domain} first.</p>;
  const put = (index: number, change: Partial<Choice>) => {
    setTold(undefined);
    setChosen(chosen.map((one, place) => (place === index ? { ...one, ...change } : one)));
  };
  const write = (index: number, text: string) => put(index, { texts: all.map((_, page) => (page === Number(at) ? text : (chosen[index]?.texts[page] ?? ""))) });
  const pick = (text: string) => {
    if (!text) return;
    const open = chosen.findIndex((one) => !one.texts[Number(at)]);
    if (open >= 0) return write(open, text);
    setTold(undefined);
    setChosen([...chosen, { name: "", texts: all.map((_, page) => (page === Number(at) ? text : "")) }]);
  };
  const examples = all
    .map((page, index) => ({ jobId: page.jobId, values: Object.fromEntries(chosen.filter((one) => one.name && one.texts[index]).map((one) => [one.name, one.texts[index] ?? ""])) }))
    .filter((example) => Object.keys(example.values).length > 0);
  const lesson = (save: boolean) => api("POST /api/v1/extraction/learn", { body: { domain: of.domain, pageType: of.pageType ?? "product", examples, save } });
  const look = async () => setTold(await lesson(false));
  const save = async () => {
    await lesson(true);
    toast("These are read from now on");
    onSaved();
  };
  return (
    <div class="stack">
      <p class="hint">Press what is to be read, name it, and show it on a second page, too.</p>
      <Tabs label="Pages" tabs={all.map((_, index) => [String(index), `Page ${index + 1}`] as const)} at={at} onPick={setAt} />
      <PageFrame key={here.id} of={here} onPick={(at) => pick(at.text)} onWalk={(at) => setWalked(at.text)} />
      <p class="quiet" role="status">{walked.slice(0, 120)}</p>
      {chosen.length > 0 && (
        <Form send="See what it gives" onSend={look}>
          {chosen.map((one, index) => (
            <div class="two" key={index}>
              <Field label="Name"><Text required pattern="[A-Za-z_][A-Za-z0-9_]*" placeholder="price" value={one.name} onText={(name) => put(index, { name })} /></Field>
              <Field label={`Text on page ${Number(at) + 1}`} hint={`Shown on ${one.texts.filter(Boolean).length} of ${all.length} pages`}><Text value={one.texts[Number(at)] ?? ""} onText={(text) => write(index, text)} /></Field>
            </div>
          ))}
        </Form>
      )}
      <div class="row">
        <button type="button" class="button small" onClick={() => setChosen([...chosen, { name: "", texts: all.map(() => "") }])}>Add by hand</button>
      </div>
      {told && <Learned told={told} />}
      {told && told.attributes.length > 0 && <div class="row end"><Act kind="main" does={save}>Save the attributes</Act></div>}
    </div>
  );
}

const WAYS = [["point", "By pointing"], ["examples", "By examples"]] as const;

export function Picker({ of, onSaved }: { of: ResultView; onSaved: () => void }) {
  const [way, setWay] = useState<"point" | "examples">("point");
  return (
    <div class="stack">
      <Tabs label="How it is taught" tabs={WAYS} at={way} onPick={setWay} />
      {way === "point" ? <Point of={of} onSaved={onSaved} /> : <Examples of={of} onSaved={onSaved} />}
    </div>
  );
}
