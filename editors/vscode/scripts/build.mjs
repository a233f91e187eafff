// Bundles the extension into dist/extension.js and the pages of its views beside it; `--production` makes them small.
import { build } from "esbuild";

const production = process.argv.includes("--production");
const both = { bundle: true, minify: production, sourcemap: !production, logLevel: "warning" };

await build({
  ...both,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
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
