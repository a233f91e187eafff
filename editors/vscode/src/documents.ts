/** Which documents the server can serve. */
import type { Uri } from "vscode";

/** Documents with a file, and those not saved yet. Others (of remote and virtual file systems) it cannot read. */
export const SERVED_SCHEMES: readonly string[] = ["file", "untitled"];

/** Documents of VS Code itself (logs, settings' editors, the debug console) are no one's work. */
const OF_VSCODE = /^(output|comment|debug|extension-output|vscode|vscode-(?!vfs$|remote$|test-web$).*|walkThrough.*|warmline.*)$/;

export type Kind = "served" | "foreign" | "internal";

/** Tells whether a document is served, is of a file system that the server cannot read, or is none to speak of. */
export function kindOf(uri: Pick<Uri, "scheme">): Kind {
  if (SERVED_SCHEMES.includes(uri.scheme)) {
    return "served";
  }
  return OF_VSCODE.test(uri.scheme) ? "internal" : "foreign";
}
