/** Finds the `warmline` command: the configured one, the workspace's, the one that we installed, the one on PATH. */
import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { homedir } from "node:os";
import * as path from "node:path";
import { isAtLeast, MINIMUM_VERSION, parseVersion } from "./version";
import type { Trouble } from "../session";

/** Loading Python from a cold disk takes seconds. */
const VERSION_TIMEOUT_MS = 30_000;

export interface Places {
  /** The setting `warmline.server.path`; empty where it is not set. */
  configured: string;
  /** Paths of the workspace folders; empty in Restricted Mode. */
  folders: readonly string[];
  /** Where "Install" puts a virtual environment. */
  ownVenv: string;
  /** The environment variable PATH. */
  searchPath: string;
  windows: boolean;
}

export type Found = { path: string; version: string } | { trouble: Trouble };

/** Lists where to look, best first. A configured path is the only one: another server in its place would surprise. */
export function candidates(places: Places): string[] {
  const { windows } = places;
  const join = windows ? path.win32.join : path.posix.join;
  const isAbsolute = windows ? path.win32.isAbsolute : path.posix.isAbsolute;
  const name = windows ? "warmline.exe" : "warmline";
  if (places.configured) {
    const rest = /^~[\\/](.*)$/.exec(places.configured)?.[1];
    return [rest === undefined ? places.configured : join(homedir(), rest)];
  }
  const inVenv = (folder: string): string => join(folder, windows ? "Scripts" : "bin", name);
  const venvs = [...places.folders.map((folder) => join(folder, ".venv")), places.ownVenv];
  // A relative entry would mean another file in each folder, and one of the workspace's at that.
  const onPath = places.searchPath.split(windows ? ";" : ":").filter((entry) => isAbsolute(entry));
  return [...new Set([...venvs.map(inVenv), ...onPath.map((folder) => join(folder, name))])];
}

/** Looks for a server and asks it for its version. */
export async function findServer(places: Places): Promise<Found> {
  const searched = candidates(places);
  for (const candidate of searched) {
    if (await isExecutable(candidate)) {
      return await checked(candidate, places.configured !== "");
    }
  }
  return { trouble: { kind: "missing", configured: places.configured, searched } };
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

async function checked(file: string, configured: boolean): Promise<Found> {
  const broken = (message: string): Found => ({ trouble: { kind: "broken", path: file, configured, message } });
  let output: string;
  try {
    output = await run(file, ["--version"]);
  } catch (error) {
    return broken(error instanceof Error ? error.message : String(error));
  }
  const version = parseVersion(output);
  if (version === undefined) {
    return broken(`\`--version\` printed ${JSON.stringify(output.slice(0, 80))}`);
  }
  if (!isAtLeast(version, MINIMUM_VERSION)) {
    return { trouble: { kind: "old", path: file, configured, version, minimum: MINIMUM_VERSION } };
  }
  return { path: file, version };
}

function run(file: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(file, args, { cwd: homedir(), timeout: VERSION_TIMEOUT_MS }, (error, stdout, stderr) => {
      if (error) {
        reject(new Error(stderr.trim().split("\n").at(-1) || error.message));
      } else {
        resolve(stdout);
      }
    });
  });
}
