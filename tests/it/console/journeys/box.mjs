// What journeys share: a browser at the box, a person signed in, the API beside it, and what may never happen.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { after, before } from "node:test";

const { GLEANER_URL, GLEANER_EMAIL, GLEANER_PASSWORD, GLEANER_KEY, GLEANER_SHOP, GLEANER_SOCKET, GLEANER_TOOLS, GLEANER_CHROMIUM, GLEANER_CHROMIUM_ARGUMENTS } = process.env;
const require = createRequire(`${GLEANER_TOOLS}/`);
const { chromium } = require("playwright-core");
export const axe = require("axe-core");
export const url = GLEANER_URL;
export const shop = GLEANER_SHOP;
export const person = { email: GLEANER_EMAIL, password: GLEANER_PASSWORD };

let browser;
before(async () => {
  // Others with a space between them; where a no-break space stands is one in an argument.
  const others = (GLEANER_CHROMIUM_ARGUMENTS ?? "").split(" ").filter(Boolean).map((one) => one.replaceAll("\u00a0", " "));
  browser = await chromium.launch({ executablePath: GLEANER_CHROMIUM, args: ["--no-sandbox", ...others] });
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

/** Runs in a page of its own, and holds: nothing is fetched from elsewhere, no policy is broken, no error is thrown. It may be
 * led to `also`. */
export async function inPage(work, { width = 1280, height = 900, theme = "light", policyMayRefuse = false, also } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const wrong = [];
  page.on("request", (request) => {
    const to = request.url();
    const isLed = also !== undefined && to.startsWith(also) && request.isNavigationRequest();
    if (!to.startsWith(url) && !isLed && !/^(data|blob|about):/.test(to)) wrong.push(`asked ${to}`);
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

/** Waits until this holds of what the API says, and gives it. */
export async function until(what, ask, times = 600) {
  for (let left = times; left > 0; left--) {
    const found = await ask();
    if (found) return found;
    await new Promise((resume) => setTimeout(resume, 100));
  }
  assert.fail(`not in time: ${what}`);
}

/** The answer to a command on the operator's socket: a line of JSON each. */
function operator(request) {
  return new Promise((resolve, reject) => {
    let told = "";
    const socket = connect(GLEANER_SOCKET, () => socket.write(`${JSON.stringify(request)}\n`));
    socket.on("data", (part) => (told += part));
    socket.on("end", () => resolve(JSON.parse(told).ok));
    socket.on("error", reject);
  });
}

/** Where the link of the newest letter to this address leads that goes to this page: the box has no mail server, so it keeps
 * its letters for its operator. A link that is `known` is not waited for. */
export function mailed(to, page, known) {
  const link = new RegExp(`/${page}#\\S+`);
  return until(`a letter to ${to} leads to ${page}`, async () => {
    const letters = await operator({ command: "outbox", limit: 50 });
    const text = letters.filter((letter) => letter.to === to).map((letter) => letter.text ?? "").find((one) => link.test(one));
    const found = text && url + link.exec(text)[0];
    return found !== known && found;
  });
}

/** What has the focus, as it is called to somebody who cannot see it, and whether it is pressed or written in. */
const focused = () => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  if (!element || element === document.body) return { name: "", isPressed: false };
  const labels = [...(element.labels ?? [])].map((label) => label.innerText.split("\n")[0]);
  const shown = labels.join(" ") || element.innerText || element.textContent || (element.matches("iframe") ? element.title : "");
  const name = (element.getAttribute("aria-label") ?? shown).trim();
  return { name, isPressed: element.matches("button, a, summary") };
};
const STOPS_MAX = 160;

/** Presses Tab until this has the focus: whatever cannot be reached so cannot be used without a pointer. */
export async function tabTo(page, name, isPressed) {
  const passed = [];
  // What is not drawn yet is reached in a later round.
  const end = Date.now() + 60_000;
  while (passed.length < STOPS_MAX || Date.now() < end) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(focused);
    const isKind = isPressed === undefined || at.isPressed === isPressed;
    if (isKind && (name instanceof RegExp ? name.test(at.name) : at.name === name)) return;
    passed.push(at.name.slice(0, 40));
  }
  assert.fail(`${name} was not reached; passed: ${passed.slice(0, STOPS_MAX).join(" | ")}`);
}

/** The same, and fills it: what stood there is gone. */
export async function typeInto(page, name, text) {
  await tabTo(page, name, false);
  await page.keyboard.press("Control+a");
  await page.keyboard.type(text);
}

/** The same, and presses it. */
export async function pressOn(page, name) {
  await tabTo(page, name, true);
  await page.keyboard.press("Enter");
}

/** Goes to a view by the palette, as somebody does who has no pointer. */
export async function goTo(page, title) {
  await page.keyboard.press("Control+k");
  await page.keyboard.type(title);
  await page.getByRole("option", { name: title, exact: false }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: title }).waitFor();
}

/** Holds that no pointer was used to the end. */
export async function unpointed(page, work) {
  await page.addInitScript(() => addEventListener("pointerdown", () => sessionStorage.setItem("pointed", "yes"), true));
  await work();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("pointed")), null, "a pointer was used");
}

/** A journey of somebody who signs in by keys and uses nothing else. */
export const byKeys = (work, options) => () =>
  inPage((page, context) => unpointed(page, async () => {
    await page.goto(`${url}/console`);
    await page.getByLabel("Email address").waitFor();
    await typeInto(page, "Email address", person.email);
    await typeInto(page, "Password", person.password);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await work(page, context);
  }), options);
