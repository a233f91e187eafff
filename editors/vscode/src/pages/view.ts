/** A view that shows one of the extension's own pages. */
import { randomBytes } from "node:crypto";
import { EventEmitter, Uri, type Event, type Webview, type WebviewView, type WebviewViewProvider } from "vscode";
import { pageOf } from "./page";

export class PageView<To, From> implements WebviewViewProvider {
  private view: WebviewView | undefined;
  private readonly messages = new EventEmitter<From>();
  private readonly visibilities = new EventEmitter<boolean>();
  /** What the page says. */
  readonly onMessage: Event<From> = this.messages.event;
  readonly onVisible: Event<boolean> = this.visibilities.event;

  /**
   * @param name of the bundle `dist/<name>.js` and the style `media/<name>.css`.
   */
  constructor(
    private readonly extension: Uri,
    private readonly name: string,
    private readonly title: string,
  ) {}

  get visible(): boolean {
    return this.view?.visible ?? false;
  }

  /** Says something to the page, if there is one; a page that is made later asks for all of it. */
  say(message: To): void {
    void this.view?.webview.postMessage(message);
  }

  resolveWebviewView(view: WebviewView): void {
    this.view = view;
    const { webview } = view;
    webview.options = { enableScripts: true, localResourceRoots: [this.folder("dist"), this.folder("media")] };
    webview.onDidReceiveMessage((message: From) => this.messages.fire(message));
    view.onDidChangeVisibility(() => this.visibilities.fire(view.visible));
    view.onDidDispose(() => {
      this.view = undefined;
      this.visibilities.fire(false);
    });
    webview.html = this.html(webview);
    this.visibilities.fire(view.visible);
  }

  private html(webview: Webview): string {
    return pageOf({
      title: this.title,
      script: webview.asWebviewUri(Uri.joinPath(this.folder("dist"), `${this.name}.js`)).toString(),
      style: webview.asWebviewUri(Uri.joinPath(this.folder("media"), `${this.name}.css`)).toString(),
      source: webview.cspSource,
      nonce: randomBytes(18).toString("base64"),
    });
  }

  private folder(name: string): Uri {
    return Uri.joinPath(this.extension, name);
  }
}
