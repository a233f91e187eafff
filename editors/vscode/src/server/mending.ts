/** A server that is missing, too old or broken: one message with one button, and what the button does. */
import { commands, window } from "vscode";
import { install } from "./install";
import type { Target } from "./recipe";
import type { Trouble } from "../session";
import { troubleText } from "../status/view";

const SETTING = "warmline.server.path";

/** Tells what is wrong and offers the one thing to do about it; resolves when that is done, true if it was. */
export async function offerToMend(trouble: Trouble, target: Target, showLog: () => void): Promise<boolean> {
  const button = buttonFor(trouble);
  if ((await window.showErrorMessage(troubleText(trouble), button)) !== button) {
    return false;
  }
  switch (button) {
    case "Open Settings":
      await commands.executeCommand("workbench.action.openSettings", SETTING);
      return false;
    case "Show Log":
      showLog();
      return false;
    case "Install":
      return await install(target, trouble.kind === "broken");
  }
}

function buttonFor(trouble: Trouble): "Open Settings" | "Show Log" | "Install" {
  switch (trouble.kind) {
    case "crashed":
      return "Show Log";
    case "missing":
      return trouble.configured ? "Open Settings" : "Install";
    case "old":
    case "broken":
      return trouble.configured ? "Open Settings" : "Install";
  }
}
