// What pages say: pointing at it, how it changed, what was mended; first steps, and a person's own data.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { api, at, inPage, shop, signedIn, until, url } from "./box.mjs";

const domain = new URL(shop).hostname;
const PASSWORD = "a passphrase of my own";

/** Collects pages, and gives their jobs. */
async function collected(paths, more = {}) {
  const jobs = [];
  for (const path of paths) jobs.push(await api("POST", "/jobs", { url: shop + path, ...more }));
  const ended = (id) => until(`${id} has ended`, async () => {
    const job = await api("GET", `/jobs/${id}`);
    return job.resultId && job;
  }, 900);
  return Promise.all(jobs.map((job) => ended(job.id)));
}

/** The first row that a statement gives; none while it is refused. */
const asked = async (sql) => (await api("POST", "/bi/queries", { sql, waitMs: 5_000 }).catch(() => undefined))?.results?.rows[0];

async function teach(page, job) {
  await at(page, `results/${job.resultId}`);
  await page.getByRole("button", { name: "Teach by pointing" }).click();
  const frame = page.frameLocator("iframe");
  await frame.locator("h1").waitFor();
  return frame;
}

// The page's own script, whose blocking is what was asked for, says so.
const POINTING = { policyMayRefuse: true };

test("an element is pressed, its expressions are tried on other pages, and it is a column of SQL", signedIn(async (page) => {
  const [job] = await collected(["/p/3"]);
  const frame = await teach(page, job);
  await frame.locator("p.price").click();
  const proposed = page.getByRole("region", { name: "Proposed expressions" });
  await proposed.getByRole("checkbox").first().waitFor();
  assert.ok(await proposed.getByRole("checkbox").first().isChecked());
  const given = page.getByRole("region", { name: "What they give" });
  await given.getByRole("row", { name: /This page 3\.50 EUR/ }).waitFor();
  await given.getByRole("row", { name: /\/p\/[124-8] [124-8]\.50 EUR/ }).first().waitFor();
  // Another element takes the place of the first.
  await frame.locator("h1").click();
  await given.getByRole("row", { name: /This page Plane 3/ }).waitFor();
  await frame.locator("p.price").click();
  await given.getByRole("row", { name: /This page 3\.50 EUR/ }).waitFor();
  await page.getByRole("textbox", { name: "Name" }).fill("pressed");
  await page.getByRole("button", { name: "Save the attribute" }).click();
  await page.getByText(/pressed is read from now on; \d+ stored pages? (were )?read anew/).waitFor();
  await page.getByRole("row", { name: /pressed 3\.50 EUR/ }).waitFor();
  await until("SQL has the column", async () => (await asked("SELECT count(pressed) AS n FROM products WHERE pressed LIKE '%.50 EUR'"))?.n > 1);
  await at(page, "sql");
  await page.getByRole("button", { name: "Run", exact: true }).waitFor();
  await page.getByText("products", { exact: true }).first().click();
  await page.getByRole("button", { name: "pressed", exact: true }).first().waitFor();
}, POINTING));

