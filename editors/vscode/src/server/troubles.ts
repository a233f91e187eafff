/** Tells of what is wrong with the server when it begins, and looks again when it may be mended. */
import { window, type ExtensionContext } from "vscode";
import { offerToMend } from "./mending";
import type { Target } from "./recipe";
import type { Supervisor } from "./supervisor";
import type { Trouble } from "../session";

/** A server that ends so often in a row is told of; before, the status bar suffices. */
const CRASHES_TOLD = 3;

/** Registers the messages. */
export function registerTroubles(context: ExtensionContext, session: Supervisor, target: Target): void {
  let told = "";
  context.subscriptions.push(
    session.onServer((state) => {
      if (state.kind === "running") {
        told = "";
      } else if (state.kind === "trouble" && isToldOf(state.trouble, session) && told !== keyOf(state.trouble)) {
        told = keyOf(state.trouble);
        void mend(session, target);
      }
    }),
    // Whoever comes back from a terminal or another window may have installed it there.
    window.onDidCloseTerminal(() => lookAgain(session)),
    window.onDidChangeWindowState(({ focused }) => {
      if (focused) {
        lookAgain(session);
      }
    }),
  );
}

/** Offers to mend what is wrong now. */
export async function mend(session: Supervisor, target: Target): Promise<void> {
  const { server } = session;
  if (server.kind === "trouble" && (await offerToMend(server.trouble, target, () => session.log.show()))) {
    await session.restart();
  }
}

function lookAgain(session: Supervisor): void {
  if (session.server.kind === "trouble" && session.server.trouble.kind !== "crashed") {
    void session.restart();
  }
}

function isToldOf(trouble: Trouble, session: Supervisor): boolean {
  return trouble.kind !== "crashed" || session.crashes >= CRASHES_TOLD;
}

function keyOf(trouble: Trouble): string {
  return trouble.kind === "crashed" ? trouble.kind : JSON.stringify(trouble);
}
