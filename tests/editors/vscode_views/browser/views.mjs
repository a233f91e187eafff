// The views of the extension as a person reaches them, and their pages.
import { writeFileSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { SECONDS, settings } from "../../vscode/browser/page.mjs";
import { runCommand, until } from "../../vscode/browser/workbench.mjs";

/** The page of a view, by its title. */
export function pageOf(page, title) {
  return until(`the page ${title}`, async () => {
    for (const frame of page.frames()) {
      if ((await frame.title().catch(() => "")) === title && (await frame.locator("body *").count())) {
        return frame;
      }
    }
    return undefined;
  });
}

/** Saves the file of the active tab. */
export async function save(page, name) {
  const dirty = page.locator(`.tab[data-resource-name="${name}"].dirty`);
  await dirty.waitFor();
  await until(`${name} is saved`, async () => {
    await page.keyboard.press("Control+s");
    return (await dirty.count()) === 0;
  });
}

/** Waits until the extension is there: before, the palette does not list its commands. */
export const started = (page) => page.locator('.statusbar-item[id*="warmline.status"]').waitFor();

/** Opens the chat, and waits until it names the variant. */
export async function openChat(page, variant) {
  await runCommand(page, "Warmline: Open Chat");
  const chat = await pageOf(page, "Warmline Chat");
  if (variant) {
    await until(
      `the chat names ${variant}`,
      async () => (await chat.locator(".variant").textContent()) === variant,
    );
  }
  return chat;
}

/** Asks by typing, and gives the exchange that comes of it. */
export async function ask(chat, text) {
  const before = await chat.locator(".exchange").count();
  await chat.locator("textarea").fill(text);
  await chat.locator("textarea").press("Enter");
  const exchange = chat.locator(".exchange").nth(before);
  await exchange.waitFor();
  return exchange;
}

export const ended = (exchange, seconds = SECONDS) =>
  until("the answer has ended", async () => (await exchange.getAttribute("aria-busy")) === "false", seconds);

/** Changes the workspace's settings as a person does who edits the file. */
export function set(changes) {
  const file = path.join(settings.folder, ".vscode", "settings.json");
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), ...changes }, null, 2));
}

/** The text of the editor at hand, as the model has it: what is drawn has other spaces. */
export const shownText = async (page) =>
  (await page.locator(".editor-instance .view-lines").first().innerText()).replaceAll("\u00a0", " ");
