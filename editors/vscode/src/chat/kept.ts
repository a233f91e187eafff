/**
 * A workspace's conversation on disk: written before anything else happens, so that it outlives whatever ends the window.
 *
 * VS Code's own memento is written some time later, and a window that is reloaded right then loses the last of it.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import * as path from "node:path";

export class Kept {
  private readonly file: string;

  /** @param folder Where it lies; it is made when there is something to keep. */
  constructor(folder: string) {
    this.file = path.join(folder, "chat.json");
  }

  /** Gives what was kept last; undefined where nothing was, or nothing that can be read. */
  read(): unknown {
    try {
      return JSON.parse(readFileSync(this.file, "utf8"));
    } catch {
      return undefined;
    }
  }

  /**
   * Keeps a value in place of the last one; whoever reads meanwhile gets all of either.
   *
   * @throws Error when the folder cannot be written to.
   */
  write(value: unknown): void {
    // Of this window alone: another one of the workspace may be writing too.
    const part = `${this.file}.${process.pid}.part`;
    mkdirSync(path.dirname(this.file), { recursive: true });
    writeFileSync(part, JSON.stringify(value), { mode: 0o600 });
    renameSync(part, this.file);
  }
}
