// The page of the device flow: a command line shows a code, and somebody who is signed in approves it.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { here, me } from "../app/state";
import { Field, Form, Head, Panel, Text } from "../parts/basic";
import { Time } from "../parts/figures";
import type { CliAuthView } from "../generated/api";

export function Device() {
  const [code, setCode] = useState(here.value.query.get("user_code") ?? "");
  const [asked, setAsked] = useState<CliAuthView>();
  const [done, setDone] = useState("");
  const look = async () => setAsked(await api("GET /api/v1/cli-auth/info", { query: { user_code: code.trim().toUpperCase() } }));
  const approve = async () => {
    const told = await api("POST /api/v1/cli-auth/approve", { body: { user_code: code.trim().toUpperCase() } });
    setDone(told.hostname);
  };
  return (
    <>
      <Head title="Approve a command line" about="It gets an API key of yours and never sees a password." />
      <div class="reading">
        <Panel>
          {done ? (
            <p class="note good" role="status">The command line on {done} has its key with its next question. End it under API keys at any time.</p>
          ) : asked?.status === "pending" ? (
            <Form send="Approve" onSend={approve} onCancel={() => setAsked(undefined)}>
              <p>
                <strong>{asked.hostname}</strong> asks for a key of {me.value?.organization?.name} that may do what you may.
              </p>
              <p class="note warn">Approve only what you have begun yourself. The code ends <Time at={asked.expires_at} />.</p>
            </Form>
          ) : (
            <Form send="Go on" onSend={look}>
              <Field label="Code" hint="Eight letters, as the command line shows them.">
                <Text class="mono" required autocomplete="off" placeholder="BCDF-GHJK" value={code} onText={setCode} />
              </Field>
              {asked && <p class="note warn">This code is {asked.status}. Begin again on the command line.</p>}
            </Form>
          )}
        </Panel>
      </div>
    </>
  );
}
