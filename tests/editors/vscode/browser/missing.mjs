// No server: one message with one button, which installs it where the person sees it; then it runs.
import assert from "node:assert/strict";
import { picture, withPage } from "./page.mjs";
import { openFile, untilStatus } from "./workbench.mjs";

await withPage(async (page) => {
  await untilStatus(page, /not installed/);
  const toast = page.locator(".notification-toast").filter({ hasText: "is not installed" });
  await toast.waitFor();
  const buttons = toast.locator(".notification-list-item-buttons-container .monaco-button");
  assert.deepEqual(await buttons.allTextContents(), ["Install"]);
  await picture(page, "missing");
  await buttons.first().click();
  await untilStatus(page, /no variant|acme|cold|warm/);
  await openFile(page, "ledger.py");
  await untilStatus(page, /acme: (warm|cold)/);
  await picture(page, "installed");
});
console.log("null");
