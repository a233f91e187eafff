// VS Code's Restricted Mode: the person's own default variant runs, not the workspace's; with trust given, that one does.
import assert from "node:assert/strict";
import { existsSync, rmSync } from "node:fs";
import { picture, settings, withPage } from "./page.mjs";
import { openFile, runCommand, tooltip, typeHead, untilStatus } from "./workbench.mjs";

await withPage(async (page) => {
  await openFile(page, "words.py");
  await untilStatus(page, /default: (warm|cold)/);
  assert((await typeHead(page, "words.py")).length > 0);
  await tooltip(page, /Restricted Mode/, /Adapters\s*none/);
  await picture(page, "restricted");
  assert(!existsSync(settings.mark), "the workspace's own command was run");
  rmSync(settings.trap);
  await runCommand(page, "Manage Workspace Trust");
  const editor = page.locator(".workspace-trust-editor");
  await editor.getByRole("button", { name: "Trust", exact: true }).first().click();
  await page.locator('.tab[data-resource-name="words.py"]').click();
  await untilStatus(page, /acme: (warm|cold)/);
  assert.doesNotMatch(await tooltip(page, /acme-style/), /Restricted Mode/);
});
console.log("null");
