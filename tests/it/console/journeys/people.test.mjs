// Signing in and out, accounts, sessions that end, roles.
import assert from "node:assert/strict";
import { test } from "node:test";
import { at, inPage, person, signedIn, signIn, url } from "./box.mjs";

test("a wrong password is said, and what was typed stays", () =>
  inPage(async (page) => {
    await page.goto(`${url}/console`);
    await page.getByLabel("Email address").fill(person.email);
    await page.getByLabel("Password").fill("not the right passphrase");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("Invalid email or password").waitFor();
    assert.equal(await page.getByLabel("Email address").inputValue(), person.email);
  }));

test("signing in and out, by keyboard alone", () =>
  inPage(async (page) => {
    await page.goto(`${url}/console`);
    await page.getByLabel("Email address").focus();
    await page.keyboard.type(person.email);
    await page.keyboard.press("Tab");
    await page.keyboard.type(person.password);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
  }));

test("the address of the box leads a browser to the console", () =>
  inPage(async (page) => {
    await page.goto(url);
    assert.equal(new URL(page.url()).pathname, "/console");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
  }));

test("no credential lies where scripts can read it", signedIn(async (page, context) => {
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  assert.doesNotMatch(stored, /gl[rk]_|eyJ/);
  const cookies = await context.cookies();
  assert.equal(cookies.length, 1);
  assert.ok(cookies[0].httpOnly && cookies[0].sameSite === "Strict");
}));

test("an account, an organization, and first steps", () =>
  inPage(async (page) => {
    await page.goto(`${url}/console#/register`);
    await page.getByLabel("Your name").fill("<b>Newcomer</b>");
    await page.getByLabel("Email address").fill("new@example.com");
    await page.getByLabel("Password").fill("a passphrase of my own");
    await page.getByRole("button", { name: "Create the account" }).click();
    await page.getByRole("heading", { name: "Welcome, <b>Newcomer</b>" }).waitFor();
    await page.getByLabel("Name of the organization").fill("<img src=x onerror=alert(1)> Ltd");
    await page.getByRole("button", { name: "Create the organization" }).click();
    await page.getByRole("heading", { name: "First steps" }).waitFor();
    await page.getByText("<img src=x onerror=alert(1)> Ltd").first().waitFor();
    await at(page, "sql");
    await page.getByText("Your email address is not verified").waitFor();
  }));

test("a forgotten password is answered alike for everybody", () =>
  inPage(async (page) => {
    await page.goto(`${url}/console#/forgot`);
    await page.getByLabel("Email address").fill("nobody@example.com");
    await page.getByRole("button", { name: "Send a link" }).click();
    await page.getByRole("status").getByText("If the address has an account").waitFor();
  }));

test("a session that ends in mid-form keeps what was typed", signedIn(async (page, context) => {
  await at(page, "urls");
  await page.getByRole("button", { name: "Add URLs" }).click();
  await page.getByLabel("URLs", { exact: false }).last().waitFor();
  await page.locator("textarea").fill("https://example.com/kept");
  await context.clearCookies();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("heading", { name: "Your session has ended" }).waitFor();
  await page.locator("dialog").last().getByLabel("Password").fill(person.password);
  await page.locator("dialog").last().getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Your session has ended" }).waitFor({ state: "detached" });
  assert.equal(await page.locator("textarea").inputValue(), "https://example.com/kept");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("1 new").waitFor();
}));

test("a key is shown once and works", signedIn(async (page) => {
  await at(page, "keys");
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("of the journey");
  await page.getByRole("button", { name: "Make the key" }).click();
  const secret = await page.locator(".secret code").innerText();
  assert.match(secret, /^glk_/);
  const me = await fetch(`${url}/api/v1/auth/me`, { headers: { authorization: `Bearer ${secret}` } });
  assert.equal(me.status, 200);
  await page.getByRole("button", { name: "Done" }).click();
  const row = page.getByRole("row", { name: /of the journey/ });
  await row.getByRole("button", { name: "End" }).click();
  await row.waitFor({ state: "detached" });
  const ended = await fetch(`${url}/api/v1/auth/me`, { headers: { authorization: `Bearer ${secret}` } });
  assert.equal(ended.status, 401);
}));

