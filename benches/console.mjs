// What the console takes of a browser: node benches/console.mjs URL EMAIL PASSWORD [view|rows|live]…, with playwright-core where
// NODE_PATH says.
//   view  the frame's first paint and the first heading with the processor slowed down four times, in a tab that is reloaded
//         and in a new one, whose process has to begin, of a browser that keeps a profile; in turn with a page that has one
//         heading and nothing else, which is what the browser itself takes; and the work of the page's thread until everything
//         is drawn
//   rows  long tasks while a million rows are scrolled through, and the most that one task took of the page's thread: others at
//         work on the machine lengthen a task, and not that
//   live  memory while as many jobs go by as two busy hours have, in fewer minutes: the box needs URLs that it may collect
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [url, email, password, ...named] = process.argv.slice(2);
const parts = named.length > 0 ? named : ["view", "rows", "live"];
const { chromium } = createRequire(`${process.env.NODE_PATH}/`)("playwright-core");
const program = { executablePath: process.env.GLEANER_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--js-flags=--expose-gc"] };
const window = { viewport: { width: 1280, height: 900 } };

/** A page of somebody who has signed in. */
async function signedIn(context) {
  const page = await context.newPage();
  await page.goto(`${url}/console`);
  await page.getByLabel("Email address").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  return { page, session: await context.newCDPSession(page) };
}

/** A window that forgets everything, for what does not hang on what was there before. */
async function inWindow(does) {
  const browser = await chromium.launch(program);
  const context = await browser.newContext(window);
  await does({ browser, context, ...(await signedIn(context)) });
  await browser.close();
}

/** The browser as a reader has it, with a profile on disk: it keeps compiled script from one tab to the next, and a private window does not. */
async function inProfile(does) {
  const profile = await mkdtemp(join(tmpdir(), "gleaner-console-"));
  const context = await chromium.launchPersistentContext(profile, { ...program, ...window });
  await does({ context, ...(await signedIn(context)) });
  await context.close();
  await rm(profile, { recursive: true, force: true });
}

const VIEWS = 9;
/** After so long, slowed down, everything is drawn. */
const DRAWN_AFTER_MS = 1_500;
const SLOWED = 4;
const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);
const middle = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** Notes when the first heading was drawn: with the frame behind its coming, as the browser says it of that frame's largest text. */
function noteHeading() {
  let came;
  new MutationObserver((_, watch) => {
    if (!document.querySelector("h1")) return;
    watch.disconnect();
    came = performance.now();
  }).observe(document, { childList: true, subtree: true });
  new PerformanceObserver((list) => {
    globalThis.headingDrawn ??= list.getEntries().map((entry) => entry.startTime).find((at) => at >= came);
  }).observe({ type: "largest-contentful-paint" });
}

/** When what was opened was first painted, and when its heading was drawn. */
async function drawn(tab) {
  // Not by a locator: what it puts into the page, a third of a megabyte of script, is work that would be measured, too.
  await new Promise((resume) => setTimeout(resume, DRAWN_AFTER_MS));
  const at = await tab.evaluate(() => [performance.getEntriesByName("first-contentful-paint")[0].startTime, globalThis.headingDrawn]);
  if (!at[1]) throw new Error("the view was not drawn in time");
  return at.map(Math.round);
}

/** A tab of its own, slowed down. */
async function slowTab(context) {
  const tab = await context.newPage();
  const control = await context.newCDPSession(tab);
  await control.send("Network.enable");
  await control.send("Emulation.setCPUThrottlingRate", { rate: SLOWED });
  return { tab, control };
}

