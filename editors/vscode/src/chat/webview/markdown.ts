/**
 * Markdown of a model's answer as a tree of the few elements that an answer may have. Pure.
 *
 * No HTML is made or taken: the tree becomes DOM nodes one by one, so whatever a model writes stays text. A link is one
 * only if it leads to http or https; an image is named and never fetched.
 */
import MarkdownIt, { type Token } from "markdown-it";
import { visible } from "../../pages/text";

export type Tree = string | Element;

export interface Element {
  tag: Tag;
  attributes?: Record<string, string>;
  children: Tree[];
}

export type Tag =
  | "a"
  | "blockquote"
  | "br"
  | "code"
  | "em"
  | "h3"
  | "h4"
  | "h5"
  | "h6"
  | "hr"
  | "li"
  | "ol"
  | "p"
  | "pre"
  | "s"
  | "strong"
  | "table"
  | "tbody"
  | "td"
  | "th"
  | "thead"
  | "tr"
  | "ul";

const PLAIN = new Set<string>([
  "blockquote",
  "em",
  "hr",
  "li",
  "ol",
  "p",
  "s",
  "strong",
  "table",
  "tbody",
  "td",
  "th",
  "thead",
  "tr",
  "ul",
]);
const parser = new MarkdownIt({ html: false, linkify: false, typographer: false });
// The parser leaves out links that it takes for unsafe; here each is seen, and `link` decides.
parser.validateLink = () => true;

/** Parses an answer; its code blocks are `pre` elements with the attribute `data-language` and one string. */
export function markdown(source: string): Tree[] {
  return grown(parser.parse(visible(source), {}));
}

function grown(tokens: Token[]): Tree[] {
  const root: Element = { tag: "p", children: [] };
  const open: Element[] = [root];
  for (const token of tokens) {
    const parent = open[open.length - 1]!;
    if (token.nesting === 1) {
      const element = opened(token);
      if (!token.hidden) {
        parent.children.push(element);
      }
      // What is left out of a tight list's items is the paragraph itself: its content goes to the item.
      open.push(token.hidden ? parent : element);
    } else if (token.nesting === -1) {
      const closed = open.pop()!;
      if (token.type === "link_close" && closed.tag !== "a") {
        closed.children.push(` (${closed.attributes?.["data-target"] ?? ""})`);
      }
    } else {
      parent.children.push(...leaf(token));
    }
  }
  return root.children;
}

function opened(token: Token): Element {
  if (token.type === "link_open") {
    return link(String(token.attrGet("href") ?? ""));
  }
  if (token.type === "heading_open") {
    return { tag: heading(token.tag), children: [] };
  }
  const start = String(token.attrGet("start") ?? "");
  return {
    tag: PLAIN.has(token.tag) ? (token.tag as Tag) : "p",
    ...(/^\d{1,9}$/.test(start) ? { attributes: { start } } : {}),
    children: [],
  };
}

/** An answer's own headings stand below those of the view. */
function heading(tag: string): Tag {
  return (["h3", "h4", "h5", "h6", "h6", "h6"] as const)[Number(tag.slice(1)) - 1] ?? "h6";
}

function link(target: string): Element {
  const shown = visible(target);
  if (/^https?:\/\/[^\s@]+$/i.test(target)) {
    return { tag: "a", attributes: { href: target, title: shown }, children: [] };
  }
  return { tag: "em", attributes: { "data-target": shown }, children: [] };
}

/** What stands for itself; an entity may have brought a character that cannot be seen. */
function leaf(token: Token): Tree[] {
  const content = visible(token.content);
  switch (token.type) {
    case "inline":
      return grown(token.children ?? []);
    case "fence":
    case "code_block": {
      const language = /^[\w+#.-]{1,32}/.exec(token.info.trim())?.[0] ?? "";
      return [{ tag: "pre", attributes: { "data-language": language }, children: [content.replace(/\n$/, "")] }];
    }
    case "code_inline":
      return [{ tag: "code", children: [content] }];
    case "softbreak":
      return ["\n"];
    case "hardbreak":
      return [{ tag: "br", children: [] }];
    case "hr":
      return [{ tag: "hr", children: [] }];
    case "image":
      return [`[image: ${content} (${visible(String(token.attrGet("src") ?? ""))})]`];
    default:
      return content ? [content] : [];
  }
}
