// Extracting, dispatching, delivering: from the form to what came of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { api, at, shop, signedIn, until } from "./box.mjs";

const domain = new URL(shop).hostname;

test("an attribute is tried as one types, saved, and read", signedIn(async (page) => {
  await at(page, `schemas?domain=${domain}`);
  await page.getByRole("button", { name: "New attribute" }).click();
  await page.getByLabel("Name").fill("heading");
  await page.getByLabel("Page type").fill("product");
  await page.getByLabel("XPaths").fill("//h1[");
  await page.getByRole("status").filter({ hasText: /xpath/i }).waitFor();
  await page.getByLabel("XPaths").fill("//h1");
  await page.getByRole("status").getByText(/Plane \d/).first().waitFor();
  await page.getByRole("button", { name: "Save the attribute" }).click();
  await page.getByRole("row", { name: /heading/ }).first().waitFor();
  await page.getByRole("button", { name: "Read stored pages anew" }).click();
  await page.getByText(/stored pages? (were )?read anew/).waitFor();
  const { items } = await api("GET", "/extraction/results?limit=10");
  assert.ok(items.some((one) => /^Plane \d/.test(one.values.heading ?? "")), JSON.stringify(items[0]));
}));

test("a page is taught by examples, and what is learned is saved", signedIn(async (page) => {
  await at(page, "results?q=plane");
  await page.locator("table a").first().click();
  await page.getByRole("button", { name: "Teach by pointing" }).click();
  await page.getByRole("tab", { name: "By examples" }).click();
  const frame = page.frameLocator("iframe");
  await frame.locator("p.price").click();
  await page.getByLabel("Name").fill("asked_price");
  await page.getByRole("tab", { name: "Page 2" }).click();
  await page.getByText("Shown on 1 of 3 pages").waitFor();
  await frame.locator("p.price").click();
  await page.getByText("Shown on 2 of 3 pages").waitFor();
  await page.getByRole("button", { name: "See what it gives" }).click();
  await page.getByRole("row", { name: /asked_price/ }).first().waitFor();
  await page.getByRole("button", { name: "Save the attributes" }).click();
  await page.getByText("These are read from now on").waitFor();
  const own = await api("GET", `/extraction/attributes/${domain}`);
  assert.ok(own.attributes.some((one) => one.name === "asked_price"));
  // The page's own script, whose blocking is what was asked for, says so.
}, { policyMayRefuse: true }));

test("a stored page runs nothing in its frame", signedIn(async (page) => {
  await at(page, "results?q=plane");
  await page.locator("table a").first().click();
  await page.getByRole("button", { name: "Teach by pointing" }).click();
  const frame = page.frameLocator("iframe");
  await frame.locator("h1").waitFor();
  assert.doesNotMatch(await frame.locator("title").textContent({ timeout: 5_000 }), /owned/);
  assert.equal(await page.locator("iframe").getAttribute("sandbox"), "allow-same-origin");
}, { policyMayRefuse: true }));

test("a provider is connected by the catalog's form, tested, and switched off", signedIn(async (page) => {
  await at(page, "providers");
  await page.getByRole("button", { name: "Connect a provider" }).click();
  await page.getByRole("button", { name: "Connect Direct" }).click();
  await page.getByLabel("Name").fill("<b>Second</b>");
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  const row = page.getByRole("row", { name: /<b>Second<\/b>/ });
  await row.getByRole("button", { name: "Test" }).click();
  await page.getByLabel("URL").fill(`${shop}/p/1`);
  await page.getByRole("button", { name: "Try it" }).click();
  await page.locator("dialog").getByText("success").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await row.getByRole("button", { name: "Switch off" }).click();
  await row.getByText("off", { exact: true }).waitFor();
  await row.getByRole("button", { name: "Disconnect" }).click();
  await row.waitFor({ state: "detached" });
}));

test("a refused form says why at its button", signedIn(async (page) => {
  await at(page, "providers");
  await page.getByRole("button", { name: "Connect a provider" }).click();
  await page.getByRole("button", { name: "Connect Proxy list" }).click();
  await page.getByRole("textbox", { name: /^Proxies/ }).fill("no proxy at all ://");
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await page.getByRole("alert").waitFor();
  assert.match(await page.getByRole("textbox", { name: /^Proxies/ }).inputValue(), /no proxy/);
}));