async function view({ context, page, session }) {
  // With the header of the console's that keeps a page apart from whoever opened it: a new tab begins another process for it.
  const headers = { "content-type": "text/html", "cross-origin-opener-policy": "same-origin" };
  const server = createServer((_, answer) => answer.writeHead(200, headers).end("<!doctype html><title>Plain</title><h1>Plain</h1>"));
  await new Promise((resume) => server.listen(0, "127.0.0.1", resume));
  await context.addInitScript(noteHeading);
  const addresses = { plain: `http://127.0.0.1:${server.address().port}/`, console: `${url}/console#/overview` };
  const found = { "plain, new tab": [], "new tab": [], "plain, reloaded": [], reloaded: [], "reloaded, files fetched": [] };
  const anew = async (address) => {
    const { tab } = await slowTab(context);
    await tab.goto(address);
    const at = await drawn(tab);
    await tab.close();
    return at;
  };
  // No other tab is at work meanwhile.
  await page.goto("about:blank");
  for (let n = 0; n < VIEWS; n++) {
    found["plain, new tab"].push(await anew(addresses.plain));
    found["new tab"].push(await anew(addresses.console));
  }
  const open = {};
  for (const [name, address] of Object.entries(addresses)) {
    open[name] = await slowTab(context);
    await open[name].tab.goto(address);
    await drawn(open[name].tab);
  }
  const again = async ({ tab }) => {
    await tab.reload();
    return drawn(tab);
  };
  for (let n = 0; n < VIEWS; n++) {
    found["plain, reloaded"].push(await again(open.plain));
    found.reloaded.push(await again(open.console));
  }
  // A reader who comes again has the files; who comes first gets them, too. Behind the others: what was compiled goes with a file.
  await open.console.control.send("Network.setCacheDisabled", { cacheDisabled: true });
  for (let n = 0; n < VIEWS; n++) found["reloaded, files fetched"].push(await again(open.console));
  for (const { tab } of Object.values(open)) await tab.close();
  server.close();
  for (const [at, what] of ["first paint", "heading drawn"].entries()) {
    const told = Object.entries(found).map(([name, all]) => `${name} ${all.map((one) => one[at]).join(", ")} ms (middle ${middle(all.map((one) => one[at]))})`);
    console.log(`${what}, slowed down ${SLOWED} times: ${told.join("; ")}`);
  }
  // Of its own thread's time, which others at work on the machine do not lengthen.
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const own = [];
  for (let n = 0; n < VIEWS; n++) {
    await page.goto("about:blank");
    await page.goto(addresses.console);
    await drawn(page);
    const { metrics } = await session.send("Performance.getMetrics");
    own.push(Math.round(metrics.find((one) => one.name === "TaskDuration").value * 1_000));
  }
  await session.send("Performance.disable");
  console.log(`the page's own work until everything is drawn, not slowed down: ${own.join(", ")} ms of its thread (middle ${middle(own)})`);
}

async function rows({ browser, page }) {
  await page.evaluate(() => void (location.hash = "#/sql"));
  await page.getByLabel("SQL statement").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.type("SELECT n, n * 2 AS twice, 'row ' || n AS name FROM generate_series(1, 1000000) AS t(n)");
  await page.keyboard.press("Control+Enter");
  await page.getByText("1,000,000 rows").waitFor({ timeout: 60_000 });
  await browser.startTracing(page, { categories: ["toplevel"] });
  const long = await page.evaluate(async () => {
    const found = [];
    new PerformanceObserver((list) => found.push(...list.getEntries().map((entry) => Math.round(entry.duration)))).observe({ entryTypes: ["longtask"] });
    const grid = document.querySelector(".grid");
    // From end to end in leaps, and as a wheel does, through rows that come meanwhile.
    for (let step = 0; step < 200; step++) {
      grid.scrollTop = (grid.scrollHeight * step) / 200;
      await new Promise((resume) => requestAnimationFrame(resume));
    }
    for (let step = 0; step < 400; step++) {
      grid.scrollBy(0, -100);
      await new Promise((resume) => requestAnimationFrame(resume));
    }
    await new Promise((resume) => setTimeout(resume, 1_500));
    return found;
  });
  console.log(`tasks of more than 50 ms while a million rows were scrolled through: ${long.length} (${long.join(", ")})`);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const drawing = new Set(traceEvents.filter((event) => event.name === "thread_name" && event.args.name === "CrRendererMain").map(({ pid, tid }) => `${pid} ${tid}`));
  // What each thread that draws a page took for each of its tasks; the page's own is the busiest.
  const threads = new Map();
  for (const { name, pid, tid, tdur } of traceEvents) {
    const thread = `${pid} ${tid}`;
    if (!name.endsWith("RunTask") || tdur === undefined || !drawing.has(thread)) continue;
    if (!threads.has(thread)) threads.set(thread, []);
    threads.get(thread).push(tdur / 1_000);
  }
  const [tasks = []] = [...threads.values()].sort((a, b) => sum(b) - sum(a));
  console.log(`of the page's thread the longest of them took ${tasks.sort((a, b) => b - a).slice(0, 3).map(Math.round).join(", ")} ms`);
}

