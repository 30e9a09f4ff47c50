// Pictures of every view of a running box, in both themes and two widths, to be looked at:
// node shots.mjs URL EMAIL PASSWORD FOLDER [VIEW…]; playwright-core must be where Node.js finds it (NODE_PATH counts).
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";

const [url, email, password, folder, ...named] = process.argv.slice(2);
const require = createRequire(process.env.NODE_PATH ? `${process.env.NODE_PATH}/` : import.meta.url);
const { chromium } = require("playwright-core");
const all = ["overview", "analytics", "analytics?tab=providers", "analytics?tab=credits", "analytics?tab=quality", "sql", "agents", "dashboards", "results", "urls", "jobs", "batches", "schedules", "inputs", "site-sessions", "schemas", "schemas?tab=drift", "providers", "workflows", "benchmarks", "outputs", "monitors", "members", "keys", "plan", "storage", "audit", "profile", "device", "start"];
const views = named.length > 0 ? named : all;

/** Lists whose rows have views of their own. */
const lists = ["agents", "dashboards", "results", "urls", "jobs", "batches", "schedules", "schemas", "workflows", "benchmarks", "inputs", "outputs", "monitors"];

async function drawn(page) {
  await page.getByRole("heading", { level: 1 }).first().waitFor();
  // Nothing is pointed at.
  await page.mouse.move(0, 0);
  // What is still loading is no picture of the view; one that stays so shows it.
  await page.waitForFunction(() => !document.querySelector(".bones, .waiting"), undefined, { timeout: 20_000 }).catch(() => undefined);
  await page.waitForTimeout(400);
}

mkdirSync(folder, { recursive: true });
const executablePath = process.env.GLEANER_CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
for (const width of [390, 1920]) {
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({ viewport: { width, height: width < 500 ? 844 : 1080 }, colorScheme });
    const page = await context.newPage();
    const shot = (name) => page.screenshot({ path: `${folder}/${name.replace(/\W+/g, "-")}-${width}-${colorScheme}.png` });
    await page.goto(`${url}/console`);
    await page.getByLabel("Email address").fill(email);
    await shot("gate");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    for (const view of views) {
      await page.evaluate((to) => void (location.hash = to), `#/${view}`);
      await drawn(page);
      if (view === "sql") {
        await page.getByRole("button", { name: "Run", exact: true }).click();
        await page.waitForTimeout(1_500);
      }
      await shot(view);
    }
    // What a list leads to, by its first row that leads somewhere.
    for (const list of named.length > 0 ? [] : lists) {
      await page.evaluate((to) => void (location.hash = to), `#/${list}`);
      const first = page.locator("table.list td a").first();
      if (!(await first.waitFor({ timeout: 5_000 }).then(() => true, () => false))) continue;
      await first.click();
      await drawn(page);
      await shot(`${list}-one`);
    }
    await context.close();
  }
}
await browser.close();
