/** What can be done with a code block of an answer. */
import { env, Range, Uri, window, workspace, type TextDocument, type TextEditor } from "vscode";
import { rangeOf } from "./attachments";
import { fitted } from "./code";
import type { Exchange } from "./log";
import type { Previews } from "./preview";

/** Inserts code at the cursor of the editor at hand, in place of what is selected there. */
export async function insertCode(code: string): Promise<void> {
  const editor = editorAtHand();
  await editor.edit((edit) => edit.replace(editor.selection, code));
  await window.showTextDocument(editor.document, editor.viewColumn);
}

export async function copyCode(code: string): Promise<void> {
  await env.clipboard.writeText(code);
}

/** Shows code as a change: of the selection that went along with the question, else of what is selected now. */
export async function applyCode(exchange: Exchange, code: string, previews: Previews): Promise<void> {
  const [document, range] = (await asked(exchange)) ?? atHand();
  const eol = document.eol === 2 ? "\r\n" : "\n";
  const replaced = document.getText(range) || document.lineAt(range.start.line).text.slice(0, range.start.character);
  const text = fitted(code, replaced, eol);
  // At a cursor within a line's indentation that is there already.
  const first = range.isEmpty && !replaced.trim() ? text.slice(replaced.length) : text;
  await previews.show(document, range, first, exchange.variant || "the variant");
}

/** Where the selection of the question is now; undefined when it is not there any more, or there was none. */
async function asked({ target }: Exchange): Promise<[TextDocument, Range] | undefined> {
  if (!target?.text) {
    return undefined;
  }
  let document: TextDocument;
  try {
    document = await workspace.openTextDocument(Uri.parse(target.uri, true));
  } catch {
    return undefined; // the file is gone
  }
  const range = document.validateRange(rangeOf(target.span));
  if (document.getText(range) === target.text) {
    return [document, range];
  }
  const whole = document.getText();
  const found = whole.indexOf(target.text);
  if (found < 0 || whole.indexOf(target.text, found + 1) >= 0) {
    return undefined;
  }
  return [document, new Range(document.positionAt(found), document.positionAt(found + target.text.length))];
}

function atHand(): [TextDocument, Range] {
  const { document, selection } = editorAtHand();
  return [document, new Range(selection.start, selection.end)];
}

/** The active editor; with the focus in the view it still is the one that had it last. */
export function editorAtHand(): TextEditor {
  const editor = window.activeTextEditor ?? window.visibleTextEditors[0];
  if (!editor) {
    throw new Error("no editor is open: open the file that is meant");
  }
  return editor;
}
