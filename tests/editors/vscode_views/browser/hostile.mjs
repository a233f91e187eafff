// What a model, a file or a person may write does nothing in the page of the chat; what goes wrong is said.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { picture, settings, withPage } from "../../vscode/browser/page.mjs";
import { editorText, openFile, runCommand, until } from "../../vscode/browser/workbench.mjs";
import { ask, ended, openChat, pageOf, save, started } from "./views.mjs";

const outside = [];

async function emptyPlots(page) {
  await runCommand(page, "Warmline: Focus on Performance View");
  const plots = await pageOf(page, "Warmline Performance");
  await until("each plot says that there is nothing", async () => {
    if ((await plots.locator("figure.nothing").count()) !== 4) {
      throw new Error(await plots.locator("body").innerText());
    }
    return true;
  });
  assert.equal(await plots.locator("svg").count(), 0, "nothing is drawn");
  assert.match(await plots.locator("figcaption").first().textContent(), /No answers .* type in a file, or ask/);
}

async function staysDead(page, chat) {
  const exchange = await ask(chat, "hostile <img src=x onerror='window.hacked=1'> [q](command:x) \u202eabc");
  await ended(exchange);
  const found = await exchange.evaluate((each) => ({
    tags: [...new Set([...each.querySelectorAll("*")].map((one) => one.tagName.toLowerCase()))],
    handlers: [...each.querySelectorAll("*")]
      .flatMap((one) => one.getAttributeNames())
      .filter((name) => name.startsWith("on")),
    links: [...each.querySelectorAll("a")].map((one) => one.getAttribute("href")),
    text: each.textContent,
    hacked: window.hacked,
  }));
  for (const tag of ["img", "script", "iframe", "b", "i", "u", "object", "style", "svg"]) {
    assert(!found.tags.includes(tag), `there is a <${tag}>`);
  }
  assert.deepEqual([found.handlers, found.links, found.hacked], [[], ["https://example.org/?q=1"], undefined]);
  for (const text of [
    '<img src=x onerror="window.hacked=1">',
    "run me (command:workbench.action.terminal.new)",
    "file (file:///etc/passwd)",
    "js (javascript:alert(1))",
    "[image: picture (https://example.org/pixel.png)]",
    "\\x1b[31mred",
    "\\u202etxt.exe",
    "\\u202emore",
    "<i>a</i>",
    "hostile <img src=x",
  ]) {
    assert(found.text.includes(text), `not shown: ${text}\n${found.text}`);
  }
  assert.doesNotMatch(found.text, /[\u001b\u202e]/);
  await picture(page, "hostile");

  await exchange.getByText("run me").click();
  await exchange.locator("a").click();
  const dialog = page.locator(".monaco-dialog-box", { hasText: "example.org" });
  await dialog.waitFor(); // VS Code's own question
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal(await page.locator(".terminal-wrapper").count(), 0, "no command ran");
}

/** A thought is folded away, apart from the answer, and is text as that is. */
async function thinks(chat) {
  const exchange = await ask(chat, "think");
  await ended(exchange);
  const thought = exchange.locator("details.thought");
  assert.equal(await exchange.locator(".answer").textContent(), "Yes.");
  assert.equal(await thought.getAttribute("open"), null);
  assert.deepEqual(await thought.locator(":scope > *").allTextContents(), ["Thought", "Hm, <b>hard</b>."]);
}

/** Even a script in the page would load nothing and run nothing that came as text. */
async function isClosed(chat) {
  const tried = await chat.evaluate(async () => {
    const violated = new Set();
    const told = new Promise((resolve) => {
      document.addEventListener("securitypolicyviolation", (event) => {
        violated.add(event.effectiveDirective);
        if (violated.size === 3) {
          resolve();
        }
      });
      setTimeout(resolve, 10000);
    });
    const script = document.createElement("script");
    script.textContent = "window.hacked = 2";
    const image = document.createElement("img");
    image.src = "https://example.org/pixel.png";
    document.body.append(script, image);
    const fetched = await fetch("https://example.org/").then(
      () => true,
      () => false,
    );
    await told;
    script.remove();
    image.remove();
    return { fetched, hacked: window.hacked, violated: [...violated].sort() };
  });
  assert.deepEqual([tried.fetched, tried.hacked], [false, undefined]);
  assert.deepEqual(tried.violated, ["connect-src", "img-src", "script-src-elem"]);
}

