/** What the chat's page and the extension say to each other. */
import type { Exchange } from "./log";

export interface Header {
  /** Name of the selected variant; empty while none is known. */
  variant: string;
  /** What it is made of, in a line. */
  made: string;
  /** What keeps it from answering; empty when nothing does. */
  trouble: string;
}

/** An exchange as the page draws it; `action` is the button beside an error. */
export type Shown = Exchange & { action?: { command: string; title: string } };

export type ToPage =
  | { kind: "all"; exchanges: Shown[]; chips: string[]; header: Header; busy: boolean }
  | { kind: "exchange"; exchange: Shown; busy: boolean }
  | { kind: "thought" | "text"; id: number; text: string }
  | { kind: "chips"; chips: string[] }
  | { kind: "header"; header: Header }
  | { kind: "focus" }
  | { kind: "say"; text: string };

export type FromPage =
  | { kind: "ready" }
  | { kind: "ask"; text: string }
  | { kind: "stop" }
  | { kind: "clear" }
  | { kind: "addSelection" }
  | { kind: "addFile" }
  | { kind: "removeChip"; index: number }
  | { kind: "insert"; code: string }
  | { kind: "copy"; code: string }
  | { kind: "apply"; id: number; code: string }
  | { kind: "act"; id: number }
  | { kind: "follow"; address: string };
