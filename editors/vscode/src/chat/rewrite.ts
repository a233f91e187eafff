/** Edit and Fix on a selection: the variant's rewriting, shown as a change to apply or discard. */
import { languages, ProgressLocation, Uri, window, workspace, type TextEditor } from "vscode";
import type { Rewrite } from "../protocol";
import type { Session } from "../session";
import { rangeOf, selectionOf } from "./attachments";
import { faultOf } from "./fault";
import type { Previews } from "./preview";

const MOST_DIAGNOSTICS = 20;
const WHY_NOT: Readonly<Record<string, string>> = {
  "no-code": "the answer has no code in it",
  unchanged: "the variant would leave the code as it is",
  length: "the new text would be longer than warmline.chat.editTokens allows",
  "document-changed": "the code has changed meanwhile",
};

/** Asks what is to be done, and shows the rewritten selection. */
export async function editSelection(editor: TextEditor, session: Session, previews: Previews): Promise<void> {
  const chip = selectionOf(editor);
  const instruction = await window.showInputBox({
    title: "Warmline: Edit Selection",
    prompt: "What is to be done with the selected code?",
    placeHolder: "Rename x to total and add type hints",
  });
  if (instruction?.trim()) {
    await rewrite("warmline.edit", { ...about(chip), instruction: instruction.trim() }, session, previews);
  }
}

/** Shows the selection rewritten so that what is reported about it is right. */
export async function fixSelection(editor: TextEditor, session: Session, previews: Previews): Promise<void> {
  const chip = selectionOf(editor);
  const range = rangeOf(chip.span);
  const diagnostics = languages
    .getDiagnostics(editor.document.uri)
    .filter((each) => each.range.intersection(range))
    .slice(0, MOST_DIAGNOSTICS)
    .map((each) => `line ${each.range.start.line + 1}: ${each.message}`);
  await rewrite("warmline.fix", { ...about(chip), diagnostics }, session, previews);
}

async function rewrite(command: string, argument: object, session: Session, previews: Previews): Promise<void> {
  const options = { location: ProgressLocation.Notification, cancellable: true, title: "Warmline: writing…" };
  const answer = await window.withProgress(options, async (_progress, token) => {
    try {
      return await session.execute<Rewrite>(command, argument, token);
    } catch (error) {
      if (token.isCancellationRequested) {
        return undefined;
      }
      const { notice, remedy } = faultOf(error, false);
      throw new Error(`${notice} ${remedy}`.trim());
    }
  });
  const change = answer?.edit?.documentChanges?.[0];
  const edit = change?.edits[0];
  if (answer && !edit) {
    const why = WHY_NOT[answer.reason] ?? answer.reason;
    void window.showInformationMessage(`Warmline: no change from ${answer.variant}: ${why}.`);
  }
  if (!answer || !change || !edit) {
    return;
  }
  const document = await workspace.openTextDocument(Uri.parse(change.textDocument.uri, true));
  if (document.version !== change.textDocument.version) {
    throw new Error("the code has changed while the variant wrote: ask again");
  }
  await previews.show(document, rangeOf(edit.range), edit.newText, answer.variant);
}

function about({ uri, span }: ReturnType<typeof selectionOf>): { uri: string; range: object } {
  return { uri, range: span };
}
