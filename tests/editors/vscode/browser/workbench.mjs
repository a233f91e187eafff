// The workbench as a person sees it: files, what is typed, ghost text, the status bar, quick picks, messages.
import { picture } from "./page.mjs";

/** Opens a file by a double click in the Explorer, and puts the cursor at its end. */
export async function openFile(page, name) {
  await page.locator(`.explorer-folders-view [aria-label^="${name}"]`).first().dblclick();
  await page.locator(`.tab[data-resource-name="${name}"]`).waitFor();
  await page.locator(".editor-instance .view-line").first().waitFor();
  await toEnd(page);
}

/** Gives the editor the focus, with the cursor at the end of the document. */
export async function toEnd(page) {
  await page.keyboard.press("Escape");
  await page.locator(".editor-instance .view-lines").first().click();
  await page.keyboard.press("Control+End");
}

/** Text of the editor's visible lines, ghost text left out. */
export const editorText = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll(".editor-instance .view-lines .view-line")]
      .sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top))
      .map((line) => {
        const copy = line.cloneNode(true);
        copy.querySelectorAll('[class*="ghost-text"]').forEach((each) => each.remove());
        return copy.textContent.replace(/\u00a0/g, " ");
      })
      .join("\n"),
  );

/** Runs in the page: ghost text as it is now, of all lines; empty without any. */
function ghost() {
  const parts = [...document.querySelectorAll('.editor-instance [class*="ghost-text"]')];
  const outer = parts.filter((part) => !parts.some((other) => other !== part && other.contains(part)));
  return outer.map((part) => part.textContent.replace(/\u00a0/g, " ")).join("");
}

/** Waits for ghost text for which `holds`, a source text of a function of it, is true; gives it. */
export async function untilGhost(page, holds = "(text) => text.trim().length > 0", seconds = 60) {
  const look = `(() => { ${ghost}; const text = ghost(); return (${holds})(text) ? { text } : null; })()`;
  const found = await page.waitForFunction(look, undefined, { timeout: seconds * 1000 });
  return (await found.jsonValue()).text;
}

export const statusItem = (page) => page.locator('.statusbar-item[id*="warmline"]').first();

/** Waits until the status bar's item reads so, as screen readers read it. */
export async function untilStatus(page, pattern, seconds = 60) {
  const found = await page.waitForFunction(
    ([source, flags]) => {
      const item = document.querySelector('.statusbar-item[id*="warmline"]');
      const label = item?.getAttribute("aria-label") ?? item?.querySelector("[aria-label]")?.getAttribute("aria-label");
      return label && new RegExp(source, flags).test(label) ? label : null;
    },
    [pattern.source, pattern.flags],
    { timeout: seconds * 1000 },
  );
  return await found.jsonValue();
}

/** Chooses an entry of the quick pick that is open, by what its label begins with. */
export async function choose(page, label) {
  const row = page.locator(".quick-input-widget .monaco-list-row").filter({ hasText: label }).first();
  await row.waitFor();
  await row.click();
}

/** Lets the pointer rest on the status bar's item; gives the text of what is shown then. */
export async function tooltip(page) {
  await statusItem(page).hover();
  const hover = page.locator(".workbench-hover .hover-contents, .monaco-hover .hover-contents").last();
  await hover.waitFor();
  return (await hover.textContent()).replace(/\u00a0/g, " ");
}

/** Switches the variant by the status bar's menu. */
export async function switchTo(page, name) {
  await statusItem(page).click();
  await choose(page, "Switch variant");
  await page.locator(".quick-input-widget .monaco-list-row").filter({ hasText: name }).first().waitFor();
  await picture(page, `switch-to-${name}`);
  await choose(page, name);
  await untilStatus(page, new RegExp(`\\b${name}: (warm|cold)`));
}

/** Runs a command by the palette, by its title. */
export async function runCommand(page, title) {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input").first().waitFor();
  await page.keyboard.type(title);
  await choose(page, title);
}
