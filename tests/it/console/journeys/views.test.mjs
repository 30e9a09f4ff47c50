// Every view in both themes: nothing serious by axe-core, nothing wider than the window at 390 pixels.
import assert from "node:assert/strict";
import { test } from "node:test";
import { api, at, axe, inPage, signedIn, until, url } from "./box.mjs";

const VIEWS = ["overview", "analytics", "analytics?tab=providers", "analytics?tab=credits", "analytics?tab=quality", "analytics?tab=domains", "sql", "agents", "dashboards", "results", "results?pageType=product", "urls", "jobs", "batches", "schedules", "inputs", "site-sessions", "schemas", "schemas?tab=drift", "providers", "workflows", "benchmarks", "outputs", "monitors", "members", "keys", "plan", "storage", "audit", "profile", "device", "start"];

const asking = new WeakMap();

/** Follows what the page asks for. Its stream of events has no end, so what Playwright calls an idle network may never come. */
function follow(page) {
  const open = new Set();
  page.on("request", (request) => request.headers()["accept"] !== "text/event-stream" && open.add(request));
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => open.delete(request));
  asking.set(page, open);
}

async function look(page, view) {
  if (!asking.has(page)) follow(page);
  await page.waitForFunction(() => !document.querySelector(".bones, .waiting"));
  await until(`${view} has all that it asked for`, () => asking.get(page).size === 0);
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  assert.deepEqual(told, [], view);
}

for (const theme of ["light", "dark"]) {
  test(`views hold in ${theme}`, { timeout: 600_000 }, signedIn(async (page) => {
    for (const view of VIEWS) {
      await at(page, view);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await look(page, view);
    }
  }, { theme }));

  test(`the gate holds in ${theme}`, () =>
    inPage(async (page) => {
      for (const place of ["", "register", "forgot", "reset"]) {
        await page.goto(`${url}/console#/${place}`);
        await page.getByRole("heading", { level: 1 }).waitFor();
        await look(page, place);
      }
    }, { theme }));
}

/** Places, and the buttons there that open a dialog. */
const DIALOGS = [
  ["urls", "Add URLs"],
  ["urls", "Upload a file"],
  ["schedules", "New schedule"],
  ["inputs", "New input"],
  ["schemas?domain=shop.example", "New attribute"],
  ["providers", "Connect a provider"],
  ["workflows", "New workflow"],
  ["benchmarks", "New benchmark"],
  ["outputs", "New output"],
  ["members", "Invite"],
  ["members", "Erase the organization …"],
  ["keys", "New key"],
  ["plan", "Ask for credits"],
  ["profile", "Erase my account …"],
  ["sql", "Save"],
  ["agents", "New conversation"],
  ["dashboards", "New dashboard"],
  ["monitors", "New monitor"],
  ["site-sessions", "New session"],
  ["storage", "Use storage of your own"],
];

/** One of each kind of page that only an id leads to, made here and looked at. */
async function pages() {
  const schedule = await api("POST", "/schedules", { name: `Looked at ${Date.now()}`, cron: "0 6 * * *", tagFilters: ["looked at"] });
  await api("POST", `/schedules/${schedule.id}/trigger`);
  const agent = await api("POST", "/agents", { name: "Looked at" });
  await api("POST", `/agents/${agent.id}/messages`, { text: "SELECT status, count(*) AS jobs FROM (VALUES ('a'), ('b'), ('b')) AS t(status) GROUP BY status" });
  const monitor = await api("POST", "/monitors", { name: `Looked at ${Date.now()}`, sql: "SELECT 1 AS n", condition: { value: "n", op: "gt", threshold: 0 }, on: { cron: "0 0 1 1 *" } });
  const query = await api("POST", "/bi/saved-queries", { name: `looked at ${Date.now()}`, sql: "SELECT n, n * n AS square FROM generate_series(1, 9) AS t(n)" });
  const chart = (type) => ({ type, ...(type !== "table" && { x: "n", y: ["square"] }) });
  const tiles = ["table", "line", "bar", "scatter", "number"].map((type, index) => ({ savedQueryId: query.id, title: type, chart: chart(type), position: { x: 0, y: index * 4, w: 6, h: 4 } }));
  const dashboard = await api("POST", "/bi/dashboards", { name: `Looked at ${Date.now()}`, tiles, parameters: [{ name: "from", value: "2026-01-01" }] });
  const { items } = await api("GET", "/jobs?status=succeeded&limit=1");
  const urls = await api("GET", "/urls?q=%2Fp%2F1&limit=1");
  return [`schedules/${schedule.id}`, `agents/${agent.id}`, `monitors/${monitor.id}`, `dashboards/${dashboard.id}`, `jobs/${items[0].id}`, `results/${items[0].resultId}`, `urls/${urls.items[0].id}`];
}

for (const theme of ["light", "dark"]) {
  test(`pages of single things hold in ${theme}, and are no wider than a small window`, { timeout: 600_000 }, signedIn(async (page) => {
    for (const place of await pages()) {
      await page.setViewportSize({ width: 1280, height: 900 });
      await at(page, place);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await look(page, place);
      await page.setViewportSize({ width: 390, height: 844 });
      // Charts are drawn anew a little later.
      await until(`${place} is no wider`, () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    }
  }, { theme }));
}

for (const theme of ["light", "dark"]) {
  test(`dialogs hold in ${theme}, and Escape closes them`, { timeout: 600_000 }, signedIn(async (page) => {
    for (const [place, button] of DIALOGS) {
      await at(page, place);
      await page.getByRole("button", { name: button, exact: true }).click();
      await page.getByRole("dialog").waitFor();
      await look(page, `${place}: ${button}`);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
  }, { theme }));
}

test("nothing is wider than a small window", { timeout: 600_000 }, signedIn(async (page) => {
  for (const view of VIEWS) {
    await at(page, view);
    await page.getByRole("heading", { level: 1 }).waitFor();
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${view} is ${over} pixels wider`);
  }
}, { width: 390, height: 844 }));
