/** Text that others wrote, made fit to be shown: what cannot be seen is written as an escape. Pure. */

// Controls but for tab and line feed, what turns the reading direction, and what has no width; joiners of emoji stay.
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Writes each character that acts without being seen (terminal codes, turned directions) as `\x1b` or `\u202e`. */
export function visible(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(INVISIBLE, escaped);
}

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}
