// The plan: what is left, what it allows, where credits went, and asking for more.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useList, useLoad } from "../api/use";
import { may, toast } from "../app/state";
import { Badge, Bones, Dialog, Empty, Field, Form, Head, Panel, Text, Trouble } from "../parts/basic";
import { bytes, number, Share, Time } from "../parts/figures";
import { List } from "../parts/list";

function Recharge({ onDone }: { onDone: () => void }) {
  const [credits, setCredits] = useState("10000");
  const [note, setNote] = useState("");
  const send = async () => {
    await api("POST /api/v1/plans/recharge-requests", { body: { credits: Number(credits), note: note || null } });
    toast("The operator of the box was asked");
    onDone();
  };
  return (
    <Form send="Ask for them" onSend={send} onCancel={onDone}>
      <Field label="Credits">
        <Text type="number" required min={1} value={credits} onText={setCredits} />
      </Field>
      <Field label="Note" hint="What the operator should know.">
        <textarea rows={3} value={note} onInput={(event) => setNote(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}

export function Plan() {
  const plan = useLoad((signal) => api("GET /api/v1/plans/current", { signal }), []);
  const moves = useList((cursor, signal) => api("GET /api/v1/plans/transactions", { query: { limit: 30, ...(cursor && { cursor }) }, signal }), []);
  const asked = useList((cursor, signal) => api("GET /api/v1/plans/recharge-requests", { query: { limit: 20, ...(cursor && { cursor }) }, signal }), []);
  const [asking, setAsking] = useState(false);
  const found = plan.value;
  const limit = (used: number, most: number, shown: (n: number) => string) => (most > 0 ? `${shown(used)} of ${shown(most)}` : shown(used));
  const days = (count: number) => (count > 0 ? `${count} days` : "for good");
  return (
    <>
      <Head title="Plan and credits" about={found && `${found.plan.name}; the period ends on ${new Date(found.periodEndsAt).toLocaleDateString("en")}`}>
        {may("billing:write") && <button type="button" class="button main" onClick={() => setAsking(true)}>Ask for credits</button>}
      </Head>
      <div class="stack">
        {plan.error && <Trouble error={plan.error} retry={plan.reload} />}
        {!found ? !plan.error && <Bones /> : (
          <div class="halves">
            <Panel title="Credits">
              <div class="stack">
                {found.isTrialExpired && <p class="note bad">The trial is over.</p>}
                <Share label={`${number(found.usedThisPeriod)} used, ${number(found.remainingCredits)} left`} parts={[[found.usedThisPeriod, "accent"], [found.remainingCredits, "sunk"]]} />
                <dl class="facts">
                  <dt>Left</dt><dd>{number(found.remainingCredits)}</dd>
                  <dt>Used this period</dt><dd>{number(found.usedThisPeriod)}</dd>
                  <dt>Each month</dt><dd>{number(found.monthlyCredits)}</dd>
                  <dt>Recharged</dt><dd>{number(found.rechargedCredits)}</dd>
                  {found.trialEndsAt && <><dt>Trial ends</dt><dd><Time at={found.trialEndsAt} exact /></dd></>}
                </dl>
              </div>
            </Panel>
            <Panel title="What is stored, and how long">
              <dl class="facts">
                <dt>Storage</dt><dd>{limit(found.stored.storageBytes, found.plan.limits.storageBytes, bytes)}</dd>
                <dt>of it pages</dt><dd>{bytes(found.stored.pageBytes)}</dd>
                <dt>URLs</dt><dd>{limit(found.stored.urls, found.plan.limits.urls, number)}</dd>
                <dt>Rows</dt><dd>{limit(found.stored.rows, found.plan.limits.rows, number)}</dd>
                <dt>Schedules</dt><dd>{limit(found.stored.schedules, found.plan.limits.schedules, number)}</dd>
                <dt>Pages are kept</dt><dd>{days(found.retention.pagesDays)}</dd>
                <dt>Jobs are kept</dt><dd>{days(found.retention.jobsDays)}</dd>
                <dt>Results are kept</dt><dd>{days(found.retention.resultsDays)}</dd>
              </dl>
            </Panel>
          </div>
        )}
        {(asked.items?.length ?? 0) > 0 && (
          <Panel title="Requests for credits" flush>
            <List list={asked} id={(one) => one.id} label="Requests for credits" empty={<Empty title="None" />} columns={[
              { title: "Asked", cell: (one) => <Time at={one.createdAt} /> },
              { title: "Credits", number: true, cell: (one) => number(one.credits) },
              { title: "State", cell: (one) => <Badge state={one.status} /> },
              { title: "Note", cell: (one) => one.note ?? "" },
              { title: "Answer", cell: (one) => one.answer ?? "" },
            ]} />
          </Panel>
        )}
        <Panel title="Transactions" flush>
          <List
            list={moves}
            id={(one) => one.id}
            label="Transactions"
            empty={<Empty title="No credits have moved yet" />}
            columns={[
              { title: "When", cell: (one) => <Time at={one.at} exact /> },
              { title: "Kind", cell: (one) => one.kind },
              { title: "Amount", number: true, cell: (one) => <span class={one.amount > 0 ? "good" : ""}>{one.amount > 0 ? "+" : ""}{number(one.amount)}</span> },
              { title: "Balance", number: true, cell: (one) => number(one.balanceAfter) },
              { title: "", cell: (one) => (one.jobId ? <a href={`#/jobs/${one.jobId}`}>Job</a> : <span class="dim">{one.note}</span>) },
            ]}
          />
        </Panel>
      </div>
      {asking && <Dialog title="Ask for credits" onClose={() => setAsking(false)}><Recharge onDone={() => (setAsking(false), asked.reload())} /></Dialog>}
    </>
  );
}
