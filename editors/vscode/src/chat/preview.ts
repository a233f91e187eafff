/** Changes that a model proposes, shown beside the document before anything is applied. */
import {
  commands,
  Disposable,
  EventEmitter,
  Range,
  TabInputTextDiff,
  Uri,
  window,
  workspace,
  WorkspaceEdit,
  type TextDocument,
} from "vscode";

export const PREVIEW_SCHEME = "warmline-preview";
const CONTEXT = "warmline.previewing";

interface Proposal {
  target: Uri;
  range: Range;
  /** What is replaced: where it is no longer there, nothing is applied. */
  old: string;
  text: string;
  /** The document with the change. */
  content: string;
}

export class Previews extends Disposable {
  private readonly proposals = new Map<string, Proposal>();
  private next = 1;

  constructor() {
    const changes = new EventEmitter<Uri>();
    const content = {
      onDidChange: changes.event,
      provideTextDocumentContent: (uri: Uri) => this.proposals.get(uri.toString())?.content ?? "",
    };
    const parts = [
      changes,
      workspace.registerTextDocumentContentProvider(PREVIEW_SCHEME, content),
      window.tabGroups.onDidChangeTabs(() => this.forgetClosed()),
    ];
    super(() => parts.forEach((part) => part.dispose()));
  }

  /** Shows what a document would be with `text` in place of `range`; `by` names who proposes it. */
  async show(document: TextDocument, range: Range, text: string, by: string): Promise<void> {
    const whole = document.getText();
    const [start, end] = [document.offsetAt(range.start), document.offsetAt(range.end)];
    const name = document.uri.path.split("/").pop() ?? "";
    // The name at the end gives the preview the document's language.
    const uri = Uri.from({ scheme: PREVIEW_SCHEME, path: `/${this.next++}/${name}` });
    this.proposals.set(uri.toString(), {
      target: document.uri,
      range,
      old: document.getText(range),
      text,
      content: whole.slice(0, start) + text + whole.slice(end),
    });
    const title = `${name}: proposed by ${by} (apply or discard it in the title bar)`;
    await commands.executeCommand("vscode.diff", document.uri, uri, title, { preview: false });
    await this.tellContext();
  }

  /** Makes the shown change; where the document's text has changed there, it says so and changes nothing. */
  async apply(uri = this.shown()): Promise<void> {
    const proposal = uri && this.proposals.get(uri.toString());
    if (!uri || !proposal) {
      return;
    }
    const document = await workspace.openTextDocument(proposal.target);
    if (document.getText(proposal.range) !== proposal.old) {
      throw new Error("the code has changed since this was proposed: ask again");
    }
    const edit = new WorkspaceEdit();
    edit.replace(proposal.target, proposal.range, proposal.text);
    if (!(await workspace.applyEdit(edit))) {
      throw new Error("VS Code did not make the change; is the file read-only?");
    }
    await this.close(uri);
    await window.showTextDocument(document, { selection: new Range(proposal.range.start, proposal.range.start) });
  }

  async discard(uri = this.shown()): Promise<void> {
    if (uri) {
      await this.close(uri);
    }
  }

  /** The preview in the tab that has the focus. */
  private shown(): Uri | undefined {
    return previewOf(window.tabGroups.activeTabGroup.activeTab?.input);
  }

  private async close(uri: Uri): Promise<void> {
    this.proposals.delete(uri.toString());
    const tabs = window.tabGroups.all.flatMap((group) => group.tabs);
    await window.tabGroups.close(tabs.filter((tab) => previewOf(tab.input)?.toString() === uri.toString()));
    await this.tellContext();
  }

  private forgetClosed(): void {
    const open = new Set(
      window.tabGroups.all.flatMap((group) => group.tabs).map((tab) => previewOf(tab.input)?.toString()),
    );
    for (const uri of this.proposals.keys()) {
      if (!open.has(uri)) {
        this.proposals.delete(uri);
      }
    }
    void this.tellContext();
  }

  private async tellContext(): Promise<void> {
    await commands.executeCommand("setContext", CONTEXT, this.shown() !== undefined);
  }
}

function previewOf(input: unknown): Uri | undefined {
  return input instanceof TabInputTextDiff && input.modified.scheme === PREVIEW_SCHEME ? input.modified : undefined;
}
