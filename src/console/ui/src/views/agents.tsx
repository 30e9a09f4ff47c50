// Agents: conversations over the data. What was asked, what was answered by which SQL, and cards, of which a click sends the
// action's id and the value that it came with, and nothing else.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, api, said } from "../api/client";
import { useList, useLoad } from "../api/use";
import { go, here, may, me, toast } from "../app/state";
import { Act, Bones, copy, Dialog, Empty, Field, Form, Head, Panel, Text, Trouble } from "../parts/basic";
import { number, shown, Time } from "../parts/figures";
import { List, Rows } from "../parts/list";
import type { ActionView, AgentMessageView, CardEntryView, HistoryView, ResultPageView } from "../generated/api";
import { Bars, Points } from "./sql/chart";
import { Grid, type Row } from "./sql/grid";
import { DRAFT } from "./sql/run";

type Card = CardEntryView["card"];
const MESSAGES_PAGE = 200;
/** Of a longer conversation the newest are drawn. */
const MESSAGES_MAX = 2_000;

interface Told {
  messages: AgentMessageView[];
  history: HistoryView;
  /** Where the last page begins: what is new comes on it, or behind it. */
  last: string | undefined;
}

/** All that was said; where some of it is known, only its last page and what came since are asked for. */
async function told(id: string, known: Told | undefined, signal?: AbortSignal): Promise<Told> {
  let [messages, last] = [known?.messages ?? [], known?.last];
  for (;;) {
    const query = { limit: MESSAGES_PAGE, ...(last && { cursor: last }) };
    const { items, nextCursor } = await api("GET /api/v1/agents/{id}/messages", { path: { id }, query, ...(signal && { signal }) });
    const seen = messages.at(-1)?.seq ?? 0;
    messages = [...messages, ...items.filter((one) => one.seq > seen)];
    if (!nextCursor) break;
    last = nextCursor;
  }
  const history = await api("GET /api/v1/agents/{id}/cards", { path: { id }, ...(signal && { signal }) });
  return { messages, history, last };
}

function openInSql(sql: string): void {
  sessionStorage.setItem(DRAFT, sql);
  go("/sql");
}

/** A text whose fenced parts are statements; all of it is shown as it is. */
function Prose({ text }: { text: string }) {
  return (
    <>
      {text.split(/```(?:sql)?\n([\s\S]*?)\n?```/).map((part, index) => {
        if (index % 2 === 0) return part.trim() && <p key={index} class="said">{part.trim()}</p>;
        return (
          <div key={index} class="statement">
            <pre tabIndex={0} aria-label="The statement">{part}</pre>
            <div class="row">
              <button type="button" class="button small" onClick={() => void copy(part)}>Copy SQL</button>
              {may("bi:read") && <button type="button" class="button small" onClick={() => openInSql(part)}>Open in SQL</button>}
            </div>
          </div>
        );
      })}
    </>
  );
}

function AllRows({ query, columns }: { query: string; columns: readonly string[] }) {
  const found = useLoad<ResultPageView>((signal) => api("GET /api/v1/bi/queries/{id}/results", { path: { id: query }, query: { page: 0 }, signal }), [query]);
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  return <Grid id={query} columns={columns} total={found.value.totalRows} first={found.value.rows as Row[]} />;
}

type TableCard = Extract<Card, { type: "table" }>;
type ChartCard = Extract<Card, { type: "chart" }>;

function Table({ of }: { of: TableCard["payload"] }) {
  const [open, setOpen] = useState(false);
  const names = of.columns.map((column) => column.name);
  const isMore = of.totalRows === null || of.totalRows > of.rows.length;
  const rows = of.rows.map((cells, index) => ({ cells, index }));
  return (
    <>
      {rows.length === 0 ? <Empty title="No rows" /> : (
        <Rows label="Answer" rows={rows} id={(row) => String(row.index)} columns={of.columns.map((column, at) => ({ title: column.name, number: rows.some((row) => typeof row.cells[at] === "number"), cell: (row: (typeof rows)[number]) => (row.cells[at] === null ? <span class="dim">null</span> : shown(row.cells[at])) }))} />
      )}
      {isMore && rows.length > 0 && (
        <div class="more">
          <button type="button" class="button small" onClick={() => setOpen(true)}>{of.totalRows === null ? "All rows" : `All ${number(of.totalRows)} rows`}</button>
        </div>
      )}
      {open && <Dialog wide title="All rows" onClose={() => setOpen(false)}><AllRows query={of.queryId} columns={names} /></Dialog>}
    </>
  );
}

