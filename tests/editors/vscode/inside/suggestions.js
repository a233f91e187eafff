// Suggestions of the real variant, and when the server is not asked.
const { assert, ask, drawn, inRoot, providerOf, test, untilReady, untilShown, vscode, warmline } = require("./harness");

const LEDGER = `from ledger import Ledger


def transfer(¶
`;

async function suggested() {
  const parts = await warmline();
  const { document, editor, position } = await drawn(LEDGER);
  await untilReady(parts, "acme");
  const items = await ask(parts, document, position, false);
  assert(items.length > 0, JSON.stringify(parts.session.status));
  return { parts, document, editor, position, items, rest: restOf(document, items[0]) };
}

const restOf = (document, item) => item.insertText.slice(document.getText(item.range).length);

const typed = (text) => vscode.commands.executeCommand("type", { text });

/** Opens a document in which the model has several different suggestions for who asks; a model may be sure of one. */
async function ambiguous(parts) {
  for (const head of ["limit = ", "name = ", "for entry in ", "from acme import ", "assert ", "print("]) {
    const { document, position } = await drawn(`from ledger import Ledger\n\n${head}¶\n`);
    await untilReady(parts, "acme");
    const items = await ask(parts, document, position, false);
    if (items.length > 1) {
      return { document, items };
    }
  }
  throw new Error("there is one suggestion everywhere");
}

test("who asks gets several different ones", async () => {
  const { items } = await ambiguous(await warmline());
  assert.equal(new Set(items.map((item) => item.insertText)).size, items.length);
});

test("VS Code shows one after the other, and the one that is accepted is inserted and counted", async () => {
  const parts = await warmline();
  const accepted = async () => {
    const { variants } = await parts.session.execute("warmline.statistics");
    return variants.find((each) => each.variant === "acme")?.accepted ?? 0;
  };
  const { document, items } = await ambiguous(parts);
  const before = await accepted();
  // By VS Code's own commands, which its keys and the buttons of a suggestion are bound to.
  const act = (name) => vscode.commands.executeCommand(`editor.action.inlineSuggest.${name}`);
  await act("trigger");
  await act("showNext");
  await act("commit");
  assert.equal(document.getText(), `from ledger import Ledger\n\n${items[1].insertText}\n`);
  assert.equal(await accepted(), before + 1);
  // The other tests ask for one: further ones would take seconds each time, and tell them nothing.
  const settings = vscode.workspace.getConfiguration("warmline");
  await settings.update("suggest.candidates", 1, vscode.ConfigurationTarget.Workspace);
});

test("the workspace's variant suggests", async () => {
  const { document, items, position, rest } = await suggested();
  assert(rest.trim().length > 0);
  assert(items[0].range.isSingleLine);
  assert(items[0].range.end.isEqual(position));
  assert(items[0].insertText.startsWith(document.getText(items[0].range)));
  assert.equal(items[0].command.command, "warmline.accepted");
});

test("typing along asks nobody", async () => {
  const { parts, document, editor, rest } = await suggested();
  const asked = parts.suggestions.asked;
  await typed(rest[0]);
  const [item] = await ask(parts, document, editor.selection.active);
  assert.equal(restOf(document, item), rest.slice(1));
  assert.equal(parts.suggestions.asked, asked);
});

test("typing something else asks", async () => {
  const { parts, document, editor, rest } = await suggested();
  const asked = parts.suggestions.asked;
  await typed(rest[0] === "q" ? "z" : "q");
  await ask(parts, document, editor.selection.active);
  assert(parts.suggestions.asked > asked);
});

test("nothing is asked while suggestions are paused", async () => {
  const { parts, document, position } = await suggested();
  for (const scope of ["everywhere", "language", "file"]) {
    const asked = parts.suggestions.asked;
    await parts.pauses.pause(scope, document);
    await untilShown(parts, /^\$\(debug-pause\) acme$/);
    assert.deepEqual(await ask(parts, document, position), []);
    assert.equal(parts.suggestions.asked, asked);
    await parts.pauses.resume(document);
    await untilShown(parts, /acme: (warm|cold)$/);
    assert((await ask(parts, document, position, false)).length > 0);
  }
});

test("a pause of a language is none of another one", async () => {
  const { parts, document, position } = await suggested();
  await vscode.workspace.fs.writeFile(inRoot("notes.md"), Buffer.from("# Notes\n"));
  const other = await vscode.workspace.openTextDocument(inRoot("notes.md"));
  await parts.pauses.pause("language", other);
  try {
    assert((await ask(parts, document, position, false)).length > 0);
  } finally {
    await parts.pauses.resume(other);
  }
});

test("a suggestion begins with what the suggest widget has selected", async () => {
  const { parts, document, position } = await suggested();
  const selected = { range: new vscode.Range(position, position), text: "ledger_of_the_bank" };
  const items = await ask(parts, document, position, true, selected);
  for (const item of items) {
    assert(item.insertText.startsWith(selected.text), item.insertText);
  }
});

test("a document of another file system is said to be off, and nobody is asked", async () => {
  const parts = await warmline();
  const content = { provideTextDocumentContent: () => "def far(" };
  const registered = vscode.workspace.registerTextDocumentContentProvider("elsewhere", content);
  try {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse("elsewhere://host/far.py"));
    await vscode.languages.setTextDocumentLanguage(document, "python");
    await vscode.window.showTextDocument(document);
    await untilShown(parts, /Warmline: off here/);
    assert.match(parts.bar.shown.tooltip, /elsewhere/);
    assert.equal(providerOf(parts, document), undefined);
  } finally {
    registered.dispose();
  }
  await drawn(LEDGER);
  await untilShown(parts, /acme/);
});
