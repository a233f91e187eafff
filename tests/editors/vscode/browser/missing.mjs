// No server: one message with one button, which says what it would run, runs that where the person sees it, and says what
// to do when it fails. Then what the workspace brings is asked about, by digest, and only once that is approved its
// variant answers.
import assert from "node:assert/strict";
import { symlinkSync } from "node:fs";
import * as path from "node:path";
import { picture, settings, withPage } from "./page.mjs";
import { openFile, untilStatus } from "./workbench.mjs";

const toastOf = (page, text) => page.locator(".notification-toast").filter({ hasText: text });
const buttonsOf = (toast) => toast.locator(".notification-list-item-buttons-container .monaco-button");

/** Answers the question that shows what is about to run. */
async function answer(page, button) {
  const dialog = page.locator(".monaco-dialog-box", { hasText: "virtual environment of this extension's own" });
  await dialog.waitFor();
  const text = await dialog.textContent();
  assert.match(text, /python3 -m venv \S+\/warmline\.warmline\/venv/);
  assert.match(text, /\/venv\/bin\/python -m pip install --upgrade "warmline==\d+\.\d+\.\*"/);
  await picture(page, "install");
  await dialog.getByRole("button", { name: button, exact: true }).click();
  await dialog.waitFor({ state: "detached" });
}

/** Waits for the message that a command failed, and tries again. */
async function again(page, failed) {
  const toast = toastOf(page, failed);
  await toast.waitFor();
  assert.match(await toast.textContent(), /Python 3\.11 or newer with venv.*warmline\.server\.path/s);
  assert.deepEqual(await buttonsOf(toast).allTextContents(), ["Try Again"]);
  await picture(page, "install-failed");
  await buttonsOf(toast).first().click();
  await toast.waitFor({ state: "detached" });
}

await withPage(async (page) => {
  await untilStatus(page, /not installed/);
  const toast = toastOf(page, "neither in this workspace's .venv nor on PATH");
  await toast.waitFor();
  assert.deepEqual(await buttonsOf(toast).allTextContents(), ["Install"]);
  await picture(page, "missing");
  await buttonsOf(toast).first().click();
  await answer(page, "Install");
  await again(page, /python3 -m venv .* failed/); // there is no Python
  symlinkSync(settings.python, path.join(settings.commands, "python3"));
  await answer(page, "Install");
  await again(page, /pip install .* failed/);
  await answer(page, "Install");
  await untilStatus(page, /no variant|acme|cold|warm/);
  await openFile(page, "ledger.py");
  await untilStatus(page, /acme$/);
  const question = toastOf(page, "Load these bytes?");
  await question.waitFor();
  assert.match(await question.textContent(), /acme-style [0-9a-f]{12}\b/);
  await picture(page, "trust-question");
  await question.getByRole("button", { name: "Approve" }).click();
  await untilStatus(page, /acme: (warm|cold)/);
});
console.log("null");
