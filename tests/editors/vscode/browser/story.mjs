// What a person does with suggestions, from the first key to a broken variant, in a VS Code with the VSIX installed.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import * as path from "node:path";
import { picture, settings, withPage } from "./page.mjs";
import { editorText, openFile, runCommand, switchTo, toEnd, tooltip, untilGhost, untilStatus } from "./workbench.mjs";

const variantFile = path.join(settings.folder, ".warmline", "variants", "acme.json");
const HEAD = "def transfer(";

/** Types the head of a function at the end of the file as it is on disk; VS Code puts the closing bracket. */
async function typeHead(page) {
  const dirty = page.locator('.tab.dirty[data-resource-name="words.py"]');
  if (await dirty.count()) {
    await runCommand(page, "File: Revert File");
    await dirty.waitFor({ state: "detached" });
  }
  await toEnd(page);
  await page.keyboard.type(`\n\n${HEAD}`);
  return await untilGhost(page);
}

await withPage(async (page) => {
  await page.locator(".explorer-folders-view").waitFor();
  await openFile(page, "words.py");
  await untilStatus(page, /acme: (warm|cold)/);

  // Type, ghost text, type along, accept a word, accept the rest.
  const first = await typeHead(page);
  await picture(page, "ghost-text");
  await page.keyboard.type(first[0]);
  const rest = await untilGhost(page, `(text) => text === ${JSON.stringify(first.slice(1))}`);
  await page.keyboard.press("Control+ArrowRight");
  const left = await untilGhost(page, `(text) => text.length > 0 && text.length < ${rest.length}`);
  const word = rest.slice(0, rest.length - left.length);
  assert.equal(rest, word + left);
  assert((await editorText(page)).includes(HEAD + first[0] + word), await editorText(page));
  await picture(page, "word-accepted");
  await page.keyboard.press("Tab");
  const whole = (HEAD + first).split("\n")[0].trimEnd();
  await page.waitForFunction(
    (wanted) => document.querySelector(".editor-instance .view-lines").textContent.replace(/\u00a0/g, " ").includes(wanted),
    whole,
  );
  assert((await editorText(page)).includes(whole));
  // The next question begins with what the last one left in the KV.
  await toEnd(page);
  await page.keyboard.type(":\n");
  await untilStatus(page, /acme: warm/);
  await tooltip(page, /acme-style/, /Reused/);
  await picture(page, "provenance");

  // Another variant: another suggestion, another provenance.
  await switchTo(page, "base");
  const second = await typeHead(page);
  await picture(page, "base-suggests");
  assert.notEqual(second, first);
  assert.doesNotMatch(await tooltip(page, /Adapters\s*none/), /acme-style/);
  await switchTo(page, "acme");

  // A broken variant's file is said, with what to do; mended, it answers again.
  const good = readFileSync(variantFile, "utf8");
  writeFileSync(variantFile, good.replace('"scale"', '"scael"'));
  await untilStatus(page, /acme$/);
  await tooltip(page, /config\.unknown_field/, /scale/);
  await picture(page, "broken");
  writeFileSync(variantFile, good);
  await untilStatus(page, /acme: (warm|cold)/);
  const third = await typeHead(page);
  await picture(page, "mended");

  // Another candidate, and back.
  await page.keyboard.press("Alt+]");
  const other = await untilGhost(page, `(text) => text !== "" && text !== ${JSON.stringify(third)}`);
  assert.notEqual(other, third);
  await page.keyboard.press("Alt+[");
  await untilGhost(page, `(text) => text === ${JSON.stringify(third)}`);
});
console.log("null");
