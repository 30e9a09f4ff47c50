// Who is in the organization, in which role, and who is invited.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { useList } from "../api/use";
import { may, me, toast, whoAmI } from "../app/state";
import { Act, Badge, Choice, Dialog, Empty, Field, Form, Head, Panel, Text } from "../parts/basic";
import { Time } from "../parts/figures";
import { List } from "../parts/list";
import type { MemberView, Role } from "../generated/api";

const ROLES = [["owner", "Owner"], ["admin", "Administrator"], ["editor", "Editor"], ["analyst", "Analyst"], ["viewer", "Viewer"]] as const;
const ABOUT: Record<Role, string> = {
  owner: "Everything, and the organization itself.",
  admin: "Everything but owners.",
  editor: "Collects, extracts, dispatches, asks.",
  analyst: "Reads everything, asks SQL and saves it.",
  viewer: "Reads.",
};

/** An owner is made and unmade by owners alone. */
const isOwner = () => me.value?.role === "owner";
const mayGive = () => (isOwner() ? ROLES : ROLES.filter(([role]) => role !== "owner"));
const mayChange = (role: Role) => role !== "owner" || isOwner();

function Invite({ onDone }: { onDone: () => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("editor");
  const send = async () => {
    await api("POST /api/v1/orgs/current/invites", { body: { email, role } });
    toast(`An invitation to ${email} is on its way`);
    onDone();
  };
  return (
    <Form send="Invite" onSend={send} onCancel={onDone}>
      <Field label="Email address">
        <Text type="email" required value={email} onText={setEmail} />
      </Field>
      <Field label="Role" hint={ABOUT[role]}>
        <Choice value={role} options={mayGive()} onPick={setRole} />
      </Field>
    </Form>
  );
}

function Rename({ onDone }: { onDone: () => void }) {
  const [name, setName] = useState(me.value?.organization?.name ?? "");
  const send = async () => {
    await api("PATCH /api/v1/orgs/current", { body: { name } });
    await whoAmI();
    onDone();
  };
  return (
    <Form send="Rename" onSend={send} onCancel={onDone}>
      <Field label="Name of the organization">
        <Text required maxLength={200} value={name} onText={setName} />
      </Field>
    </Form>
  );
}

function Erase({ onDone }: { onDone: () => void }) {
  const [typed, setTyped] = useState("");
  const name = me.value?.organization?.name ?? "";
  const send = async () => {
    await api("DELETE /api/v1/orgs/current", { body: { confirmName: typed } });
    toast("The organization is being erased");
    await whoAmI();
  };
  return (
    <Form send="Erase for good" onSend={send} onCancel={onDone}>
      <p class="note bad">Every URL, job, result, stored page, query and key of {name} is erased. Nobody can undo this.</p>
      <Field label={`Type “${name}” to confirm`}>
        <Text required value={typed} onText={setTyped} />
      </Field>
    </Form>
  );
}

export function Members() {
  const members = useList((cursor, signal) => api("GET /api/v1/orgs/current/members", { query: { limit: 100, ...(cursor && { cursor }) }, signal }), []);
  const invites = useList((cursor, signal) => api("GET /api/v1/orgs/current/invites", { query: { limit: 100, ...(cursor && { cursor }) }, signal }), []);
  const [open, setOpen] = useState<"invite" | "rename" | "erase">();
  const mine = me.value?.user.id;
  const writes = may("org:write");
  const change = (member: MemberView, role: Role) => async () => {
    await api("PATCH /api/v1/orgs/current/members/{userId}", { path: { userId: member.userId }, body: { role } });
    toast(`${member.name} is ${role} now`);
    members.reload();
    if (member.userId === mine) await whoAmI();
  };
  const remove = (member: MemberView) => async () => {
    await api("DELETE /api/v1/orgs/current/members/{userId}", { path: { userId: member.userId } });
    toast(`${member.name} is no member any more`);
    members.reload();
    if (member.userId === mine) await whoAmI();
  };
  const withdraw = (id: string) => async () => {
    await api("DELETE /api/v1/orgs/current/invites/{id}", { path: { id } });
    invites.reload();
  };
  return (
    <>
      <Head title="Members" about={me.value?.organization?.name}>
        {writes && <button type="button" class="button" onClick={() => setOpen("rename")}>Rename</button>}
        {writes && <button type="button" class="button main" onClick={() => setOpen("invite")}>Invite</button>}
      </Head>
      <div class="stack">
        <Panel flush>
          <List
            list={members}
            id={(member) => member.userId}
            label="Members"
            empty={<Empty title="Nobody" />}
            columns={[
              { title: "Name", cell: (member) => <>{member.name}{member.userId === mine && <span class="dim"> (you)</span>}</> },
              { title: "Address", cell: (member) => <>{member.email} {!member.emailVerifiedAt && <Badge state="unverified" />}</> },
              { title: "Role", cell: (member) => (writes && mayChange(member.role) ? <RolePick member={member} onPick={change} /> : member.role) },
              { title: "", cell: (member) => ((writes && mayChange(member.role)) || member.userId === mine) && <Act small kind="bad" sure={member.userId === mine ? "Leave the organization?" : `Remove ${member.name}? Their keys end at once.`} does={remove(member)}>{member.userId === mine ? "Leave" : "Remove"}</Act> },
            ]}
          />
        </Panel>
        <Panel title="Invitations" flush>
          <List
            list={invites}
            id={(invite) => invite.id}
            label="Invitations"
            empty={<Empty title="Nobody is invited">An invitation is good for seven days.</Empty>}
            columns={[
              { title: "Address", cell: (invite) => invite.email },
              { title: "Role", cell: (invite) => invite.role },
              { title: "Sent", cell: (invite) => <Time at={invite.createdAt} /> },
              { title: "Ends", cell: (invite) => <Time at={invite.expiresAt} /> },
              { title: "", cell: (invite) => writes && <Act small kind="bad" does={withdraw(invite.id)}>Withdraw</Act> },
            ]}
          />
        </Panel>
        {isOwner() && <p><button type="button" class="button bad" onClick={() => setOpen("erase")}>Erase the organization …</button></p>}
      </div>
      {open === "invite" && <Dialog title="Invite somebody" onClose={() => setOpen(undefined)}><Invite onDone={() => (setOpen(undefined), invites.reload())} /></Dialog>}
      {open === "rename" && <Dialog title="Rename" onClose={() => setOpen(undefined)}><Rename onDone={() => setOpen(undefined)} /></Dialog>}
      {open === "erase" && <Dialog title="Erase the organization" onClose={() => setOpen(undefined)}><Erase onDone={() => setOpen(undefined)} /></Dialog>}
    </>
  );
}

function RolePick({ member, onPick }: { member: MemberView; onPick: (member: MemberView, role: Role) => () => Promise<void> }) {
  const [role, setRole] = useState(member.role);
  return (
    <span class="row">
      <Choice label={`Role of ${member.name}`} value={role} options={mayGive()} onPick={setRole} />
      {role !== member.role && <Act small kind="main" does={onPick(member, role)}>Change</Act>}
    </span>
  );
}
