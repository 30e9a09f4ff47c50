// The main journeys by keyboard alone: everything is reached by Tab and the palette, and a pointer is never used.
import assert from "node:assert/strict";
import { test } from "node:test";
import { api, byKeys, goTo, pressOn, shop, tabTo, typeInto, until, url } from "./box.mjs";

test("by keys: URLs are added, chosen, tagged, and collected", byKeys(async (page) => {
  await goTo(page, "URLs");
  await pressOn(page, "Add URLs");
  await typeInto(page, /^URLs/, `${shop}/keys/1`);
  await typeInto(page, /^Tags/, "bykeys");
  await pressOn(page, "Add");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await typeInto(page, "Part of the URL", "/keys/1");
  await page.getByRole("row").nth(2).waitFor({ state: "detached" });
  await page.getByRole("row", { name: /keys\/1/ }).first().waitFor();
  await tabTo(page, /^Choose http/);
  await page.keyboard.press("Space");
  await pressOn(page, "Tag");
  await typeInto(page, /^Tags to add/, "again");
  await page.keyboard.press("Enter");
  await page.getByRole("row", { name: /again/ }).waitFor();
  await tabTo(page, /^Choose http/);
  await page.keyboard.press("Space");
  await pressOn(page, "Collect now");
  await page.getByText(/Ended: succeeded/).or(page.getByText("completed", { exact: true })).or(page.getByRole("heading", { level: 1, name: "Jobs" })).first().waitFor();
}));

test("by keys: a schedule is made, triggered, and its day is opened", byKeys(async (page) => {
  await api("POST", "/urls", { urls: [{ url: `${shop}/p/5`, tags: ["keyed"] }] });
  await goTo(page, "Schedules");
  await pressOn(page, "New schedule");
  await typeInto(page, "Name", "By keys");
  await typeInto(page, /^URLs with/, "keyed");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "By keys" }).waitFor();
  await pressOn(page, "Trigger now");
  await page.getByRole("button", { name: /: 1 went well$/ }).waitFor();
  await pressOn(page, /: 1 went well$/);
  await page.getByRole("region", { name: "Runs of the day" }).waitFor();
  await pressOn(page, "Jobs");
  await page.getByRole("dialog").getByRole("link", { name: /\/p\/5$/ }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
}));

test("by keys: a statement is written, run, saved, and shown as a chart", byKeys(async (page) => {
  await goTo(page, "SQL");
  await page.getByLabel("SQL statement").waitFor();
  await tabTo(page, "SQL statement");
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT status, count(*) AS jobs FROM jobs GROUP BY status");
  await page.keyboard.press("Control+Enter");
  await page.getByText(/rows?$/).first().waitFor();
  // Escape and then Tab leave the editor: Tab alone is a key of its own there.
  await page.keyboard.press("Escape");
  await pressOn(page, "Chart");
  await page.getByRole("img", { name: "jobs by status" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.press("Escape");
  await pressOn(page, "Save");
  await typeInto(page, "Name", "keys/by state");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "keys/by state" }).waitFor();
}));

test("by keys: a monitor is tried and made", byKeys(async (page) => {
  await goTo(page, "Monitors");
  await pressOn(page, "New monitor");
  await typeInto(page, "Name", "Keyed");
  await typeInto(page, "Statement", "SELECT 3 AS failed");
  await pressOn(page, "Try it now");
  await page.getByText("The condition does not hold.").waitFor();
  await pressOn(page, "Make the monitor");
  await page.getByRole("heading", { level: 1, name: "Keyed" }).waitFor();
}));

test("by keys: a dashboard is made, given a tile, and that is moved", byKeys(async (page) => {
  await api("POST", "/bi/saved-queries", { name: "aaa keys", sql: "SELECT 12 AS dozen" });
  await goTo(page, "Dashboards");
  await pressOn(page, "New dashboard");
  await typeInto(page, "Name", "Keyed board");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Keyed board" }).waitFor();
  await pressOn(page, "Add a tile");
  await page.locator("option", { hasText: "aaa keys" }).first().waitFor({ state: "attached" });
  await tabTo(page, "Saved query");
  await page.keyboard.type("aaa");
  await pressOn(page, "Add the tile");
  await page.getByText("Shown when it is saved.").waitFor();
  await tabTo(page, /column 1, row 1/);
  await page.keyboard.press("ArrowRight");
  await page.getByRole("region", { name: /column 2, row 1/ }).waitFor();
  await page.keyboard.press("Home");
  await pressOn(page, "Save");
  await page.getByRole("cell", { name: "12" }).waitFor();
}));

test("by keys: a conversation is begun, asked, and its query saved", byKeys(async (page) => {
  await goTo(page, "Agents");
  await pressOn(page, "New conversation");
  await typeInto(page, "Name", "Keyed talk");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Keyed talk" }).waitFor();
  await typeInto(page, "Question", "SELECT 99 AS ninety_nine");
  await page.keyboard.press("Enter");
  await page.getByRole("columnheader", { name: "ninety_nine" }).waitFor();
  await pressOn(page, "Save");
  await page.getByRole("link", { name: "The saved query" }).waitFor();
}));

test("by keys: an output is made and its secret copied", byKeys(async (page) => {
  await goTo(page, "Outputs");
  await pressOn(page, "New output");
  await typeInto(page, "Name", "Keyed hook");
  await typeInto(page, "Endpoint", `${shop}/hook`);
  await tabTo(page, "result.new");
  await page.keyboard.press("Space");
  await pressOn(page, "Make the output");
  await page.locator(".secret code").waitFor();
  await pressOn(page, "Copy");
  await until("it is copied", async () => /^whsec_/.test(await page.evaluate(() => navigator.clipboard.readText())));
  await pressOn(page, "Done");
  await page.getByRole("link", { name: "Keyed hook" }).waitFor();
}));

