// The workbench as a person sees it: files, what is typed, ghost text, the status bar, quick picks, messages.
import { picture, SECONDS } from "./page.mjs";

/** Waits until `find` gives something; it is asked again and again, as pages in frames and pop-ups send no events. */
export async function until(what, find, seconds = SECONDS) {
  const end = Date.now() + seconds * 1000;
  let last;
  while (Date.now() < end) {
    try {
      const found = await find();
      if (found) {
        return found;
      }
    } catch (error) {
      last = error; // what is being replaced while it is looked at
    }
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  throw new Error(`not within ${seconds} s: ${what}${last ? ` (${last.message})` : ""}`);
}

/** Opens a file by a double click in the Explorer, which may be drawn anew just then; the cursor is at its end. */
export async function openFile(page, name) {
  const row = page.locator(`.explorer-folders-view [role=treeitem][aria-label^="${name}"]`).first();
  const tab = page.locator(`.tab.active[data-resource-name="${name}"]`);
  await page.locator(".monaco-workbench").waitFor();
  await until(`${name} is open`, async () => {
    if (!(await row.isVisible())) {
      await runCommand(page, "File: Focus on Files Explorer");
    }
    await row.dblclick({ timeout: 5000 });
    await tab.waitFor({ timeout: 5000 });
    return true;
  });
  await page.locator(".editor-instance .view-line").first().waitFor();
  await toEnd(page);
}

/** Gives the editor the focus, with the cursor at the end of the document. */
export async function toEnd(page) {
  await page.keyboard.press("Escape");
  await page.locator(".editor-instance .view-lines").first().click();
  await page.keyboard.press("Control+End");
}

/** Asks for a suggestion at the end of the document, again while none shows: a key may come before the editor listens. */
export async function asked(page) {
  return await until("a suggestion that was asked for", async () => {
    await toEnd(page);
    await page.keyboard.press("Alt+\\");
    return await untilGhost(page, undefined, 10);
  });
}

/** Begin of a function that the examples do not have. */
export const HEAD = "def transfer(";

/** Types a head at the end of an open file as it is on disk, and waits for ghost text; VS Code closes its bracket. */
export async function typeHead(page, name, head = HEAD) {
  const dirty = page.locator(`.tab.dirty[data-resource-name="${name}"]`);
  if (await dirty.count()) {
    await runCommand(page, "File: Revert File");
    await dirty.waitFor({ state: "detached" });
  }
  await toEnd(page);
  await page.keyboard.type(`\n\n${head}`);
  await untilGhost(page);
  return await wholeGhost(page);
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

/** Runs in the page: the parts of ghost text as it is now, in the order of reading; none without any. */
function ghostParts() {
  const parts = [...document.querySelectorAll('.editor-instance [class*="ghost-text"]')];
  const outer = parts.filter((part) => !parts.some((other) => other !== part && other.contains(part)));
  // Later lines are drawn in a zone of their own, which may stand before the first one in the document.
  const place = (part) => part.getBoundingClientRect();
  outer.sort((a, b) => place(a).top - place(b).top || place(a).left - place(b).left);
  return outer.map((part) => part.textContent.replace(/\u00a0/g, " "));
}

/** Runs in the page: ghost text of all lines; where it stands on both sides of real text, that is left out. */
function ghost() {
  return ghostParts().join("");
}

/** Ghost text from the cursor to the end of its line, or to the next real text in it. */
export const ghostAtCursor = (page) => page.evaluate(`(() => { ${ghostParts}; return ghostParts()[0] ?? ""; })()`);

/** Waits for ghost text for which `holds`, a source text of a function of it, is true; gives it. */
export async function untilGhost(page, holds = "(text) => text.trim().length > 0", seconds = SECONDS) {
  const look = `(() => { ${ghostParts}; ${ghost}; const text = ghost(); return (${holds})(text) ? { text } : null; })()`;
  const found = await page.waitForFunction(look, undefined, { timeout: seconds * 1000, polling: 50 });
  return (await found.jsonValue()).text;
}

/** Ghost text as it is once all of it is drawn: later lines come some frames after the first one. */
export async function wholeGhost(page) {
  const look = `(async () => {
    ${ghostParts};
    ${ghost};
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    for (let text = ghost(); ; text = ghost()) {
      for (let frames = 0; frames < 5; frames += 1) await frame();
      if (text === ghost()) return text;
    }
  })()`;
  return await page.evaluate(look);
}

export const statusItem = (page) => page.locator('.statusbar-item[id*="warmline"]').first();

/** Waits until the status bar's item reads so, as screen readers read it. */
export async function untilStatus(page, pattern, seconds = SECONDS) {
  const found = await page.waitForFunction(
    ([source, flags]) => {
      const item = document.querySelector('.statusbar-item[id*="warmline"]');
      const label = item?.getAttribute("aria-label") ?? item?.querySelector("[aria-label]")?.getAttribute("aria-label");
      return label && new RegExp(source, flags).test(label) ? label : null;
    },
    [pattern.source, pattern.flags],
    { timeout: seconds * 1000, polling: 50 },
  );
  return await found.jsonValue();
}

/** Chooses an entry of the quick pick that is open, by what its label begins with. */
export async function choose(page, label) {
  const row = page.locator(".quick-input-widget .monaco-list-row").filter({ hasText: label }).first();
  await row.waitFor();
  await row.click();
}

/** Lets the pointer rest on the status bar's item until what is shown then has all of this; gives its text. */
export async function tooltip(page, ...patterns) {
  const hover = page.locator(".workbench-hover .hover-contents").last();
  let text = "";
  try {
    return await until("the tooltip", async () => {
      await page.mouse.move(300, 300); // an item on which the pointer rests already shows nothing new
      await statusItem(page).hover({ timeout: 5000 });
      await hover.waitFor({ timeout: 5000 });
      text = (await hover.textContent({ timeout: 1000 })).replace(/\u00a0/g, " ");
      return patterns.every((pattern) => pattern.test(text)) && text;
    });
  } catch (error) {
    throw new Error(`${error.message}: ${patterns.join(" ")} in ${text}`);
  }
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

/** Milliseconds that the extension took to be activated, by VS Code's own measure: without the server, which comes later. */
export async function activation(page) {
  await page.setViewportSize({ width: 1100, height: 2400 }); // the list draws no more than what is in sight
  await runCommand(page, "Show Running Extensions");
  const row = page.locator(".runtime-extensions-editor .monaco-list-row").filter({ hasText: "Warmline" }).first();
  await row.waitFor();
  const shown = await row.locator(".activation-time").textContent();
  return Number(/(\d+)\s*ms/.exec(shown)[1]);
}

/** Runs a command by its title; the list closes when an editor that is just being opened takes the focus. */
export async function runCommand(page, title) {
  const input = page.locator(".quick-input-widget input[type=text]").first();
  const row = page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first();
  await until(`the command ${title} is chosen`, async () => {
    await page.keyboard.press("F1");
    await input.fill(`>${title}`, { timeout: 3000 });
    await row.click({ timeout: 5000 });
    return true;
  });
}
