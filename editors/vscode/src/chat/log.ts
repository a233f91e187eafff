/** A workspace's conversation as the person sees it: bounded, kept between windows, checked when it is read. Pure. */
import type { Span } from "./chips";

/**
 * How an answer ended: `running` not yet, `done` by itself, `cut` at the token limit, `stopped` by the person, `broken`
 * by the end of server or engine, `failed` by an error before anything was written.
 */
export type State = "running" | "done" | "cut" | "stopped" | "broken" | "failed";

export interface Exchange {
  id: number;
  question: string;
  /** Labels of what went along. */
  attached: string[];
  /** The selection that went along: what code of the answer would replace. */
  target?: Target;
  answer: string;
  /** What the model thought before it answered; it is kept apart, and no part of the history that is sent. */
  thought?: string;
  variant: string;
  /** On top of the base, as `name@scale`. */
  adapters: string[];
  state: State;
  /** What is to be said about the answer, and what to do about it. */
  notice?: string;
  remedy?: string;
  /** Code of the error, if one ended it. */
  code?: string;
}

/** Adds a piece of what streams to the part of the exchange that it belongs to. */
export function grow(exchange: Exchange, piece: { kind: "thought" | "text"; text: string }): void {
  if (piece.kind === "thought") {
    exchange.thought = (exchange.thought ?? "") + piece.text;
  } else {
    exchange.answer += piece.text;
  }
}

export interface Target {
  uri: string;
  span: Span;
  text: string;
}

export interface Said {
  role: "user" | "assistant";
  content: string;
}

export const MOST_EXCHANGES = 100;
export const MOST_CHARACTERS = 300_000;
// The server bounds it further, by the person's settings and the variant's context.
const MOST_SENT = 100_000;
const STATES: readonly string[] = ["running", "done", "cut", "stopped", "broken", "failed"];

export class Log {
  private constructor(
    /** The conversation's name at the server. */
    public conversation: string,
    private readonly kept: Exchange[],
    private next: number,
  ) {}

  static empty(conversation: string): Log {
    return new Log(conversation, [], 1);
  }

  /** Reads what `toJSON` gave; anything else is an empty log. An answer that ran when the window closed is broken. */
  static from(stored: unknown, conversation: string): Log {
    const raw = stored as { conversation?: unknown; exchanges?: unknown } | undefined;
    if (typeof raw?.conversation !== "string" || !Array.isArray(raw.exchanges)) {
      return Log.empty(conversation);
    }
    const exchanges = raw.exchanges
      .filter(isExchange)
      .map((each) =>
        each.state === "running"
          ? { ...each, state: "broken" as const, notice: "The window was closed while this was written." }
          : each,
      );
    const log = new Log(raw.conversation, exchanges, 1 + Math.max(0, ...exchanges.map((each) => each.id)));
    log.bound();
    return log;
  }

  get exchanges(): readonly Exchange[] {
    return this.kept;
  }

  /** Begins an exchange; the oldest ones go where there are too many. */
  begin(question: string, attached: string[], target?: Target): Exchange {
    const exchange: Exchange = {
      id: this.next++,
      question,
      attached,
      ...(target ? { target } : {}),
      answer: "",
      variant: "",
      adapters: [],
      state: "running",
    };
    this.kept.push(exchange);
    this.bound();
    return exchange;
  }

  /** Forgets all of it; what follows is another conversation. */
  clear(conversation: string): void {
    this.kept.length = 0;
    this.conversation = conversation;
  }

  /** Finished questions with their answers, oldest first, for a server that does not know the conversation. */
  history(): Said[] {
    const said: Said[] = [];
    let room = MOST_SENT;
    for (const { question, answer, state } of [...this.kept].reverse()) {
      if ((state !== "done" && state !== "cut") || !answer) {
        continue;
      }
      room -= question.length + answer.length;
      if (room < 0) {
        break;
      }
      said.unshift({ role: "user", content: question }, { role: "assistant", content: answer });
    }
    return said;
  }

  toJSON(): unknown {
    return { conversation: this.conversation, exchanges: this.kept };
  }

  private bound(): void {
    const size = (): number => this.kept.reduce((sum, each) => sum + sizeOf(each), 0);
    while (this.kept.length > 1 && (this.kept.length > MOST_EXCHANGES || size() > MOST_CHARACTERS)) {
      this.kept.shift();
    }
  }
}

const sizeOf = (each: Exchange): number =>
  each.question.length + each.answer.length + (each.thought?.length ?? 0) + (each.target?.text.length ?? 0);

function isExchange(value: unknown): value is Exchange {
  const one = value as Partial<Exchange> | null;
  const strings = (list: unknown): boolean => Array.isArray(list) && list.every((each) => typeof each === "string");
  return (
    typeof one === "object" &&
    one !== null &&
    Number.isSafeInteger(one.id) &&
    typeof one.question === "string" &&
    typeof one.answer === "string" &&
    ["string", "undefined"].includes(typeof one.thought) &&
    typeof one.variant === "string" &&
    STATES.includes(one.state ?? "") &&
    strings(one.adapters) &&
    strings(one.attached) &&
    (one.target === undefined || isTarget(one.target))
  );
}

function isTarget(value: unknown): value is Target {
  const one = value as Partial<Target> | null;
  const places = [one?.span?.start, one?.span?.end];
  return (
    typeof one?.uri === "string" &&
    typeof one.text === "string" &&
    places.every((place) => Number.isSafeInteger(place?.line) && Number.isSafeInteger(place?.character))
  );
}
