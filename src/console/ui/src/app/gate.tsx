// Before one is signed in: sign in, register, verify, forgotten passwords.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { aboutProvider, api, beginSession, providerSignIn, said } from "../api/client";
import type { ProviderView } from "../api/client";
import { useLoad } from "../api/use";
import { Dialog, Field, Form, Text } from "../parts/basic";
import { go, here, toast, whoAmI } from "./state";

export function Brand() {
  return (
    <span class="brand">
      <svg viewBox="0 0 32 32" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round" stroke-linejoin="round">
        <path d="M16 29V7M16 12c-4 0-7-2.500-7-6.500 4 0 7 2.500 7 6.500zm0 0c4 0 7-2.500 7-6.500-4 0-7 2.500-7 6.500zm0 9c-4 0-7-2.500-7-6.500 4 0 7 2.500 7 6.500zm0 0c4 0 7-2.500 7-6.500-4 0-7 2.500-7 6.500z" />
      </svg>
      Gleaner
    </span>
  );
}

function Card({ title, children, links }: { title: string; children: ComponentChildren; links?: ComponentChildren }) {
  return (
    <main class="gate">
      <div class="card">
        <Brand />
        <div class="panel stack">
          <h1>{title}</h1>
          {children}
        </div>
        {links && <div class="links">{links}</div>}
      </div>
    </main>
  );
}

interface Person {
  email: string;
  password: string;
  name: string;
  inviteToken: string;
}

/** What was typed stays while one goes between these pages. */
function usePerson() {
  const [person, set] = useState<Person>({ email: "", password: "", name: "", inviteToken: here.value.query.get("invite") ?? "" });
  return { person, put: (change: Partial<Person>) => set((known) => ({ ...known, ...change })) };
}
type Typed = ReturnType<typeof usePerson>;

function Email({ person, put }: Typed) {
  return (
    <Field label="Email address">
      <Text type="email" autocomplete="username" required value={person.email} onText={(email) => put({ email })} />
    </Field>
  );
}

/** The button of the company's accounts, where the box has them. */
function Provider({ provider }: { provider: ProviderView | undefined }) {
  if (!provider?.label) return null;
  return (
    <a class="button main" href={providerSignIn()}>
      {provider.label}
    </a>
  );
}

function SignIn({ passwords, ...typed }: Typed & { passwords?: boolean }) {
  const about = useLoad(aboutProvider, []);
  const provider = about.value;
  const send = async () => {
    await beginSession({ email: typed.person.email, password: typed.person.password });
    typed.put({ password: "" });
    await whoAmI();
  };
  // What is shown first must not jump once it is known what there is.
  if (!provider && about.busy) return <Card title="Sign in">{null}</Card>;
  if (provider?.label && provider.hidesPasswords && !passwords) {
    return (
      <Card title="Sign in" links={<a href="#/password">Sign in with a password</a>}>
        <Provider provider={provider} />
      </Card>
    );
  }
  return (
    <Card
      title="Sign in"
      links={
        <>
          <a href="#/register">Create an account</a>
          <a href="#/forgot">Forgot your password?</a>
        </>
      }
    >
      <Provider provider={provider} />
      <Form send="Sign in" onSend={send}>
        <Email {...typed} />
        <Field label="Password">
          <Text type="password" autocomplete="current-password" required value={typed.person.password} onText={(password) => typed.put({ password })} />
        </Field>
      </Form>
    </Card>
  );
}

function Register(typed: Typed) {
  const { person, put } = typed;
  const send = async () => {
    const { email, password, name } = person;
    const inviteToken = person.inviteToken.trim() || null;
    await api("POST /api/v1/auth/register", { body: { email, password, name, inviteToken } });
    await beginSession({ email, password });
    put({ password: "" });
    if (inviteToken) await api("POST /api/v1/invites/accept", { body: { token: inviteToken } });
    go("/");
    await whoAmI();
  };
  return (
    <Card title="Create an account" links={<a href="#/">Sign in instead</a>}>
      <Form send="Create the account" onSend={send}>
        <Field label="Your name">
          <Text autocomplete="name" required maxLength={200} value={person.name} onText={(name) => put({ name })} />
        </Field>
        <Email {...typed} />
        <Field label="Password" hint="12 characters or more; not your address.">
          <Text type="password" autocomplete="new-password" required minLength={12} maxLength={256} value={person.password} onText={(password) => put({ password })} />
        </Field>
        <Field label="Invitation" hint="The token of an invitation, if you have one.">
          <Text autocomplete="off" value={person.inviteToken} onText={(inviteToken) => put({ inviteToken })} />
        </Field>
      </Form>
    </Card>
  );
}

