// What journeys share: a browser at the box, a person signed in, the API beside it, and what may never happen.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before } from "node:test";

const { GLEANER_URL, GLEANER_EMAIL, GLEANER_PASSWORD, GLEANER_KEY, GLEANER_SHOP, GLEANER_TOOLS, GLEANER_CHROMIUM } = process.env;
const require = createRequire(`${GLEANER_TOOLS}/`);
const { chromium } = require("playwright-core");
export const axe = require("axe-core");
export const url = GLEANER_URL;
export const shop = GLEANER_SHOP;
export const person = { email: GLEANER_EMAIL, password: GLEANER_PASSWORD };

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: GLEANER_CHROMIUM, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** A call with an API key, for what a journey needs to be there. */
export async function api(method, path, body) {
  const init = { method, headers: { authorization: `Bearer ${GLEANER_KEY}`, "content-type": "application/json" } };
  const response = await fetch(`${url}/api/v1${path}`, { ...init, ...(body && { body: JSON.stringify(body) }) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text && JSON.parse(text);
}

/** Runs in a page of its own, and holds: nothing is fetched from elsewhere, no policy is broken, no error is thrown. */
export async function inPage(work, { width = 1280, height = 900, theme = "light", policyMayRefuse = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const wrong = [];
  page.on("request", (request) => {
    const to = request.url();
    if (!to.startsWith(url) && !/^(data|blob|about):/.test(to)) wrong.push(`asked ${to}`);
  });
  page.on("pageerror", (error) => wrong.push(`threw ${error.message}`));
  page.on("console", (message) => {
    if (!policyMayRefuse && /Content Security Policy|Trusted/i.test(message.text())) wrong.push(message.text());
  });
  page.on("dialog", (dialog) => (dialog.type() === "confirm" ? dialog.accept() : (wrong.push(`a dialog: ${dialog.message()}`), dialog.dismiss())));
  try {
    await work(page, context);
    assert.deepEqual(wrong, []);
    assert.doesNotMatch(await page.title(), /owned/);
  } finally {
    await context.close();
  }
}

export async function signIn(page, who = person) {
  await page.goto(`${url}/console`);
  await page.getByLabel("Email address").fill(who.email);
  await page.getByLabel("Password").fill(who.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

export async function at(page, place) {
  await page.evaluate((to) => void (location.hash = to), `#/${place}`);
}

/** A journey of somebody who is signed in. */
export const signedIn = (work, options) => () =>
  inPage(async (page, context) => {
    await signIn(page);
    await work(page, context);
  }, options);
