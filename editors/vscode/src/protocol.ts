/** What Warmline's server says beyond LSP; the shapes follow `warmline schema status` and the README's command table. */

export const STATUS_NOTIFICATION = "warmline/status";
export const FOCUS_NOTIFICATION = "warmline/didFocus";

/** What the engine does; `failed` while `error` is set. */
export type EngineState = "empty" | "loading" | "ready" | "busy" | "switching" | "failed" | "stopping";

export interface BaseReport {
  name: string;
  /** `sha256:…` of all weights. */
  digest: string;
  source: string;
  trust: string;
  merged_from: string | null;
}

export interface AdapterReport {
  name: string;
  digest: string;
  scale: string;
  /** `scale * alpha / rank`, as a decimal. */
  effective_scale: string;
  trust: string;
  /** Whether it was made for this very base. */
  verified: boolean;
  source: string;
  declared_base: string;
  /** Largest change of a logit when it was loaded; null before that. */
  effect: number | null;
}

/** The latest request of this editor to this variant; times in milliseconds. */
export interface LastReport {
  reused_tokens: number;
  prompt_tokens: number;
  reason: string;
  ttft_ms: number;
  total_ms: number;
  warmth: string;
  /** Other documents of which text went along, by their paths; with `(declarations)` where it was what they declare. */
  sources: string[];
}

export interface ErrorInfo {
  code: string;
  message: string;
  file?: string | null;
  field?: string | null;
  remedy?: string;
}

/** Payload of the notification `warmline/status`: all that an editor shows. */
export interface StatusReport {
  state: EngineState;
  variant: string;
  /** Name of the variant to chat with; empty where it is the same. */
  chat: string;
  identity: string;
  base: BaseReport | null;
  adapters: AdapterReport[];
  backend: { name: string; version: string } | null;
  context: { n_ctx: number; clamped: boolean } | null;
  last: LastReport | null;
  /** `certified`, `failed: …`, `void: …` or `none`; empty until the identity is known. */
  certificate: string;
  /** `shown`, or why the latest request showed nothing or less than was decoded. */
  suggestion: string | null;
  /** The same in words. */
  suggestion_text: string;
  error: ErrorInfo | null;
}

/** Whether there is something to be said of a certificate. */
export const hasCertificate = (certificate: string): boolean => certificate !== "" && certificate !== "none";

/** A row of `warmline.listVariants`; a broken variant has an `error`, and nothing is known of its parts. */
export interface VariantRow {
  name: string;
  backend: string;
  /** Path of the variant's file. */
  file: string;
  from: "workspace" | "store";
  selected: boolean;
  base: string | null;
  merged_from: string | null;
  adapters: { name: string; scale: string; written: string | null; trust: string }[];
  kind: string;
  /** The weakest standing of all its parts. */
  trust: string | null;
  /** As in `StatusReport`. */
  certificate: string;
  description: string;
  error: ErrorInfo | null;
}

/** Answer of `warmline.chat` and `warmline.explain`; times in milliseconds. */
export interface ChatAnswer {
  conversation: string;
  variant: string;
  /** On top of the base, as `name@scale`. */
  adapters: string[];
  identity: string | null;
  text: string;
  /** What the model thought before it answered; empty where it does not, or where that is not told apart. */
  thought: string;
  outcome: string;
  reason: string | null;
  prompt_tokens: number;
  reused_tokens: number;
  predicted_tokens: number;
  total_ms: number;
  dropped_messages: number;
  notice: string | null;
}

/** What a streamed command sends meanwhile. */
export type StreamPiece =
  | { kind: "started"; variant: string; adapters: string[]; identity: string }
  | { kind: "thought"; text: string }
  | { kind: "text"; text: string };

/** Answer of `warmline.edit` and `warmline.fix`; without `edit`, `reason` says why there is none. */
export interface Rewrite {
  edit: { documentChanges?: { textDocument: { uri: string; version: number | null }; edits: TextChange[] }[] } | null;
  reason: string;
  variant: string;
  text: string;
}

export interface TextChange {
  range: { start: { line: number; character: number }; end: { line: number; character: number } };
  newText: string;
}

/** One answer of this session; `at` in seconds since the epoch, times in milliseconds. */
export interface RecentAnswer {
  at: number;
  kind: "completion" | "chat";
  variant: string;
  ttft_ms: number;
  total_ms: number;
  prompt_tokens: number;
  reused_tokens: number;
}

/** What was counted of a variant in all sessions. */
export interface VariantTally {
  variant: string;
  shown: number;
  accepted: number;
  acceptance: number | null;
  median_ms: number | null;
  p95_ms: number | null;
}

/** Answer of `warmline.statistics`; `memory` in bytes by kind, null without an engine. */
export interface Statistics {
  recent: RecentAnswer[];
  variants: VariantTally[];
  memory: { weights?: number; snapshots?: number; process?: number } | null;
  counting: boolean;
}
