/** Registers the performance view: it asks the server while it is seen, and after each answer. */
import { commands, window, type ExtensionContext } from "vscode";
import { PageView } from "../pages/view";
import type { Statistics } from "../protocol";
import type { Session } from "../session";
import { faultOf } from "../chat/fault";
import type { FromPage, ToPage } from "./messages";

export const PERFORMANCE_VIEW = "warmline.performanceView";
const EVERY_MS = 5000; // memory changes without a word
const PAUSE_MS = 400; // statuses come in bursts

export function registerPerformance(context: ExtensionContext, session: Session): void {
  const page = new PageView<ToPage, FromPage>(context.extensionUri, "performance", "Warmline Performance");
  let soon: NodeJS.Timeout | undefined;
  let regular: NodeJS.Timeout | undefined;

  const refresh = async (): Promise<void> => {
    try {
      page.say({ kind: "statistics", statistics: await session.execute<Statistics>("warmline.statistics") });
    } catch (error) {
      const { notice, remedy } = faultOf(error, false);
      page.say({ kind: "trouble", text: `${notice} ${remedy}`.trim() });
    }
  };
  const refreshSoon = (): void => {
    if (page.visible) {
      clearTimeout(soon);
      soon = setTimeout(() => void refresh(), PAUSE_MS);
    }
  };
  const seen = (visible: boolean): void => {
    clearInterval(regular);
    clearTimeout(soon);
    if (visible) {
      regular = setInterval(() => void refresh(), EVERY_MS);
    }
  };
  context.subscriptions.push(
    window.registerWebviewViewProvider(PERFORMANCE_VIEW, page),
    page.onMessage(() => void refresh()),
    page.onVisible(seen),
    session.onStatus(refreshSoon),
    session.onServer(refreshSoon),
    commands.registerCommand("warmline.performance.refresh", refresh),
    { dispose: () => seen(false) },
  );
}
