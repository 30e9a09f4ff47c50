// More journeys by keyboard alone: the first steps, pointing, cancelling, downloading, comparing, drawing.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { api, byKeys, goTo, inPage, person, pressOn, shop, tabTo, typeInto, until, unpointed, url } from "./box.mjs";

async function write(page, sql) {
  await goTo(page, "SQL");
  await page.getByLabel("SQL statement").waitFor();
  await tabTo(page, "SQL statement");
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type(sql);
}

test("by keys: a newcomer gets from an account to a first result", () =>
  inPage(async (page) => {
    await unpointed(page, async () => {
      await page.goto(`${url}/console#/register`);
      await page.getByLabel("Your name").waitFor();
      await typeInto(page, "Your name", "Keyed First");
      await typeInto(page, "Email address", "keyed-first@example.com");
      await typeInto(page, "Password", "a passphrase of my own");
      await pressOn(page, "Create the account");
      await page.getByLabel("Name of the organization").waitFor();
      await typeInto(page, "Name of the organization", "Keyed First Ltd");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "First steps" }).waitFor();
      await tabTo(page, /^A few pages/, false);
      await page.keyboard.type(`${shop}/p/1\n${shop}/p/2`);
      await pressOn(page, "Collect them");
      await page.getByText("2 of 2 have come.").waitFor();
      await page.reload();
      await page.locator('a[href^="#/results/"]').first().waitFor();
      await pressOn(page, /\/p\/[12]$/);
      await page.getByRole("heading", { name: "Where it is from" }).waitFor();
    });
  }));

test("by keys: an element is walked to, chosen, and kept as an attribute", byKeys(async (page) => {
  const { items } = await api("GET", "/extraction/results?q=plane&limit=1");
  await page.evaluate((to) => void (location.hash = to), `#/results/${items[0].id}`);
  await page.getByRole("heading", { name: "Where it is from" }).waitFor();
  await pressOn(page, "Teach by pointing");
  await page.frameLocator("iframe").locator("h1").waitFor();
  await tabTo(page, /^The stored page/);
  await page.keyboard.press("ArrowRight");
  await page.getByRole("status").getByText(/^h1: Plane/).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.getByRole("status").getByText(/^p: .*EUR/).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("row", { name: /This page .*EUR/ }).waitFor();
  await typeInto(page, "Name", "walked_to");
  await pressOn(page, "Save the attribute");
  await page.getByText(/walked_to is read from now on/).waitFor();
}, { policyMayRefuse: true }));

test("by keys: a statement is cancelled", byKeys(async (page) => {
  await write(page, "SELECT count(*) FROM generate_series(1, 900000) a(n) CROSS JOIN generate_series(1, 900000) b(n) WHERE a.n % 7 = b.n % 11");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("button", { name: "Cancel" }).waitFor();
  await page.keyboard.press("Escape");
  await pressOn(page, "Cancel");
  await page.locator(".status, [role=alert]").getByText(/cancell?ed/i).first().waitFor();
}));

test("by keys: an export is made, downloaded and read", byKeys(async (page) => {
  await write(page, "SELECT url FROM urls ORDER BY url");
  await page.keyboard.press("Control+Enter");
  await page.getByText(/rows?$/).first().waitFor();
  await page.keyboard.press("Escape");
  await tabTo(page, "Export");
  await page.keyboard.type("JSON");
  const link = page.getByRole("link", { name: /Download jsonl/ });
  await link.waitFor();
  const coming = page.waitForEvent("download");
  await pressOn(page, /^Download jsonl/);
  const text = await readFile(await (await coming).path(), "utf8");
  assert.match(JSON.parse(text.split("\n")[0]).url, /^http/);
}));

test("by keys: a session that ends in mid-form is begun again, and what was typed is sent", byKeys(async (page, context) => {
  await goTo(page, "Monitors");
  await pressOn(page, "New monitor");
  await typeInto(page, "Name", "Kept by keys");
  await typeInto(page, "Statement", "SELECT 5 AS failed");
  await context.clearCookies();
  await pressOn(page, "Make the monitor");
  await page.getByRole("heading", { name: "Your session has ended" }).waitFor();
  await typeInto(page, "Password", person.password);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Your session has ended" }).waitFor({ state: "detached" });
  assert.equal(await page.getByRole("textbox", { name: /^Statement/ }).inputValue(), "SELECT 5 AS failed");
  await pressOn(page, "Make the monitor");
  await page.getByRole("heading", { level: 1, name: "Kept by keys" }).waitFor();
}));

