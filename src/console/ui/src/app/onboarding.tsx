// A person without an organization: make one, or join the one that invited them.
import { useState } from "preact/hooks";
import { api, endSession } from "../api/client";
import { Act, Field, Form, Tabs, Text } from "../parts/basic";
import { lazy } from "../parts/lazy";
import { Brand } from "./gate";
import { go, here, me, whoAmI } from "./state";

/** One's own data, and leaving, also without an organization. */
const Profile = lazy<object>(() => import("../views/profile").then((found) => ({ default: found.Profile })));

export function Onboarding() {
  const [way, setWay] = useState<"make" | "join">("make");
  const [name, setName] = useState("");
  const [token, setToken] = useState("");
  const make = async () => {
    await api("POST /api/v1/orgs", { body: { name } });
    go("/start");
    await whoAmI();
  };
  const join = async () => {
    await api("POST /api/v1/invites/accept", { body: { token: token.trim() } });
    go("/");
    await whoAmI();
  };
  const leave = async () => {
    await endSession();
    await whoAmI();
  };
  if (here.value.parts[0] === "profile") {
    return (
      <main class="plain">
        <Profile />
        <p><a href="#/">Back</a></p>
      </main>
    );
  }
  return (
    <main class="gate">
      <div class="card">
        <Brand />
        <div class="panel stack">
          <h1>Welcome, {me.value?.user.name}</h1>
          <Tabs label="How to begin" tabs={[["make", "New organization"], ["join", "I was invited"]] as const} at={way} onPick={setWay} />
          {way === "make" ? (
            <Form send="Create the organization" onSend={make}>
              <Field label="Name of the organization" hint="Everything that is collected belongs to it. It can be renamed.">
                <Text required maxLength={200} value={name} onText={setName} />
              </Field>
            </Form>
          ) : (
            <Form send="Join" onSend={join}>
              <Field label="Invitation" hint="It stands behind the # of the link that was sent.">
                <Text required value={token} onText={setToken} />
              </Field>
            </Form>
          )}
        </div>
        <div class="links">
          <a href="#/profile" title={me.value?.user.email}>Your profile</a>
          <Act kind="bare" small does={leave}>
            Sign out
          </Act>
        </div>
      </div>
    </main>
  );
}
