// What the console takes of a browser: node benches/console.mjs URL EMAIL PASSWORD, with playwright-core where NODE_PATH says.
// First paint with the processor slowed down four times, and the long tasks while a million rows are scrolled through.
import { createRequire } from "node:module";

const [url, email, password] = process.argv.slice(2);
const { chromium } = createRequire(`${process.env.NODE_PATH}/`)("playwright-core");
const browser = await chromium.launch({ executablePath: process.env.GLEANER_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
await page.goto(`${url}/console`);
await page.getByLabel("Email address").fill(email);
await page.getByLabel("Password").fill(password);
await page.getByRole("button", { name: "Sign in" }).click();
await page.getByRole("heading", { name: "Overview" }).waitFor();

const session = await page.context().newCDPSession(page);
await session.send("Emulation.setCPUThrottlingRate", { rate: 4 });
const paints = [];
for (let n = 0; n < 5; n++) {
  await page.goto("about:blank");
  await page.goto(`${url}/console#/overview`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  paints.push(await page.evaluate(() => Math.round(performance.getEntriesByName("first-contentful-paint")[0].startTime)));
}
console.log(`first paint, slowed down four times: ${paints.join(", ")} ms`);
await session.send("Emulation.setCPUThrottlingRate", { rate: 1 });

await page.evaluate(() => void (location.hash = "#/sql"));
await page.getByLabel("SQL statement").click();
await page.keyboard.press("Control+a");
await page.keyboard.press("Delete");
await page.keyboard.type("SELECT n, n * 2 AS twice, 'row ' || n AS name FROM generate_series(1, 1000000) AS t(n)");
await page.keyboard.press("Control+Enter");
await page.getByText("1,000,000 rows").waitFor({ timeout: 60_000 });
const long = await page.evaluate(async () => {
  const found = [];
  new PerformanceObserver((list) => found.push(...list.getEntries().map((entry) => Math.round(entry.duration)))).observe({ entryTypes: ["longtask"] });
  const grid = document.querySelector(".grid");
  for (let step = 0; step < 200; step++) {
    grid.scrollTop = (grid.scrollHeight * step) / 200;
    await new Promise((resume) => requestAnimationFrame(resume));
  }
  await new Promise((resume) => setTimeout(resume, 1_500));
  return found;
});
console.log(`tasks of more than 50 ms while a million rows were scrolled through: ${long.length} (${long.join(", ")})`);
await browser.close();