test("by keys: a provider is connected, tested, and let go", byKeys(async (page) => {
  await goTo(page, "Providers");
  await pressOn(page, "Connect a provider");
  await pressOn(page, "Connect Direct");
  await typeInto(page, "Name", "Keyed provider");
  await pressOn(page, "Connect");
  const row = page.getByRole("row", { name: /Keyed provider/ });
  await row.waitFor();
  await row.getByRole("button", { name: "Test" }).focus();
  await page.keyboard.press("Enter");
  await typeInto(page, "URL", `${shop}/p/1`);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByText("success").waitFor();
  await page.keyboard.press("Escape");
  await row.getByRole("button", { name: "Disconnect" }).focus();
  await page.keyboard.press("Enter");
  await row.waitFor({ state: "detached" });
}));

test("by keys: results are searched, one is opened, and an attribute of its site is tried and saved", byKeys(async (page) => {
  await goTo(page, "Results");
  await typeInto(page, "Words to find", "plane");
  await page.getByText(/\d+ found/).waitFor();
  await pressOn(page, /\/p\/\d$/);
  await page.getByRole("heading", { name: "Where it is from" }).waitFor();
  await goTo(page, "Schemas");
  await typeInto(page, "Domain", new URL(shop).hostname);
  await page.keyboard.press("Enter");
  await pressOn(page, "New attribute");
  await typeInto(page, "Name", "keyed");
  await typeInto(page, "Page type", "product");
  await typeInto(page, "XPaths", "//h1");
  await page.getByRole("status").getByText(/Plane \d/).first().waitFor();
  await pressOn(page, "Save the attribute");
  await page.getByRole("row", { name: /keyed/ }).first().waitFor();
}));

test("by keys: a key is made and ended, a member invited, a command line approved", byKeys(async (page) => {
  await goTo(page, "API keys");
  await pressOn(page, "New key");
  await typeInto(page, "Name", "keyed key");
  await page.keyboard.press("Enter");
  await page.locator(".secret code").waitFor();
  await pressOn(page, "Done");
  await page.getByRole("row", { name: /keyed key/ }).getByRole("button", { name: "End" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("row", { name: /keyed key/ }).waitFor({ state: "detached" });
  await goTo(page, "Members");
  await pressOn(page, "Invite");
  await typeInto(page, "Email address", "keyed@example.com");
  await page.keyboard.press("Enter");
  await page.getByRole("row", { name: /keyed@example.com/ }).waitFor();
  const started = await (await fetch(`${url}/api/v1/cli-auth/start`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ hostname: "keyed-laptop" }) })).json();
  await goTo(page, "Approve a command line");
  await typeInto(page, "Code", started.user_code);
  await page.keyboard.press("Enter");
  await page.getByText("keyed-laptop").waitFor();
  await pressOn(page, "Approve");
  await page.getByRole("status").getByText("keyed-laptop").waitFor();
}));

test("by keys: an input is made and run, and a site's session kept and forgotten", byKeys(async (page) => {
  await goTo(page, "Inputs");
  await pressOn(page, "New input");
  await typeInto(page, "Name", "Keyed map");
  await typeInto(page, "Address", `${shop}/sitemap.xml`);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Keyed map" }).waitFor();
  await pressOn(page, "Run now");
  await page.getByRole("row", { name: /failed|running/ }).first().waitFor();
  await goTo(page, "Site sessions");
  await pressOn(page, "New session");
  await typeInto(page, "Site", "keyed.example");
  await typeInto(page, "Cookies", "sid=1");
  await pressOn(page, "Keep it");
  await page.getByRole("row", { name: /keyed\.example/ }).waitFor();
  await pressOn(page, "Forget");
  await page.getByRole("row", { name: /keyed\.example/ }).waitFor({ state: "detached" });
  await until("it is forgotten", async () => (await api("GET", "/site-sessions?domain=keyed.example")).items.length === 0);
}));

test("by keys: rows are walked through, a cell is opened, a column made wider", byKeys(async (page) => {
  await goTo(page, "SQL");
  await page.getByLabel("SQL statement").waitFor();
  await tabTo(page, "SQL statement");
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT n, 'a ''quoted'' value' AS told FROM generate_series(1, 5000) AS t(n)");
  await page.keyboard.press("Control+Enter");
  await page.getByText("5,000 rows").waitFor();
  await page.keyboard.press("Escape");
  await tabTo(page, /^Rows of the result/);
  await page.keyboard.press("ArrowDown");
  for (let n = 0; n < 30; n++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByText("a 'quoted' value").waitFor();
  await page.keyboard.press("Escape");
  const width = () => page.getByRole("columnheader", { name: "told" }).evaluate((element) => element.getBoundingClientRect().width);
  const before = await width();
  await tabTo(page, /^Rows of the result/);
  await page.keyboard.press("Alt+ArrowRight");
  await page.waitForFunction((was) => [...document.querySelectorAll("[role=columnheader]")].at(-1).getBoundingClientRect().width > was, before);
}));

test("by keys: values of a column are offered where it is compared", byKeys(async (page) => {
  await goTo(page, "SQL");
  await page.getByLabel("SQL statement").waitFor();
  await tabTo(page, "SQL statement");
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT url FROM jobs WHERE status = '");
  await page.keyboard.type("succ");
  await page.getByRole("option", { name: "succeeded" }).waitFor();
}));
