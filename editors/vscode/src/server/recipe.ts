/** The commands that install the server. Pure. */

/** Where the server goes, and which one. */
export interface Target {
  /** The virtual environment; nobody else's. */
  venv: string;
  /** What pip is asked for. */
  requirement: string;
}

export type Command = [string, ...string[]];

/** Gives what pip is to be asked for: a server of the extension's own version, but for its last number. */
export function requirementOf(version: string): string {
  return `warmline==${version.split(".").slice(0, 2).join(".")}.*`;
}

/** Gives the commands, in order; `anew` makes the environment from nothing, as one that is broken needs it. */
export function commandsFor({ venv, requirement }: Target, anew: boolean, windows: boolean): Command[] {
  const inside = windows ? `${venv}\\Scripts\\python.exe` : `${venv}/bin/python`;
  return [
    [windows ? "python" : "python3", "-m", "venv", ...(anew ? ["--clear"] : []), venv],
    [inside, "-m", "pip", "install", "--upgrade", requirement],
  ];
}

/** Writes a command as it would be typed; for people to read. */
export function shown(command: readonly string[]): string {
  return command.map((each) => (/[^\w./:=\\-]/.test(each) ? `"${each}"` : each)).join(" ");
}
