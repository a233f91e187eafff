/** Pauses of suggestions: everywhere, in a language, in a file; kept for the workspace until they are taken back. */
import { EventEmitter, type Disposable, type Memento, type TextDocument } from "vscode";

export type Scope = "everywhere" | "language" | "file";

const KEY = "pauses";
const EVERYWHERE = "everywhere";

export class Pauses implements Disposable {
  private readonly changes = new EventEmitter<void>();
  readonly onChange = this.changes.event;
  private readonly names: Set<string>;

  constructor(private readonly memory: Memento) {
    this.names = new Set(memory.get<string[]>(KEY, []));
  }

  /** Tells which pause a document is under; undefined for none. */
  of(document: TextDocument | undefined): Scope | undefined {
    if (this.names.has(EVERYWHERE)) {
      return "everywhere";
    }
    if (document === undefined) {
      return undefined;
    }
    if (this.names.has(nameOf("language", document))) {
      return "language";
    }
    return this.names.has(nameOf("file", document)) ? "file" : undefined;
  }

  async pause(scope: Scope, document: TextDocument | undefined): Promise<void> {
    this.names.add(nameOf(scope, document));
    await this.keep();
  }

  /** Takes back every pause that a document is under. */
  async resume(document: TextDocument | undefined): Promise<void> {
    for (const scope of ["everywhere", "language", "file"] as const) {
      this.names.delete(nameOf(scope, document));
    }
    await this.keep();
  }

  dispose(): void {
    this.changes.dispose();
  }

  private async keep(): Promise<void> {
    this.changes.fire();
    await this.memory.update(KEY, [...this.names]);
  }
}

function nameOf(scope: Scope, document: TextDocument | undefined): string {
  if (scope === "everywhere" || document === undefined) {
    return EVERYWHERE;
  }
  return scope === "language" ? `language:${document.languageId}` : `file:${document.uri.toString()}`;
}
