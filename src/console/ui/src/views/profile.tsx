// A person: their address, their data, leaving.
import { useState } from "preact/hooks";
import { api, endSession, local } from "../api/client";
import { me, toast, whoAmI } from "../app/state";
import { Act, Dialog, Field, Form, Head, Panel, Text } from "../parts/basic";
import { Facts } from "../parts/facts";
import { bytes, Time } from "../parts/figures";
import type { AccountExportView } from "../generated/api";

const LOOK_EVERY_MS = 1_000;

function Export() {
  const [made, setMade] = useState<AccountExportView>();
  const ask = async () => {
    const { id } = await api("POST /api/v1/account/export");
    for (;;) {
      const one = await api("GET /api/v1/account/exports/{id}", { path: { id } });
      setMade(one);
      if (one.status === "success" || one.status === "failed") return;
      await new Promise((resume) => setTimeout(resume, LOOK_EVERY_MS));
    }
  };
  return (
    <div class="stack">
      <p>Everything that the box holds on you, as a file of your own.</p>
      {made?.downloadUrl ? <p><a class="button main" href={local(made.downloadUrl)} download>Download ({bytes(made.byteSize ?? 0)})</a></p> : <p><Act does={ask}>{made ? `It is ${made.status} …` : "Ask for it"}</Act></p>}
    </div>
  );
}

function Erase({ onDone }: { onDone: () => void }) {
  const [password, setPassword] = useState("");
  const send = async () => {
    await api("DELETE /api/v1/account", { body: { password } });
    await endSession().catch(() => undefined);
    toast("Your account is being erased");
    await whoAmI();
  };
  return (
    <Form send="Erase for good" onSend={send} onCancel={onDone}>
      <p class="note bad">Your account and what tells you in it are erased everywhere. What the organization collected stays.</p>
      <Field label="Your password">
        <Text type="password" required autocomplete="current-password" value={password} onText={setPassword} />
      </Field>
    </Form>
  );
}

export function Profile() {
  const [erasing, setErasing] = useState(false);
  const user = me.value?.user;
  if (!user) return null;
  const resend = async () => toast((await api("POST /api/v1/auth/resend-verification")).message);
  const reset = async () => toast((await api("POST /api/v1/auth/forgot-password", { body: { email: user.email } })).message);
  const leave = async () => {
    await endSession();
    await whoAmI();
  };
  return (
    <>
      <Head title="Your profile" about={user.email} />
      <div class="halves">
        <Panel title="Account">
          <div class="stack">
            <Facts of={[
              ["Name", user.name],
              ["Address", user.email],
              ["Verified", user.emailVerifiedAt ? <Time at={user.emailVerifiedAt} exact /> : <span class="warn">not yet</span>],
              me.value?.organization && ["Organization", me.value.organization.name],
              me.value?.role && ["Role", me.value.role],
              ["May", <span class="dim">{me.value?.permissions.join(", ")}</span>],
            ]} />
            <div class="row">
              {!user.emailVerifiedAt && <Act kind="main" does={resend}>Send the verification again</Act>}
              {!user.emailVerifiedAt && <Act does={whoAmI}>I have verified it</Act>}
              <Act does={reset}>Change the password by mail</Act>
              <Act does={leave}>Sign out</Act>
            </div>
          </div>
        </Panel>
        <div class="stack">
          <Panel title="Your data"><Export /></Panel>
          <Panel title="Leave">
            <div class="stack">
              <p>Erases your account. The last owner of an organization hands it over or erases it first.</p>
              <p><button type="button" class="button bad" onClick={() => setErasing(true)}>Erase my account …</button></p>
            </div>
          </Panel>
        </div>
      </div>
      {erasing && <Dialog title="Erase your account" onClose={() => setErasing(false)}><Erase onDone={() => setErasing(false)} /></Dialog>}
    </>
  );
}
