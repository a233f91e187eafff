/** Makes the language client for one run of the server. */
import { homedir } from "node:os";
import { workspace, type LogOutputChannel } from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  RevealOutputChannelOn,
  type LanguageClientOptions,
  type Middleware,
  type ServerOptions,
} from "vscode-languageclient/node";
import { SERVED_SCHEMES } from "../documents";

export interface ClientParts {
  /** The `warmline` command. */
  path: string;
  log: LogOutputChannel;
  middleware: Middleware;
  /** Called when the server ended without having been asked to. */
  onClosed: () => void;
}

/** Makes a client that starts `warmline lsp` over stdio; it never starts it again by itself. */
export function makeClient(parts: ClientParts): LanguageClient {
  const { log } = parts;
  // Not the workspace: what lies there must not decide what Python finds.
  const server: ServerOptions = { command: parts.path, args: ["lsp"], options: { cwd: homedir() } };
  const options: LanguageClientOptions = {
    documentSelector: SERVED_SCHEMES.map((scheme) => ({ scheme })),
    diagnosticCollectionName: "warmline",
    outputChannel: log,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    // What the server says holds text of files and artifacts: no command link, no HTML comes of it.
    markdown: { isTrusted: false, supportHtml: false },
    initializationOptions: { server: { restricted: !workspace.isTrusted } },
    initializationFailedHandler: () => false,
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => {
        parts.onClosed();
        return { action: CloseAction.DoNotRestart, handled: true };
      },
    },
    middleware: parts.middleware,
  };
  return new LanguageClient("warmline", "Warmline", server, options);
}
