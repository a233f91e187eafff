// Bundles the extension into dist/extension.js and the pages of its views beside it; `--production` makes them small.
// The language client is a bundle of its own, which is loaded once the extension has been activated.
import { build } from "esbuild";

const production = process.argv.includes("--production");
const both = { bundle: true, minify: production, sourcemap: !production, logLevel: "warning" };

await build({
  ...both,
  entryPoints: { extension: "src/extension.ts", "server/client": "src/server/client.ts" },
  outdir: "dist",
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode", "./server/client.js"],
  supported: { "dynamic-import": false }, // `require`, which VS Code sees to
});
await build({
  ...both,
  entryPoints: { chat: "src/chat/webview/main.ts", performance: "src/performance/webview/main.ts" },
  outdir: "dist",
  platform: "browser",
  format: "iife",
  target: "chrome120",
  sourcemap: false, // a page may load its script and its style, no map
});
