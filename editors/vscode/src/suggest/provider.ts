/** What stands between VS Code's inline suggestions and the server: pauses, and suggestions that are typed along with. */
import {
  InlineCompletionItem,
  InlineCompletionTriggerKind,
  Range,
  workspace,
  type CancellationToken,
  type Disposable,
  type InlineCompletionContext,
  type InlineCompletionList,
  type Position,
  type TextDocument,
} from "vscode";
import type { Middleware } from "vscode-languageclient/node";
import type { StatusReport } from "../protocol";
import { TypingAlong, type Suggestion } from "./typing_along";

type Next = NonNullable<Parameters<NonNullable<Middleware["provideInlineCompletionItems"]>>[4]>;
type Kept = Suggestion & { item: InlineCompletionItem };

/** Keeps the last answer for as long as it stands. One cursor, one answer: VS Code shows one suggestion at a time. */
export class Suggestions implements Disposable {
  /** How many requests went to the server. */
  asked = 0;
  private document: TextDocument | undefined;
  private along: TypingAlong<Kept> | undefined;
  private epoch = 0;
  private readonly listening: Disposable;

  constructor(private readonly isPaused: (document: TextDocument) => boolean) {
    this.listening = workspace.onDidChangeTextDocument((event) => {
      if (event.document !== this.document || event.contentChanges.length === 0) {
        return;
      }
      const changes = event.contentChanges.map((each) => ({
        offset: each.rangeOffset,
        removed: each.rangeLength,
        text: each.text,
      }));
      if (this.along?.change(changes) === false) {
        this.along = undefined;
      }
    });
  }

  /** Nothing that was answered so far stands any more: another variant answers from here on. */
  forget(): void {
    this.epoch += 1;
    this.along = undefined;
  }

  /** Makes what takes the status: an answer stands only under the variant, exactly as it is, that gave it. */
  watch(): (status: StatusReport) => void {
    let known = "";
    return ({ variant, identity, error }) => {
      const now = JSON.stringify([variant, identity, error]);
      if (now !== known) {
        known = now;
        this.forget();
      }
    };
  }

  async provide(
    document: TextDocument,
    position: Position,
    context: InlineCompletionContext,
    token: CancellationToken,
    next: Next,
  ): Promise<InlineCompletionItem[] | InlineCompletionList | null | undefined> {
    if (this.isPaused(document)) {
      return null;
    }
    const automatic = context.triggerKind === InlineCompletionTriggerKind.Automatic;
    if (automatic && context.selectedCompletionInfo === undefined) {
      const standing = this.standing(document, position);
      if (standing.length > 0) {
        return standing;
      }
    }
    this.asked += 1;
    const { epoch } = this;
    const { version } = document;
    const answer = await next(document, position, context, token);
    // The server looks at what is selected last thing before it answers, so the answer itself is the variant's of now.
    const current = epoch === this.epoch && version === document.version && !token.isCancellationRequested;
    if (current && context.selectedCompletionInfo === undefined) {
      this.keep(document, position, Array.isArray(answer) ? answer : (answer?.items ?? []));
    }
    return answer;
  }

  dispose(): void {
    this.listening.dispose();
  }

  private standing(document: TextDocument, position: Position): InlineCompletionItem[] {
    const offset = document.offsetAt(position);
    const kept = document === this.document ? (this.along?.at(offset) ?? []) : [];
    return kept.map(({ insertText, start, item }) => {
      const range = new Range(document.positionAt(start), position);
      return new InlineCompletionItem(insertText, range, item.command);
    });
  }

  private keep(document: TextDocument, position: Position, items: readonly InlineCompletionItem[]): void {
    this.document = document;
    this.along = undefined;
    const ranges = items.map((item) => item.range);
    const start = ranges[0]?.start;
    if (start === undefined || ranges.some((range) => !range?.start.isEqual(start) || !range.end.isEqual(position))) {
      return;
    }
    const kept = items.flatMap((item) => {
      const { insertText } = item;
      return typeof insertText === "string" ? [{ insertText, start: document.offsetAt(start), item }] : [];
    });
    this.along = new TypingAlong(kept, document.offsetAt(position), document.getText(new Range(start, position)));
  }
}
