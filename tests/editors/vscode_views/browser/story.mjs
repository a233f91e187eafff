// A person's chat with the real model: asks, sees it written, stops it, uses its code, comes back to it after a reload.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import * as path from "node:path";
import { picture, settings, withPage } from "../../vscode/browser/page.mjs";
import { openFile, runCommand, until } from "../../vscode/browser/workbench.mjs";
import { ask, ended, openChat, pageOf, save, set, shownText, started } from "./views.mjs";

const CODE = "Write a Python function add that returns the sum of two numbers. Answer with one code block.";
const LONG = "Count from one to five hundred, one number a line.";
const seen = {};

const onDisk = (name) => readFileSync(path.join(settings.folder, name), "utf8");

/** Lengths of an answer as it was seen while it was written. */
async function lengths(exchange) {
  const found = [];
  await until(
    "the answer has ended",
    async () => {
      const [busy, length] = await exchange.evaluate((each) => [
        each.getAttribute("aria-busy"),
        each.querySelector(".answer").textContent.length,
      ]);
      if (length !== found.at(-1)) {
        found.push(length);
      }
      return busy === "false";
    },
  );
  return found;
}

async function streams(page, chat) {
  const exchange = await ask(chat, CODE);
  const grown = await lengths(exchange);
  assert(grown.filter((length) => length > 0).length >= 3, `seen at once: ${grown}`);
  assert.equal(await exchange.locator(".from").textContent(), "acme · acme-style@1");
  assert.equal(await chat.locator(".made").textContent(), "acme-style@1 on smollm2-135m-instruct");
  await exchange.locator(".code pre").first().waitFor();
  const left = () =>
    chat.evaluate(() => {
      const log = document.querySelector(".log");
      return log.scrollHeight - log.scrollTop - log.clientHeight;
    });
  await until("the end of the answer is in sight", async () => (await left()) < 5);
  await chat.evaluate(() => document.querySelector(".log").scrollTo({ top: 0 }));
  await picture(page, "chat");
  return exchange;
}

/** What each button of a code block does. */
async function uses(page, chat, exchange) {
  const block = exchange.locator(".code").first();
  const code = await block.locator("code").textContent();
  await block.getByRole("button", { name: "Copy" }).click();
  await until("the code is copied", async () => (await page.evaluate(() => navigator.clipboard.readText())) === code);

  await runCommand(page, "File: New Untitled Text File");
  await page.locator(".tab.active", { hasText: "Untitled" }).waitFor();
  await block.getByRole("button", { name: "Insert" }).click();
  const first = code.split("\n")[0];
  await until("the code is inserted", async () => (await shownText(page)).includes(first));
  await runCommand(page, "View: Revert and Close Editor");
}

/** Code of an answer takes the place of what is selected, after it was looked at. */
async function applies(page) {
  await openFile(page, "words.py");
  await page.keyboard.press("Control+Home");
  await page.keyboard.press("Shift+ArrowDown");
  await page.keyboard.press("Shift+ArrowDown");
  const chat = await openChat(page, "acme");
  const block = chat.locator(".exchange .code").first();
  const code = await block.locator("code").textContent();
  const before = onDisk("words.py");
  const dirty = page.locator('.tab[data-resource-name="words.py"].dirty');
  for (const decision of ["Discard", "Apply"]) {
    await block.getByRole("button", { name: "Show as a change" }).click();
    await page.locator(".tab.active", { hasText: "proposed by acme" }).waitFor();
    await page.locator(`.editor-actions [aria-label*="${decision} Proposed Change"]`).first().click();
    await page.locator(".tab", { hasText: "proposed by acme" }).waitFor({ state: "detached" });
    assert.equal(onDisk("words.py"), before, "nothing is saved unasked");
    assert(decision === "Apply" || (await dirty.count()) === 0, "discarding changes nothing");
  }
  await save(page, "words.py");
  const rest = before.split("\n").slice(2).join("\n");
  assert.equal(onDisk("words.py"), `${code.trim()}\n${rest}`);
  return chat;
}

async function stops(page, chat) {
  const exchange = await ask(chat, LONG);
  await until("some of it is written", async () => (await exchange.locator(".answer").textContent()).length > 10);
  const stop = chat.getByRole("button", { name: "Stop this answer" });
  await stop.click();
  await ended(exchange);
  assert.match(await exchange.locator(".remark").textContent(), /^Stopped\./);
  assert((await exchange.locator(".answer").textContent()).length > 10, "what was written stays");
  await stop.waitFor({ state: "hidden" });
}

