/** Keeps one server running for the window: finds it, starts it, starts it again with growing waits. */
import { randomUUID } from "node:crypto";
import {
  Disposable,
  EventEmitter,
  workspace,
  type CancellationToken,
  type LogOutputChannel,
} from "vscode";
import { STATUS_NOTIFICATION, type StatusReport, type StreamPiece } from "../protocol";
import { NotRunning, type ServerState, type Session, type Trouble } from "../session";
import { Backoff } from "./backoff";
import type { Client } from "./client";
import type { Found } from "./find";

export interface Parts {
  log: LogOutputChannel;
  find: () => Promise<Found>;
  /** Makes the client of one run; `onClosed` is to be called when the server ends by itself. */
  makeClient: (path: string, onClosed: () => void) => Promise<Client>;
}

/** A server that has not answered by then does not come; Python alone may take some seconds on a busy machine. */
const START_SECONDS = 60;
const STOP_SECONDS = 3;

/** The session of a window. Every start is numbered, so that what an earlier one still does changes nothing. */
export class Supervisor implements Session, Disposable {
  readonly ready: Promise<void>;
  readonly log: LogOutputChannel;
  private readonly servers = new EventEmitter<ServerState>();
  private readonly statuses = new EventEmitter<StatusReport>();
  readonly onServer = this.servers.event;
  readonly onStatus = this.statuses.event;

  private readonly backoff = new Backoff();
  private becomeReady: () => void = () => {};
  private state: ServerState = { kind: "stopped" };
  private report: StatusReport | undefined;
  private client: Client | undefined;
  private started: Promise<void> = Promise.resolve();
  private ending: Promise<void> = Promise.resolve();
  private run = 0;
  private retry: NodeJS.Timeout | undefined;
  private disposed = false;

  constructor(private readonly parts: Parts) {
    this.log = parts.log;
    this.ready = new Promise((resolve) => {
      this.becomeReady = resolve;
    });
  }

  get server(): ServerState {
    return this.state;
  }

  get status(): StatusReport | undefined {
    return this.report;
  }

  get trusted(): boolean {
    return workspace.isTrusted;
  }

  /** Starts the server, or starts it anew; resolves when it runs or is in trouble. */
  async start(): Promise<void> {
    this.report = undefined;
    this.enter({ kind: "starting" });
    const run = await this.stopped();
    if (this.isPast(run)) {
      return;
    }
    const found = await this.parts.find();
    if (this.isPast(run)) {
      return;
    }
    if ("trouble" in found) {
      this.trouble(found.trouble);
      return;
    }
    this.log.info(`starting ${found.path} (${found.version})`);
    await this.launch(run, found.path, found.version);
  }

  /** As `start`, without the waits that earlier ends of the server led to. */
  restart(): Promise<void> {
    this.backoff.reset();
    return this.start();
  }

  private async launch(run: number, path: string, version: string): Promise<void> {
    const begun = Date.now();
    const client = await this.parts.makeClient(path, () => this.ended(run, begun, "it ended"));
    if (this.isPast(run)) {
      return;
    }
    this.client = client;
    client.onNotification(STATUS_NOTIFICATION, (report: StatusReport) => this.told(run, report));
    this.started = client.start();
    try {
      await within(START_SECONDS, this.started);
    } catch (error) {
      this.ended(run, begun, error instanceof Error ? error.message : String(error));
      return;
    }
    if (this.isPast(run) || !client.isRunning()) {
      return;
    }
    this.enter({ kind: "running", path, version });
    this.becomeReady();
    await this.askStatus(run, client);
  }

  /** A server that has nothing to do sends no status by itself. */
  private async askStatus(run: number, client: Client): Promise<void> {
    try {
      this.told(run, await client.sendRequest<StatusReport>(STATUS_NOTIFICATION));
    } catch (error) {
      this.log.warn(`no status: ${String(error)}`);
    }
  }

  async execute<T>(command: string, argument: object = {}, token?: CancellationToken): Promise<T> {
    return (await this.running().execute(command, argument, token)) as T;
  }

  async stream<T>(
    command: string,
    argument: object,
    onPiece: (piece: StreamPiece) => void,
    token?: CancellationToken,
  ): Promise<T> {
    const partialResultToken = randomUUID();
    const listening = this.running().onPiece(partialResultToken, onPiece);
    try {
      return await this.execute<T>(command, { ...argument, partialResultToken }, token);
    } finally {
      listening.dispose();
    }
  }

  /** Sends a notification, if there is a server. */
  notify(method: string, params: object): void {
    if (this.client?.isRunning()) {
      this.client.sendNotification(method, params).catch((error: unknown) => this.log.warn(String(error)));
    }
  }

  async dispose(): Promise<void> {
    this.disposed = true;
    await this.stopped();
    this.servers.dispose();
    this.statuses.dispose();
  }

  private running(): Client {
    if (!this.client?.isRunning()) {
      throw new NotRunning();
    }
    return this.client;
  }

  /** Ends what runs; gives the number of the run that may follow, once nothing of an earlier one is left. */
  private async stopped(): Promise<number> {
    this.run += 1;
    const run = this.run;
    clearTimeout(this.retry);
    const { client, started } = this;
    this.client = undefined;
    this.report = undefined;
    if (client) {
      this.ending = this.ending.then(() => this.end(client, started));
    }
    await this.ending;
    return run;
  }

  private async end(client: Client, started: Promise<void>): Promise<void> {
    try {
      // A client can be stopped only once it runs.
      await within(STOP_SECONDS, started).catch(() => undefined);
      await client.dispose(STOP_SECONDS * 1000);
    } catch (error) {
      this.log.warn(`the server is killed, since it does not stop: ${String(error)}`);
      client.serverProcess?.kill("SIGKILL");
    }
  }

  private ended(run: number, begun: number, message: string): void {
    if (this.isPast(run)) {
      return;
    }
    this.run += 1; // nothing more of this run counts
    this.report = undefined;
    const seconds = this.backoff.ended((Date.now() - begun) / 1000);
    this.log.error(`the server ended (${message}); it is started again in ${seconds} s`);
    this.trouble({ kind: "crashed", message, retryInSeconds: seconds });
    this.retry = setTimeout(() => void this.start(), seconds * 1000);
  }

  /** How many ends in a row followed a short life. */
  get crashes(): number {
    return this.backoff.count;
  }

  private told(run: number, report: StatusReport): void {
    if (!this.isPast(run)) {
      this.report = report;
      this.statuses.fire(report);
    }
  }

  private trouble(trouble: Trouble): void {
    this.enter({ kind: "trouble", trouble });
  }

  private enter(state: ServerState): void {
    this.state = state;
    this.servers.fire(state);
  }

  private isPast(run: number): boolean {
    return this.disposed || run !== this.run;
  }
}

function within<T>(seconds: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not answer within ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
