/** A suggestion that is typed along with: it still stands, so the server need not be asked again. Pure. */

/** A suggestion as it was answered: it replaces the line's text from `start` to where it was asked for. */
export interface Suggestion {
  /** All that stands from `start` on once it is accepted. */
  insertText: string;
  /** Offset in the document at which it begins. */
  start: number;
}

/** One change of the document. */
export interface Change {
  offset: number;
  removed: number;
  text: string;
}

/** Follows one document from an answer on: what is typed, and which suggestions still say it. */
export class TypingAlong<S extends Suggestion> {
  private standing: readonly S[];

  /**
   * @param asked Offset at which the suggestions were asked for.
   * @param typed What stood between their start and there.
   */
  constructor(
    suggestions: readonly S[],
    private offset: number,
    private typed: string,
  ) {
    this.standing = suggestions.filter((each) => each.insertText.startsWith(typed));
  }

  /** Takes what changed at once; tells whether any suggestion still stands. */
  change(changes: readonly Change[]): boolean {
    const only = changes.length === 1 ? changes[0] : undefined;
    if (only === undefined || only.removed > 0 || only.offset !== this.offset) {
      this.standing = [];
      return false;
    }
    this.offset += only.text.length;
    this.typed += only.text;
    // One that is typed to its end has nothing more to show.
    this.standing = this.standing.filter(
      (each) => each.insertText.length > this.typed.length && each.insertText.startsWith(this.typed),
    );
    return this.standing.length > 0;
  }

  /** Gives what still stands for a cursor at `offset`. */
  at(offset: number): readonly S[] {
    return offset === this.offset ? this.standing : [];
  }
}
