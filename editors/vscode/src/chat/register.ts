/** Registers the chat view and the commands on a selection. */
import { commands, type ExtensionContext } from "vscode";
import { guarded } from "../server/middleware";
import type { Session } from "../session";
import { Attachments } from "./attachments";
import { editorAtHand } from "./blocks";
import { Chat } from "./chat";
import { Kept } from "./kept";
import { Previews } from "./preview";
import { editSelection, fixSelection } from "./rewrite";
import { ChatView } from "./view";

const EXPLAIN = "Explain what this code does, briefly.";

export function registerChat(context: ExtensionContext, session: Session): void {
  const chat = new Chat(session, new Kept((context.storageUri ?? context.globalStorageUri).fsPath));
  const attachments = new Attachments();
  const previews = new Previews();
  const view = new ChatView(context, session, chat, attachments, previews);
  const own: Record<string, () => Promise<unknown> | unknown> = {
    "warmline.chat.open": () => view.focus(),
    "warmline.chat.stop": () => chat.stop(),
    "warmline.chat.clear": () => chat.clear(),
    "warmline.chat.addSelection": async () => {
      attachments.addSelection(editorAtHand());
      await view.focus();
    },
    "warmline.chat.addFile": async () => {
      attachments.addFile(editorAtHand());
      await view.focus();
    },
    "warmline.selection.explain": async () => {
      attachments.addSelection(editorAtHand());
      await view.ask(EXPLAIN);
    },
    "warmline.selection.edit": () => editSelection(editorAtHand(), session, previews),
    "warmline.selection.fix": () => fixSelection(editorAtHand(), session, previews),
    "warmline.preview.apply": () => previews.apply(),
    "warmline.preview.discard": () => previews.discard(),
  };
  context.subscriptions.push(view, attachments, previews);
  for (const [name, act] of Object.entries(own)) {
    context.subscriptions.push(commands.registerCommand(name, () => guarded(act)));
  }
}
