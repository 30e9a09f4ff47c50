// The plan: what is left, what it allows, where credits went, and asking for more.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useList, useLoad } from "../api/use";
import { may, toast } from "../app/state";
import { Badge, Bones, Dialog, Empty, Field, Form, Head, Panel, Text, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { bytes, dayOf, number, Share, Time } from "../parts/figures";
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
      <Head title="Plan and credits" about={found && `${found.plan.name}; the period ends on ${dayOf(found.periodEndsAt)}`}>
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
                <Facts of={[
                  ["Left", number(found.remainingCredits)],
                  ["Used this period", number(found.usedThisPeriod)],
                  ["Each month", number(found.monthlyCredits)],
                  ["Recharged", number(found.rechargedCredits)],
                  found.trialEndsAt && ["Trial ends", <Time at={found.trialEndsAt} exact />],
                ]} />
              </div>
            </Panel>
            <Panel title="What is stored, and how long">
              <Facts of={[
                ["Storage", limit(found.stored.storageBytes, found.plan.limits.storageBytes, bytes)],
                ["Pages in it", bytes(found.stored.pageBytes)],
                ["URLs", limit(found.stored.urls, found.plan.limits.urls, number)],
                ["Rows", limit(found.stored.rows, found.plan.limits.rows, number)],
                ["Schedules", limit(found.stored.schedules, found.plan.limits.schedules, number)],
                ["Pages are kept", days(found.retention.pagesDays)],
                ["Jobs are kept", days(found.retention.jobsDays)],
                ["Results are kept", days(found.retention.resultsDays)],
              ]} />
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
