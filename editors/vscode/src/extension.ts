/** The extension's begin: makes the parts and puts them together. */
import * as path from "node:path";
import { window, workspace, type ExtensionContext } from "vscode";
import { registerChat } from "./chat/register";
import { registerCommands } from "./commands";
import { registerFocus } from "./focus";
import { registerPerformance } from "./performance/register";
import { findServer } from "./server/find";
import { makeMiddleware } from "./server/middleware";
import { requirementOf } from "./server/recipe";
import { Supervisor } from "./server/supervisor";
import { registerTroubles } from "./server/troubles";
import { StatusBar } from "./status/bar";
import { registerReport } from "./status/report";
import { Pauses } from "./suggest/pause";
import { Suggestions } from "./suggest/provider";
import { Switcher } from "./variants/switch";
import { registerVariants } from "./variants/register";
import type { VariantsTree } from "./variants/tree";

/** What tests look at: the parts as they are at work. */
export interface Warmline {
  session: Supervisor;
  bar: StatusBar;
  suggestions: Suggestions;
  pauses: Pauses;
  switcher: Switcher;
  tree: VariantsTree;
}

let session: Supervisor | undefined;

export function activate(context: ExtensionContext): Warmline {
  const log = window.createOutputChannel("Warmline", { log: true });
  const ownVenv = path.join(context.globalStorageUri.fsPath, "venv");
  const target = { venv: ownVenv, requirement: requirementOf(String(context.extension.packageJSON.version)) };
  const pauses = new Pauses(context.workspaceState);
  const suggestions = new Suggestions((document) => pauses.of(document) !== undefined);
  const supervisor = new Supervisor({
    log,
    find: () =>
      findServer({
        configured: workspace.getConfiguration("warmline").get<string>("server.path", "").trim(),
        folders: workspace.isTrusted ? localFolders() : [],
        ownVenv,
        searchPath: process.env.PATH ?? "",
        windows: process.platform === "win32",
      }),
    makeClient: async (command, onClosed) => {
      const { makeClient } = await import("./server/client.js");
      return makeClient({ path: command, log, middleware, onClosed });
    },
  });
  session = supervisor;
  const switcher = new Switcher(supervisor);
  const bar = new StatusBar(supervisor, pauses, "warmline.menu");
  const middleware = makeMiddleware(suggestions, bar, switcher);
  context.subscriptions.push(log, pauses, suggestions, bar, registerReport(supervisor), registerFocus(supervisor));
  registerTroubles(context, supervisor, target);
  registerCommands(context, { session: supervisor, pauses, switcher, target });
  const tree = registerVariants(context, supervisor, switcher);
  registerChat(context, supervisor);
  registerPerformance(context, supervisor);
  context.subscriptions.push(
    supervisor.onStatus(suggestions.watch()),
    supervisor.onServer(() => suggestions.forget()),
    pauses.onChange(() => suggestions.forget()),
    workspace.onDidGrantWorkspaceTrust(() => void supervisor.restart()),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("warmline.server.path")) {
        void supervisor.restart();
      }
    }),
  );
  void supervisor.start();
  return { session: supervisor, bar, suggestions, pauses, switcher, tree };
}

export async function deactivate(): Promise<void> {
  await session?.dispose();
}

function localFolders(): string[] {
  return (workspace.workspaceFolders ?? []).filter(({ uri }) => uri.scheme === "file").map(({ uri }) => uri.fsPath);
}
