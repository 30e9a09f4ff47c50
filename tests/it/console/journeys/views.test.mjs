// Every view in both themes: nothing serious by axe-core, nothing wider than the window at 390 pixels.
import assert from "node:assert/strict";
import { test } from "node:test";
import { at, axe, inPage, signedIn, url } from "./box.mjs";

const VIEWS = ["overview", "sql", "results", "results?pageType=product", "urls", "jobs", "batches", "schedules", "inputs", "schemas", "providers", "workflows", "benchmarks", "outputs", "members", "keys", "plan", "audit", "profile", "device", "start"];

async function look(page, view) {
  await page.locator(".bones").first().waitFor({ state: "detached" });
  await page.waitForLoadState("networkidle").catch(() => undefined);
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  assert.deepEqual(told, [], view);
}

for (const theme of ["light", "dark"]) {
  test(`views hold in ${theme}`, { timeout: 240_000 }, signedIn(async (page) => {
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
];

for (const theme of ["light", "dark"]) {
  test(`dialogs hold in ${theme}, and Escape closes them`, { timeout: 240_000 }, signedIn(async (page) => {
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

test("nothing is wider than a small window", { timeout: 240_000 }, signedIn(async (page) => {
  for (const view of VIEWS) {
    await at(page, view);
    await page.getByRole("heading", { level: 1 }).waitFor();
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${view} is ${over} pixels wider`);
  }
}, { width: 390, height: 844 }));
