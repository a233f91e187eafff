/** Tells the server which document has the focus: the status is about that, and what is likely asked is prefilled. */
import { window, type Disposable, type TextEditor } from "vscode";
import { kindOf } from "./documents";
import { FOCUS_NOTIFICATION } from "./protocol";
import type { Supervisor } from "./server/supervisor";

export function registerFocus(session: Supervisor): Disposable {
  const tell = (editor: TextEditor | undefined): void => {
    if (editor && kindOf(editor.document.uri) === "served") {
      const { line, character } = editor.selection.active;
      const textDocument = { uri: editor.document.uri.toString() };
      session.notify(FOCUS_NOTIFICATION, { textDocument, position: { line, character } });
    }
  };
  const parts = [
    window.onDidChangeActiveTextEditor(tell),
    session.onServer((state) => {
      if (state.kind === "running") {
        tell(window.activeTextEditor);
      }
    }),
  ];
  return { dispose: () => parts.forEach((part) => part.dispose()) };
}
