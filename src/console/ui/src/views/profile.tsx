// A person: their address, where they are signed in, their data, leaving.
import { useState } from "preact/hooks";
import { api, ApiError, endSession, local, providerSignIn } from "../api/client";
import { useList, useLoad } from "../api/use";
import { me, toast, whoAmI } from "../app/state";
import { Act, Bones, Dialog, Empty, Field, Form, Head, Panel, Text, Trouble } from "../parts/basic";
import { Facts } from "../parts/facts";
import { bytes, many, Time } from "../parts/figures";
import { List } from "../parts/list";
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

/** Erasing, where the company's account was the way in: there is no password to ask for, but the sign-in must be a new one. */
function Again({ onDone }: { onDone: () => void }) {
  return (
    <div class="stack">
      <p class="note">You signed in with your company’s account more than ten minutes ago. Sign in with it once more and come back here: nothing is erased by that.</p>
      <div class="row end">
        <button type="button" class="button" onClick={onDone}>Cancel</button>
        <a class="button main" href={providerSignIn()}>Sign in again</a>
      </div>
    </div>
  );
}

function Erase({ onDone }: { onDone: () => void }) {
  const [password, setPassword] = useState("");
  const [isOld, setOld] = useState(false);
  const sessions = useLoad((signal) => api("GET /api/v1/account/sessions", { signal }), []);
  const current = sessions.value?.items.find((one) => one.isCurrent);
  if (sessions.error) return <Trouble error={sessions.error} retry={sessions.reload} />;
  if (!sessions.value) return <Bones />;
  const isByProvider = current?.isByProvider ?? false;
  if (isOld) return <Again onDone={onDone} />;
  const send = async () => {
    try {
      await api("DELETE /api/v1/account", { body: isByProvider ? {} : { password } });
    } catch (error) {
      // How old the sign-in is, only the box can tell: the browser's clock may be wrong.
      if (isByProvider && error instanceof ApiError && error.status === 403) return setOld(true);
      throw error;
    }
    await endSession().catch(() => undefined);
    toast("Your account is being erased");
    await whoAmI();
  };
  return (
    <Form send="Erase for good" onSend={send} onCancel={onDone}>
      <p class="note bad">Your account and what tells you in it are erased everywhere. What the organization collected stays.</p>
      {isByProvider ? <p>You signed in with your company’s account, so no password is asked for, but that must be less than ten minutes ago.</p> : (
        <Field label="Your password">
          <Text type="password" required autocomplete="current-password" value={password} onText={setPassword} />
        </Field>
      )}
    </Form>
  );
}

/** Ends the session of this browser, and shows the gate. */
async function leave() {
  await endSession();
  await whoAmI();
}

function Sessions() {
  const list = useList(async (_, signal) => await api("GET /api/v1/account/sessions", { signal }), []);
  const endOne = (id: string) => async () => {
    await api("DELETE /api/v1/account/sessions/{id}", { path: { id } });
    list.reload();
  };
  const endOthers = async () => {
    const { ended } = await api("DELETE /api/v1/account/sessions");
    toast(`${many(ended, "other session")} ended`);
    list.reload();
  };
  const endAll = async () => {
    await api("DELETE /api/v1/account/sessions");
    await leave();
  };
  const others = (list.items ?? []).filter((one) => !one.isCurrent).length;
  return (
    <Panel
      flush
      title="Where you are signed in"
      side={
        <>
          <Act small disabled={others === 0} does={endOthers}>Sign out everywhere else</Act>
          <Act small kind="bad" sure="Sign out everywhere, here as well?" does={endAll}>Sign out everywhere</Act>
        </>
      }
    >
      <List
        list={list}
        id={(one) => one.id}
        label="Sessions"
        empty={<Empty title="Nobody is signed in" />}
        columns={[
          { title: "Session", cell: (one) => (one.isCurrent ? <strong>This one</strong> : "Another") },
          { title: "Signed in with", cell: (one) => <span class="nowrap">{one.isByProvider ? "the company’s account" : "a password"}</span> },
          { title: "Began", cell: (one) => <Time at={one.createdAt} /> },
          { title: "Renewed", cell: (one) => (one.refreshedAt === one.createdAt ? <span class="dim">–</span> : <Time at={one.refreshedAt} />) },
          { title: "Ends", cell: (one) => <Time at={one.expiresAt} /> },
          { title: "", cell: (one) => !one.isCurrent && <Act small kind="bad" does={endOne(one.id)}>End</Act> },
        ]}
      />
    </Panel>
  );
}

export function Profile() {
  const [erasing, setErasing] = useState(false);
  const user = me.value?.user;
  if (!user) return null;
  const resend = async () => toast((await api("POST /api/v1/auth/resend-verification")).message);
  const reset = async () => toast((await api("POST /api/v1/auth/forgot-password", { body: { email: user.email } })).message);
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
          <Sessions />
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
