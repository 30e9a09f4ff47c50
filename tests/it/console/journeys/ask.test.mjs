// Conversations and dashboards: what is asked, which SQL answers it, and what is kept of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { api, at, inPage, person, shop, signedIn, signIn, until } from "./box.mjs";

const said = (page) => page.locator("ol li.assistant");

async function begin(page, name) {
  await at(page, "agents");
  await page.getByRole("button", { name: "New conversation" }).click();
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Begin" }).click();
  await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
  return page.url().split("/").pop();
}

async function ask(page, text) {
  const before = await said(page).count();
  await page.getByLabel("Question").fill(text);
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.waitForFunction((count) => document.querySelectorAll("ol li.assistant:not([role=status])").length > count, before);
  await page.getByRole("button", { name: "Ask", exact: true }).waitFor();
}

test("a question is answered with its SQL, its rows and a chart, and followed up", signedIn(async (page) => {
  const id = await begin(page, "Of the <b>planes</b>");
  const metadata = { agentId: id };
  await api("POST", "/urls", { urls: [{ url: `${shop}/p/1`, metadata }, { url: `${shop}/p/2`, metadata }, { url: "https://other.example/planes", metadata }] });
  const seen = { sql: `SELECT count(*) AS n FROM urls WHERE metadata ->> 'agentId' = '${id}'`, waitMs: 5_000 };
  await until("SQL knows whose URLs they are", async () => (await api("POST", "/bi/queries", seen)).results?.rows[0].n === 3);
  await ask(page, "how many urls are registered");
  await page.getByText(/count: 3/).waitFor();
  assert.match(await page.locator(".statement pre").last().innerText(), /SELECT/);
  await ask(page, "by domain");
  assert.match(await page.locator(".statement pre").last().innerText(), /GROUP BY/);
  await page.getByRole("row", { name: /other\.example 1/ }).waitFor();
  await page.getByRole("img", { name: /by domain/ }).waitFor();
  assert.equal(await page.locator("main b").count(), 0);
}));

test("the SQL of an answer opens in the editor, and all its rows in a grid", signedIn(async (page) => {
  await begin(page, "Many rows");
  await ask(page, "SELECT n, 'row ' || n AS name FROM generate_series(1, 250) AS t(n)");
  await page.getByRole("button", { name: "All 250 rows" }).click();
  await page.getByRole("dialog").getByRole("grid").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Open in SQL" }).click();
  await page.getByRole("heading", { level: 1, name: "SQL" }).waitFor();
  await page.getByLabel("SQL statement").getByText("generate_series").waitFor();
}));

test("a card that is clicked in two tabs saves once, and the other tab says so", signedIn(async (page, context) => {
  await begin(page, "Two tabs");
  await ask(page, "SELECT 17 AS seventeen");
  const other = await context.newPage();
  await other.goto(page.url());
  const save = (of) => of.getByRole("button", { name: "Save", exact: true });
  await save(other).waitFor();
  await save(page).click();
  await page.getByRole("link", { name: "The saved query" }).waitFor();
  const kept = (await api("GET", "/bi/saved-queries?limit=200")).items.filter((one) => one.sql?.includes("seventeen"));
  assert.equal(kept.length, 1);
  await other.evaluate(() => document.querySelectorAll("button").forEach((one) => one.textContent === "Save" && one.click()));
  await other.getByText("That was answered already").waitFor();
  await other.getByRole("button", { name: "✓ Save" }).waitFor();
  assert.ok(await other.getByRole("button", { name: "✓ Save" }).isDisabled());
  assert.equal((await api("GET", "/bi/saved-queries?limit=200")).items.filter((one) => one.sql?.includes("seventeen")).length, 1);
  await page.getByRole("link", { name: "The saved query" }).click();
  await page.getByRole("heading", { level: 1, name: kept[0].name }).waitFor();
}));

