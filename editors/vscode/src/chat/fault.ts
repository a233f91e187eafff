/** What went wrong with an answer, in words for the person: an error, and what to do about it. Pure. */
import type { ErrorInfo } from "../protocol";

export interface Fault {
  notice: string;
  remedy: string;
  /** The server's code; empty for faults of the connection. */
  code: string;
}

/** The server, or the connection to it, ended before the answer did. */
export class ServerGone extends Error {}

/** Puts what a request threw into words; `written` tells whether some of the answer is there. */
export function faultOf(error: unknown, written: boolean): Fault {
  const info = (error as { data?: Partial<ErrorInfo> } | null)?.data;
  if (typeof info?.code === "string" && typeof info.message === "string") {
    return { notice: sentence(info.message), remedy: info.remedy ? sentence(info.remedy) : "", code: info.code };
  }
  if (error instanceof ServerGone || isLost(error)) {
    return {
      notice: written
        ? "Warmline's server ended in the middle of this answer; what it had written is above."
        : "Warmline's server ended before it answered.",
      remedy: "It is started again by itself: ask again.",
      code: "",
    };
  }
  const text = error instanceof Error ? error.message : String(error);
  const remedy = error instanceof Error && error.name === "NotRunning" ? "Warmline in the status bar says why." : "";
  return { notice: sentence(text), remedy, code: "" };
}

/** The button that goes with an error's code: a command of the language server, and what it says. */
export function actionOf(code: string | undefined): { command: string; title: string } | undefined {
  if (code?.startsWith("trust.")) {
    return { command: "warmline.trust", title: "Review and approve…" };
  }
  if (code === "config.no_workspace" || code === "variant.unknown") {
    return { command: "warmline.selectVariant", title: "Select a variant…" };
  }
  return undefined;
}

// vscode-jsonrpc: PendingResponseRejected and ConnectionInactive.
function isLost(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === -32097 || code === -32099;
}

function sentence(text: string): string {
  const trimmed = text.trim();
  return /[.!?…]$/.test(trimmed) || !trimmed ? trimmed : `${trimmed}.`;
}