test("a workflow is drawn, its faults are told, and it is published", signedIn(async (page) => {
  await at(page, "workflows");
  await page.getByRole("button", { name: "New workflow" }).click();
  await page.getByLabel("Name").fill("Drawn here");
  await page.getByRole("button", { name: "Make the workflow" }).click();
  await page.getByText("holds", { exact: true }).waitFor();
  await page.getByRole("button", { name: "+ wait" }).click();
  await page.getByText(/faults?$/).waitFor();
  await page.getByLabel("Milliseconds").fill("50");
  await page.getByLabel("always leads to").selectOption("provider1");
  await page.getByRole("button", { name: /^start start/ }).focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("always leads to").selectOption({ label: "wait wait1" });
  await page.getByText("holds", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByText("Version 2").first().waitFor();
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByRole("button", { name: "Unpublish" }).waitFor();
  await page.getByRole("button", { name: "Route" }).click();
  await page.getByRole("textbox", { name: /^Route/ }).fill("domain:routed.example");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("domain:routed.example").first().waitFor();
}));

test("a drawn change is taken back, by keyboard too", signedIn(async (page) => {
  const { items } = await api("GET", "/providers");
  const node = (id, type, config) => ({ id, type, ...(config && { config }) });
  const edge = (source, target, type) => ({ source, target, type });
  const nodes = [node("start", "start"), node("p", "provider", { providerId: items[0].id }), node("good", "end", { status: "succeeded" }), node("bad", "end", { status: "failed" })];
  const edges = [edge("start", "p", "always"), edge("p", "good", "success"), edge("p", "bad", "failure")];
  const made = await api("POST", "/workflows", { name: "Moved", dag: { nodes, edges } });
  await at(page, `workflows/${made.workflowId}`);
  const provider = page.getByRole("button", { name: /^provider p/ });
  await provider.focus();
  const before = await provider.getAttribute("transform");
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction((was) => document.querySelector("[aria-label^='provider p']").getAttribute("transform") !== was, before);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.waitForFunction((was) => document.querySelector("[aria-label^='provider p']").getAttribute("transform") === was, before);
  await page.getByRole("button", { name: /^end good/ }).focus();
  await page.keyboard.press("Delete");
  await page.getByText(/faults?$/).waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("holds", { exact: true }).waitFor();
}));

test("a smart workflow is made and told to suggest", signedIn(async (page) => {
  await at(page, "workflows");
  await page.getByRole("button", { name: "New workflow" }).click();
  await page.getByLabel("Kind").selectOption("smart");
  await page.getByLabel("Name").fill("Smart one");
  await page.getByRole("button", { name: "Make the workflow" }).click();
  await page.getByRole("heading", { name: "Smart one" }).waitFor();
  const kept = page.waitForResponse((reply) => reply.url().endsWith("/smart/mode"));
  await page.getByLabel("Mode").selectOption("suggest");
  await kept;
  await page.reload();
  await page.getByRole("heading", { name: "Smart one" }).waitFor();
  assert.equal(await page.getByLabel("Mode").inputValue(), "suggest");
}));

test("a benchmark runs and becomes a workflow", signedIn(async (page) => {
  await at(page, "benchmarks");
  await page.getByRole("button", { name: "New benchmark" }).click();
  await page.getByLabel("URLs").fill(`${shop}/p/1\n${shop}/p/2`);
  await page.getByRole("button", { name: "Begin" }).click();
  await page.getByRole("heading", { name: "Providers side by side" }).waitFor();
  await page.getByRole("button", { name: "Make a workflow" }).click();
  await page.getByText("The workflow was made").waitFor();
}));

test("an output is made, its condition tried, and it is tested", signedIn(async (page) => {
  await at(page, "outputs");
  await page.getByRole("button", { name: "New output" }).click();
  await page.getByLabel("Name").fill("<s>Hook</s>");
  await page.getByLabel("Endpoint").fill(`${shop}/hook`);
  await page.getByLabel("result.new").check();
  // Before anything is saved; what is refused stands at its field.
  await page.getByText(/Of the last \d+ events [1-9]\d* would be delivered/).waitFor();
  const condition = page.getByRole("textbox", { name: /^Condition/ });
  await condition.fill("price >");
  await page.locator("label", { has: condition }).locator("[role=status].wrong").getByText(/at character/).waitFor();
  await condition.fill("price < 0");
  await page.getByText(/Of the last \d+ events 0 would be delivered/).waitFor();
  await page.getByText("Event by event").click();
  await page.getByRole("row", { name: /a value is missing.*result.new/ }).first().waitFor();
  await condition.fill("");
  await page.getByText(/Of the last \d+ events [1-9]\d* would be delivered/).waitFor();
  await page.getByRole("textbox", { name: /^Domain/ }).fill("nothing.example");
  await page.getByText(/Of the last \d+ events 0 would be delivered/).waitFor();
  await page.getByRole("textbox", { name: /^Domain/ }).fill("");
  await page.getByRole("button", { name: "Make the output" }).click();
  assert.match(await page.locator(".secret code").innerText(), /^whsec_/);
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("link", { name: "<s>Hook</s>" }).click();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Condition").fill("price < 100000");
  await page.getByText(/Of the last \d+ events/).waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Send a test" }).click();
  await page.getByText(/Not delivered: 404/).waitFor();
}));

test("a sitemap that is not there says so in its run", signedIn(async (page) => {
  await at(page, "inputs");
  await page.getByRole("button", { name: "New input" }).click();
  await page.getByLabel("Name").fill("Map");
  await page.getByRole("textbox", { name: "Address" }).fill(`${shop}/sitemap.xml`);
  await page.getByRole("button", { name: "Make the input" }).click();
  await page.getByRole("heading", { name: "Map" }).waitFor();
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("row", { name: /failed/ }).first().waitFor();
  await page.getByText("Its last run failed").waitFor();
  await at(page, "overview");
  await page.getByRole("link", { name: "Map fails" }).click();
  await page.getByRole("heading", { level: 1, name: "Map" }).waitFor();
}));

test("a schedule whose last run came to nothing needs attention", signedIn(async (page) => {
  await api("POST", "/urls", { urls: [{ url: `${shop}/gone/7`, tags: ["nowhere"] }] });
  const made = await api("POST", "/schedules", { name: "Into nothing", cron: "0 0 1 1 *", tagFilters: ["nowhere"] });
  await api("POST", `/schedules/${made.id}/trigger`);
  await until("its run has ended", async () => (await api("GET", `/schedules/runs?scheduleId=${made.id}`)).items[0]?.status === "completed");
  await page.reload();
  await page.getByRole("link", { name: "Into nothing: the last run failed" }).click();
  await page.getByRole("heading", { level: 1, name: "Into nothing" }).waitFor();
}));

test("a delivery that failed is tried again once its endpoint is right", signedIn(async (page) => {
  const output = await api("POST", "/outputs", { kind: "webhook", name: "Astray", url: `${shop}/gone/8`, events: ["job.succeeded"], tags: ["astray"] });
  await api("POST", "/jobs", { url: `${shop}/p/3`, tags: ["astray"] });
  await at(page, `outputs/${output.id}`);
  const deliveries = page.getByRole("region", { name: "Deliveries" });
  await until("it was tried", async () => (await api("GET", `/outputs/${output.id}/deliveries`)).items[0]?.attempts.length > 0);
  await page.reload();
  await deliveries.getByText("404", { exact: false }).waitFor();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: /^Endpoint/ }).fill(`${shop}/p/1`);
  await page.getByRole("button", { name: "Save" }).click();
  await deliveries.getByRole("button", { name: "Try now" }).click();
  await deliveries.getByText("delivered", { exact: true }).waitFor();
  await deliveries.getByRole("button", { name: "Redeliver" }).waitFor();
}));

