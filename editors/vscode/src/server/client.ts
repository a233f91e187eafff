/** Makes the language client for one run of the server; loaded after the extension's begin, for it is most of the code. */
import { homedir } from "node:os";
import { workspace, type CancellationToken, type Disposable, type LogOutputChannel } from "vscode";
import {
  CloseAction,
  ErrorAction,
  ExecuteCommandRequest,
  LanguageClient,
  ProgressType,
  RevealOutputChannelOn,
  type LanguageClientOptions,
  type Middleware,
  type ServerOptions,
} from "vscode-languageclient/node";
import { SERVED_SCHEMES } from "../documents";
import type { StreamPiece } from "../protocol";

const PIECES = new ProgressType<StreamPiece>();

export interface ClientParts {
  /** The `warmline` command. */
  path: string;
  log: LogOutputChannel;
  middleware: Middleware;
  /** Called when the server ended without having been asked to. */
  onClosed: () => void;
}

export class Client extends LanguageClient {
  /** Runs a command of the server's. */
  execute(command: string, argument: object, token?: CancellationToken): Promise<unknown> {
    return this.sendRequest(ExecuteCommandRequest.type, { command, arguments: [argument] }, token);
  }

  /** Listens to what a streamed command sends under its `partialResultToken`. */
  onPiece(token: string, take: (piece: StreamPiece) => void): Disposable {
    return this.onProgress(PIECES, token, take);
  }
}

/** Makes a client that starts `warmline lsp` over stdio; it never starts it again by itself. */
export function makeClient(parts: ClientParts): Client {
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
  return new Client("warmline", "Warmline", server, options);
}
