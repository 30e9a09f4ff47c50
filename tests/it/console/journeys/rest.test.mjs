// What is changed and undone in lists, what stays over a reload, and what every view must do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { api, at, inPage, person, shop, signedIn, signIn, until, url } from "./box.mjs";

/** Waits until this was copied. */
const copied = (page, text) => until(`copied: ${text}`, async () => (await page.evaluate(() => navigator.clipboard.readText())) === text);

/** Waits until the editor says this. */
const written = (page, text) => until(`written: ${text}`, async () => text.test(await page.getByLabel("SQL statement").innerText()));

const fresh = async (path) => {
  await api("POST", "/urls", { urls: [{ url: `${shop}${path}`, tags: ["fresh"] }] });
  const { items } = await api("GET", `/urls?q=${encodeURIComponent(path)}`);
  return items.find((one) => one.url.endsWith(path));
};

test("a URL is edited", signedIn(async (page) => {
  const one = await fresh("/edit/1");
  await at(page, `urls/${one.id}`);
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: /^Tags/ }).fill("a, b c");
  await page.getByRole("textbox", { name: /^Page type/ }).fill("article");
  await page.getByRole("textbox", { name: /^Metadata/ }).fill('{"owner": "<em>me</em>"}');
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("<em>me</em>").waitFor();
  const changed = await api("GET", `/urls/${one.id}`);
  assert.deepEqual([changed.tags, changed.pageType], [["a", "b c"], "article"]);
}));

test("metadata that is no JSON is refused before it is sent", signedIn(async (page) => {
  const one = await fresh("/edit/2");
  await at(page, `urls/${one.id}`);
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: /^Metadata/ }).fill("{broken");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").waitFor();
  assert.equal(await page.getByRole("textbox", { name: /^Metadata/ }).inputValue(), "{broken");
}));

test("URLs are tagged and deleted together", signedIn(async (page) => {
  await fresh("/bulk/1");
  await fresh("/bulk/2");
  await at(page, "urls?q=%2Fbulk%2F");
  await page.getByRole("checkbox").nth(0).check();
  await page.getByRole("checkbox").nth(1).check();
  await page.getByRole("button", { name: "Tag", exact: true }).click();
  await page.getByRole("textbox", { name: /^Tags to add/ }).fill("together");
  await page.getByRole("button", { name: "Tag 2 URLs" }).click();
  await page.getByRole("row", { name: /together/ }).nth(1).waitFor();
  await page.getByRole("checkbox").nth(0).check();
  await page.getByRole("checkbox").nth(1).check();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByText("No URL fits these filters").waitFor();
}));

test("URLs get a page type and lose a tag together, and what was removed meanwhile stays so", signedIn(async (page) => {
  const [kept, gone] = [await fresh("/alike/1"), await fresh("/alike/2")];
  await at(page, "urls?q=%2Falike%2F");
  const both = async () => {
    await page.getByRole("checkbox").nth(0).check();
    await page.getByRole("checkbox").nth(1).check();
  };
  await both();
  await page.getByRole("button", { name: "Page type", exact: true }).click();
  await page.getByRole("textbox", { name: /^Page type/ }).fill("article");
  await page.getByRole("button", { name: "Change 2 URLs" }).click();
  await page.getByText("2 URLs were changed").waitFor();
  assert.equal((await api("GET", `/urls/${kept.id}`)).pageType, "article");
  await both();
  await api("POST", "/urls/delete", { ids: [gone.id] });
  await page.getByRole("button", { name: "Take a tag away" }).click();
  await page.getByRole("button", { name: "Take it from 2 URLs" }).click();
  await page.getByText("1 of 2 URLs were changed; 1 had been removed meanwhile").waitFor();
  assert.deepEqual((await api("GET", `/urls/${kept.id}`)).tags, []);
  assert.deepEqual((await api("GET", "/urls?q=%2Falike%2F")).items.length, 1);
}));

test("refused URLs are named, and the others taken", signedIn(async (page) => {
  await at(page, "urls");
  await page.getByRole("button", { name: "Add URLs" }).click();
  await page.locator("textarea").fill(`${shop}/add/1\nftp://nowhere.example/x`);
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText(/ftp:\/\/nowhere.example\/x: /).waitFor();
  assert.equal(await page.locator("textarea").inputValue(), "ftp://nowhere.example/x");
}));

test("filters stand in the address and come back with it", signedIn(async (page) => {
  await at(page, "urls");
  await page.getByRole("textbox", { name: "Tag" }).fill("<b>bold</b>");
  await page.getByRole("row").nth(8).waitFor();
  await page.reload();
  assert.equal(await page.getByRole("textbox", { name: "Tag" }).inputValue(), "<b>bold</b>");
}));

test("a theme is chosen and kept", signedIn(async (page) => {
  await page.getByLabel("Theme").selectOption("dark");
  await page.reload();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  assert.equal(await page.getByLabel("Theme").inputValue(), "dark");
}));