test("by keys: first steps end with a schedule", byKeys(async (page) => {
  await page.evaluate(() => void (location.hash = "#/start"));
  await page.getByRole("heading", { name: "First steps" }).waitFor();
  await tabTo(page, /^How often/);
  await page.keyboard.type("Each hour");
  await pressOn(page, "Make the schedule");
  await pressOn(page, "When it fires next");
  await page.getByText("Next fires").waitFor();
}));

test("by keys: a workflow is drawn, mended, saved, compared and published", byKeys(async (page) => {
  await goTo(page, "Workflows");
  await pressOn(page, "New workflow");
  await typeInto(page, "Name", "Drawn by keys");
  await pressOn(page, "Make the workflow");
  await page.getByText("holds", { exact: true }).waitFor();
  await pressOn(page, "+ wait");
  await page.getByText(/faults?$/).waitFor();
  await tabTo(page, "always leads to");
  await page.keyboard.type("provider");
  await page.keyboard.press("Control+k");
  await page.keyboard.press("Escape");
  await tabTo(page, /^start start/);
  await page.keyboard.press("Enter");
  await tabTo(page, "always leads to");
  await page.keyboard.type("wait");
  await page.getByText("holds", { exact: true }).waitFor();
  await pressOn(page, "Save as a new version");
  await page.getByText("Version 2").first().waitFor();
  await pressOn(page, "Compare");
  await page.getByRole("dialog").getByRole("button", { name: /^wait wait1/ }).waitFor();
  await page.keyboard.press("Escape");
  await pressOn(page, "Publish");
  await page.getByRole("button", { name: "Unpublish" }).waitFor();
}));

test("by keys: a benchmark is begun and becomes a workflow", byKeys(async (page) => {
  await goTo(page, "Benchmarks");
  await pressOn(page, "New benchmark");
  await tabTo(page, /^URLs/, false);
  await page.keyboard.type(`${shop}/p/1`);
  await pressOn(page, "Begin");
  await page.getByRole("heading", { name: "Providers side by side" }).waitFor();
  await page.getByRole("button", { name: "Make a workflow" }).waitFor();
  await pressOn(page, "Make a workflow");
  await page.getByText("The workflow was made").waitFor();
}));

test("by keys: two versions of a page are compared", byKeys(async (page) => {
  const jobs = [];
  for (let n = 0; n < 2; n++) {
    const made = await api("POST", "/jobs", { url: `${shop}/count/2` });
    jobs.push(await until("it has come", async () => (await api("GET", `/jobs/${made.id}`)).resultId));
  }
  await api("POST", "/urls", { urls: [{ url: `${shop}/count/2` }] });
  const { items } = await api("GET", `/urls?q=${encodeURIComponent("/count/2")}`);
  await until("its history is there", async () => (await api("GET", `/extraction/history?urlId=${items[0].id}`)).items.length > 1);
  await page.evaluate((to) => void (location.hash = to), `#/urls/${items[0].id}`);
  for (let n = 0; n < 2; n++) {
    await tabTo(page, /^Choose the version/);
    await page.keyboard.press("Space");
  }
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Control+k");
  await page.keyboard.press("Escape");
  await pressOn(page, "Compare two versions");
  await page.getByRole("region", { name: "Text of both versions" }).waitFor();
}));

test("by keys: credits are asked for, the audit log is filtered, one's data is asked for", byKeys(async (page) => {
  await goTo(page, "Plan and credits");
  await pressOn(page, "Ask for credits");
  await typeInto(page, "Credits", "321");
  await pressOn(page, "Ask for them");
  await page.getByRole("row", { name: /321/ }).first().waitFor();
  await goTo(page, "Audit log");
  await typeInto(page, "Action, such as job.submitted", "auth.login");
  await page.keyboard.press("Enter");
  await page.getByRole("row", { name: /auth\.login/ }).first().waitFor();
  await goTo(page, "Your profile");
  await pressOn(page, "Ask for it");
  await page.getByRole("link", { name: /^Download/ }).waitFor();
}));

test("by keys: a viewer is led nowhere that viewers may not go", () =>
  inPage((page) => unpointed(page, async () => {
    await page.goto(`${url}/console`);
    await page.getByLabel("Email address").waitFor();
    await typeInto(page, "Email address", process.env.GLEANER_VIEWER);
    await typeInto(page, "Password", person.password);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("audit");
    await page.getByRole("option", { name: "Nothing found" }).waitFor();
    await page.keyboard.press("Escape");
    await goTo(page, "Schedules");
    assert.equal(await page.getByRole("button", { name: "New schedule" }).count(), 0);
  })));