test("a suggestion is applied with one click", signedIn(async (page) => {
  const smart = await api("POST", "/workflows/smart", { name: "Told what is better", mode: "suggest" });
  const third = await api("POST", "/providers", { adapter: "direct", name: "Third" });
  try {
    // The box looks when a job has taught it something.
    await until("there is a suggestion", async () => {
      await api("POST", "/jobs", { url: `${shop}/p/2` });
      return (await api("GET", `/optimization/suggestions?workflowId=${smart.workflowId}&status=open`)).items.length > 0;
    });
    await page.reload();
    await page.getByRole("link", { name: "A better ranking of providers" }).first().waitFor();
    await at(page, `workflows/${smart.workflowId}`);
    await page.getByRole("button", { name: "Apply" }).click();
    await page.getByText("applied", { exact: true }).first().waitFor();
    await page.getByText("Version 2", { exact: false }).first().waitFor();
  } finally {
    await fetch(`${new URL(page.url()).origin}/api/v1/providers/${third.id}?force=true`, { method: "DELETE", headers: { authorization: `Bearer ${process.env.GLEANER_KEY}` } });
  }
}));

test("a webhook's address is shown once and takes URLs", signedIn(async (page) => {
  await at(page, "inputs");
  await page.getByRole("button", { name: "New input" }).click();
  await page.getByLabel("Kind").selectOption("webhook");
  await page.getByLabel("Name").fill("Hook in");
  await page.getByRole("button", { name: "Make the input" }).click();
  const address = new URL(await page.locator(".secret code").innerText());
  const sent = await fetch(`${new URL(page.url()).origin}${address.pathname}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ url: `${shop}/p/8` }) });
  assert.equal(sent.status, 202);
}));

test("credits are asked for", signedIn(async (page) => {
  await at(page, "plan");
  await page.getByRole("button", { name: "Ask for credits" }).click();
  await page.getByRole("spinbutton", { name: "Credits" }).fill("500");
  await page.getByLabel("Note").fill("<h1>please</h1>");
  await page.getByRole("button", { name: "Ask for them" }).click();
  await page.getByRole("row", { name: /500/ }).getByText("<h1>please</h1>").waitFor();
}));

test("two versions of a page stand side by side", signedIn(async (page) => {
  const { items } = await api("GET", "/urls?q=%2Fp%2F7");
  const again = await api("POST", "/jobs", { urlId: items[0].id });
  await until("it has come again", async () => (await api("GET", `/jobs/${again.id}`)).status === "succeeded");
  await until("its history is there", async () => (await api("GET", `/extraction/history?urlId=${items[0].id}`)).items.length > 1);
  await at(page, `urls/${items[0].id}`);
  await page.getByRole("checkbox").nth(0).check();
  await page.getByRole("checkbox").nth(1).check();
  await page.getByRole("button", { name: "Compare two versions" }).click();
  await page.getByRole("dialog").getByText(/Both versions say the same|7\.50 EUR/).first().waitFor();
}));
