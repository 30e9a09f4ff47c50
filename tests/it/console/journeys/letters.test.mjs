// What comes by letter: an invitation, a new password, a verified address.
import assert from "node:assert/strict";
import { test } from "node:test";
import { at, inPage, mailed, person, signedIn, signIn, url } from "./box.mjs";

/** An account of one's own; what it is not about needs no form. */
async function register(name) {
  const who = { email: `${name}@example.com`, password: "a passphrase of my own" };
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ ...who, name }) };
  assert.equal((await fetch(`${url}/api/v1/auth/register`, init)).status, 201);
  return who;
}

async function enter(page, { email, password }) {
  await page.goto(`${url}/console`);
  await page.getByLabel("Email address").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

test("an invitation is sent, accepted by its link, and shown among the members", signedIn(async (page) => {
  const guest = { email: "invited@example.com", password: "a passphrase of my own" };
  await at(page, "members");
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByLabel("Email address").fill(guest.email);
  await page.locator("dialog").getByRole("combobox").selectOption("viewer");
  await page.locator("dialog").getByRole("button", { name: "Invite" }).click();
  await page.getByRole("row", { name: /invited@example.com/ }).waitFor();
  const link = await mailed(guest.email, "invite");
  await inPage(async (other) => {
    await other.goto(link);
    await other.getByLabel("I am new here").check();
    await other.getByLabel("Email address").fill(guest.email);
    await other.getByLabel("Your name").fill("<b>Invited</b>");
    await other.getByLabel(/^Password/).fill(guest.password);
    await other.getByRole("button", { name: "Accept" }).click();
    await other.getByRole("status").getByText(/You are a member of/).waitFor();
    await signIn(other, guest);
    await other.getByRole("link", { name: "<b>Invited</b>" }).waitFor();
    // Used up: it makes nobody else a member.
    await other.goto("about:blank");
    await other.goto(link);
    await other.getByLabel("Email address").fill(person.email);
    await other.getByLabel(/^Password/).fill(person.password);
    await other.getByRole("button", { name: "Accept" }).click();
    await other.locator("[role=status].bad").waitFor();
  });
  await page.reload();
  const row = page.getByRole("row", { name: /<b>Invited<\/b>/ });
  assert.equal(await row.getByRole("combobox").inputValue(), "viewer");
}));

test("a forgotten password is chosen anew by the link of a letter", () =>
  inPage(async (page) => {
    const before = await register("forgetful");
    await page.goto(`${url}/console#/forgot`);
    await page.getByLabel("Email address").fill(before.email);
    await page.getByRole("button", { name: "Send a link" }).click();
    await page.getByRole("status").getByText("If the address has an account").waitFor();
    await page.goto(await mailed(before.email, "reset-password"));
    const now = { ...before, password: "another passphrase of mine" };
    await page.getByLabel(/^New password/).fill(now.password);
    await page.getByLabel("Once more").fill(before.password);
    await page.getByRole("button", { name: "Change the password" }).click();
    await page.getByText("The two passwords are not the same.").waitFor();
    await page.getByLabel("Once more").fill(now.password);
    await page.getByRole("button", { name: "Change the password" }).click();
    await page.locator("[role=status].good").getByText(/password/i).waitFor();
    await enter(page, before);
    await page.getByRole("alert").getByText("Invalid email or password").waitFor();
    await enter(page, now);
    await page.getByRole("heading", { name: "Welcome, forgetful" }).waitFor();
  }));

test("a token of a letter changes the password in the console, too", () =>
  inPage(async (page) => {
    const before = await register("typing");
    await page.goto(`${url}/console#/forgot`);
    await page.getByLabel("Email address").fill(before.email);
    await page.getByRole("button", { name: "Send a link" }).click();
    const token = new URL(await mailed(before.email, "reset-password")).hash.slice(1);
    await page.getByRole("link", { name: "I have a token" }).click();
    await page.getByLabel("Token").fill(token);
    await page.getByLabel("New password").fill("another passphrase of mine");
    await page.getByRole("button", { name: "Change the password" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await enter(page, { ...before, password: "another passphrase of mine" });
    await page.getByRole("heading", { name: "Welcome, typing" }).waitFor();
  }));

test("an address is verified by the link of a letter that is sent again", () =>
  inPage(async (page, context) => {
    const who = await register("unverified");
    await enter(page, who);
    await page.getByRole("heading", { name: "Welcome, unverified" }).waitFor();
    const first = await mailed(who.email, "verify-email");
    await at(page, "profile");
    await page.getByText("not yet").waitFor();
    await page.getByRole("button", { name: "Send the verification again" }).click();
    await page.locator(".toasts").getByText(/sent|verif/i).waitFor();
    const link = await mailed(who.email, "verify-email", first);
    const other = await context.newPage();
    // Only the newest one counts: the letter that was sent again has ended the first.
    await other.goto(first);
    await other.getByRole("button", { name: "Verify" }).click();
    await other.locator("[role=status].bad").getByText("is not valid any more").waitFor();
    // Another document: only what is behind the # differs.
    await other.goto("about:blank");
    await other.goto(link);
    await other.getByRole("button", { name: "Verify" }).click();
    await other.locator("[role=status].good").getByText(/verified/i).waitFor();
    await page.getByRole("button", { name: "I have verified it" }).click();
    await page.getByText("not yet").waitFor({ state: "detached" });
  }));
