/** What the status bar shows, as a function of all that is known. Pure. */
import { escape, plain } from "../markdown";
import type { Kind } from "../documents";
import { hasCertificate, type StatusReport } from "../protocol";
import type { ServerState, Trouble } from "../session";
import type { Scope } from "../suggest/pause";

export interface Known {
  server: ServerState;
  status: StatusReport | undefined;
  /** How far a base is loaded, from 0 to 100; undefined while none is, or where that is not told. */
  percent: number | undefined;
  paused: Scope | undefined;
  /** Of the document at hand; undefined without one. */
  kind: Kind | undefined;
  scheme: string;
  trusted: boolean;
}

export interface View {
  text: string;
  /** Markdown; all that comes from files and artifacts in it is escaped. */
  tooltip: string;
  level: "ok" | "warning" | "error";
  /** For screen readers: the text without icons. */
  spoken: string;
}

/** Gives what to show. The first that applies is what the person has to know. */
export function view(known: Known): View {
  const shown = viewOf(known);
  const notes = known.trusted ? [] : ["Restricted Mode: only your own default variant runs."];
  const tooltip = [shown.tooltip, ...notes].join("\n\n");
  const spoken = `Warmline, ${plain(shown.text.replace(/\$\([a-z~-]+\)/g, "").replace("Warmline: ", ""))}`;
  return { ...shown, tooltip, spoken };
}

function viewOf({ server, status, percent, paused, kind, scheme }: Known): Omit<View, "spoken"> {
  switch (server.kind) {
    case "stopped":
      return { text: "$(circle-slash) Warmline", tooltip: "The server does not run.", level: "ok" };
    case "starting":
      return { text: "$(loading~spin) Warmline", tooltip: "The server starts.", level: "ok" };
    case "trouble":
      return troubled(server.trouble);
    case "running":
      break;
  }
  if (kind === "foreign") {
    const tooltip = `No suggestions in \`${escape(scheme)}\` documents: the server reads files of this machine only.`;
    return { text: "$(circle-slash) Warmline: off here", tooltip, level: "ok" };
  }
  const name = status?.variant ? plain(status.variant) : "Warmline";
  const about = status ? provenance(status) : "No variant yet.";
  if (status?.error) {
    return { text: `$(error) ${iconless(name)}`, tooltip: about, level: "error" };
  }
  if (paused !== undefined) {
    const where = { everywhere: "everywhere", language: "in this language", file: "in this file" }[paused];
    return { text: `$(debug-pause) ${iconless(name)}`, tooltip: `Paused ${where}.\n\n${about}`, level: "ok" };
  }
  return { text: `${icon(status)} ${iconless(name)}${warmth(status, percent)}`, tooltip: about, level: "ok" };
}

function icon(status: StatusReport | undefined): string {
  if (!status?.variant) {
    return "$(circle-slash)";
  }
  switch (status.state) {
    case "loading":
    case "switching":
      return "$(loading~spin)";
    case "busy":
      return "$(sync~spin)";
    case "ready":
      return status.last && status.last.reused_tokens > 0 ? "$(flame)" : "$(sparkle)";
    default:
      return "$(sparkle)";
  }
}

function warmth(status: StatusReport | undefined, percent: number | undefined): string {
  if (status === undefined || !status.variant) {
    return ": no variant";
  }
  if (status.state === "loading") {
    return percent === undefined ? ": loading" : `: loading ${Math.round(percent)}%`;
  }
  if (status.state === "switching") {
    return ": switching";
  }
  return status.last && status.last.reused_tokens > 0 ? ": warm" : ": cold";
}

