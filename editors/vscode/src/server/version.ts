/** Versions of the server: reading and comparing them. */

/** The oldest server that this extension works with. */
export const MINIMUM_VERSION = "0.1.0";

/** Reads what `warmline --version` prints; undefined where it is nothing of ours. */
export function parseVersion(output: string): string | undefined {
  return /^warmline (\d+(?:\.\d+)*[^\s]*)\s*$/m.exec(output)?.[1];
}

/** Tells whether `version` is `minimum` or newer; what follows the numbers (`rc1`, `.dev0`) does not count. */
export function isAtLeast(version: string, minimum: string): boolean {
  const ours = numbers(version);
  const wanted = numbers(minimum);
  for (let i = 0; i < Math.max(ours.length, wanted.length); i += 1) {
    const difference = (ours[i] ?? 0) - (wanted[i] ?? 0);
    if (difference !== 0) {
      return difference > 0;
    }
  }
  return true;
}

function numbers(version: string): number[] {
  return (/^\d+(?:\.\d+)*/.exec(version)?.[0] ?? "").split(".").map(Number);
}
