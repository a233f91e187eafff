/** The workspace's conversation: asks, follows what streams, keeps what was said. */
import { randomUUID } from "node:crypto";
import { CancellationTokenSource, EventEmitter, Uri, workspace } from "vscode";
import type { ChatAnswer, StreamPiece } from "../protocol";
import type { Session } from "../session";
import { rangeOf } from "./attachments";
import { label, type Chip } from "./chips";
import { faultOf, ServerGone } from "./fault";
import type { Kept } from "./kept";
import { grow, Log, type Exchange, type State, type Target } from "./log";

const SAVE_MS = 1000; // so much of an answer may be lost that is written when the window ends
const MOST_TARGET = 20_000; // characters of a selection that are kept, to find it again
const ENDS: Readonly<Record<string, State>> = { stop: "done", length: "cut", deadline: "cut" };

/** What has happened: an exchange is new or other, a piece of text came, or all of it was cleared. */
export type ChatEvent =
  | { exchange: Exchange }
  | { exchange: Exchange; part: "thought" | "text"; text: string }
  | { cleared: true };

export class Chat {
  private known: Log | undefined;
  private saving: NodeJS.Timeout | undefined;
  private readonly events = new EventEmitter<ChatEvent>();
  readonly onEvent = this.events.event;
  private running: CancellationTokenSource | undefined;

  constructor(
    private readonly session: Session,
    private readonly kept: Kept,
  ) {}

  /** Read when it is first looked at. */
  get log(): Log {
    return (this.known ??= Log.from(this.kept.read(), randomUUID()));
  }

  get busy(): boolean {
    return this.running !== undefined;
  }

  /** Asks, and resolves when the answer has ended in whatever way; one question at a time. */
  async ask(question: string, chips: readonly Chip[]): Promise<void> {
    if (this.running) {
      throw new Error("an answer is being written: stop it first");
    }
    const running = (this.running = new CancellationTokenSource());
    const history = this.log.history();
    const { conversation } = this.log;
    const exchange = this.log.begin(question, chips.map(label), await targetOf(chips));
    this.save();
    this.tell({ exchange });
    const attached = chips.map(({ uri, span }) => ({ uri, range: span }));
    try {
      const answering = this.session.stream<ChatAnswer>(
        "warmline.chat",
        { message: question, conversation, history, attached },
        (piece) => this.took(exchange, piece),
        running.token,
      );
      this.ended(exchange, await orServerGone(this.session, answering));
    } catch (error) {
      this.failed(exchange, error, running.token.isCancellationRequested);
    } finally {
      running.dispose();
      this.running = undefined;
    }
    this.save(); // first: whoever sees the answer whole may close the window
    this.tell({ exchange });
  }

  /** Stops the answer that is being written, at the server too. */
  stop(): void {
    this.running?.cancel();
  }

  clear(): void {
    this.stop();
    this.log.clear(randomUUID());
    this.save();
    this.events.fire({ cleared: true });
  }

  private took(exchange: Exchange, piece: StreamPiece): void {
    if (piece.kind === "started") {
      exchange.variant = piece.variant;
      exchange.adapters = piece.adapters;
      this.tell({ exchange });
    } else {
      grow(exchange, piece);
      this.saving ??= setTimeout(() => this.save(), SAVE_MS);
      this.tell({ exchange, part: piece.kind, text: piece.text });
    }
  }

  private ended(exchange: Exchange, answer: ChatAnswer): void {
    exchange.answer = answer.text;
    if (answer.thought) {
      exchange.thought = answer.thought;
    }
    exchange.variant = answer.variant;
    exchange.adapters = answer.adapters;
    exchange.state = ENDS[answer.outcome] ?? "stopped";
    const notices = [answer.outcome === "repeats" ? "It went round in circles." : "", answer.notice ?? ""];
    const notice = notices.filter((each) => each).join(" ");
    if (notice) {
      exchange.notice = notice;
    }
  }

  private failed(exchange: Exchange, error: unknown, stopped: boolean): void {
    if (stopped) {
      exchange.state = "stopped";
      return;
    }
    const fault = faultOf(error, exchange.answer !== "");
    exchange.state = exchange.answer ? "broken" : "failed";
    Object.assign(exchange, fault);
    this.session.log.error(`chat: ${fault.code} ${fault.notice}`);
  }

  /** An exchange that was cleared meanwhile is none to speak of. */
  private tell(event: Exclude<ChatEvent, { cleared: true }>): void {
    if (this.log.exchanges.includes(event.exchange)) {
      this.events.fire(event);
    }
  }

  private save(): void {
    clearTimeout(this.saving);
    this.saving = undefined;
    try {
      this.kept.write(this.log.toJSON());
    } catch (error) {
      this.session.log.warn(`the conversation is not kept: ${String(error)}`);
    }
  }
}

/** The selection that went along, to be found again when code of the answer is applied. */
async function targetOf(chips: readonly Chip[]): Promise<Target | undefined> {
  const chip = chips.find(({ lines }) => lines === undefined);
  if (!chip) {
    return undefined;
  }
  const document = await workspace.openTextDocument(Uri.parse(chip.uri, true));
  const text = document.getText(rangeOf(chip.span));
  return text.length <= MOST_TARGET ? { uri: chip.uri, span: chip.span, text } : undefined;
}

/** Waits for an answer, but not for one of a server that is gone. */
async function orServerGone<T>(session: Session, answering: Promise<T>): Promise<T> {
  let watching: { dispose(): unknown } | undefined;
  const gone = new Promise<never>((_, reject) => {
    watching = session.onServer((state) => {
      if (state.kind !== "running") {
        reject(new ServerGone("Warmline's server ended"));
      }
    });
  });
  try {
    return await Promise.race([answering, gone]);
  } finally {
    watching?.dispose();
  }
}