/** The server dies in mid-answer: what it wrote stays, what happened is said, and the next question is answered. */
async function survives(page, chat) {
  const exchange = await ask(chat, "hang");
  await until("half is there", async () => (await exchange.locator(".answer").textContent()) === "Half of an answer");
  for (const pid of readdirSync(settings.pids)) {
    // The number of one that has ended may be another one's by now, or that of a thread of another one.
    const link = `/proc/${pid}/cmdline`;
    if (existsSync(link) && readFileSync(link, "utf8").includes(settings.command)) {
      process.kill(Number(pid), "SIGKILL");
    }
  }
  await ended(exchange);
  assert.equal(await exchange.locator(".answer").textContent(), "Half of an answer");
  assert.match(await exchange.locator(".remark").textContent(), /ended in the middle of this answer.*ask again/);
  await picture(page, "chat-broken");
  await until("the server runs again", async () => (await chat.locator(".variant").textContent()) === "acme");
  const again = await ask(chat, "How many?");
  await ended(again);
  // It is given what was finished: one question with its answer, then this one.
  assert.equal(await again.locator(".answer").textContent(), "3 messages");
}

async function failsInWords(chat) {
  const exchange = await ask(chat, "fail");
  await ended(exchange);
  assert.match(await exchange.locator(".remark").textContent(), /^the engine crashed\. Ask again\.$/);
}

/** Selects a line of the editor at hand, without its indentation. */
async function selectLine(page, text) {
  await page.locator(".view-line", { hasText: text }).first().click();
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+End");
}

/** Fix shows what it would make of the selection, beside what is there; only Apply changes anything. */
async function fixes(page) {
  await openFile(page, "ledger.py");
  const dirty = page.locator('.tab[data-resource-name="ledger.py"].dirty');
  for (const decision of ["Discard", "Apply"]) {
    await selectLine(page, 'sign = "-"');
    const before = await editorText(page);
    await runCommand(page, "Warmline: Fix Selection");
    await page.locator(".tab.active", { hasText: "proposed by acme" }).waitFor();
    for (const text of ['sign = "-"', "def add(a, b)"]) {
      await page.locator(".monaco-diff-editor .view-line:visible", { hasText: text }).first().waitFor();
    }
    await picture(page, "fix");
    await page.locator(`.editor-actions [aria-label*="${decision} Proposed Change"]`).first().click();
    await page.locator(".tab", { hasText: "proposed by acme" }).waitFor({ state: "detached" });
    await page.locator('.tab.active[data-resource-name="ledger.py"]').waitFor();
    if (decision === "Discard") {
      assert.equal(await editorText(page), before);
      assert.equal(await dirty.count(), 0);
    }
  }
  await dirty.waitFor();
  const fixed = /\n {4}"""Write an amount .*"""\n {4}def add\(a, b\):\n {8}return a \+ b\n {4}return f"/;
  await until("the selection is replaced", async () => fixed.test(await editorText(page)));
}

