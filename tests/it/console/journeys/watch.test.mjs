// Monitors, storage, sessions of sites, crawls, past runs, and a box that goes away and comes back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { api, at, inPage, shop, signedIn, until, url } from "./box.mjs";

test("a monitor is tried, made, fires, and says when", signedIn(async (page) => {
  await at(page, "monitors");
  await page.getByRole("button", { name: "New monitor" }).click();
  await page.getByLabel("Name").fill("<b>Too many</b>");
  await page.getByRole("textbox", { name: /^Statement/ }).fill("SELECT 41 + 1 AS failed");
  await page.getByRole("textbox", { name: /^Value/ }).fill("missing");
  await page.getByRole("button", { name: "Try it now" }).click();
  await page.getByText("The result has no column “missing”; it has failed.").waitFor();
  await page.getByRole("textbox", { name: /^Value/ }).fill("failed");
  await page.getByRole("button", { name: "Try it now" }).click();
  await page.getByText("The condition holds: it would fire.").waitFor();
  await page.getByRole("button", { name: "Make the monitor" }).click();
  await page.getByRole("heading", { level: 1, name: "<b>Too many</b>" }).waitFor();
  await page.getByText("firing", { exact: true }).first().waitFor();
  await page.getByRole("row", { name: /firing 42/ }).waitFor();
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("spinbutton", { name: /^Number/ }).fill("100");
  await page.getByRole("button", { name: "Try it now" }).click();
  await page.getByText("The condition does not hold.").waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("failed is more than 100", { exact: false }).first().waitFor();
  await page.getByRole("button", { name: "Switch off" }).click();
  await page.getByRole("button", { name: "Switch on" }).waitFor();
  assert.equal(await page.locator("main b").count(), 0);
}));

