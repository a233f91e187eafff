// Switching, breaking and mending variants; the view; help in the workspace's own files.
const { assert, ask, drawn, inRoot, read, test, until, untilReady, untilShown, vscode, warmline, write } = require("./harness");

const CONFIG = ".warmline/config.json";
const TEXT = "def transfer(¶\n";

test("another variant suggests something else, and says so", async () => {
  const parts = await warmline();
  const { document, position } = await drawn(TEXT);
  await untilReady(parts, "acme");
  const before = { text: (await ask(parts, document, position, false))[0].insertText, ...parts.session.status };
  await parts.switcher.select("base", document.uri);
  await untilReady(parts, "base");
  const text = (await ask(parts, document, position, false))[0].insertText;
  assert.notEqual(text, before.text);
  assert.notEqual(parts.session.status.identity, before.identity);
  assert.equal(parts.session.status.base.digest, before.base.digest);
  assert.match(parts.bar.shown.tooltip, /Adapters \| none/);
  await parts.switcher.select("acme", document.uri);
  await untilReady(parts, "acme");
  assert.equal((await ask(parts, document, position, false))[0].insertText, before.text);
  assert.match(parts.bar.shown.tooltip, /acme&#45;style/);
});

test("after twenty rapid switches the last one holds, and is what is shown", async () => {
  const parts = await warmline();
  const { document, position } = await drawn(TEXT);
  const names = Array.from({ length: 20 }, (_, i) => ["base", "fim-python", "acme"][i % 3]);
  await Promise.all(names.map((name) => parts.switcher.select(name, document.uri)));
  const last = names.at(-1);
  assert.equal(JSON.parse(await read(CONFIG)).variant, last);
  await untilReady(parts, last);
  await untilShown(parts, new RegExp(`${last}: (warm|cold)$`));
  assert((await ask(parts, document, position, false)).length > 0);
  await parts.switcher.select("acme", document.uri);
  await untilReady(parts, "acme");
});

test("a broken variant is an error that says what to do, and goes when it is mended", async () => {
  const parts = await warmline();
  const { document, position } = await drawn(TEXT);
  const file = ".warmline/variants/acme.json";
  const good = await read(file);
  await untilReady(parts, "acme");
  await write(file, good.replace('"scale"', '"scael"'));
  try {
    await untilShown(parts, /^\$\(error\) acme$/);
    assert.equal(parts.bar.shown.level, "error");
    assert.match(parts.bar.shown.tooltip, /config&#46;unknown&#95;field/);
    assert.match(parts.bar.shown.tooltip, /Fix:/);
    assert.deepEqual(await ask(parts, document, position, false), []);
  } finally {
    await write(file, good);
  }
  await untilReady(parts, "acme");
  await untilShown(parts, /acme: (warm|cold)$/);
  assert((await ask(parts, document, position, false)).length > 0);
});

test("the view lists bases, their variants, and the adapters of those", async () => {
  const parts = await warmline();
  await drawn(TEXT);
  const broken = ".warmline/variants/broken.json";
  await write(broken, { name: "broken" });
  try {
    const bases = await parts.tree.getChildren();
    const items = bases.map((node) => parts.tree.getTreeItem(node));
    assert.equal(items.length, 2);
    assert.match(items[0].label, /^smollm2/);
    assert.equal(items[1].label, "Cannot be used");
    const variants = await parts.tree.getChildren(bases[0]);
    const shown = variants.map((node) => parts.tree.getTreeItem(node));
    assert.deepEqual(shown.map((item) => item.label), ["acme", "base", "fim-python"]);
    assert.match(shown[0].description, /workspace/);
    assert.equal(shown[0].iconPath.id, "pass-filled");
    const [adapter] = await parts.tree.getChildren(variants[0]);
    assert.equal(parts.tree.getTreeItem(adapter).label, "acme-style");
    const [bad] = await parts.tree.getChildren(bases[1]);
    assert.equal(parts.tree.getTreeItem(bad).iconPath.id, "error");
    assert.match(parts.tree.getTreeItem(bad).contextValue, /broken/);
  } finally {
    await vscode.workspace.fs.delete(inRoot(broken));
  }
});

test("a variant's file has lenses, provenance, and words for its fields", async () => {
  const parts = await warmline();
  await drawn(TEXT);
  await untilReady(parts, "acme");
  const document = await vscode.workspace.openTextDocument(inRoot(".warmline/variants/base.json"));
  await vscode.window.showTextDocument(document);
  const lenses = await vscode.commands.executeCommand("vscode.executeCodeLensProvider", document.uri, 20);
  assert(lenses.some((lens) => lens.command?.title === "Use base in this workspace"), JSON.stringify(lenses));
  const hovers = await vscode.commands.executeCommand("vscode.executeHoverProvider", document.uri, new vscode.Position(1, 4));
  const text = hovers.flatMap((hover) => hover.contents.map((content) => content.value)).join("\n");
  assert.match(text, /Identity/);
  for (const hover of hovers) {
    for (const content of hover.contents) {
      assert(!content.isTrusted);
    }
  }
});

test("the schema is at work in the workspace's own files", async () => {
  await warmline();
  const good = await read(CONFIG);
  const document = await vscode.workspace.openTextDocument(inRoot(CONFIG));
  const editor = await vscode.window.showTextDocument(document);
  const ofSchema = () => vscode.languages.getDiagnostics(document.uri).filter((each) => /wrong_name/.test(each.message));
  await editor.edit((edit) => edit.insert(new vscode.Position(0, 1), '"wrong_name": 1,'));
  try {
    await until("the schema refuses a field", () => ofSchema().length > 0, [vscode.languages.onDidChangeDiagnostics]);
  } finally {
    await vscode.commands.executeCommand("workbench.action.files.revert");
    assert.equal(document.getText(), good);
  }
});