/** Explain asks in the chat about the selection; Edit and Fix show a change. */
async function rewrites(page) {
  await openFile(page, "ledger.py");
  const chat = await openChat(page, "acme");
  await selectLine(page, "MAX_TRANSFER_CENTS");
  const before = await chat.locator(".exchange").count();
  await runCommand(page, "Warmline: Explain Selection");
  const exchange = chat.locator(".exchange").nth(before);
  await exchange.waitFor();
  assert.deepEqual(await exchange.locator(".chips.sent li").allTextContents(), ["ledger.py:8"]);
  await ended(exchange);

  await selectLine(page, "MAX_TRANSFER_CENTS");
  await runCommand(page, "Warmline: Edit Selection");
  const input = page.locator(".quick-input-widget input[type=text]").first();
  await page.locator(".quick-input-widget", { hasText: "What is to be done" }).waitFor();
  await input.fill("Write code");
  await page.keyboard.press("Enter");
  await page.locator(".tab.active", { hasText: "proposed by acme" }).waitFor();
  await picture(page, "edit");
  await page.keyboard.press("Control+Enter");
  await page.locator(".tab", { hasText: "proposed by acme" }).waitFor({ state: "detached" });
  await page.locator('.tab[data-resource-name="ledger.py"].dirty').waitFor();
  await until("the selection is replaced", async () => {
    const text = await editorText(page);
    return !text.includes("MAX_TRANSFER_CENTS") && text.includes("\ndef add(a, b):\n    return a + b\n");
  });
  return chat;
}

/** What the chips name goes along; code of the answer replaces it, wherever it is by then. */
async function attaches(page) {
  await openFile(page, "words.py");
  await selectLine(page, "WORD = ");
  const chat = await openChat(page, "acme");
  await chat.getByRole("button", { name: "Add the editor's file" }).click();
  await chat.getByRole("button", { name: "Add the editor's selection" }).click();
  const labels = chat.locator("form .chips li");
  const told = async () => (await labels.allTextContents()).map((text) => text.replace("×", "")).join();
  await until("both are there", async () => (await told()) === "words.py,words.py:5");
  // A line more above: the chip stays with its text.
  await page.locator(".view-line", { hasText: "import re" }).first().click();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await until("the chip has moved", async () => (await told()) === "words.py,words.py:6");
  await chat.getByRole("button", { name: "Remove words.py", exact: true }).click();
  await until("one is gone", async () => (await told()) === "words.py:6");
  const exchange = await ask(chat, "code");
  assert.deepEqual(await exchange.locator(".chips.sent li").allTextContents(), ["words.py:6"]);
  assert.equal(await labels.count(), 0);
  await ended(exchange);
  await page.locator(".view-line", { hasText: "import re" }).first().click();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await exchange.getByRole("button", { name: "Show as a change" }).click();
  await page.locator(".tab.active", { hasText: "proposed by acme" }).waitFor();
  await picture(page, "apply");
  await page.locator('.editor-actions [aria-label*="Apply Proposed Change"]').first().click();
  await page.locator(".tab", { hasText: "proposed by acme" }).waitFor({ state: "detached" });
  await save(page, "words.py");
  const saved = () => readFileSync(path.join(settings.folder, "words.py"), "utf8");
  await until("it has taken the place", () => /import re\n\ndef add\(a, b\):\n {4}return a \+ b\n/.test(saved()));
  assert(!saved().includes("WORD = "), "what was replaced is gone");
  return chat;
}

async function clears(page, chat) {
  await chat.getByRole("button", { name: "Clear the conversation" }).click();
  await chat.locator(".empty").waitFor();
  assert.equal(await chat.locator(".exchange").count(), 0);
  const fresh = await ask(chat, "How many?");
  await ended(fresh);
  assert.equal(await fresh.locator(".answer").textContent(), "1 messages");
}

await withPage(async (page) => {
  page.on("dialog", (dialog) => outside.push(`dialog ${dialog.message()}`));
  page.on("request", (request) => {
    if (request.url().includes("example.org")) {
      outside.push(request.url());
    }
  });
  await page.locator(".monaco-workbench").waitFor();
  await started(page);
  await emptyPlots(page); // before a file is open, in which VS Code may ask for a suggestion by itself
  await openFile(page, "ledger.py");
  let chat = await openChat(page, "acme");
  await staysDead(page, chat);
  assert.deepEqual(outside, [], "something left the page");
  await isClosed(chat);
  await survives(page, chat);
  await failsInWords(chat);
  await thinks(chat);
  await fixes(page);
  chat = await rewrites(page);
  chat = await attaches(page);
  await clears(page, chat);
});
console.log("null");