test("a member is invited and the invitation withdrawn", signedIn(async (page) => {
  await at(page, "members");
  await page.getByRole("button", { name: "Invite" }).click();
  await page.getByLabel("Email address").fill("guest@example.com");
  await page.locator("dialog").getByRole("combobox").selectOption("viewer");
  await page.locator("dialog").getByRole("button", { name: "Invite" }).click();
  const row = page.getByRole("row", { name: /guest@example.com/ });
  await row.getByText("viewer").waitFor();
  await row.getByRole("button", { name: "Withdraw" }).click();
  await row.waitFor({ state: "detached" });
}));

test("a command line is approved", signedIn(async (page) => {
  const started = await (await fetch(`${url}/api/v1/cli-auth/start`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ hostname: "laptop-7" }) })).json();
  await at(page, `device?user_code=${started.user_code}`);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.getByText("laptop-7").waitFor();
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByRole("status").getByText("laptop-7").waitFor();
}));

test("the audit log is filtered", signedIn(async (page) => {
  await at(page, "audit");
  await page.getByRole("row").nth(2).waitFor();
  await page.getByLabel("Action, such as job.submitted").fill("auth.login");
  await page.getByRole("row", { name: /auth\.login/ }).first().waitFor();
  await page.getByRole("button", { name: "Details" }).first().click();
  await page.getByRole("heading", { name: "auth.login" }).waitFor();
}));

test("a viewer reads, and is offered nothing that viewers may not", () =>
  inPage(async (page) => {
    await signIn(page, { email: process.env.GLEANER_VIEWER, password: person.password });
    await at(page, "urls");
    await page.locator("table a").first().waitFor();
    for (const name of ["Add URLs", "Upload a file"]) assert.equal(await page.getByRole("button", { name }).count(), 0, name);
    assert.equal(await page.getByRole("link", { name: "Audit log" }).count(), 0);
    await at(page, "audit");
    await page.getByText("Not for your role").waitFor();
    await at(page, "nowhere");
    await page.getByText("There is nothing here").waitFor();
  }));

test("one sees where one is signed in, and signs out there, elsewhere, everywhere", () =>
  inPage(async (page) => {
    const viewer = { email: process.env.GLEANER_VIEWER, password: person.password };
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(viewer) };
    const elsewhere = async () => (await fetch(`${url}/api/v1/auth/login`, init)).json();
    const stands = async ({ accessToken }) => (await fetch(`${url}/api/v1/auth/me`, { headers: { authorization: `Bearer ${accessToken}` } })).ok;
    const [first, second] = [await elsewhere(), await elsewhere()];
    await signIn(page, viewer);
    await at(page, "profile");
    await page.getByRole("row", { name: /This one/ }).waitFor();
    const others = page.getByRole("row", { name: /Another/ });
    const before = await others.count();
    assert.ok(before >= 2);
    // The newest stands in front.
    await others.first().getByRole("button", { name: "End" }).click();
    await others.nth(before - 1).waitFor({ state: "detached" });
    assert.deepEqual([await stands(first), await stands(second)], [true, false]);
    await page.getByRole("button", { name: "Sign out everywhere else" }).click();
    await page.getByText(/\d+ other sessions? ended/).waitFor();
    await others.first().waitFor({ state: "detached" });
    assert.equal(await stands(first), false);
    await page.reload();
    await page.getByRole("row", { name: /This one/ }).waitFor();
    const third = await elsewhere();
    await page.getByRole("button", { name: "Sign out everywhere", exact: true }).click();
    await page.getByLabel("Password").waitFor();
    assert.equal(await stands(third), false);
  }));