test("a name that is taken saves nothing and says so; dismissed is dismissed", signedIn(async (page) => {
  await begin(page, "Taken");
  await ask(page, "SELECT 18 AS eighteen");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("link", { name: "The saved query" }).waitFor();
  await ask(page, "SELECT 18 AS eighteen");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText(/is taken\. Nothing was saved\./).waitFor();
  await page.getByRole("button", { name: "Dismiss", exact: true }).last().click();
  await page.getByRole("button", { name: "✓ Dismiss" }).waitFor();
}));

test("texts of a conversation are text, whatever is in them", signedIn(async (page) => {
  await begin(page, "<script>document.title='owned'</script>");
  await ask(page, "SELECT '<img src=x onerror=\"document.title=1\">' AS \"<b>a</b>\", 'javascript:alert(1)' AS link");
  await page.getByRole("cell", { name: /<img src=x/ }).waitFor();
  await ask(page, "</pre><svg onload=alert(1)> what is the <i>weather</i>");
  await page.getByText("<svg onload=alert(1)>").first().waitFor();
  assert.equal(await page.locator("main img, main i:not([class]), main svg[onload], main a[href^='javascript:']").count(), 0);
}));

test("what cannot be run is said, and what was asked stays when the box is away", signedIn(async (page, context) => {
  await begin(page, "Refusals");
  await ask(page, "SELECT count(*) FROM providers");
  await page.getByText(/cannot be run/).waitFor();
  await context.setOffline(true);
  await page.getByLabel("Question").fill("SELECT 1 AS kept");
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.getByRole("alert").getByText(/does not answer/).waitFor();
  assert.equal(await page.getByLabel("Question").inputValue(), "SELECT 1 AS kept");
  await context.setOffline(false);
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.getByRole("columnheader", { name: "kept" }).waitFor();
}));

async function board(name, more = {}) {
  const query = async (title, sql) => (await api("POST", "/bi/saved-queries", { name: `${name}/${title}`, sql })).id;
  const rows = await query("rows", "SELECT n, '<u>' || n AS \"<i>text</i>\" FROM generate_series(1, 5) AS t(n) WHERE n >= $1");
  const count = await query("count", "SELECT 4711 AS total");
  const tiles = [
    { savedQueryId: rows, title: "<b>Rows</b>", params: [{ parameter: "least" }], chart: { type: "table" }, position: { x: 0, y: 0, w: 6, h: 4 } },
    { savedQueryId: count, title: "Total", chart: { type: "number", y: ["total"] }, position: { x: 6, y: 0, w: 3, h: 2 } },
  ];
  return api("POST", "/bi/dashboards", { name, description: "<em>of a journey</em>", tiles, parameters: [{ name: "least", value: 1 }], ...more });
}

const tile = (page, name) => page.getByRole("region", { name, exact: false });

test("a dashboard is made of saved queries, and shows their rows", signedIn(async (page) => {
  await api("POST", "/bi/saved-queries", { name: "tiles/by state", sql: "SELECT status, count(*) AS jobs FROM jobs GROUP BY status" });
  await at(page, "dashboards");
  await page.getByRole("button", { name: "New dashboard" }).click();
  await page.getByLabel("Name").fill("<i>Made here</i>");
  await page.getByRole("button", { name: "Make the dashboard" }).click();
  await page.getByRole("button", { name: "Add a tile" }).click();
  await page.getByRole("combobox", { name: /^Saved query/ }).selectOption({ label: "tiles/by state" });
  await page.getByLabel("Title").fill("<q>Jobs</q>");
  await page.getByLabel("Shown as").selectOption("bar");
  await page.getByRole("textbox", { name: /^By/ }).fill("status");
  await page.getByRole("textbox", { name: /^Of/ }).fill("jobs");
  await page.getByRole("button", { name: "Add the tile" }).click();
  await page.getByText("Shown when it is saved.").waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("img", { name: "jobs by status" }).waitFor();
  await page.getByRole("button", { name: "Refresh", exact: true }).click();
  await page.getByLabel("When").fill("0 7 * * 1-5");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByText(/Monday to Friday at 07:00/).waitFor();
  await page.reload();
  await page.getByRole("img", { name: "jobs by status" }).waitFor();
  assert.equal(await page.locator("main q, main i:not([class])").count(), 0);
}));