test("what failed in a batch is tried again", signedIn(async (page) => {
  const { batchId } = await api("POST", "/jobs/batch", { jobs: [{ url: `${shop}/gone/1` }, { url: `${shop}/p/1` }] });
  await at(page, `batches/${batchId}`);
  await page.getByRole("button", { name: "Retry what failed" }).click();
  await page.getByText("What failed is being submitted again").waitFor();
}));

test("sorting the rows of a result", signedIn(async (page) => {
  await at(page, "sql");
  await page.getByLabel("SQL statement").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT * FROM generate_series(1, 30) AS t(n)");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("button", { name: "n", exact: true }).click();
  await page.getByRole("button", { name: "n ↑" }).click();
  assert.equal(await page.getByRole("row").nth(1).getByRole("gridcell").first().innerText(), "30");
}));

test("rows are copied as text that a spreadsheet does not run", signedIn(async (page) => {
  await at(page, "sql");
  await page.getByLabel("SQL statement").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT '=1+1' AS a, 'x|y' AS b");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("button", { name: "Copy CSV" }).click();
  await copied(page, "a,b\r\n'=1+1,x|y");
  await page.getByRole("button", { name: "Copy Markdown" }).click();
  await copied(page, "| a | b |\n| --- | --- |\n| =1+1 | x\\|y |");
}));

test("a plan tells tables and runs nothing", signedIn(async (page) => {
  await at(page, "sql");
  await page.getByLabel("SQL statement").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT url FROM jobs");
  await page.getByRole("button", { name: "Plan only" }).click();
  await page.getByText("from jobs", { exact: true }).waitFor();
  assert.equal(await page.getByRole("grid").count(), 0);
}));

test("the history of statements leads back to one", signedIn(async (page) => {
  await at(page, "sql");
  await page.getByRole("tab", { name: "History" }).click();
  await page.locator("ul.catalog button").first().click();
  await written(page, /SELECT/i);
}));

test("a name of a column is put in from the list of tables", signedIn(async (page) => {
  await at(page, "sql");
  await page.locator("summary", { hasText: /^jobs/ }).click();
  await page.locator("details[open]").getByRole("button", { name: "created_at" }).click();
  await written(page, /created_at/);
}));

test("completion offers tables and columns", signedIn(async (page) => {
  await at(page, "sql");
  await page.getByLabel("SQL statement").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT * FROM job_att");
  await page.getByRole("option", { name: /job_attempts/ }).waitFor();
}));

test("somebody who was invited registers into the organization", () =>
  inPage(async (page) => {
    await signIn(page);
    await at(page, "members");
    await page.getByRole("button", { name: "Rename" }).click();
    await page.getByRole("textbox", { name: /Name of the organization/ }).fill("<script>alert(1)</script>");
    await page.locator("dialog").getByRole("button", { name: "Rename" }).click();
    await page.getByText("<script>alert(1)</script>").first().waitFor();
    await page.goto(`${url}/console#/profile`);
    await page.getByRole("button", { name: "Ask for it" }).click();
    await page.getByRole("link", { name: /Download/ }).waitFor();
  }));

test("two tabs share a session, and both end with it", signedIn(async (page, context) => {
  const other = await context.newPage();
  await other.goto(`${url}/console#/keys`);
  await other.getByRole("heading", { name: "API keys" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await other.getByRole("link", { name: "Jobs" }).click();
  await other.getByRole("heading", { name: "Your session has ended" }).waitFor();
}));

test("a box that does not answer is told, and asked again", signedIn(async (page, context) => {
  await context.setOffline(true);
  await page.getByLabel("Period").selectOption("7");
  await page.getByText(/The box does not answer/).first().waitFor();
  await context.setOffline(false);
  await page.getByText(/The box does not answer/).first().waitFor({ state: "detached" });
}));

test("a box that is away behind a network that works is asked again by itself", signedIn(async (page) => {
  // Nothing tells the page that it is back.
  await page.route("**/api/v1/analytics/**", (route) => route.abort());
  await page.getByLabel("Period").selectOption("7");
  const told = page.getByText(/The box does not answer/);
  await told.first().waitFor();
  await page.unrouteAll();
  await until("no part is left behind", async () => (await told.count()) === 0);
  await page.route("**/api/v1/auth/me", (route) => route.abort());
  await page.reload();
  await told.waitFor();
  await page.unrouteAll();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}));

test("a link that is good once signs in, once", () =>
  inPage(async (page) => {
    const login = await (await fetch(`${url}/api/v1/auth/login`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(person) })).json();
    await page.goto(`${url}/console#/welcome?token=${login.refreshToken}`);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    assert.doesNotMatch(page.url(), /token/);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.goto("about:blank");
    await page.goto(`${url}/console#/welcome?token=${login.refreshToken}`);
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
  }));
