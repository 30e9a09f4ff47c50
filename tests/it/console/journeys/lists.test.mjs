// What lists keep and say, and what a dialog that must not be lost asks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { at, person, signedIn, until } from "./box.mjs";

test("a filter that nothing fits is shown, and taken away", signedIn(async (page) => {
  await at(page, "results?domain=nothing.example");
  await page.getByText("Nothing fits", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Remove the filter Domain: nothing.example" }).click();
  await page.getByText("Nothing fits", { exact: true }).waitFor({ state: "detached" });
  assert.ok(!page.url().includes("nothing.example"));
}));

test("Escape does not give up what was typed when the session has ended", signedIn(async (page, context) => {
  await at(page, "urls");
  await page.getByRole("button", { name: "Add URLs" }).click();
  await page.locator("textarea").fill("https://example.com/not-given-up");
  await page.evaluate(() => {
    window.asked = 0;
    window.confirm = () => {
      window.asked += 1;
      return false;
    };
  });
  await context.clearCookies();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  const heading = page.getByRole("heading", { name: "Your session has ended" });
  await heading.waitFor();
  for (let times = 1; times <= 3; times++) {
    await page.keyboard.press("Escape");
    await until("it was asked", async () => (await page.evaluate(() => window.asked)) === times);
    assert.ok(await heading.isVisible());
  }
  await page.locator("dialog").last().getByLabel("Password").fill(person.password);
  await page.locator("dialog").last().getByRole("button", { name: "Sign in" }).click();
  await heading.waitFor({ state: "detached" });
  assert.equal(await page.locator("textarea").inputValue(), "https://example.com/not-given-up");
}));
