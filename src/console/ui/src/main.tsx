// Where it begins: who is signed in decides between the gate and the console.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, beginSession, said, sessionEnded } from "./api/client";
import { useAgain } from "./api/use";
import { Gate, SignInAgain } from "./app/gate";
import { Onboarding } from "./app/onboarding";
import { placeOf } from "./app/places";
import { Shell, Toasts } from "./app/shell";
import { here, instead, me, whoAmI } from "./app/state";
import { Trouble } from "./parts/basic";
import { fetchEarly } from "./parts/lazy";

/** Takes over the session that a one-time link carries, and takes it out of the address. */
async function begin(): Promise<void> {
  const token = here.value.path === "/welcome" ? here.value.query.get("token") : null;
  if (token) {
    instead("/");
    // Whoever is signed in is asked: anybody may send a link, and what is typed next would be theirs.
    const before = await api("GET /api/v1/auth/me").catch(() => undefined);
    const isWanted = !before || confirm(`You are signed in as ${before.user.email}. Sign out, and follow the link that signs in?`);
    // One that was used up leads to the gate.
    if (isWanted) await beginSession({ refreshToken: token }).catch(() => undefined);
  }
  await whoAmI();
}

const place = placeOf(here.value.parts[0]);
/** What will be shown to somebody who is signed in comes while that is asked. */
const early = place && fetchEarly(place, place.load);
/** So long the frame waits for it: a view that comes later has a stand-in until then. */
const EARLY_WAIT_MS = 300;

/** Asked before anything is drawn: an effect would wait for a frame. */
const begun = begin();

function Root() {
  const [error, setError] = useState<unknown>();
  const wait = (asked: Promise<void>) => void asked.catch((reason: unknown) => setError(() => reason));
  useEffect(() => wait(begun), []);
  const start = () => wait(begin());
  // Of several that ask, a slow one may fail after another knew.
  const failed = me.value === undefined ? error : undefined;
  useAgain(failed, start);
  if (failed !== undefined) {
    return (
      <div class="gate">
        <Trouble error={said(failed)} retry={start} />
      </div>
    );
  }
  if (me.value === undefined) return null;
  return (
    <>
      {me.value === null ? <Gate /> : me.value.organization ? <Shell /> : <Onboarding />}
      {me.value && sessionEnded.value && <SignInAgain email={me.value.user.email} />}
      <Toasts />
    </>
  );
}

/** The frame that came with the page stands until it is known what belongs into it. */
function draw() {
  document.body.replaceChildren();
  render(<Root />, document.body);
}

const hasView = () => (me.value?.organization ? Promise.race([early, new Promise((resume) => setTimeout(resume, EARLY_WAIT_MS))]) : undefined);
begun.then(hasView).then(draw, draw);
