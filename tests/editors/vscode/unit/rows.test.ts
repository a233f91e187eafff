import assert from "node:assert/strict";
import { test } from "node:test";
import type { VariantRow } from "../../../../editors/vscode/src/protocol";
import { exactName, grouped, madeOf, standing } from "../../../../editors/vscode/src/variants/rows";

const row = (name: string, base: string | null, more: Partial<VariantRow> = {}): VariantRow => ({
  name,
  backend: "llama",
  file: `/v/${name}.json`,
  from: "store",
  selected: false,
  base,
  merged_from: null,
  adapters: [],
  kind: "base",
  trust: "user",
  certificate: "none",
  description: "",
  error: null,
  ...more,
});
const BROKEN = row("bad", null, { error: { code: "config.json", message: "no JSON" }, trust: null });

test("variants are grouped by base, broken ones last", () => {
  const groups = grouped([BROKEN, row("z", "qwen"), row("b", "smol"), row("a", "qwen")]);
  assert.deepEqual(
    groups.map(({ base, rows }) => [base, rows.map(({ name }) => name)]),
    [
      ["qwen", ["a", "z"]],
      ["smol", ["b"]],
      ["", ["bad"]],
    ],
  );
});

test("a name that both backends have is made exact", () => {
  const rows = [row("a", "x"), row("a", "x", { backend: "openvino" }), row("b", "x")];
  assert.deepEqual(
    rows.map((each) => exactName(each, rows)),
    ["llama/a", "openvino/a", "b"],
  );
});

test("a row says what it is made of and who vouches for it", () => {
  const adapters = [{ name: "s", scale: "0.5", written: null, trust: "curated" }];
  assert.equal(madeOf(row("a", "x", { adapters })), "x -> s@0.5");
  assert.equal(madeOf(row("a", "x", { merged_from: "y+z" })), "x (y+z)");
  assert.equal(madeOf(BROKEN), "config.json: no JSON");
  assert.equal(standing(row("a", "x", { from: "workspace" })), "user · workspace · llama");
  assert.equal(standing(row("a", "x", { certificate: "void: other base" })), "user · void · yours · llama");
  assert.equal(standing(BROKEN), "broken · yours · llama");
});