/** Two hours of a hundred jobs a minute. */
const JOBS = Number(process.env.JOBS ?? 12_000);
const LOOKS = 12;
const MINUTES_MAX = 20;
/** Of the memory after the first looks, when all code has run once. */
const GROWTH_MAX = 0.1;

async function live({ context, page, session }) {
  // The calls of another page, whose memory is not the one that is looked at.
  const other = await context.newPage();
  await other.goto(`${url}/console#/keys`);
  await other.getByRole("heading", { level: 1 }).waitFor();
  const ask = (method, path, body) => other.evaluate(async ([asked, to, sent]) => {
    const init = { method: asked, headers: { "x-gleaner-session": "1", "content-type": "application/json" } };
    const reply = await fetch(`api/v1${to}`, sent ? { ...init, body: JSON.stringify(sent) } : init);
    if (!reply.ok) throw new Error(`${asked} ${to}: ${reply.status} ${await reply.text()}`);
    return reply.json();
  }, [method, path, body]);
  const { items } = await ask("GET", "/urls?limit=100");
  if (items.length === 0) throw new Error("there are no URLs to collect");
  await page.bringToFront();
  await page.evaluate(() => void (location.hash = "#/jobs"));
  await page.getByText("live", { exact: true }).waitFor();
  await session.send("Performance.enable");
  await session.send("HeapProfiler.enable");
  const look = async () => {
    for (let n = 0; n < 2; n++) await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name) => metrics.find((one) => one.name === name).value;
    return { heap: of("JSHeapUsedSize"), nodes: of("Nodes"), listeners: of("JSEventListeners") };
  };
  const [begun, looks] = [Date.now(), [await look()]];
  const ended = async () => (await ask("GET", "/jobs?status=queued&limit=1")).items.length === 0;
  let done = 0;
  while (done < JOBS && Date.now() - begun < MINUTES_MAX * 60_000) {
    const jobs = items.map((one) => ({ urlId: one.id }));
    await ask("POST", "/jobs/batch", { jobs });
    done += jobs.length;
    while (!(await ended())) await new Promise((resume) => setTimeout(resume, 250));
    if (done >= (JOBS / LOOKS) * looks.length) looks.push(await look());
  }
  const megabytes = looks.map((one) => (one.heap / 1e6).toFixed(2));
  console.log(`${done} jobs (${Math.round((done / 6_000) * 60)} minutes at 100 a minute) in ${((Date.now() - begun) / 60_000).toFixed(1)} minutes under an open list; memory after garbage collection: ${megabytes.join(", ")} MB; nodes ${looks.map((one) => one.nodes).join(", ")}; listeners ${looks.map((one) => one.listeners).join(", ")}`);
  const [early, late] = [looks.slice(1, 4), looks.slice(-3)].map((some) => middle(some.map((one) => one.heap)));
  const growth = late / early - 1;
  console.log(`from the second to fourth look to the last three it changed by ${(growth * 100).toFixed(1)} %`);
  if (growth > GROWTH_MAX) process.exitCode = 1;
}

const each = { view: () => inProfile(view), rows: () => inWindow(rows), live: () => inWindow(live) };
for (const part of parts) await each[part]();
