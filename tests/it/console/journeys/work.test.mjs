// Collecting, asking, and what hostile pages and names change: nothing.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { api, at, shop, signedIn } from "./box.mjs";

async function ask(page, sql) {
  await at(page, "sql");
  const editor = page.getByLabel("SQL statement");
  await editor.click();
  await page.keyboard.press("Control+a");
  // Typed and not put in: what Chromium makes of a text that it puts in has styles of its own, which the policy refuses.
  await page.keyboard.press("Delete");
  await page.keyboard.type(sql);
}

test("URLs are shown as text, whatever they are tagged", signedIn(async (page) => {
  await at(page, "urls");
  await page.getByText("<b>bold</b>").first().waitFor();
  assert.equal(await page.locator("table b").count(), 0);
  await page.getByLabel("Part of the URL").fill(`${new URL(shop).host}/p/3`);
  await page.getByRole("row").nth(2).waitFor({ state: "detached" });
  await page.getByRole("link", { name: /\/p\/3$/ }).click();
  await page.getByRole("heading", { name: "History" }).waitFor();
  assert.equal(await page.locator('a[href^="javascript:"]').count(), 0);
}));

test("a file of URLs is uploaded, and refused lines are listed", signedIn(async (page) => {
  await at(page, "urls");
  await page.getByRole("button", { name: "Upload a file" }).click();
  const buffer = Buffer.from(`url,tags\n${shop}/up/1,up\n${shop}/up/2,up\nno url,up\n`);
  await page.getByLabel("File of URLs").setInputFiles({ name: "urls.csv", mimeType: "text/csv", buffer });
  await page.getByText("3 lines: 2 new, 0 changed, 0 known, 1 refused.").waitFor();
  await page.getByRole("row", { name: /no url/ }).waitFor();
}));

test("chosen URLs are collected, live, to a batch that ends", signedIn(async (page) => {
  await at(page, "urls?q=%2Fp%2F");
  await page.getByRole("checkbox").nth(0).check();
  await page.getByRole("checkbox").nth(1).check();
  await page.getByRole("button", { name: "Collect now" }).click();
  await page.getByRole("heading", { name: "Progress" }).waitFor();
  await page.getByText("completed", { exact: true }).waitFor();
}));

test("a job tells what happened", signedIn(async (page) => {
  await at(page, "jobs");
  await page.getByText("live", { exact: true }).waitFor();
  await page.locator("table a").first().click();
  await page.getByText(/Ended: succeeded/).waitFor();
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByText(/Ended: succeeded/).waitFor();
}));

test("a job that fails says why", signedIn(async (page) => {
  const job = await api("POST", "/jobs", { url: `${shop}/missing-page` });
  await at(page, `jobs/${job.id}`);
  await page.getByText(/target error/).first().waitFor();
}));

test("results are found as one types, and shown as text", signedIn(async (page) => {
  await at(page, "results");
  await page.locator("table a").first().waitFor();
  await page.getByLabel("Words to find").fill("plane");
  await page.getByText(/\d+ found/).waitFor();
  await page.locator("table a").first().click();
  await page.getByRole("heading", { name: "Where it is from" }).waitFor();
  await page.getByRole("tab", { name: "Text" }).click();
  await page.locator("pre").waitFor();
  assert.equal(await page.locator("main img, main svg[onload]").count(), 0);
}));

test("a schedule is made, previewed, triggered and paused", signedIn(async (page) => {
  await at(page, "schedules");
  await page.getByRole("button", { name: "New schedule" }).click();
  await page.getByLabel("Name").fill("<i>Nightly</i>");
  await page.getByLabel("When").fill("30 5 * * 1-5");
  await page.locator("dialog").getByText("Monday to Friday at 05:30").waitFor();
  await page.getByLabel("Time zone").fill("Europe/Berlin");
  await page.getByRole("button", { name: "Make the schedule" }).click();
  await page.getByRole("heading", { name: "<i>Nightly</i>" }).waitFor();
  await page.getByText("Next fires").waitFor();
  await page.locator("ul.plain li").nth(9).waitFor();
  await page.getByRole("button", { name: "Trigger now" }).click();
  await page.getByText(/jobs were submitted/).waitFor();
  await page.getByRole("row", { name: /manual/ }).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Switch on" }).waitFor();
}));

