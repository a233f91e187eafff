// How long the extension takes to be activated in so many new windows, one after the other; printed as a list.
import { settings, withPage } from "./page.mjs";
import { activation, untilStatus } from "./workbench.mjs";

const milliseconds = await withPage(async (page) => {
  const found = [];
  for (let window = 0; window < settings.windows; window += 1) {
    await page.goto(settings.url);
    await untilStatus(page, /Warmline/);
    found.push(await activation(page));
  }
  return found;
});
console.log(JSON.stringify(milliseconds));
