// What lists keep and say, and what a dialog that must not be lost asks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { api, at, person, shop, signedIn, until } from "./box.mjs";

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

test("everything that fits a filter is chosen beyond what is loaded, tagged and deleted", signedIn(async (page) => {
  const urls = Array.from({ length: 450 }, (_, n) => ({ url: `${shop}/many/a${n}`, tags: ["many"] }));
  await api("POST", "/urls", { urls });
  await at(page, "urls?tag=many");
  const all = page.getByText("All 450 URLs that fit the filter are chosen.");
  await page.getByRole("button", { name: "Choose all 100 shown" }).click();
  await page.getByText("All 100 loaded are chosen.").waitFor();
  await page.getByRole("button", { name: "Choose everything that fits the filter" }).click();
  await all.waitFor();
  // One that is left out is left out of what is done, too.
  await page.getByRole("checkbox").first().uncheck();
  await page.getByText("449 chosen").waitFor();
  await page.getByRole("button", { name: "Tag", exact: true }).click();
  await page.getByRole("textbox", { name: /^Tags to add/ }).fill("whole");
  await page.getByRole("button", { name: "Tag 449 URLs" }).click();
  await page.getByText("449 URLs were tagged").waitFor();
  const tagged = await api("GET", "/urls/tags").then(({ items }) => items.find((one) => one.tag === "whole"));
  assert.equal(tagged.count, 449);
  // One that is left out while the others are still asked for: what comes behind that chooses nothing.
  await page.reload();
  await page.getByRole("button", { name: "Choose all 100 shown" }).click();
  const parts = (address) => address.searchParams.get("tag") === "many" && address.searchParams.has("cursor");
  let letOn;
  const held = new Promise((resume) => (letOn = resume));
  await page.route(parts, async (route) => {
    await held;
    await route.continue().catch(() => undefined);
  });
  await page.getByRole("button", { name: "Choose everything that fits the filter" }).click();
  await page.getByText(/^\d+ so far …$/).waitFor();
  await page.getByRole("checkbox").first().uncheck();
  letOn();
  await page.unroute(parts);
  await page.getByText("99 chosen").waitFor();
  // With all of the loaded ones chosen again it would say how far it is, or that everything is chosen.
  await page.getByRole("checkbox").first().check();
  await page.getByText("All 100 loaded are chosen.").waitFor();
  assert.equal(await page.getByText("so far …").count() + (await all.count()), 0);
  await page.reload();
  // Other filters, another choice.
  await page.getByRole("button", { name: "Choose all 100 shown" }).click();
  await page.getByRole("textbox", { name: "Domain" }).fill("nothing.example");
  await page.getByText("No URL fits these filters").waitFor();
  assert.equal(await page.getByText(/\d chosen/).count(), 0);
  await page.getByRole("textbox", { name: "Domain" }).fill("");
  await page.getByRole("button", { name: "Choose all 100 shown" }).click();
  await page.getByRole("button", { name: "Choose everything that fits the filter" }).click();
  await all.waitFor();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByText("450 URLs were deleted").waitFor();
  await page.getByText("No URL fits these filters").waitFor();
}));

test("a file is dropped, and its refused lines are named", signedIn(async (page) => {
  await at(page, "urls");
  await page.getByRole("button", { name: "Upload a file" }).click();
  const zone = page.locator(".drop");
  const text = `url,tags\n${shop}/dropped/1,dropped\n${shop}/dropped/2,dropped\nftp://nowhere.example/x,dropped\n`;
  const dataTransfer = await page.evaluateHandle((csv) => {
    const carried = new DataTransfer();
    carried.items.add(new File([csv], "dropped.csv", { type: "text/csv" }));
    return carried;
  }, text);
  await zone.dispatchEvent("dragover", { dataTransfer });
  await page.locator(".drop.over").waitFor();
  await zone.dispatchEvent("drop", { dataTransfer });
  await page.getByRole("status").getByText(/2 new, 0 changed, 0 known, 1 refused/).waitFor();
  await page.getByRole("region", { name: "Refused lines" }).getByText("ftp://nowhere.example/x").waitFor();
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("link", { name: `${shop}/dropped/2` }).waitFor();
}));
