/** Installs the server into a virtual environment of the extension's own: what runs is shown before it does. */
import { homedir } from "node:os";
import { window } from "vscode";
import { commandsFor, shown, type Target } from "./recipe";
import { inTerminal } from "./terminal";

/** Installs, once the person has said so; true when that went well. A failure is said, with what to do about it. */
export async function install(target: Target, anew: boolean): Promise<boolean> {
  const commands = commandsFor(target, anew, process.platform === "win32");
  const detail = `This runs, in a terminal where you see it:\n\n${commands.map(shown).join("\n\n")}`;
  const question = "Install Warmline's server into a virtual environment of this extension's own?";
  if ((await window.showInformationMessage(question, { modal: true, detail }, "Install")) !== "Install") {
    return false;
  }
  for (const [command, ...args] of commands) {
    // Not in the workspace, where a `venv.py` would be run in place of Python's own; and there may be none.
    if (!(await inTerminal("Install the server", command, args, homedir()))) {
      return await offerAgain(shown([command, ...args]), target, anew);
    }
  }
  return true;
}

async function offerAgain(failed: string, target: Target, anew: boolean): Promise<boolean> {
  const message =
    `Warmline's server is not installed: \`${failed}\` failed, and its terminal says why. ` +
    "It needs Python 3.11 or newer with venv (Debian: apt-get install python3-venv) and a package index. " +
    `Or install ${target.requirement} yourself, where PATH or warmline.server.path finds the command warmline.`;
  return (await window.showErrorMessage(message, "Try Again")) === "Try Again" && (await install(target, anew));
}
