/** The status as a document: JSON, read-only, kept current while it is open. */
import { EventEmitter, Uri, window, workspace, type Disposable } from "vscode";
import type { Session } from "../session";

const SCHEME = "warmline-report";
const STATUS = Uri.from({ scheme: SCHEME, path: "/Warmline status.json" });

/** Registers what shows the status. */
export function registerReport(session: Session): Disposable {
  const changes = new EventEmitter<Uri>();
  const content = {
    onDidChange: changes.event,
    provideTextDocumentContent: () => JSON.stringify({ server: session.server, status: session.status }, null, 2),
  };
  const changed = (): void => changes.fire(STATUS);
  const parts = [
    changes,
    workspace.registerTextDocumentContentProvider(SCHEME, content),
    session.onServer(changed),
    session.onStatus(changed),
  ];
  return { dispose: () => parts.forEach((part) => part.dispose()) };
}

/** Opens the status. */
export async function showReport(): Promise<void> {
  await window.showTextDocument(await workspace.openTextDocument(STATUS), { preview: true });
}
