/** The chips of the next question: parts of the editors' documents, which move with every edit. */
import {
  Disposable,
  EventEmitter,
  Position,
  Range,
  Uri,
  workspace,
  type TextDocument,
  type TextDocumentChangeEvent,
  type TextEditor,
} from "vscode";
import { kindOf } from "../documents";
import { fileSpan, followed, label, MOST_CHIPS, withChip, type Chip, type Span } from "./chips";

export class Attachments extends Disposable {
  private chips: Chip[] = [];
  private readonly changes = new EventEmitter<void>();
  readonly onChange = this.changes.event;

  constructor() {
    const parts: { dispose(): unknown }[] = [];
    super(() => parts.forEach((part) => part.dispose()));
    parts.push(
      workspace.onDidChangeTextDocument((event) => this.edited(event)),
      this.changes,
    );
  }

  get labels(): string[] {
    return this.chips.map(label);
  }

  addSelection(editor: TextEditor): void {
    this.add(selectionOf(editor));
  }

  addFile(editor: TextEditor): void {
    served(editor.document);
    this.add(fileChip(editor.document));
  }

  remove(index: number): void {
    this.set(this.chips.filter((_, at) => at !== index));
  }

  /** Takes all chips for a question; none is left. A document that was closed meanwhile is opened again. */
  async take(): Promise<Chip[]> {
    const { chips } = this;
    await Promise.all(chips.map(({ uri }) => workspace.openTextDocument(Uri.parse(uri, true))));
    this.set([]);
    return chips;
  }

  private add(chip: Chip): void {
    const chips = withChip(this.chips, chip);
    if (!chips) {
      throw new Error(`no more than ${MOST_CHIPS} parts go along with a question`);
    }
    this.set(chips);
  }

  private set(chips: Chip[]): void {
    this.chips = chips;
    this.changes.fire();
  }

  private edited({ document, contentChanges }: TextDocumentChangeEvent): void {
    const uri = document.uri.toString();
    if (!contentChanges.length || !this.chips.some((chip) => chip.uri === uri)) {
      return;
    }
    this.set(
      this.chips.map((chip) => {
        if (chip.uri !== uri) {
          return chip;
        }
        return chip.lines !== undefined ? fileChip(document) : { ...chip, span: followed(chip.span, contentChanges) };
      }),
    );
  }
}

/** The selection of an editor; the cursor's line where nothing is selected. */
export function selectionOf({ document, selection }: TextEditor): Chip {
  served(document);
  const range = selection.isEmpty ? document.lineAt(selection.active.line).range : selection;
  return { uri: document.uri.toString(), name: nameOf(document), span: spanOf(range) };
}

export function spanOf({ start, end }: Range): Span {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}

export function rangeOf({ start, end }: Span): Range {
  return new Range(new Position(start.line, start.character), new Position(end.line, end.character));
}

export function nameOf(document: TextDocument): string {
  return workspace.asRelativePath(document.uri, false);
}

function served(document: TextDocument): void {
  if (kindOf(document.uri) !== "served") {
    throw new Error(`${nameOf(document)} is no file on this machine: it cannot go along`);
  }
}

function fileChip(document: TextDocument): Chip {
  const most = workspace.getConfiguration("warmline", document).get<number>("chat.contextLines", 120);
  const lines = document.lineCount;
  const span = fileSpan(lines, most, document.lineAt(lines - 1).text.length);
  return { uri: document.uri.toString(), name: nameOf(document), span, lines };
}
