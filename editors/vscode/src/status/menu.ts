/** What a click on the status bar offers. */
import { QuickPickItemKind, window, type QuickPickItem } from "vscode";
import type { Session } from "../session";
import type { Pauses, Scope } from "../suggest/pause";

/** Does what was chosen. */
export interface Actions {
  switchVariant: () => Promise<void>;
  trust: () => Promise<void>;
  showStatus: () => Promise<void>;
  doctor: () => Promise<void>;
  showLog: () => void;
  mend: () => Promise<void>;
  restart: () => Promise<void>;
}

interface Choice extends QuickPickItem {
  act?: () => Promise<void> | void;
}

/** Shows the menu, and does what is chosen. */
export async function showMenu(session: Session, pauses: Pauses, actions: Actions): Promise<void> {
  const chosen = await window.showQuickPick(choices(session, pauses, actions), { title: "Warmline" });
  await chosen?.act?.();
}

function choices(session: Session, pauses: Pauses, actions: Actions): Choice[] {
  const { server, status } = session;
  const running = server.kind === "running";
  const found: Choice[] = [];
  if (server.kind === "trouble" && server.trouble.kind !== "crashed") {
    found.push({ label: "$(tools) Mend this…", detail: "What is wrong, and what to do about it", act: actions.mend });
  }
  if (running && status?.error?.code === "trust.unapproved") {
    const detail = "Shows the digests of what this workspace brings, and asks";
    found.push({ label: "$(shield) Look at what is not approved…", detail, act: actions.trust });
  }
  if (running) {
    found.push({ label: "$(arrow-swap) Switch variant…", description: status?.variant, act: actions.switchVariant });
    found.push({ label: "$(info) Status", detail: "All that is known, as JSON", act: actions.showStatus });
    found.push({ label: "$(pulse) Doctor", detail: "Runs `warmline doctor` in a terminal", act: actions.doctor });
  }
  found.push({ label: "$(output) Log", act: actions.showLog });
  found.push({ label: "$(debug-restart) Start the server again", act: actions.restart });
  found.push({ label: "Suggestions", kind: QuickPickItemKind.Separator });
  return [...found, ...pausing(pauses)];
}

function pausing(pauses: Pauses): Choice[] {
  const document = window.activeTextEditor?.document;
  if (pauses.of(document) !== undefined) {
    return [{ label: "$(debug-start) Resume", act: () => pauses.resume(document) }];
  }
  const pause = (scope: Scope) => () => pauses.pause(scope, document);
  const everywhere = { label: "$(debug-pause) Pause everywhere", act: pause("everywhere") };
  if (document === undefined) {
    return [everywhere];
  }
  return [
    everywhere,
    { label: `$(debug-pause) Pause in ${document.languageId}`, act: pause("language") },
    { label: "$(debug-pause) Pause in this file", act: pause("file") },
  ];
}
