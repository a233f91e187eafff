/** The status bar item: always what holds now, about the document at hand. */
import {
  MarkdownString,
  StatusBarAlignment,
  ThemeColor,
  window,
  workspace,
  type Disposable,
  type StatusBarItem,
  type TextDocument,
} from "vscode";
import { kindOf } from "../documents";
import type { Session } from "../session";
import type { Pauses } from "../suggest/pause";
import { view, type View } from "./view";

export class StatusBar implements Disposable {
  private readonly item: StatusBarItem;
  private readonly disposables: Disposable[];
  private percent: number | undefined;
  /** What is shown. */
  shown: View;

  constructor(
    private readonly session: Session,
    private readonly pauses: Pauses,
    command: string,
  ) {
    this.item = window.createStatusBarItem("warmline.status", StatusBarAlignment.Right, 100);
    this.item.name = "Warmline";
    this.item.command = command;
    const draw = (): void => void this.draw();
    this.disposables = [
      this.item,
      session.onServer(() => this.loading(undefined)),
      session.onStatus(draw),
      pauses.onChange(draw),
      window.onDidChangeActiveTextEditor(draw),
      workspace.onDidGrantWorkspaceTrust(draw),
    ];
    this.shown = this.draw();
    this.item.show();
  }

  /** Takes how far a base is loaded; undefined when that is over. */
  loading(percent: number | undefined): void {
    this.percent = percent;
    this.draw();
  }

  dispose(): void {
    for (const each of this.disposables) {
      each.dispose();
    }
  }

  private draw(): View {
    const document: TextDocument | undefined = window.activeTextEditor?.document;
    const shown = view({
      server: this.session.server,
      status: this.session.status,
      percent: this.percent,
      paused: this.pauses.of(document),
      kind: document && kindOf(document.uri),
      scheme: document?.uri.scheme ?? "",
      trusted: this.session.trusted,
    });
    const tooltip = new MarkdownString(shown.tooltip);
    tooltip.isTrusted = false;
    tooltip.supportHtml = false;
    this.item.text = shown.text;
    this.item.tooltip = tooltip;
    this.item.accessibilityInformation = { label: shown.spoken };
    this.item.backgroundColor =
      shown.level === "ok" ? undefined : new ThemeColor(`statusBarItem.${shown.level}Background`);
    this.shown = shown;
    return shown;
  }
}
