// Two windows on one workspace: a switch in one is seen in the other, and both answer. How long the extension took to be
// activated in one is printed.
import assert from "node:assert/strict";
import { picture, settings, withPage } from "./page.mjs";
import { activation, openFile, switchTo, typeHead, untilStatus } from "./workbench.mjs";

const milliseconds = await withPage(async (one) => {
  const two = await one.context().newPage();
  await two.goto(settings.url);
  for (const page of [one, two]) {
    await page.bringToFront();
    await openFile(page, "words.py");
    await untilStatus(page, /acme: (warm|cold)/);
  }
  await one.bringToFront();
  await switchTo(one, "base");
  await untilStatus(two, /base: (warm|cold)/);
  for (const page of [one, two]) {
    await page.bringToFront();
    await openFile(page, "words.py");
    assert((await typeHead(page, "words.py")).length > 0);
  }
  await picture(two, "second-window");
  await switchTo(two, "acme");
  await untilStatus(one, /acme: (warm|cold)/);
  await two.close();
  return await activation(one);
});
console.log(JSON.stringify(milliseconds));
