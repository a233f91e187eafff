/** Code out of an answer, made fit for the place where it goes. Pure. */

/** Gives code the indentation of the place that it replaces, and its line ends. */
export function fitted(code: string, replaced: string, eol: string): string {
  const lines = dedented(
    code
      .replace(/\r\n?/g, "\n")
      .replace(/^\n+|\n+$/g, "")
      .split("\n"),
  );
  const first = replaced.split(/\r\n?|\n/).find((line) => line.trim() !== "") ?? "";
  const indent = /^[ \t]*/.exec(first)![0];
  const text = lines.map((line) => (line ? indent + line : line)).join("\n") + (/[\r\n]$/.test(replaced) ? "\n" : "");
  return text.replaceAll("\n", eol);
}

function dedented(lines: string[]): string[] {
  const filled = lines.filter((line) => line.trim() !== "");
  let common = /^[ \t]*/.exec(filled[0] ?? "")![0];
  for (const line of filled) {
    while (!line.startsWith(common)) {
      common = common.slice(0, -1);
    }
  }
  return lines.map((line) => (line.trim() === "" ? "" : line.slice(common.length)));
}
