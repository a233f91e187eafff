/** Registers the view "Variants" and its commands. */
import { commands, Uri, window, workspace, type ExtensionContext } from "vscode";
import { guarded } from "../server/middleware";
import type { Session } from "../session";
import type { Switcher } from "./switch";
import { VariantsTree, type Node } from "./tree";

/** The workspace's own files: a change of one may be another list. */
const OWN_FILES = "**/.warmline/**/*.json";

export function registerVariants(context: ExtensionContext, session: Session, switcher: Switcher): VariantsTree {
  const here = (): Uri | undefined => window.activeTextEditor?.document.uri ?? workspace.workspaceFolders?.[0]?.uri;
  const tree = new VariantsTree(() => switcher.list(window.activeTextEditor?.document.uri));
  const refresh = (): void => tree.refresh();
  const watcher = workspace.createFileSystemWatcher(OWN_FILES);
  let shown = "";
  context.subscriptions.push(
    tree,
    watcher,
    window.registerTreeDataProvider("warmline.variants", tree),
    watcher.onDidChange(refresh),
    watcher.onDidCreate(refresh),
    watcher.onDidDelete(refresh),
    session.onServer(refresh),
    session.onStatus(({ variant, identity, error }) => {
      const now = JSON.stringify([variant, identity, error]);
      if (now !== shown) {
        shown = now;
        refresh();
      }
    }),
  );
  const about = (name: string, act: (node: Node & { kind: "variant" }) => Promise<unknown>): void => {
    const command = (node?: Node): Promise<void> | undefined =>
      node?.kind === "variant" ? guarded(() => act(node)) : undefined;
    context.subscriptions.push(commands.registerCommand(name, command));
  };
  about("warmline.variants.use", (node) => switcher.select(node.name, here()));
  about("warmline.variants.approve", (node) => {
    const uri = here();
    return session.execute("warmline.trust", { ...(uri && { uri: uri.toString() }), variant: node.name });
  });
  about("warmline.variants.open", async (node) => void (await window.showTextDocument(Uri.file(node.row.file))));
  context.subscriptions.push(commands.registerCommand("warmline.variants.refresh", refresh));
  return tree;
}
