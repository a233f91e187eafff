/** The conversation's file: whole whatever happens, for its owner alone, and none that stops anything. */
import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { Kept } from "../../../../editors/vscode/src/chat/kept";

function inFolder(act: (folder: string) => void): void {
  const top = mkdtempSync(path.join(tmpdir(), "kept-"));
  try {
    act(path.join(top, "not", "there yet"));
  } finally {
    rmSync(top, { recursive: true });
  }
}

test("what was kept last is there for the next window, and nothing else", () => {
  inFolder((folder) => {
    const kept = new Kept(folder);
    assert.equal(kept.read(), undefined);
    kept.write({ said: "one" });
    kept.write({ said: "two \u202e" });
    assert.deepEqual(new Kept(folder).read(), { said: "two \u202e" });
    assert.deepEqual(readdirSync(folder), ["chat.json"]);
    assert.equal(statSync(path.join(folder, "chat.json")).mode & 0o777, 0o600);
  });
});

test("a file that is no JSON counts as none", () => {
  inFolder((folder) => {
    const kept = new Kept(folder);
    kept.write([]);
    writeFileSync(path.join(folder, "chat.json"), '{"said": "tw');
    assert.equal(kept.read(), undefined);
  });
});

test("what cannot be written leaves what was there", () => {
  inFolder((folder) => {
    const kept = new Kept(folder);
    kept.write("old");
    const circle: { self?: object } = {};
    circle.self = circle;
    assert.throws(() => kept.write(circle));
    assert.equal(JSON.parse(readFileSync(path.join(folder, "chat.json"), "utf8")), "old");
    writeFileSync(path.join(folder, "file"), "");
    chmodSync(path.join(folder, "file"), 0o400);
    assert.throws(() => new Kept(path.join(folder, "file")).write("new"), /EEXIST|ENOTDIR/);
  });
});