function Forgot(typed: Typed) {
  const [sent, setSent] = useState("");
  const send = async () => {
    const { message } = await api("POST /api/v1/auth/forgot-password", { body: { email: typed.person.email } });
    setSent(message);
  };
  return (
    <Card
      title="Forgot your password?"
      links={
        <>
          <a href="#/">Sign in</a>
          <a href="#/reset">I have a token</a>
        </>
      }
    >
      {sent ? (
        <p class="note good" role="status">
          {sent}
        </p>
      ) : (
        <Form send="Send a link" onSend={send}>
          <Email {...typed} />
        </Form>
      )}
    </Card>
  );
}

function Reset(typed: Typed) {
  const [token, setToken] = useState(here.value.query.get("token") ?? "");
  const send = async () => {
    const { message } = await api("POST /api/v1/auth/reset-password", { body: { token: token.trim(), password: typed.person.password } });
    typed.put({ password: "" });
    toast(message);
    go("/");
  };
  return (
    <Card title="Choose a new password" links={<a href="#/">Sign in</a>}>
      <Form send="Change the password" onSend={send}>
        <Field label="Token" hint="It stands behind the # of the link that was sent.">
          <Text autocomplete="off" required value={token} onText={setToken} />
        </Field>
        <Field label="New password" hint="Every login of yours ends when it is changed.">
          <Text type="password" autocomplete="new-password" required minLength={12} maxLength={256} value={typed.person.password} onText={(password) => typed.put({ password })} />
        </Field>
      </Form>
    </Card>
  );
}

export function Gate() {
  const typed = usePerson();
  switch (here.value.parts[0]) {
    case "register":
      return <Register {...typed} />;
    case "forgot":
      return <Forgot {...typed} />;
    case "reset":
      return <Reset {...typed} />;
    case "password":
      return <SignIn {...typed} passwords />;
    default:
      return <SignIn {...typed} />;
  }
}

/** A session that ended while one was at work: what was typed stays behind this. */
export function SignInAgain({ email }: { email: string }) {
  const [password, setPassword] = useState("");
  const provider = useLoad(aboutProvider, []).value;
  const send = async () => {
    await beginSession({ email, password });
    await whoAmI();
  };
  const box = useRef<HTMLDivElement>(null);
  const [turn, setTurn] = useState(0);
  // A browser may close a dialog without asking: then it is opened anew.
  const stay = () => box.current?.querySelector("dialog")?.open || setTurn((n) => n + 1);
  const giveUp = () => {
    if (!confirm("Go on without signing in? What you typed is lost.")) return stay();
    return whoAmI().catch((reason: unknown) => (toast(said(reason), true), stay()));
  };
  // Escape is caught before the browser hears of it: pressed twice it would close this, and the form below.
  useLayoutEffect(() => {
    const caught = (event: Event) => {
      if (event instanceof KeyboardEvent && event.key !== "Escape") return;
      event.stopPropagation();
      if (!event.cancelable) return;
      event.preventDefault();
      void giveUp();
    };
    const inside = box.current;
    inside?.addEventListener("cancel", caught, true);
    window.addEventListener("keydown", caught, true);
    return () => {
      inside?.removeEventListener("cancel", caught, true);
      window.removeEventListener("keydown", caught, true);
    };
  }, []);
  return (
    <div ref={box}>
      <Dialog key={turn} title="Your session has ended" onClose={() => void giveUp()}>
        <div class="stack">
          <p>Sign in again to go on. What you typed is still there.</p>
          {provider?.label && <p class="dim">Through your company's accounts the page is loaded anew, and what you typed is lost.</p>}
          <Provider provider={provider} />
          <Form send="Sign in" onSend={send}>
            <Field label="Email address">
              <input value={email} readOnly autocomplete="username" />
            </Field>
            <Field label="Password">
              <Text type="password" autocomplete="current-password" required value={password} onText={setPassword} />
            </Field>
          </Form>
        </div>
      </Dialog>
    </div>
  );
}