/** Everything can be reached and named without a pointer. */
async function keyboard(page, chat) {
  const named = await chat.evaluate(() =>
    [...document.querySelectorAll("button, textarea, a, [tabindex='0']")]
      .filter((each) => each.offsetParent !== null && !(each.getAttribute("aria-label") || each.textContent.trim()))
      .map((each) => each.outerHTML),
  );
  assert.deepEqual(named, [], "controls without a name");
  await chat.locator("textarea").focus();
  const order = [];
  for (let step = 0; step < 3; step += 1) {
    await page.keyboard.press("Tab");
    order.push(await chat.evaluate(() => document.activeElement.textContent));
  }
  assert.deepEqual(order, ["+ Selection", "+ File", "Ask"]);
  const roles = await chat.evaluate(() =>
    [...document.querySelectorAll("[role]")].map((each) => each.getAttribute("role")),
  );
  assert(roles.includes("log") && roles.includes("status"), String(roles));
}

/** The plots have a dot for each answer of this window, and bars for what is in memory. */
async function performs(page, answers) {
  await runCommand(page, "Warmline: Focus on Performance View");
  const plots = await pageOf(page, "Warmline Performance");
  const figure = (title) => plots.locator("figure", { hasText: title });
  const said = (title) => figure(title).locator("figcaption").textContent();
  await until("the answers are drawn", async () => (await said("Time of an answer")).startsWith(`${answers} answers`));
  assert.equal(await figure("Time of an answer").locator(":scope > svg .mark").count(), answers);
  assert.match(await said("Share of the prompt"), /^[1-9]\d* of \d+ prompt tokens were reused/);
  const memory = await figure("Memory of the engine").locator("td:last-child").allTextContents();
  assert.equal(memory[0], "96.6 MB", "the weights are those of the base's file");
  assert(memory.length === 3 && /^\d[\d.]* [kMG]B$/.test(memory[2]), String(memory));
  return plots;
}

/** A view's page has the colours of each theme; its pictures are kept to be looked at. */
async function themes(page, view, name) {
  const looks = [
    ["light", "Light Modern", "vscode-light"],
    ["contrast", "Default High Contrast", "vscode-high-contrast"],
    ["dark", "Dark Modern", "vscode-dark"],
  ];
  const colours = new Set();
  for (const [look, theme, kind] of looks) {
    set({ "workbench.colorTheme": theme });
    await until(`the page is ${look}`, () =>
      view.evaluate((want) => document.body.dataset.vscodeThemeKind === want, kind),
    );
    colours.add(await view.evaluate(() => getComputedStyle(document.body).color));
    await picture(page, `${name}-${look}`);
  }
  assert.equal(colours.size, 3, "each theme has its colours");
}

/** Gives the room of another view of the sidebar to those that are left. */
const fold = (page, view) => page.locator(`.pane-header[aria-label^="${view}"][aria-expanded=true]`).click();

await withPage(async (page) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.locator(".monaco-workbench").waitFor();
  await started(page);
  await openFile(page, "ledger.py");
  let chat = await openChat(page, "acme");
  await fold(page, "Variants");
  const exchange = await streams(page, chat);
  await uses(page, chat, exchange);
  chat = await applies(page);
  await keyboard(page, chat);
  await stops(page, chat);

  // At once: nothing that was said is lost with the window.
  const before = await chat.locator(".exchange").allTextContents();
  await page.reload();
  await started(page);
  chat = await openChat(page, "acme");
  await until("the history is there", async () => (await chat.locator(".exchange").count()) === before.length);
  assert.deepEqual(await chat.locator(".exchange").allTextContents(), before);
  for (const question of ["What was my first question? Answer briefly.", CODE]) {
    const after = await ask(chat, question);
    await ended(after);
    assert.notEqual(await after.locator(".answer").textContent(), "");
  }
  await themes(page, chat, "chat");
  const plots = await performs(page, 2);
  await fold(page, "Chat");
  await themes(page, plots, "performance");
  seen.exchanges = before.length;
});
console.log(JSON.stringify(seen));
