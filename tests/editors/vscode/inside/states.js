// A server that is missing, too old, broken, or killed: a clear state each, and a way back.
const { execFileSync } = require("node:child_process");
const { chmodSync, existsSync, unlinkSync, writeFileSync } = require("node:fs");
const os = require("node:os");
const { assert, ask, drawn, inRoot, path, skip, test, until, untilReady, untilShown, vscode, warmline } = require("./harness");

const TEXT = "def transfer(¶\n";

/** Sets the server's path while something is done. */
async function configured(value, act) {
  const set = (to) =>
    vscode.workspace.getConfiguration("warmline").update("server.path", to, vscode.ConfigurationTarget.Workspace);
  await set(value);
  try {
    return await act();
  } finally {
    await set(undefined);
  }
}

function script(name, body) {
  const file = path.join(process.env.WARMLINE_TEST_SCRATCH, name);
  writeFileSync(file, `#!/bin/sh\n${body}\n`);
  chmodSync(file, 0o755);
  return file;
}

const back = (parts) => untilShown(parts, /acme: (warm|cold)$/);

test("a PATH without the server is said, and mended without a reload", async () => {
  const parts = await warmline();
  await drawn(TEXT);
  const before = process.env.PATH;
  process.env.PATH = os.tmpdir();
  try {
    await parts.session.restart();
    assert.match(parts.bar.shown.text, /Warmline: not installed/);
    assert.equal(parts.bar.shown.level, "error");
    assert.equal(parts.session.status, undefined);
    await assert.rejects(parts.session.execute("warmline.status"), /not running/);
  } finally {
    process.env.PATH = before;
  }
  await parts.session.restart();
  await back(parts);
});

test("starts that overtake each other end with one server", async () => {
  const parts = await warmline();
  const { document, position } = await drawn(TEXT);
  await Promise.all([parts.session.restart(), parts.session.restart(), parts.session.restart()]);
  await until("it runs", () => parts.session.server.kind === "running", [parts.session.onServer]);
  await back(parts);
  assert((await ask(parts, document, position, false)).length > 0);
});

test("a server that is too old is not started", async () => {
  const parts = await warmline();
  const old = script("old", 'touch "$0.ran-$1"; echo "warmline 0.0.9"');
  await configured(old, async () => {
    await untilShown(parts, /Warmline: too old/);
    assert.match(parts.bar.shown.tooltip, /0&#46;0&#46;9/);
  });
  assert(!existsSync(`${old}.ran-lsp`));
  await back(parts);
});

test("a command that is no server is said to be broken", async () => {
  const parts = await warmline();
  await configured(script("other", "echo hello"), () => untilShown(parts, /Warmline: broken/));
  await configured(script("failing", "echo 'no such module' >&2; exit 3"), async () => {
    await untilShown(parts, /Warmline: broken/);
    assert.match(parts.bar.shown.tooltip, /no such module/);
  });
  await back(parts);
});

test("a configured path without a file is not replaced by another server", async () => {
  const parts = await warmline();
  await configured("/nowhere/warmline", async () => {
    await untilShown(parts, /Warmline: not installed/);
    assert.match(parts.bar.shown.tooltip, /nowhere/);
  });
  await back(parts);
});

test("a server that ends at once is started again with growing waits, and not for ever at full speed", async () => {
  const parts = await warmline();
  const waits = [];
  const noting = parts.session.onServer((state) => {
    if (state.kind === "trouble" && state.trouble.kind === "crashed") {
      waits.push(state.trouble.retryInSeconds);
    }
  });
  const dying = script("dying", '[ "$1" = lsp ] && exit 7; echo "warmline 9.0.0"');
  try {
    await configured(dying, () =>
      until("three ends", () => waits.length >= 3, [parts.session.onServer], () => JSON.stringify(waits)),
    );
  } finally {
    noting.dispose();
  }
  assert.deepEqual(waits.slice(0, 3), [0.5, 1, 2]);
  await back(parts);
});

test("a server that is killed while one types comes back, and suggests", async () => {
  const parts = await warmline();
  const { document, editor, position } = await drawn(TEXT);
  await untilReady(parts, "acme");
  const states = [];
  const noting = parts.session.onServer(() => states.push(parts.bar.shown.text));
  const running = parts.session.client.serverProcess.pid;
  const pending = ask(parts, document, position, false).catch(() => []);
  process.kill(running, "SIGKILL");
  await vscode.commands.executeCommand("type", { text: "l" });
  await pending;
  await until("it restarts", () => states.some((text) => /restarting/.test(text)), [parts.session.onServer], () => states.join());
  await vscode.commands.executeCommand("type", { text: "e" });
  await until("it runs", () => parts.session.server.kind === "running", [parts.session.onServer]);
  noting.dispose();
  assert.notEqual(parts.session.client.serverProcess.pid, running);
  await back(parts);
  // What was typed while no server was there is known to the new one.
  const [item] = await ask(parts, document, editor.selection.active, false);
  assert(item.insertText.startsWith("def transfer(le"), item.insertText);
});

/** Makes a folder one that nobody can write to, root neither, while something is done. */
async function readOnly(folder, act) {
  const probe = path.join(folder, "probe");
  const flag = (value) => execFileSync("chattr", [value, folder], { stdio: "ignore" });
  let undo = () => chmodSync(folder, 0o755);
  chmodSync(folder, 0o555);
  try {
    writeFileSync(probe, "");
    unlinkSync(probe);
    chmodSync(folder, 0o755);
    flag("+i");
    undo = () => flag("-i");
    writeFileSync(probe, "");
    undo();
    undo = () => {};
    skip("no folder can be made read-only here");
  } catch (error) {
    if (!["EACCES", "EPERM", "EROFS"].includes(error.code)) {
      undo();
      throw error;
    }
  }
  try {
    return await act();
  } finally {
    undo();
  }
}

test("in a read-only folder suggestions go on, and a switch says why it is none", async () => {
  const parts = await warmline();
  const { document, position } = await drawn(TEXT);
  await untilReady(parts, "acme");
  await readOnly(inRoot(".warmline").fsPath, async () => {
    await assert.rejects(parts.switcher.select("base", document.uri), /config\.json|not permitted|read-only|denied/i);
    assert.equal(parts.session.status.variant, "acme");
    assert((await ask(parts, document, position, false)).length > 0);
    await untilShown(parts, /acme: (warm|cold)$/);
  });
  await parts.switcher.select("base", document.uri);
  await untilReady(parts, "base");
  await parts.switcher.select("acme", document.uri);
  await untilReady(parts, "acme");
});
