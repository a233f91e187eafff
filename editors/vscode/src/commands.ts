/** The extension's own commands; the server's are registered by the language client. */
import { homedir } from "node:os";
import { commands, Uri, window, workspace, type ExtensionContext } from "vscode";
import { guarded } from "./server/middleware";
import type { Target } from "./server/recipe";
import type { Supervisor } from "./server/supervisor";
import { inTerminal } from "./server/terminal";
import { mend } from "./server/troubles";
import { NotRunning } from "./session";
import { showMenu, type Actions } from "./status/menu";
import { showReport } from "./status/report";
import type { Pauses, Scope } from "./suggest/pause";
import type { Switcher } from "./variants/switch";

interface Parts {
  session: Supervisor;
  pauses: Pauses;
  switcher: Switcher;
  target: Target;
}

/** What each command about suggestions is in VS Code. */
const BUILT_IN: Readonly<Record<string, string>> = {
  "warmline.suggestion.trigger": "editor.action.inlineSuggest.trigger",
  "warmline.suggestion.accept": "editor.action.inlineSuggest.commit",
  "warmline.suggestion.acceptWord": "editor.action.inlineSuggest.acceptNextWord",
  "warmline.suggestion.acceptLine": "editor.action.inlineSuggest.acceptNextLine",
  "warmline.suggestion.next": "editor.action.inlineSuggest.showNext",
  "warmline.suggestion.previous": "editor.action.inlineSuggest.showPrevious",
  "warmline.suggestion.dismiss": "editor.action.inlineSuggest.hide",
};

export function registerCommands(context: ExtensionContext, parts: Parts): void {
  const { session, pauses, switcher } = parts;
  const actions: Actions = {
    switchVariant: () => switcher.choose(atHand()),
    trust: async () => void (await session.execute("warmline.trust", about(atHand()))),
    showStatus: showReport,
    doctor: () => runDoctor(session),
    showLog: () => session.log.show(),
    mend: () => mend(session, parts.target),
    restart: () => session.restart(),
  };
  const pause = (scope: Scope) => () => pauses.pause(scope, window.activeTextEditor?.document);
  const own: Record<string, () => Promise<unknown> | unknown> = {
    "warmline.menu": () => showMenu(session, pauses, actions),
    "warmline.variant.switch": actions.switchVariant,
    "warmline.variant.approve": actions.trust,
    "warmline.server.status": actions.showStatus,
    "warmline.server.doctor": actions.doctor,
    "warmline.server.log": actions.showLog,
    "warmline.server.restart": actions.restart,
    "warmline.pause.everywhere": pause("everywhere"),
    "warmline.pause.language": pause("language"),
    "warmline.pause.file": pause("file"),
    "warmline.pause.end": () => pauses.resume(window.activeTextEditor?.document),
  };
  for (const [name, act] of Object.entries(own)) {
    context.subscriptions.push(commands.registerCommand(name, () => guarded(act)));
  }
  for (const [name, builtIn] of Object.entries(BUILT_IN)) {
    context.subscriptions.push(commands.registerCommand(name, () => commands.executeCommand(builtIn)));
  }
}

async function runDoctor(session: Supervisor): Promise<void> {
  const { server } = session;
  if (server.kind !== "running") {
    throw new NotRunning();
  }
  const folder = workspace.workspaceFolders?.find(({ uri }) => uri.scheme === "file");
  await inTerminal("Doctor", server.path, ["doctor"], folder?.uri.fsPath ?? homedir());
}

function atHand(): Uri | undefined {
  return window.activeTextEditor?.document.uri;
}

function about(uri: Uri | undefined): { uri?: string } {
  return uri ? { uri: uri.toString() } : {};
}
