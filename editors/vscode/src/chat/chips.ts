/** Parts of documents that go along with a question: what is shown is what is sent. Pure. */

/** A position as LSP has it: line and UTF-16 unit from 0. */
export interface Place {
  line: number;
  character: number;
}

export interface Span {
  start: Place;
  end: Place;
}

export interface Chip {
  uri: string;
  /** Path inside the workspace, or the file's name. */
  name: string;
  span: Span;
  /** Set for a file rather than a selection: how many lines it has. */
  lines?: number;
}

/** One change of a document: where it was in the text before, and what stands there now. */
export interface Change {
  range: Span;
  text: string;
}

export const MOST_CHIPS = 16;

/** Adds a chip unless it is there already; `undefined` where there are too many. */
export function withChip(chips: readonly Chip[], chip: Chip): Chip[] | undefined {
  const others = chips.filter(
    (each) => !sameSpan(each, chip) && !(each.uri === chip.uri && isFile(each) && isFile(chip)),
  );
  return others.length < MOST_CHIPS ? [...others, chip] : undefined;
}

/** What a chip says: `src/a.py:3-8`, `src/a.py`, or of a long file `src/a.py:1-120 of 400`. */
export function label(chip: Chip): string {
  const { start, end } = chip.span;
  // A selection that ends at the start of a line has nothing of that line.
  const last = end.line > start.line && end.character === 0 ? end.line - 1 : end.line;
  const lines = start.line === last ? `${start.line + 1}` : `${start.line + 1}-${last + 1}`;
  if (chip.lines === undefined) {
    return `${chip.name}:${lines}`;
  }
  return end.line + 1 >= chip.lines ? chip.name : `${chip.name}:${lines} of ${chip.lines}`;
}

/** The span of a file that goes along: its first `most` lines. */
export function fileSpan(lines: number, most: number, lastLength: number): Span {
  const end = lines <= most ? { line: lines - 1, character: lastLength } : { line: Math.max(1, most), character: 0 };
  return { start: { line: 0, character: 0 }, end };
}

/** Moves a span with the edits of one event, so that it stays around the same text. */
export function followed(span: Span, changes: readonly Change[]): Span {
  return changes.reduce<Span>(({ start, end }, change) => {
    const { start: from, end: to } = change.range;
    const lines = change.text.split(/\r\n|\r|\n/);
    const last = lines[lines.length - 1]!.length;
    const grown = { line: from.line + lines.length - 1, character: last + (lines.length === 1 ? from.character : 0) };
    const shifted = (at: Place): Place =>
      at.line === to.line
        ? { line: grown.line, character: grown.character + at.character - to.character }
        : { line: at.line + grown.line - to.line, character: at.character };
    const first = isBefore(start, to) ? (isBefore(start, from) ? start : from) : shifted(start);
    // What is added right behind a selection is not part of it.
    const behind = !isBefore(from, end) ? end : isBefore(end, to) ? grown : shifted(end);
    return { start: first, end: isBefore(behind, first) ? first : behind };
  }, span);
}

function isBefore(one: Place, other: Place): boolean {
  return one.line < other.line || (one.line === other.line && one.character < other.character);
}

function isFile(chip: Chip): boolean {
  return chip.lines !== undefined;
}

function sameSpan(one: Chip, other: Chip): boolean {
  return one.uri === other.uri && JSON.stringify(one.span) === JSON.stringify(other.span);
}