test("a statement runs by keyboard, and its rows are text", signedIn(async (page) => {
  await ask(page, "SELECT '<img src=x onerror=alert(1)>' AS \"<b>a</b>\", 7 AS n");
  await page.keyboard.press("Control+Enter");
  await page.getByText("1 row", { exact: true }).waitFor();
  await page.getByRole("gridcell", { name: "<img src=x onerror=alert(1)>" }).waitFor();
  assert.equal(await page.locator(".grid img, .grid b").count(), 0);
}));

test("of several statements the one at the cursor runs", signedIn(async (page) => {
  await ask(page, "SELECT 1 AS first_one; SELECT 2 AS second_one");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("columnheader", { name: "second_one" }).waitFor();
}));

test("an error is told and its place marked", signedIn(async (page) => {
  await ask(page, "SELECT url, no_such_column FROM jobs");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("alert").getByText(/no_such_column/).waitFor();
  const marked = await page.evaluate(() => document.querySelector(".editor").shadowRoot.getSelection?.()?.toString() ?? "");
  assert.ok(marked.length <= 1, marked);
}));

test("a long statement is cancelled", signedIn(async (page) => {
  await ask(page, "SELECT count(*) FROM generate_series(1, 900000) a(n) CROSS JOIN generate_series(1, 900000) b(n) WHERE a.n % 7 = b.n % 11");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("button", { name: "Cancel" }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".status, [role=alert]").getByText(/cancell?ed/i).first().waitFor();
}));

test("many rows scroll page by page", signedIn(async (page) => {
  await ask(page, "SELECT * FROM generate_series(1, 100000) AS t(n)");
  await page.keyboard.press("Control+Enter");
  await page.getByText(/rows/).first().waitFor();
  const grid = page.getByRole("grid");
  await grid.waitFor();
  await grid.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await page.getByRole("gridcell", { name: "100000", exact: true }).waitFor();
}));

test("a chart, a parameter, a saved query and its link", signedIn(async (page) => {
  await ask(page, "SELECT status, count(*) AS jobs FROM jobs WHERE priority >= {{least}} GROUP BY status");
  await page.getByLabel("least").fill("1");
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("tab", { name: "Chart" }).click();
  await page.getByRole("img", { name: "jobs by status" }).waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator("dialog").getByLabel("Name").fill("journeys/<u>by state</u>");
  await page.locator("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "journeys/<u>by state</u>" }).waitFor();
  const link = page.url();
  await page.getByRole("tab", { name: "Saved" }).click();
  await page.getByRole("button", { name: "<u>by state</u>" }).waitFor();
  await at(page, "overview");
  await page.goto(link);
  await page.getByRole("heading", { name: "journeys/<u>by state</u>" }).waitFor();
}));

test("an export is downloaded and read", signedIn(async (page) => {
  await ask(page, "SELECT url FROM urls ORDER BY url");
  await page.keyboard.press("Control+Enter");
  await page.getByLabel("Export").selectOption("csv");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /Download csv/ }).click()]);
  const text = await readFile(await download.path(), "utf8");
  assert.match(text, /^url\r?\n/);
  assert.match(text, /\/p\/1/);
}));

test("the palette finds views and URLs by keyboard alone", signedIn(async (page) => {
  await page.keyboard.press("Control+k");
  await page.keyboard.type("sched");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Schedules" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("/p/5");
  await page.getByRole("option", { name: /\/p\/5 URL/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "URL" }).waitFor();
}));
