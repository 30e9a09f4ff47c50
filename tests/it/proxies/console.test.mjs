// The console behind a reverse proxy below a path: everything that it asks for is below that path, and it works. What journeys
// hold of a page (nothing from elsewhere, no policy broken, no error thrown) is held here too.
import assert from "node:assert/strict";
import { test } from "node:test";
import { at, inPage, shop, signIn, url } from "../console/journeys/box.mjs";

test("somebody signs in, adds URLs, uploads a file, collects, and sees it end live", () =>
  inPage(async (page, context) => {
    const failed = [];
    page.on("requestfailed", (request) => failed.push(`${request.url()}: ${request.failure()?.errorText}`));
    page.on("response", (response) => response.status() >= 500 && failed.push(`${response.url()}: ${response.status()}`));
    await page.goto(`${url}/`);
    await page.waitForURL(`${url}/console*`);
    await signIn(page);
    const [cookie] = await context.cookies(`${url}/`);
    assert.equal(cookie.path, `${new URL(url).pathname}/`);
    assert.ok(cookie.secure && cookie.httpOnly);
    await at(page, "urls");
    await page.getByRole("button", { name: "Upload a file" }).click();
    // Megabytes on the way, and little to do for the box: an index of 2,000 such addresses takes a slow machine minutes.
    const lines = Array.from({ length: 2_000 }, (_, n) => `${shop}/up/${n % 40}?${"x".repeat(1_800)},up\n`);
    const buffer = Buffer.from(`url,tags\n${lines.join("")}`);
    assert.ok(buffer.length > 3 << 20);
    await page.getByLabel("File of URLs").setInputFiles({ name: "urls.csv", mimeType: "text/csv", buffer });
    await page.getByText(/^2,?000 lines: 40 new, 0 changed, 1,?960 known/).waitFor({ timeout: 120_000 });
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await at(page, "urls?q=%2Fp%2F");
    await page.getByRole("checkbox").nth(0).check();
    await page.getByRole("button", { name: "Collect now" }).click();
    await page.getByRole("heading", { name: "Progress" }).or(page.getByText(/Ended: succeeded/)).first().waitFor();
    await at(page, "jobs");
    await page.getByText("live", { exact: true }).waitFor();
    await page.locator("table a").first().click();
    await page.getByText(/Ended: succeeded/).waitFor();
    await page.reload();
    await page.getByText(/Ended: succeeded/).waitFor();
    await page.goto(`${url}/docs`);
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    assert.deepEqual(failed.filter((line) => !/ERR_ABORTED/.test(line)), []);
  }));