function Chart({ of }: { of: ChartCard["payload"] }) {
  const rows = of.points.map((point) => ({ [of.x]: point.x, [of.y]: point.y }));
  return <div class="inner">{of.kind === "line" ? <Points rows={rows} x={of.x} y={[of.y]} height={220} /> : <Bars rows={rows} x={of.x} y={of.y} />}</div>;
}

function Actions({ actions, chosen, onClick }: { actions: readonly ActionView[]; chosen: string | undefined; onClick: (action: ActionView) => Promise<void> }) {
  return (
    <div class="row">
      {actions.map((action, index) => {
        const isOver = chosen !== undefined && !action.repeatable;
        return (
          <Act key={action.id} small kind={index === 0 && !isOver ? "main" : undefined} disabled={isOver || !may("agents:write")} does={() => onClick(action)}>
            {chosen === action.id && "✓ "}{action.label}
          </Act>
        );
      })}
    </div>
  );
}

interface CardProps {
  card: Card;
  history: HistoryView;
  onAct: (card: Card, action: ActionView) => Promise<void>;
}

function CardView({ card, history, onAct }: CardProps) {
  const resolved = history.resolutions.find((one) => one.cardId === card.id);
  const receipt = history.saveReceipts.find((one) => one.cardId === card.id);
  const outcome = resolved ? undefined : history.saveOutcomes.findLast((one) => one.cardId === card.id);
  const act = (action: ActionView) => onAct(card, action);
  switch (card.type) {
    case "table":
      return <Panel flush><Table of={card.payload} /></Panel>;
    case "chart":
      return <Panel flush title={`${card.payload.y} by ${card.payload.x}`}><Chart of={card.payload} /></Panel>;
    case "question":
      return <Panel><div class="stack"><strong>{card.payload.question}</strong><Actions actions={card.actions} chosen={resolved?.actionId} onClick={act} /></div></Panel>;
    case "save_query_offer":
      return (
        <Panel>
          <div class="stack">
            <div>
              <strong>Keep this query as “{card.payload.proposedName}”?</strong>
              {card.payload.proposedDescription && <p class="hint">{card.payload.proposedDescription}</p>}
            </div>
            {outcome && <p class="note warn">The name “{outcome.proposedName}” is taken. Nothing was saved.</p>}
            <div class="row">
              <Actions actions={card.actions} chosen={resolved?.actionId} onClick={act} />
              {receipt && (receipt.savedQueryId ? <a href={`#/sql?saved=${receipt.savedQueryId}`}>The saved query</a> : <span class="dim">It was saved, and deleted since.</span>)}
            </div>
          </div>
        </Panel>
      );
    default:
      return null;
  }
}

function Message({ of, told, onAct }: { of: AgentMessageView; told: Told; onAct: CardProps["onAct"] }) {
  // What is said of a card later names it, too; it stands where it was shown.
  const entry = of.cardId ? told.history.cards.find((one) => one.card.id === of.cardId && one.seq === of.seq) : undefined;
  // These say themselves what the text says.
  const isSaid = entry?.card.type === "question" || entry?.card.type === "save_query_offer";
  return (
    <li class={`message ${of.role}`} aria-label={of.role === "user" ? "Asked" : "Answered"}>
      {!isSaid && <Prose text={of.text} />}
      {entry && <CardView card={entry.card} history={told.history} onAct={onAct} />}
    </li>
  );
}

/** What can be asked of the box at once; the words are those of its grammar. */
const EXAMPLES = ["how many urls by page type", "average price of products by currency"];

function Ask({ busy, onAsk }: { busy: boolean; onAsk: (text: string) => Promise<boolean> }) {
  const [text, setText] = useState("");
  const send = async () => {
    if (!text.trim() || busy) return;
    if (await onAsk(text.trim())) setText("");
  };
  return (
    <form class="ask" onSubmit={(event) => (event.preventDefault(), void send())}>
      <textarea
        rows={2}
        maxLength={16_000}
        aria-label="Question"
        placeholder="Ask in plain words, or write one SELECT"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      <button class="button main" disabled={busy}>{busy ? "Asking …" : "Ask"}</button>
    </form>
  );
}