/** A name must not become an icon in a text that takes `$(icon)`. */
function iconless(name: string): string {
  return name.replace(/\$\(/g, "$ (");
}

function troubled(trouble: Trouble): Omit<View, "spoken"> {
  const tooltip = escape(troubleText(trouble));
  if (trouble.kind === "crashed") {
    return { text: "$(sync-ignored) Warmline: restarting", tooltip, level: "warning" };
  }
  const what = { missing: "not installed", old: "too old", broken: "broken" }[trouble.kind];
  return { text: `$(error) Warmline: ${what}`, tooltip, level: "error" };
}

/** Says in one sentence or two what is wrong with the server. */
export function troubleText(trouble: Trouble): string {
  switch (trouble.kind) {
    case "missing":
      return trouble.configured
        ? `There is no server at ${trouble.configured}, which the setting warmline.server.path names.`
        : "Warmline's server is not installed: the command warmline is neither in this workspace's .venv nor on PATH.";
    case "old":
      return `The server ${trouble.path} is version ${trouble.version}; ${trouble.minimum} or newer is needed.`;
    case "broken":
      return `The server ${trouble.path} does not work: ${trouble.message}`;
    case "crashed":
      return `The server ended (${trouble.message}). It is started again in ${trouble.retryInSeconds} s.`;
  }
}

/** Writes where all that answers comes from, how the last request went, and what is wrong, as Markdown. */
export function provenance(status: StatusReport): string {
  if (status.error) {
    const { code, message, remedy, file, field } = status.error;
    const where = file ? `\n\nWhere: ${escape(file)}${field ? `, ${escape(field)}` : ""}` : "";
    const fix = remedy ? `\n\nFix: ${escape(remedy)}` : "";
    const who = status.variant ? `**${escape(status.variant)}** does not answer.\n\n` : "";
    return `${who}**${escape(code)}**: ${escape(message)}${fix}${where}`;
  }
  if (!status.variant) {
    const why = status.suggestion_text ? ` (${escape(status.suggestion_text)})` : "";
    return `No variant is selected here${why}.`;
  }
  const rows = rowsOf(status).map(([label, value]) => `| ${label} | ${value} |`);
  return ["| | |", "|---|---|", ...rows].join("\n");
}

function rowsOf(status: StatusReport): [string, string][] {
  const { base, backend, context, last } = status;
  const rows: [string, string][] = [["**Variant**", `**${escape(status.variant)}**`]];
  if (base) {
    const merged = base.merged_from ? [`merged from ${escape(base.merged_from)}`] : [];
    rows.push(["Base", joined([escape(base.name), short(base.digest), escape(base.trust), ...merged])]);
    if (base.source) {
      rows.push(["from", escape(base.source)]);
    }
  }
  for (const adapter of status.adapters) {
    const tied = adapter.verified ? [] : ["unverified"];
    const scale = `scale ${escape(adapter.scale)}, effective ${escape(adapter.effective_scale)}`;
    rows.push(["Adapter", joined([escape(adapter.name), short(adapter.digest), escape(adapter.trust), ...tied])]);
    rows.push(["", scale]);
    if (adapter.source) {
      rows.push(["from", escape(adapter.source)]);
    }
  }
  if (base && status.adapters.length === 0) {
    rows.push(["Adapters", "none"]);
  }
  if (backend) {
    rows.push(["Backend", `${escape(backend.name)} ${escape(backend.version)}`]);
  }
  if (context) {
    rows.push(["Context", `${context.n_ctx} tokens`]);
  }
  if (last) {
    rows.push(["Last request", `first token ${last.ttft_ms.toFixed(0)} ms, ${last.total_ms.toFixed(0)} ms in all`]);
    rows.push(["Reused", escape(last.warmth || `${last.reused_tokens} of ${last.prompt_tokens} tokens`)]);
    if (last.sources.length > 0) {
      rows.push(["Sent along", last.sources.map(escape).join(", ")]);
    }
  }
  if (status.suggestion) {
    rows.push(["Last suggestion", escape(status.suggestion_text)]);
  }
  if (hasCertificate(status.certificate)) {
    rows.push(["Certificate", escape(status.certificate)]);
  }
  if (status.identity) {
    rows.push(["Identity", short(status.identity)]);
  }
  if (status.chat) {
    rows.push(["Chat works with", escape(status.chat)]);
  }
  return rows;
}

function joined(facts: string[]): string {
  return facts.filter((fact) => fact !== "").join(" · ");
}

function short(digest: string): string {
  return escape(digest.length > 19 ? `${digest.slice(0, 19)}…` : digest);
}
