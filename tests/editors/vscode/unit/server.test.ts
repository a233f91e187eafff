import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff } from "../../../../editors/vscode/src/server/backoff";
import { candidates } from "../../../../editors/vscode/src/server/find";
import { commandsFor, requirementOf, shown } from "../../../../editors/vscode/src/server/recipe";
import { isAtLeast, parseVersion } from "../../../../editors/vscode/src/server/version";

test("a version is read only from what the server prints", () => {
  assert.equal(parseVersion("warmline 0.1.0\n"), "0.1.0");
  assert.equal(parseVersion("a warning\nwarmline 1.10\n"), "1.10");
  assert.equal(parseVersion("warmline 2.0rc1"), "2.0rc1");
  for (const other of ["", "hello", "0.1.0", "warmline", "xwarmline 0.1.0", "warmline one"]) {
    assert.equal(parseVersion(other), undefined);
  }
});

test("versions are compared by their numbers", () => {
  for (const [version, minimum, enough] of [
    ["0.1.0", "0.1.0", true],
    ["0.10.0", "0.9.9", true],
    ["0.9.9", "0.10.0", false],
    ["1.0", "1.0.0", true],
    ["1", "1.0.1", false],
    ["0.2.0rc1", "0.2.0", true],
    ["0.2.0.dev3", "0.1.9", true],
  ] as const) {
    assert.equal(isAtLeast(version, minimum), enough, `${version} ${minimum}`);
  }
});

test("waits grow to a minute, and begin anew after a long life", () => {
  const backoff = new Backoff();
  const waits = Array.from({ length: 10 }, () => backoff.ended(1));
  assert.deepEqual(waits, [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
  assert.equal(backoff.ended(3600), 0.5);
  assert.equal(backoff.count, 1);
});

const PLACES = { configured: "", folders: ["/ws"], ownVenv: "/own", searchPath: "bin:/usr/bin:.:/opt", windows: false };

test("the workspace's own server comes first, PATH last, and no relative entry of it", () => {
  assert.deepEqual(candidates(PLACES), [
    "/ws/.venv/bin/warmline",
    "/own/bin/warmline",
    "/usr/bin/warmline",
    "/opt/warmline",
  ]);
});

test("a workspace that is not trusted has no server of its own", () => {
  assert(!candidates({ ...PLACES, folders: [] }).some((each) => each.includes(".venv")));
});

test("a configured path is the only one", () => {
  assert.deepEqual(candidates({ ...PLACES, configured: "/x/warmline" }), ["/x/warmline"]);
});

test("Windows has other folders", () => {
  const places = { ...PLACES, folders: ["C:\\ws"], ownVenv: "C:\\own", searchPath: "C:\\bin;bin", windows: true };
  assert.deepEqual(candidates(places), [
    "C:\\ws\\.venv\\Scripts\\warmline.exe",
    "C:\\own\\Scripts\\warmline.exe",
    "C:\\bin\\warmline.exe",
  ]);
});

test("a server of the extension's own version is installed, in an environment of its own", () => {
  const target = { venv: "/own storage/venv", requirement: requirementOf("0.3.7") };
  assert.equal(target.requirement, "warmline==0.3.*");
  assert.deepEqual(commandsFor(target, false, false).map(shown), [
    'python3 -m venv "/own storage/venv"',
    '"/own storage/venv/bin/python" -m pip install --upgrade "warmline==0.3.*"',
  ]);
  assert.deepEqual(commandsFor(target, true, false)[0], ["python3", "-m", "venv", "--clear", "/own storage/venv"]);
  const windows = commandsFor({ ...target, venv: "C:\\own\\venv" }, false, true);
  assert.deepEqual(windows.map(([command]) => command), ["python", "C:\\own\\venv\\Scripts\\python.exe"]);
  assert.equal(shown(windows[0]!), "python -m venv C:\\own\\venv");
});
