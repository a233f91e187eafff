/** The chat view: between the page and the conversation. */
import { commands, Disposable, env, Uri, window, type ExtensionContext } from "vscode";
import { guarded } from "../server/middleware";
import type { Session } from "../session";
import { PageView } from "../pages/view";
import type { Attachments } from "./attachments";
import { applyCode, copyCode, editorAtHand, insertCode } from "./blocks";
import type { Chat, ChatEvent } from "./chat";
import { actionOf } from "./fault";
import type { Exchange } from "./log";
import type { FromPage, Header, Shown, ToPage } from "./messages";
import type { Previews } from "./preview";

export const CHAT_VIEW = "warmline.chatView";

export class ChatView extends Disposable {
  private readonly page: PageView<ToPage, FromPage>;

  constructor(
    context: ExtensionContext,
    private readonly session: Session,
    private readonly chat: Chat,
    private readonly attachments: Attachments,
    private readonly previews: Previews,
  ) {
    const page = new PageView<ToPage, FromPage>(context.extensionUri, "chat", "Warmline Chat");
    const parts: { dispose(): unknown }[] = [];
    super(() => parts.forEach((part) => part.dispose()));
    this.page = page;
    parts.push(
      window.registerWebviewViewProvider(CHAT_VIEW, page),
      page.onMessage((message) => void guarded(() => this.told(message))),
      chat.onEvent((event) => this.happened(event)),
      attachments.onChange(() => page.say({ kind: "chips", chips: attachments.labels })),
      session.onStatus(() => page.say({ kind: "header", header: this.header() })),
      session.onServer(() => page.say({ kind: "header", header: this.header() })),
    );
  }

  /** Asks with all that is attached, and shows the view. */
  async ask(text: string): Promise<void> {
    await commands.executeCommand(`${CHAT_VIEW}.focus`);
    if (this.chat.busy) {
      throw new Error("an answer is being written: stop it first");
    }
    await this.chat.ask(text, await this.attachments.take());
  }

  /** Shows the view, with the focus where a question is written. */
  async focus(): Promise<void> {
    await commands.executeCommand(`${CHAT_VIEW}.focus`);
    this.page.say({ kind: "focus" });
  }

  private async told(message: FromPage): Promise<void> {
    switch (message.kind) {
      case "ready":
        return this.showAll();
      case "ask":
        return this.chat.ask(message.text, await this.attachments.take());
      case "stop":
        return this.chat.stop();
      case "clear":
        return this.chat.clear();
      case "addSelection":
        return this.attachments.addSelection(editorAtHand());
      case "addFile":
        return this.attachments.addFile(editorAtHand());
      case "removeChip":
        return this.attachments.remove(message.index);
      case "insert":
        return insertCode(message.code);
      case "copy":
        await copyCode(message.code);
        return this.page.say({ kind: "say", text: "Copied." });
      case "apply": {
        const exchange = this.exchange(message.id);
        return exchange && applyCode(exchange, message.code, this.previews);
      }
      case "follow":
        return follow(message.address);
      case "act": {
        const action = actionOf(this.exchange(message.id)?.code);
        return action && void (await commands.executeCommand(action.command, {}));
      }
    }
  }

  private happened(event: ChatEvent): void {
    if ("cleared" in event) {
      this.showAll();
    } else if ("text" in event) {
      this.page.say({ kind: event.part, id: event.exchange.id, text: event.text });
    } else {
      const { exchange } = event;
      this.page.say({ kind: "exchange", exchange: shown(exchange), busy: this.chat.busy });
      if (exchange.state !== "running") {
        this.page.say({
          kind: "say",
          text: exchange.state === "done" ? "The answer is complete." : "The answer ended.",
        });
      }
    }
  }

  private showAll(): void {
    this.page.say({
      kind: "all",
      exchanges: this.chat.log.exchanges.map(shown),
      chips: this.attachments.labels,
      header: this.header(),
      busy: this.chat.busy,
    });
  }

  private header(): Header {
    const { status, server } = this.session;
    if (server.kind !== "running") {
      const trouble = server.kind === "starting" ? "" : "Warmline's server does not run; the status bar says why.";
      return { variant: "", made: server.kind === "starting" ? "the server starts…" : "", trouble };
    }
    const error = status?.error;
    const trouble = error ? [error.message, error.remedy].filter((text) => text).join(". ") : "";
    if (status?.chat) {
      return { variant: status.chat, made: `completions come from ${status.variant || "another variant"}`, trouble };
    }
    const adapters = status?.adapters.map(({ name, scale }) => `${name}@${scale}`).join(" + ");
    const made = status?.base ? `${adapters || "no adapter"} on ${status.base.name}` : "";
    return { variant: status?.variant ?? "", made, trouble };
  }

  private exchange(id: number): Exchange | undefined {
    return this.chat.log.exchanges.find((each) => each.id === id);
  }
}

/** Opens a site in the browser; VS Code asks first, unless the person trusts that site. */
async function follow(address: string): Promise<void> {
  const uri = Uri.parse(address, true);
  if (uri.scheme === "http" || uri.scheme === "https") {
    await env.openExternal(uri);
  }
}

function shown(exchange: Exchange): Shown {
  const action = actionOf(exchange.code);
  return action ? { ...exchange, action } : exchange;
}