test("a monitor that is refused says why, and keeps what was typed", signedIn(async (page) => {
  await at(page, "monitors");
  await page.getByRole("button", { name: "New monitor" }).click();
  await page.getByLabel("Name").fill("Refused");
  await page.getByRole("textbox", { name: /^Statement/ }).fill("DELETE FROM jobs");
  await page.getByRole("button", { name: "Make the monitor" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByRole("textbox", { name: /^Statement/ }).fill("SELECT 1 AS failed");
  await page.getByLabel("Expression").fill("every now and then");
  await page.getByRole("button", { name: "Make the monitor" }).click();
  await page.getByRole("alert").getByText(/cron/).waitFor();
  assert.equal(await page.getByRole("textbox", { name: /^Statement/ }).inputValue(), "SELECT 1 AS failed");
}));

test("a monitor watches a saved query after each run of a schedule", signedIn(async (page) => {
  await api("POST", "/bi/saved-queries", { name: "watched", sql: "SELECT count(*) AS n FROM jobs" });
  await api("POST", "/schedules", { name: "Watched", cron: "0 0 1 1 *", tagFilters: ["nothing has this"] });
  await at(page, "monitors");
  await page.getByRole("button", { name: "New monitor" }).click();
  await page.getByLabel("Name").fill("By the schedule");
  await page.getByLabel("It runs").selectOption("saved");
  await page.getByRole("combobox", { name: /^Saved query/ }).selectOption({ label: "watched" });
  await page.getByRole("textbox", { name: /^Value/ }).fill("rows");
  await page.getByLabel("Compared").selectOption("change");
  await page.getByRole("spinbutton", { name: /^Percent/ }).fill("-30");
  await page.getByRole("combobox", { name: /^When/ }).selectOption("schedule");
  await page.getByRole("combobox", { name: /^Schedule/ }).selectOption({ label: "Watched" });
  await page.getByRole("button", { name: "Make the monitor" }).click();
  await page.getByRole("heading", { level: 1, name: "By the schedule" }).waitFor();
  await page.getByRole("link", { name: "after each run of its schedule" }).waitFor();
  await page.getByText(/the change of the number of rows since the run before/).first().waitFor();
}));

test("storage that cannot be used is told step by step, and nothing is changed", signedIn(async (page) => {
  await at(page, "storage");
  await page.getByText("in the box", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Use storage of your own" }).click();
  await page.getByRole("textbox", { name: /^Bucket/ }).fill("pages");
  await page.getByRole("textbox", { name: /^Endpoint/ }).fill(shop);
  await page.getByLabel("Access key").fill("AKIAEXAMPLE");
  await page.getByLabel("Secret").fill("notArealSecret");
  await page.getByRole("button", { name: "Test it" }).click();
  await page.getByText("It cannot be used like this.").waitFor();
  await page.getByRole("dialog").getByRole("row", { name: /put failed/ }).waitFor();
  await page.getByRole("textbox", { name: /^Endpoint/ }).fill("http://10.1.2.3:9000");
  await page.getByRole("button", { name: "Keep pages there" }).click();
  await page.getByRole("alert").waitFor();
  assert.equal(await page.getByRole("textbox", { name: /^Bucket/ }).inputValue(), "pages");
  assert.equal((await api("GET", "/storage")).kind, "local");
}));

test("a site's session is kept, never shown, and forgotten", signedIn(async (page) => {
  await at(page, "site-sessions");
  await page.getByRole("button", { name: "New session" }).click();
  await page.getByRole("textbox", { name: /^Site/ }).fill("https://shop.example/login");
  await page.getByRole("textbox", { name: /^Name/ }).fill("<b>Account</b>");
  const file = { name: "cookies.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify([{ name: "sid", value: "s3cret-value", domain: "shop.example" }, { name: "other", value: "x", domain: "elsewhere.example" }])) };
  await page.getByLabel("Or from a file").setInputFiles(file);
  await page.getByRole("button", { name: "Keep it" }).click();
  await page.getByText(/1 cookies of other domains/).waitFor();
  const row = page.getByRole("row", { name: /<b>Account<\/b>/ });
  await row.getByText("sid").waitFor();
  assert.doesNotMatch(await page.content(), /s3cret-value/);
  await row.getByRole("button", { name: "Forget" }).click();
  await row.waitFor({ state: "detached" });
}));

test("a crawl's run is drawn as a tree of what led where", signedIn(async (page) => {
  await at(page, "inputs");
  await page.getByRole("button", { name: "New input" }).click();
  await page.getByLabel("Kind").selectOption("crawl");
  await page.getByLabel("Name").fill("Walk");
  await page.getByLabel("Begins at").fill(`${shop}/site`);
  await page.getByRole("button", { name: "Make the input" }).click();
  await page.getByRole("heading", { level: 1, name: "Walk" }).waitFor();
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("row", { name: /completed/ }).getByRole("button", { name: "Tree" }).click();
  const tree = page.getByRole("dialog");
  await tree.getByText("16 pages").first().waitFor();
  await tree.getByRole("link", { name: `${shop}/site/c/2/p/4`, exact: false }).waitFor();
  // Where it was found is the page above it.
  const above = await tree.getByRole("link", { name: `${shop}/site/c/2/p/4`, exact: true }).evaluate((link) => link.closest("details").querySelector("summary a").textContent);
  assert.equal(above, `${shop}/site/c/2`);
  await tree.getByRole("combobox").selectOption("address");
  await tree.getByRole("link", { name: "4", exact: true }).first().waitFor();
}));

test("a schedule from its form to its run, its jobs and its day in the calendar", signedIn(async (page) => {
  await api("POST", "/urls", { urls: [{ url: `${shop}/p/6`, tags: ["calendar"] }] });
  await at(page, "schedules");
  await page.getByRole("button", { name: "New schedule" }).click();
  await page.getByLabel("Name").fill("Into the calendar");
  await page.getByLabel("URLs with any of these tags").fill("calendar");
  await page.getByRole("button", { name: "Make the schedule" }).click();
  await page.getByRole("heading", { level: 1, name: "Into the calendar" }).waitFor();
  await page.getByRole("button", { name: "Trigger now" }).click();
  const today = page.getByRole("button", { name: /: 1 went well$/ });
  await today.waitFor();
  await today.click();
  const runs = page.getByRole("region", { name: "Runs of the day" });
  await runs.getByText("completed").waitFor();
  await runs.getByRole("button", { name: "Jobs" }).click();
  const job = page.getByRole("dialog").getByRole("link", { name: /\/p\/6$/ });
  await job.waitFor();
  // What a dialog is asked for is its own, and gone with it.
  const address = page.url();
  await page.getByRole("dialog").getByLabel("Domain").fill("nothing.example");
  await page.getByRole("dialog").getByText("No job fits these filters").waitFor();
  assert.equal(page.url(), address);
  await page.keyboard.press("Escape");
  await runs.getByRole("button", { name: "Jobs" }).click();
  await job.waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "The month before" }).click();
  await page.getByRole("button", { name: /went well/ }).waitFor({ state: "detached" });
  const month = page.getByLabel("Month", { exact: true });
  await month.fill("2024-02");
  await month.press("Enter");
  await page.getByRole("heading", { name: "Runs of February 2024" }).waitFor();
  // What stands there while a year is typed is no month yet.
  await month.fill("0002-03");
  await month.press("Enter");
  await until("the month in view stands in the field again", async () => (await month.inputValue()) === "2024-02");
  await page.getByRole("heading", { name: "Runs of February 2024" }).waitFor();
  const now = new Date();
  await month.fill(`${now.getFullYear()}-${String(now.getMonth() + 1).padStart(2, "0")}`);
  await month.blur();
  await today.waitFor();
}));

test("a run that was left out stands in the calendar, too", signedIn(async (page) => {
  const made = await api("POST", "/schedules", { name: "Overlapping", cron: "0 0 1 1 *", overlap: "skip", tagFilters: ["held"] });
  await api("POST", "/urls", { urls: [{ url: `${shop}/slow/1`, tags: ["held"] }] });
  await at(page, `schedules/${made.id}`);
  await page.getByRole("button", { name: "Trigger now" }).click();
  await page.getByText(/jobs were submitted/).waitFor();
  await page.getByRole("button", { name: "Trigger now" }).click();
  await page.getByRole("button", { name: /1 left out/ }).waitFor();
}));

test("a box that restarts under an open page is waited for; what was typed stays", signedIn(async (page) => {
  await at(page, "jobs");
  await page.getByText("live", { exact: true }).waitFor();
  const opened = page.context().waitForEvent("page");
  await page.evaluate(() => void window.open(`${location.origin}/console#/urls`));
  const other = await opened;
  await other.getByRole("button", { name: "Add URLs" }).click();
  await other.locator("textarea").fill(`${shop}/p/7?restarted`);
  await fetch(`${shop}/control/restart`);
  await page.getByText("not live", { exact: true }).waitFor();
  await until("the box is back", () => fetch(`${url}/api/v1/openapi.json`).then((reply) => reply.ok, () => false));
  await page.getByText("live", { exact: true }).waitFor({ timeout: 40_000 });
  assert.equal(await other.locator("textarea").inputValue(), `${shop}/p/7?restarted`);
  await other.getByRole("button", { name: "Add", exact: true }).click();
  await other.getByText("1 new").waitFor();
  const job = await api("POST", "/jobs", { url: `${shop}/p/7?restarted` });
  await page.locator(`a[href="#/jobs/${job.id}"]`).waitFor();
}));

test("a part that cannot be loaded says so, and comes when it is asked for again", signedIn(async (page) => {
  await page.route(/\/assets\/(plot|jobs)-/, (route) => route.abort());
  await page.reload();
  await page.getByText("This part could not be loaded").first().waitFor();
  await at(page, "jobs");
  await page.getByText("This view could not be loaded").waitFor();
  await page.unroute(/\/assets\/(plot|jobs)-/);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
  await at(page, "overview");
  await page.getByRole("img", { name: /Succeeded and failed jobs/ }).or(page.getByRole("button", { name: "Try again" })).first().waitFor();
}));

test("a newcomer gets from an account to a first result", () =>
  inPage(async (page) => {
    await page.goto(`${url}/console#/register`);
    await page.getByLabel("Your name").fill("First");
    await page.getByLabel("Email address").fill("first@example.com");
    await page.getByLabel("Password").fill("a passphrase of my own");
    await page.getByRole("button", { name: "Create the account" }).click();
    await page.getByLabel("Name of the organization").fill("First Ltd");
    await page.getByRole("button", { name: "Create the organization" }).click();
    await page.getByRole("heading", { name: "First steps" }).waitFor();
    await page.locator("textarea").fill(`${shop}/p/1\n${shop}/p/2`);
    await page.getByRole("button", { name: "Collect them" }).click();
    await page.locator('a[href^="#/results/"]').first().click();
    await page.getByRole("heading", { name: "Where it is from" }).waitFor();
    await page.getByRole("link", { name: `${shop}/p/` }).or(page.getByText(`${shop}/p/`)).first().waitFor();
  }));

test("what was learned by pointing is a column of SQL", signedIn(async (page) => {
  const domain = new URL(shop).hostname;
  await at(page, `schemas?domain=${domain}`);
  await page.getByRole("button", { name: "New attribute" }).click();
  await page.getByLabel("Name").fill("pointed_at");
  await page.getByLabel("Page type").fill("product");
  await page.getByLabel("XPaths").fill("//p[@class='price']");
  await page.getByRole("button", { name: "Save the attribute" }).click();
  await page.getByRole("row", { name: /pointed_at/ }).first().waitFor();
  await page.getByRole("button", { name: "Read stored pages anew" }).click();
  await page.getByText(/stored pages? (were )?read anew/).waitFor();
  const asked = { sql: "SELECT count(pointed_at) AS n FROM products WHERE pointed_at LIKE '%EUR'", waitMs: 5_000 };
  await until("SQL has the column", async () => ((await api("POST", "/bi/queries", asked).catch(() => undefined))?.results?.rows[0].n ?? 0) > 0);
  await at(page, "sql");
  const editor = page.getByLabel("SQL statement");
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT pointed_at FROM products WHERE pointed_at IS NOT NULL ORDER BY 1");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("gridcell", { name: /EUR/ }).first().waitFor();
}));

test("a page has one stream of events, however many of its parts listen", signedIn(async (page) => {
  const made = await api("POST", "/schedules", { name: "Listened to", cron: "0 0 1 1 *", tagFilters: ["calendar"] });
  await api("POST", "/urls", { urls: [{ url: `${shop}/p/4`, tags: ["calendar"] }] });
  const open = new Set();
  let most = 0;
  const isStream = (request) => request.headers()["accept"] === "text/event-stream";
  page.on("request", (request) => {
    if (!isStream(request)) return;
    open.add(request);
    most = Math.max(most, open.size);
  });
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => open.delete(request));
  await at(page, `schedules/${made.id}`);
  await page.getByRole("button", { name: "Trigger now" }).click();
  await page.getByRole("row", { name: /completed/ }).first().getByRole("button", { name: "Jobs" }).click();
  await page.getByRole("dialog").getByText("live", { exact: true }).waitFor();
  await until("there is one stream", async () => open.size === 1);
  await page.keyboard.press("Escape");
  await at(page, "monitors");
  await page.getByRole("heading", { level: 1, name: "Monitors" }).waitFor();
  await at(page, "keys");
  await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
  await until("nobody listens any more", async () => open.size === 0);
  assert.ok(most <= 2, `${most} streams at once`);
}));
