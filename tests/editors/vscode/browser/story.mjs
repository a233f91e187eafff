// What a person does with suggestions, from the first key to a broken variant, in a VS Code with the VSIX installed.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import * as path from "node:path";
import { picture, settings, withPage } from "./page.mjs";
import {
  asked,
  editorText,
  ghostAtCursor,
  HEAD,
  openFile,
  switchTo,
  toEnd,
  tooltip,
  typeHead,
  until,
  untilGhost,
  untilStatus,
  wholeGhost,
} from "./workbench.mjs";

const FILE = "words.py";
const variantFile = path.join(settings.folder, ".warmline", "variants", "acme.json");

/** Asks where the model has several suggestions, for it may be sure of one; gives the head, the first and the next. */
async function several(page) {
  for (const head of ["limit = ", "name = ", "for entry in ", "from acme import "]) {
    await typeHead(page, FILE, head);
    await asked(page);
    const one = await wholeGhost(page);
    await page.keyboard.press("Alt+]");
    const isOther = `(text) => text.trim().length > 0 && text !== ${JSON.stringify(one)}`;
    if (await untilGhost(page, isOther, 3).catch(() => undefined)) {
      await picture(page, "another");
      return [head, one, await wholeGhost(page)];
    }
  }
  throw new Error("there is no other suggestion anywhere");
}

/** What stands between what was typed and the bracket that VS Code closed. */
function acceptedBehind(typed, text) {
  const line = text.slice(text.lastIndexOf(typed) + typed.length).split("\n")[0];
  return line.endsWith(")") ? line.slice(0, -1) : line;
}

await withPage(async (page) => {
  await page.locator(".explorer-folders-view").waitFor();
  await openFile(page, FILE);
  await untilStatus(page, /acme: (warm|cold)/);

  // Type, ghost text, type along, accept a word, accept the rest.
  const first = await typeHead(page, FILE);
  await picture(page, "ghost-text");
  await page.keyboard.type(first[0]);
  const rest = await untilGhost(page, `(text) => text === ${JSON.stringify(first.slice(1))}`);
  await page.keyboard.press("Control+ArrowRight");
  const typed = HEAD + first[0];
  const word = await until("a word is accepted", async () => acceptedBehind(typed, await editorText(page)));
  assert(rest.startsWith(word) && word.length < rest.length, `${word} of ${rest}`);
  await untilGhost(page);
  await picture(page, "word-accepted");
  // Since the word was accepted, a longer suggestion may have come, or come yet: both begin with what is shown now.
  const shown = await ghostAtCursor(page);
  await page.keyboard.press("Tab");
  const whole = typed + word + shown.trimEnd();
  await until(`${whole} is accepted`, async () => (await editorText(page)).includes(whole));
  // The next question begins with what the last one left in the KV.
  await toEnd(page);
  await page.keyboard.type(":\n");
  await untilStatus(page, /acme: warm/);
  await tooltip(page, /acme-style/, /Reused/);
  await picture(page, "provenance");

  // Another variant: another suggestion, another provenance.
  await switchTo(page, "base");
  const second = await typeHead(page, FILE);
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
  await typeHead(page, FILE);
  await picture(page, "mended");

  // Asked for: the next one, the one before, the next one again, and that is what is accepted.
  const [head, one, other] = await several(page);
  const isShown = (text) => untilGhost(page, `(text) => text === ${JSON.stringify(text)}`);
  await page.keyboard.press("Alt+[");
  await isShown(one);
  await page.keyboard.press("Alt+]");
  await isShown(other);
  await page.keyboard.press("Tab");
  const unspaced = (text) => text.replace(/\s/g, "");
  await until(`${other} is inserted`, async () => unspaced(await editorText(page)).includes(unspaced(head + other)));

  // Asked for, where nothing was typed.
  await openFile(page, "ledger.py"); // it ends within the head of a function
  await asked(page);
  await picture(page, "asked");
});
console.log("null");
