// How long the extension takes to be activated, by VS Code's own measure; printed as {"milliseconds": N}.
import assert from "node:assert/strict";
import { picture, withPage } from "./page.mjs";
import { runCommand, untilStatus } from "./workbench.mjs";

const measured = await withPage(async (page) => {
  await untilStatus(page, /Warmline/);
  await runCommand(page, "Show Running Extensions");
  const row = page.locator(".runtime-extensions-editor .monaco-list-row").filter({ hasText: "Warmline" }).first();
  await row.waitFor();
  const shown = await row.locator(".activation-time").textContent();
  await picture(page, "activation");
  const [, milliseconds] = /(\d+)\s*ms/.exec(shown) ?? [];
  assert(milliseconds !== undefined, shown);
  return { milliseconds: Number(milliseconds) };
});
console.log(JSON.stringify(measured));
