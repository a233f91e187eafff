/** A server that is missing, too old or broken: one message with one button, and what the button does. */
import { commands, window } from "vscode";
import { inTerminal } from "./terminal";
import type { Trouble } from "../session";
import { troubleText } from "../status/view";

const SETTING = "warmline.server.path";

/** Tells what is wrong and offers the one thing to do about it; resolves when that is done, true if it was. */
export async function offerToMend(trouble: Trouble, ownVenv: string, showLog: () => void): Promise<boolean> {
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
      return await install(ownVenv);
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

/** Installs into a virtual environment of ours, in a terminal where the person sees it; true when that went well. */
async function install(venv: string): Promise<boolean> {
  const windows = process.platform === "win32";
  const python = windows ? "python" : "python3";
  const inside = windows ? `${venv}\\Scripts\\python.exe` : `${venv}/bin/python`;
  return (
    (await inTerminal("Install the server", python, ["-m", "venv", venv])) &&
    (await inTerminal("Install the server", inside, ["-m", "pip", "install", "--upgrade", "warmline"]))
  );
}
