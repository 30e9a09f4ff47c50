// The company's accounts in a browser: a button leads to the provider, which leads back signed in; out again at both; turned away.
import assert from "node:assert/strict";
import { test } from "node:test";
import { at, inPage, url } from "../console/journeys/box.mjs";

const provider = process.env.GLEANER_PROVIDER;
const told = (account) => fetch(`${provider}/control`, { method: "POST", body: JSON.stringify({ account }) });
const button = (page) => page.getByRole("link", { name: "Sign in with Acme" });

test("somebody comes by the company's account to where they were going, and leaves both", () =>
  inPage(async (page, context) => {
    await told({ sub: "ada", groups: ["staff"] });
    await page.goto(`${url}/console#/jobs`);
    await button(page).click();
    await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
    assert.equal(new URL(page.url()).hash, "#/jobs");
    // Group staff is a viewer, who is offered nothing that changes anything.
    await page.getByText("Acme · viewer").first().waitFor();
    await page.getByRole("link", { name: "Person ada" }).first().waitFor();
    const cookie = (await context.cookies(url)).find((one) => one.name === "gleaner_session");
    assert.ok(cookie.httpOnly && cookie.sameSite === "Strict", JSON.stringify(cookie));
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    assert.doesNotMatch(kept, /eyJ|gl[a-z]_/, "no token lies in the page");
    await page.getByRole("button", { name: "Sign out" }).first().click();
    await button(page).waitFor();
    await page.reload();
    await button(page).waitFor();
    // The provider knows the browser no more, either: it asks who it is, and that is somebody else by now.
    await told({ sub: "grace", groups: ["admins"] });
    await button(page).click();
    await page.getByRole("link", { name: "Person grace" }).first().waitFor();
    await page.getByText("Acme · admin").first().waitFor();
    await at(page, "members");
    await page.getByText("grace@acme.example").first().waitFor();
  }, { also: provider }));

test("whom the provider turns away reads why, and finds the way back", () =>
  inPage(async (page) => {
    await told({ sub: "bob", groups: ["staff"], refused: true });
    await page.goto(`${url}/console`);
    await button(page).click();
    await page.getByText("did not let you through").waitFor();
    await page.goto(`${url}/console`);
    await button(page).waitFor();
    await told({ sub: "eve", groups: ["strangers"] });
    await button(page).click();
    await page.getByText("None of your groups leads here").waitFor();
    await page.goto(`${url}/console`);
    await button(page).waitFor();
  }, { also: provider }));
