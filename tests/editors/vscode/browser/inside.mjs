// Opens the workbench so that tests run in its extension host, and stays until they wrote their result.
import { existsSync, watch } from "node:fs";
import * as path from "node:path";
import { settings, withPage } from "./page.mjs";

function written(file, seconds) {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (existsSync(file)) {
        watcher.close();
        clearTimeout(timer);
        resolve();
      }
    };
    const watcher = watch(path.dirname(file), look);
    const timer = setTimeout(() => {
      watcher.close();
      reject(new Error(`no result after ${seconds} s`));
    }, seconds * 1000);
    look();
  });
}

const address = `${settings.url}&payload=${encodeURIComponent(JSON.stringify(settings.payload))}`;
await withPage(() => written(settings.result, settings.within), address);
console.log("null");