function Conversation({ id }: { id: string }) {
  const agent = useLoad((signal) => api("GET /api/v1/agents/{id}", { path: { id }, signal }), [id]);
  const known = useRef<Told>();
  const found = useLoad((signal) => told(id, known.current, signal), [id]);
  known.current = found.value;
  const [asked, setAsked] = useState<string>();
  const [error, setError] = useState<string>();
  const end = useRef<HTMLLIElement>(null);
  const count = found.value?.messages.length ?? 0;
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [count, asked]);
  useEffect(() => {
    // Another tab may have gone on with it.
    window.addEventListener("focus", found.reload);
    return () => window.removeEventListener("focus", found.reload);
  }, [id]);
  const failed = agent.error ?? found.error;
  const trouble = failed && <Trouble error={failed} retry={() => (agent.reload(), found.reload())} />;
  // What is being typed stays where only a later look fails.
  if (!agent.value || !found.value) return trouble || <Bones />;
  const all = found.value;
  const refresh = async () => found.set(await told(id, known.current));
  const ask = async (text: string) => {
    setAsked(text);
    setError(undefined);
    try {
      await api("POST /api/v1/agents/{id}/messages", { path: { id }, body: { text } });
      await refresh();
      return true;
    } catch (reason) {
      setError(said(reason));
      return false;
    } finally {
      setAsked(undefined);
    }
  };
  const act = async (card: Card, action: ActionView) => {
    try {
      await api("POST /api/v1/agents/{id}/messages", { path: { id }, body: { cardId: card.id, actionId: action.id, value: action.value } });
    } catch (reason) {
      if (!(reason instanceof ApiError && reason.status === 409)) throw reason;
      toast("That was answered already, perhaps in another tab", true);
    }
    await refresh();
  };
  const remove = async () => {
    await api("DELETE /api/v1/agents/{id}", { path: { id } });
    go("/agents");
  };
  return (
    <>
      <Head title={agent.value.name} about={<>Begun <Time at={agent.value.createdAt} exact /></>}>
        {may("agents:write") && <Act kind="bad" sure={`Delete “${agent.value.name}” and all that was said in it?`} does={remove}>Delete</Act>}
      </Head>
      <div class="conversation">
        {all.messages.length === 0 && !asked && <Empty title="Nothing was asked yet">Such as: {EXAMPLES.map((one) => <button type="button" class="button small" key={one} onClick={() => void ask(one)}>{one}</button>)}</Empty>}
        <ol aria-live="polite">
          {all.messages.length > MESSAGES_MAX && <li class="dim">{number(all.messages.length - MESSAGES_MAX)} older messages are not shown.</li>}
          {all.messages.slice(-MESSAGES_MAX).map((one) => <Message key={one.id} of={one} told={all} onAct={act} />)}
          {asked && <li class="message user"><p class="said">{asked}</p></li>}
          {asked && <li class="message assistant" role="status"><p class="dim">Reading the question and the data …</p></li>}
          <li ref={end} aria-hidden="true" class="end" />
        </ol>
        {trouble}
        {error && <p class="note bad" role="alert">{error}</p>}
        {may("agents:write") ? <Ask busy={asked !== undefined} onAsk={ask} /> : <p class="hint">Asking needs the permission agents:write.</p>}
      </div>
    </>
  );
}

function Begin({ onDone }: { onDone: () => void }) {
  const [name, setName] = useState("");
  const begin = async () => {
    const made = await api("POST /api/v1/agents", { body: { name: name.trim() || null } });
    onDone();
    go(`/agents/${made.id}`);
  };
  return (
    <Form send="Begin" onSend={begin} onCancel={onDone}>
      <Field label="Name" hint="Empty: the time at which it was begun."><Text maxLength={200} value={name} onText={setName} /></Field>
    </Form>
  );
}

export function Agents() {
  const id = here.value.parts[1];
  const list = useList((cursor, signal) => api("GET /api/v1/agents", { query: { limit: 50, ...(cursor && { cursor }) }, signal }), [id]);
  const [making, setMaking] = useState(false);
  if (id) return <Conversation key={id} id={id} />;
  return (
    <>
      <Head title="Agents" about="Questions in plain words; each answer shows the SQL that it came from.">
        {may("agents:write") && <button type="button" class="button main" onClick={() => setMaking(true)}>New conversation</button>}
      </Head>
      {!me.value?.user.emailVerifiedAt && <p class="note warn">Asking needs a verified email address. <a href="#/profile">Send the message again</a></p>}
      <Panel flush>
        <List
          list={list}
          id={(row) => row.id}
          label="Conversations"
          empty={<Empty title="No conversations yet">Ask of what an agent collected: how many, of which, since when, which is the dearest.</Empty>}
          columns={[
            { title: "Name", cell: (row) => <a href={`#/agents/${row.id}`}>{row.name}</a> },
            { title: "Begun", cell: (row) => <Time at={row.createdAt} /> },
          ]}
        />
      </Panel>
      {making && <Dialog title="New conversation" onClose={() => setMaking(false)}><Begin onDone={() => setMaking(false)} /></Dialog>}
    </>
  );
}
