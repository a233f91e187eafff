/**
 * The one connection of this window to `warmline lsp`, as all parts of the extension see it.
 *
 * `Session` is stable: the chat and the performance view build upon it. They never touch the language client, which is
 * another object after each restart of the server.
 *
 * The server's own command names (`warmline.chat`, `.explain`, `.edit`, `.fix`, `.selectVariant`, `.listVariants`,
 * `.trust`, `.reload`, `.showLog`, `.status`, `.accepted`) are registered in VS Code by the language client while the
 * server runs, so that code lenses work. The extension's own commands need other names.
 */
import type { CancellationToken, Event, LogOutputChannel } from "vscode";
import type { StatusReport, StreamPiece } from "./protocol";

/** Why the server does not answer; each is one message with at most one button. */
export type Trouble =
  | { kind: "missing"; configured: string; searched: string[] }
  | { kind: "old"; path: string; configured: boolean; version: string; minimum: string }
  | { kind: "broken"; path: string; configured: boolean; message: string }
  | { kind: "crashed"; message: string; retryInSeconds: number };

export type ServerState =
  | { kind: "stopped" }
  | { kind: "starting" }
  | { kind: "running"; path: string; version: string }
  | { kind: "trouble"; trouble: Trouble };

export interface Session {
  /** Resolves when the server first answered `initialize`; stays pending while it is missing. */
  readonly ready: Promise<void>;
  /** Whether the server runs, and if not, why. */
  readonly server: ServerState;
  readonly onServer: Event<ServerState>;
  /** The latest report; undefined until the first one, and while the server does not run. */
  readonly status: StatusReport | undefined;
  readonly onStatus: Event<StatusReport>;
  /** The log channel "Warmline". */
  readonly log: LogOutputChannel;
  /** False in VS Code's Restricted Mode. */
  readonly trusted: boolean;

  /**
   * Runs a server command (`workspace/executeCommand`); `argument` is its one object.
   *
   * @throws ResponseError with the server's message; NotRunning without a server. Cancelling `token` sends
   *   `$/cancelRequest`.
   */
  execute<T>(command: string, argument?: object, token?: CancellationToken): Promise<T>;

  /** As `execute`, with a `partialResultToken` of its own; `onPiece` gets what streams meanwhile, in order. */
  stream<T>(
    command: string,
    argument: object,
    onPiece: (piece: StreamPiece) => void,
    token?: CancellationToken,
  ): Promise<T>;
}

/** There is no server to ask. */
export class NotRunning extends Error {
  constructor() {
    super("Warmline's server is not running");
    this.name = "NotRunning";
  }
}
