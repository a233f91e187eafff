/** Text of models, files and artifacts as Markdown that shows it and does nothing else. */

/** Control and bidirectional characters, which could make text look like another one. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const MEANT = /[\\`*_{}[\]()#+\-.!|<>&~$:@"'=/]/g;

/** Gives text in one line, without what cannot be seen. */
export function plain(text: string): string {
  return text.replace(/\s+/g, " ").replace(UNSEEN, "\ufffd").trim();
}

/** Escapes text so that Markdown shows it as it is: no link, image, HTML, code or icon comes of it. */
export function escape(text: string): string {
  return plain(text).replace(MEANT, (character) => `&#${character.charCodeAt(0)};`);
}
