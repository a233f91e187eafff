import assert from "node:assert/strict";
import { test } from "node:test";
import { kindOf } from "../../../../editors/vscode/src/documents";
import { escape, plain } from "../../../../editors/vscode/src/markdown";
import type { StatusReport } from "../../../../editors/vscode/src/protocol";
import { view, type Known } from "../../../../editors/vscode/src/status/view";

const STATUS: StatusReport = {
  state: "ready",
  variant: "acme",
  chat: "",
  identity: `sha256:${"a".repeat(64)}`,
  base: { name: "smol", digest: `sha256:${"b".repeat(64)}`, source: "", trust: "user", merged_from: null },
  adapters: [
    {
      name: "style",
      digest: `sha256:${"c".repeat(64)}`,
      scale: "1",
      effective_scale: "2",
      trust: "curated",
      verified: false,
      source: "here",
      declared_base: "",
      effect: null,
    },
  ],
  backend: { name: "llama.cpp", version: "1" },
  context: { n_ctx: 4096, clamped: false },
  last: null,
  certificate: "none",
  suggestion: null,
  suggestion_text: "",
  error: null,
};
const LAST = {
  reused_tokens: 9,
  prompt_tokens: 10,
  reason: "warm",
  ttft_ms: 12.4,
  total_ms: 88,
  warmth: "warm",
  sources: [],
};
const KNOWN: Known = {
  server: { kind: "running", path: "/w", version: "1" },
  status: STATUS,
  percent: undefined,
  paused: undefined,
  kind: "served",
  scheme: "file",
  trusted: true,
};
const shown = (change: Partial<Known>, status: Partial<StatusReport> = {}) =>
  view({ ...KNOWN, status: { ...STATUS, ...status }, ...change });

test("one word says how warm it is", () => {
  assert.equal(shown({}).text, "$(sparkle) acme: cold");
  assert.equal(shown({}, { last: LAST }).text, "$(flame) acme: warm");
  assert.equal(shown({}, { last: { ...LAST, reused_tokens: 0 } }).text, "$(sparkle) acme: cold");
  assert.equal(shown({ percent: 41.6 }, { state: "loading" }).text, "$(loading~spin) acme: loading 42%");
  assert.equal(shown({}, { state: "loading" }).text, "$(loading~spin) acme: loading");
  assert.equal(shown({}, { variant: "" }).text, "$(circle-slash) Warmline: no variant");
});

test("a server that does not run says so, whatever it said before", () => {
  assert.equal(shown({ server: { kind: "starting" } }).text, "$(loading~spin) Warmline");
  for (const [trouble, text] of [
    [{ kind: "missing", configured: "", searched: [] }, "$(error) Warmline: not installed"],
    [{ kind: "old", path: "/w", configured: false, version: "0", minimum: "1" }, "$(error) Warmline: too old"],
    [{ kind: "broken", path: "/w", configured: false, message: "m" }, "$(error) Warmline: broken"],
    [{ kind: "crashed", message: "m", retryInSeconds: 2 }, "$(sync-ignored) Warmline: restarting"],
  ] as const) {
    const found = shown({ server: { kind: "trouble", trouble: { ...trouble } as never } });
    assert.equal(found.text, text);
    assert.notEqual(found.level, "ok");
    assert(!found.tooltip.includes("acme"));
  }
});

test("an error outdoes a pause, and another file system both", () => {
  const error = { code: "config.field", message: "no", file: "/a.json", field: "scale", remedy: "Write 1" };
  const found = shown({ paused: "file" }, { error });
  assert.equal(found.text, "$(error) acme");
  assert.match(found.tooltip, /Fix: Write 1/);
  assert.equal(shown({ paused: "file" }).text, "$(debug-pause) acme");
  assert.equal(shown({ kind: "foreign", scheme: "ftp" }, { error }).text, "$(circle-slash) Warmline: off here");
});

test("the tooltip has the provenance of each part", () => {
  const { tooltip } = shown({}, {
    last: LAST,
    suggestion: "repeats-closer",
    suggestion_text: "would close it twice",
    certificate: "void: the base changed",
  });
  for (const part of ["smol", "style", "curated", "unverified", "effective 2", "first token 12 ms", "would close it twice", "void&#58; the base changed"]) {
    assert(tooltip.includes(part), `${part} in ${tooltip}`);
  }
  assert(!tooltip.includes("repeats"), "no code where there are words");
  for (const certificate of ["none", ""]) {
    assert(!shown({}, { certificate }).tooltip.includes("Certificate"));
  }
  assert.match(shown({ trusted: false }).tooltip, /Restricted Mode/);
});

test("the tooltip names the variant to chat with where it is another", () => {
  assert.match(shown({}, { chat: "talker" }).tooltip, /Chat works with.*talker/);
  assert(!shown({}).tooltip.includes("Chat works with"));
});

test("the tooltip names the other documents of which text went along", () => {
  const sources = ["src/a.py", "src/b<c>.py (declarations)"];
  const { tooltip } = shown({}, { last: { ...LAST, sources } });
  assert(tooltip.includes(`| Sent along | ${sources.map(escape).join(", ")} |`), tooltip);
  assert(!shown({}, { last: LAST }).tooltip.includes("Sent along"));
});

test("screen readers hear no icons", () => {
  assert.equal(shown({}).spoken, "Warmline, acme: cold");
  assert.equal(shown({ server: { kind: "starting" } }).spoken, "Warmline, Warmline");
});

const HOSTILE = "[x](command:evil) <img src=x> `a` $(flame) **b** |c|\n\n# d\u202e\u0007";

test("names from artifacts are text and nothing else", () => {
  const { text, tooltip } = shown({}, { variant: HOSTILE, base: { ...STATUS.base!, name: HOSTILE, source: HOSTILE } });
  assert.equal(text.match(/\$\(/g)?.length, 1);
  assert(!/[\u202e\u0007\n]/.test(text));
  for (const part of ["](", "<img", "`a`", "**b**", "$(flame)", "|c|", "\n# d", "command:evil"]) {
    assert(!tooltip.includes(part), part);
  }
});

test("escaped text is what it was, once Markdown's references are read", () => {
  const read = escape(HOSTILE).replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)));
  assert.equal(read, plain(HOSTILE));
});

test("documents are served, of another file system, or VS Code's own", () => {
  for (const [scheme, kind] of [
    ["file", "served"],
    ["untitled", "served"],
    ["vscode-vfs", "foreign"],
    ["ftp", "foreign"],
    ["git", "foreign"],
    ["output", "internal"],
    ["vscode-settings", "internal"],
    ["warmline-report", "internal"],
  ] as const) {
    assert.equal(kindOf({ scheme }), kind, scheme);
  }
});