test("filters show another view to one, and are kept for everybody", signedIn(async (page) => {
  const made = await board("Filtered");
  await at(page, `dashboards/${made.id}`);
  await tile(page, "<b>Rows</b>").getByRole("cell", { name: "<u>1" }).waitFor();
  await tile(page, "Total").getByText("4,711").waitFor();
  await page.getByLabel("least").fill("4");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByText("which nobody else sees").waitFor();
  await tile(page, "<b>Rows</b>").getByRole("cell", { name: "<u>4" }).waitFor();
  assert.equal(await tile(page, "<b>Rows</b>").getByRole("cell", { name: "<u>1" }).count(), 0);
  assert.equal((await api("GET", `/bi/dashboards/${made.id}`)).parameters[0].value, 1);
  await page.getByRole("button", { name: "Keep for everybody" }).click();
  await page.getByText("for everybody now").waitFor();
  await until("the tiles are made anew", async () => (await api("GET", `/bi/dashboards/${made.id}`)).tiles[0].result?.totalRows === 2);
  assert.equal(await page.locator("main em, main u, main b").count(), 0);
}));

test("tiles are moved, grown and removed by keys, and Cancel takes it back", signedIn(async (page) => {
  const made = await board("Moved");
  await at(page, `dashboards/${made.id}`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await tile(page, "Total: column 7").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Shift+ArrowDown");
  await tile(page, "Total: column 8, row 2, 3 wide, 3 high").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await api("GET", `/bi/dashboards/${made.id}`)).tiles[1].position.x, 6);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await tile(page, "Total: column 7").focus();
  await page.keyboard.press("ArrowRight");
  await page.getByRole("button", { name: "Remove <b>Rows</b>" }).click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Full screen" }).waitFor();
  const kept = await api("GET", `/bi/dashboards/${made.id}`);
  assert.deepEqual([kept.tiles.length, kept.tiles[0].position.x], [1, 7]);
}));

test("a tile is dragged by its title", signedIn(async (page) => {
  const made = await board("Dragged");
  await at(page, `dashboards/${made.id}`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const title = await tile(page, "Total: column 7").getByRole("heading").boundingBox();
  await page.mouse.move(title.x + 5, title.y + 5);
  await page.mouse.down();
  await page.mouse.move(title.x + 5, title.y + 300, { steps: 6 });
  await page.mouse.up();
  await tile(page, /Total: column 7, row [45]/).waitFor();
}));

test("a dashboard fills the screen", signedIn(async (page) => {
  const made = await board("Full");
  await at(page, `dashboards/${made.id}`);
  await page.getByRole("button", { name: "Full screen" }).click();
  await page.waitForFunction(() => document.fullscreenElement?.classList.contains("dashboard"));
  await page.evaluate(() => document.exitFullscreen());
}));

test("a viewer sees a dashboard, a monitor and a conversation, and changes none", () =>
  inPage(async (page) => {
    const made = await board("For viewers");
    const agent = await api("POST", "/agents", { name: "Read by viewers" });
    const monitor = await api("POST", "/monitors", { name: "Seen by viewers", sql: "SELECT 1 AS n", condition: { value: "n", op: "gt", threshold: 5 }, on: { cron: "0 0 1 1 *" } });
    await signIn(page, { email: process.env.GLEANER_VIEWER, password: person.password });
    for (const [place, title] of [[`dashboards/${made.id}`, "For viewers"], [`agents/${agent.id}`, "Read by viewers"], [`monitors/${monitor.id}`, "Seen by viewers"]]) {
      await at(page, place);
      await page.getByRole("heading", { level: 1, name: title }).waitFor();
      for (const name of ["Edit", "Delete", "Ask", "Switch off", "Keep for everybody"]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, `${name} at ${place}`);
    }
    await at(page, "storage");
    await page.getByRole("heading", { level: 1 }).or(page.getByText("Not for your role")).first().waitFor();
    assert.equal(await page.getByRole("button", { name: "Use storage of your own" }).count(), 0);
  }));
