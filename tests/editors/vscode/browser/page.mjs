// A browser at a VS Code server, and how the tests look at it.
import { createRequire } from "node:module";
import { mkdirSync } from "node:fs";
import * as path from "node:path";

const require = createRequire(`${process.env.PLAYWRIGHT_MODULES}/`);
const { chromium } = require("playwright-core");

export const settings = JSON.parse(process.argv[2]);
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** Longest wait for anything; a machine that builds and decodes beside this is slow. */
export const SECONDS = 75;
const START_SECONDS = 60;
const CLOSE_SECONDS = 15;

/** Opens the workbench, does something with the page, closes the browser whatever came of it. */
export async function withPage(act, address = settings.url) {
  const browser = await launched();
  try {
    const context = await browser.newContext({ viewport: { width: 1100, height: 640 } });
    const page = await context.newPage();
    page.setDefaultTimeout(SECONDS * 1000);
    await page.goto(address);
    try {
      return await act(page);
    } catch (error) {
      await picture(page, `failure-${path.basename(process.argv[1], ".mjs")}`).catch((trouble) => console.error(String(trouble)));
      throw error;
    }
  } finally {
    await Promise.race([browser.close(), new Promise((resolve) => setTimeout(resolve, CLOSE_SECONDS * 1000).unref())]);
    // One that does not close must not keep this process: the browser ends with it.
    setTimeout(() => process.exit(), 1000).unref();
  }
}

/** A browser; one that fails to start says nothing about the extension, so that is tried once more. */
async function launched() {
  const start = () => chromium.launch({ executablePath: settings.chromium, args: FLAGS, timeout: START_SECONDS * 1000 });
  return await start().catch(start);
}

/** Keeps a picture among the test's artefacts. */
export async function picture(page, name, options = {}) {
  if (settings.pictures) {
    mkdirSync(settings.pictures, { recursive: true });
    await page.screenshot({ path: path.join(settings.pictures, `${name}.png`), ...options });
  }
}
