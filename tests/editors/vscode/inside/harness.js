// What the tests in the extension host share: the extension at work, waiting for what is to be, documents.
const assert = require("node:assert/strict");
const path = require("node:path");
const vscode = require("vscode");

/** Name and body of each test, in order. */
const tests = new Map();

function test(name, body) {
  assert(!tests.has(name), `two tests are called ${name}`);
  tests.set(name, body);
}

/** What a test cannot be run without is not here. */
class Skipped extends Error {}

function skip(why) {
  throw new Skipped(why);
}

const root = () => vscode.workspace.workspaceFolders[0].uri;
const inRoot = (name) => vscode.Uri.joinPath(root(), name);

/** The extension's parts, with a server that runs. */
async function warmline() {
  const parts = await vscode.extensions.getExtension("warmline.warmline").activate();
  const { session } = parts;
  await until(
    "the server runs",
    () => session.server.kind === "running",
    [session.onServer],
    () => JSON.stringify(session.server),
  );
  return parts;
}

/** Waits, by events alone, until something holds; says what there was instead when it takes too long. */
function until(what, holds, events, describe = () => "", seconds = 75) {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      listening.forEach((each) => each.dispose());
    };
    const look = () => {
      const found = holds();
      if (found) {
        end();
        resolve(found);
      }
    };
    const listening = events.map((event) => event(() => setImmediate(look)));
    const timer = setTimeout(() => {
      end();
      reject(new Error(`not within ${seconds} s: ${what}; there is ${describe()}`));
    }, seconds * 1000);
    look();
  });
}

/** Waits for what the status bar shows. */
function untilShown(parts, pattern, seconds) {
  const { session, bar, pauses } = parts;
  const describe = () => JSON.stringify([bar.shown, session.server, session.status]);
  const events = [session.onServer, session.onStatus, pauses.onChange, vscode.window.onDidChangeActiveTextEditor];
  return until(`the status bar shows ${pattern}`, () => pattern.test(bar.shown.text), events, describe, seconds);
}

const untilReady = (parts, variant) =>
  until(
    `${variant} is ready`,
    () => parts.session.status?.variant === variant && parts.session.status.base && parts.session.status.state === "ready",
    [parts.session.onStatus, parts.session.onServer],
    () => JSON.stringify([parts.session.server, parts.session.status]),
  );

let files = 0;

/** Opens a new file of the workspace with this text, which is on disk too, and the cursor at `¶`. */
async function drawn(text) {
  files += 1;
  const uri = inRoot(`typed_${files}.py`);
  const offset = text.indexOf("¶");
  assert(offset >= 0, "no cursor is drawn");
  await vscode.workspace.fs.writeFile(uri, Buffer.from(text.replace("¶", "")));
  const document = await vscode.workspace.openTextDocument(uri);
  const editor = await vscode.window.showTextDocument(document);
  const position = document.positionAt(offset);
  editor.selection = new vscode.Selection(position, position);
  return { document, editor, position, uri };
}

/** The provider that the language client registered for a document; undefined where VS Code would not ask at all. */
const providerOf = (parts, document) =>
  parts.session.client?.getFeature("textDocument/inlineCompletion").getProvider(document);

/** Asks as VS Code does. */
async function ask(parts, document, position, automatic = true, selected = undefined) {
  const context = {
    triggerKind: automatic
      ? vscode.InlineCompletionTriggerKind.Automatic
      : vscode.InlineCompletionTriggerKind.Invoke,
    selectedCompletionInfo: selected,
  };
  const source = new vscode.CancellationTokenSource();
  const provider = providerOf(parts, document);
  const answer = await provider.provideInlineCompletionItems(document, position, context, source.token);
  return Array.isArray(answer) ? answer : (answer?.items ?? []);
}

const write = (name, value) =>
  vscode.workspace.fs.writeFile(
    inRoot(name),
    Buffer.from(typeof value === "string" ? value : `${JSON.stringify(value, null, 2)}\n`),
  );

const read = async (name) => Buffer.from(await vscode.workspace.fs.readFile(inRoot(name))).toString("utf8");

module.exports = { Skipped, assert, ask, drawn, inRoot, path, providerOf, read, root, skip, test, tests, until, untilReady, untilShown, vscode, warmline, write };