test("of what is pressed an attribute is read, or all that is like it; a link in the page leads nowhere", signedIn(async (page) => {
  const [job] = await collected(["/site"]);
  const frame = await teach(page, job);
  await frame.locator("a").first().click();
  await page.getByLabel("What is read of it").selectOption("href");
  const given = page.getByRole("region", { name: "What they give" });
  await given.getByRole("row", { name: /This page http.*\/site\/c\/1/ }).waitFor();
  await page.getByLabel("and all that is like it, as a list").check();
  await given.getByRole("row", { name: /This page \[.*c\/1.*c\/3/ }).waitFor();
  assert.equal(await page.getByLabel("Kind").inputValue(), "url[]");
  await frame.locator("h1").click();
  await page.getByLabel("and all that is like it, as a list").check();
  await page.getByText("Nothing on the page is like it.").waitFor();
  await frame.locator("h1").waitFor();
}, POINTING));

test("a site that has changed is told, with what was mended", { timeout: 600_000 }, signedIn(async (page) => {
  const pages = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => `/turn/${number}`);
  const own = { name: "cost", type: "text", xpaths: ["//p[@class='cost']"], pageType: "turning" };
  await api("POST", `/extraction/attributes/${domain}`, own);
  // What is found lately is held against a past that is long enough.
  await collected([...pages, ...pages], { pageType: "turning" });
  await fetch(`${shop}/control/turn`);
  await collected(pages, { pageType: "turning" });
  const find = async () => (await api("GET", "/extraction/drift?limit=200")).items.find((one) => one.pageType === "turning");
  await until("it was looked at", async () => (await find())?.lastRepair, 600);
  await at(page, "schemas?tab=drift");
  await page.getByRole("row", { name: /turning/ }).getByRole("button", { name: "Details" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("region", { name: "Attributes" }).getByRole("row", { name: /^cost/ }).waitFor();
  await dialog.getByRole("region", { name: "What came of the repair" }).getByRole("row", { name: /cost repaired It has new expressions/ }).waitFor();
  await dialog.getByRole("button", { name: "Show it on the newest page" }).click();
  await page.frameLocator("iframe").locator("h1").waitFor();
}, POINTING));

test("a number that changes is a table and a line, and two versions show what became of it", signedIn(async (page) => {
  await api("POST", `/extraction/attributes/${domain}`, { name: "seen", type: "number", xpaths: ["//b[@class='seen']"], pageType: "counting" });
  await api("POST", "/urls", { urls: [{ url: `${shop}/count/1`, pageType: "counting" }] });
  for (let visit = 0; visit < 3; visit++) await collected(["/count/1"], { pageType: "counting" });
  const { items } = await api("GET", `/urls?q=${encodeURIComponent("/count/1")}`);
  await until("its history is there", async () => (await api("GET", `/extraction/history?urlId=${items[0].id}`)).items.length === 3);
  await at(page, `urls/${items[0].id}`);
  await page.getByRole("img", { name: /seen at each visit/ }).waitFor();
  const versions = page.getByRole("checkbox");
  await versions.nth(0).check();
  await versions.nth(2).check();
  await page.getByRole("button", { name: "Compare two versions" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("region", { name: "Values that differ" }).getByRole("row", { name: /^seen/ }).waitFor();
  const text = dialog.getByRole("region", { name: "Text of both versions" });
  await text.locator("del").first().waitFor();
  await text.locator("ins").first().waitFor();
}));

test("first steps go from URLs to values to a schedule, and a reload loses nothing", { timeout: 600_000 }, signedIn(async (page) => {
  await at(page, "start");
  await page.locator("textarea").fill([1, 2, 3, 4, 5].map((number) => `${shop}/p/${number}`).join("\n"));
  await page.getByRole("button", { name: "Collect them" }).click();
  await page.getByText("5 of 5 have come.").waitFor({ timeout: 60_000 });
  await page.getByRole("button", { name: `Find out what pages of ${domain} say` }).click();
  await page.getByRole("heading", { name: "Discovery" }).waitFor();
  await page.getByRole("region", { name: "First values" }).getByRole("row").nth(1).waitFor({ timeout: 90_000 });
  await page.reload();
  await page.getByText("5 of 5 have come.").waitFor();
  await page.getByRole("button", { name: "Make the schedule" }).click();
  await page.getByRole("link", { name: "When it fires next" }).click();
  await page.getByRole("heading", { level: 1, name: "First steps" }).waitFor();
  await page.locator("ul.plain li").nth(9).waitFor();
}));

test("a person takes their data along, and erases the account", () =>
  inPage(async (page) => {
    await page.goto(`${url}/console#/register`);
    await page.getByLabel("Your name").fill("Leaver");
    await page.getByLabel("Email address").fill("leaver@example.com");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Create the account" }).click();
    await page.getByLabel("Name of the organization").fill("Left Ltd");
    await page.getByRole("button", { name: "Create the organization" }).click();
    await page.getByRole("heading", { name: "First steps" }).waitFor();
    await at(page, "profile");
    await page.getByRole("button", { name: "Ask for it" }).click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /^Download/ }).click()]);
    const zip = await readFile(await download.path());
    assert.equal(zip.subarray(0, 2).toString(), "PK");
    await page.getByRole("button", { name: "Erase my account …" }).click();
    await page.getByLabel("Your password").fill("not the passphrase");
    await page.getByRole("button", { name: "Erase for good" }).click();
    await page.getByRole("alert").waitFor();
    await page.keyboard.press("Escape");
    // Who is the last owner erases the organization first.
    await at(page, "members");
    await page.getByRole("button", { name: "Erase the organization …" }).click();
    await page.getByLabel("Type “Left Ltd” to confirm").fill("Left Ltd");
    await page.getByRole("button", { name: "Erase for good" }).click();
    await page.getByRole("heading", { name: "Welcome, Leaver" }).waitFor();
    await page.getByRole("link", { name: "Your profile" }).click();
    await page.getByRole("button", { name: "Erase my account …" }).click();
    await page.getByLabel("Your password").fill(PASSWORD);
    await page.getByRole("button", { name: "Erase for good" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    const login = await fetch(`${url}/api/v1/auth/login`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ email: "leaver@example.com", password: PASSWORD }) });
    assert.equal(login.status, 401);
  }));

test("a parameter has the field of the column that it is compared with", signedIn(async (page) => {
  await at(page, "sql");
  await page.getByLabel("SQL statement").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT count(*) AS n FROM jobs WHERE created_at > {{begun}} AND priority >= {{least}} AND status = {{store}}");
  // Types come with the list of tables.
  await page.getByLabel("begun").and(page.locator("[type=date]")).waitFor();
  await page.getByLabel("least").and(page.locator("[type=number]")).waitFor();
  await page.getByLabel("store").and(page.locator("[type=text]")).waitFor();
  await page.getByLabel("begun").fill("2020-01-01");
  await page.getByLabel("least").fill("0");
  await page.getByLabel("store").fill("succeeded");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("1 row", { exact: true }).waitFor();
}));
