// No server: one message with one button, which installs it where the person sees it. Then what the workspace brings is
// asked about, by digest, and only once that is approved its variant answers.
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
  await untilStatus(page, /acme$/);
  const question = page.locator(".notification-toast").filter({ hasText: "Load these bytes?" });
  await question.waitFor();
  assert.match(await question.textContent(), /acme-style [0-9a-f]{12}\b/);
  await picture(page, "trust-question");
  await question.getByRole("button", { name: "Approve" }).click();
  await untilStatus(page, /acme: (warm|cold)/);
});
console.log("null");
