/** Trees as DOM nodes, made one by one: no text is ever parsed as HTML. */
import type { Tree } from "./markdown";

export interface Acts {
  /** Draws one code block with its buttons. */
  code: (code: string, language: string) => HTMLElement;
  /** Goes to an http or https address. */
  follow: (address: string) => void;
}

/** Makes a node. */
export function grow(tree: Tree, acts: Acts): Node {
  if (typeof tree === "string") {
    return document.createTextNode(tree);
  }
  if (tree.tag === "pre") {
    return acts.code(tree.children.join(""), tree.attributes?.["data-language"] ?? "");
  }
  const element = document.createElement(tree.tag);
  for (const [name, value] of Object.entries(tree.attributes ?? {})) {
    element.setAttribute(name, value);
  }
  element.append(...tree.children.map((child) => grow(child, acts)));
  if (element instanceof HTMLAnchorElement) {
    // VS Code itself would open it unasked in a trusted workspace; the extension's way asks about each new site.
    element.addEventListener("click", (event) => {
      event.preventDefault();
      event.stopPropagation();
      acts.follow(element.href);
    });
  }
  return tree.tag === "table" ? scrolling(element) : element;
}

/** Shows trees in a parent; what has not changed since the last time stays, with its focus and its selection. */
export class Growing {
  private shown: { key: string; node: Node }[] = [];

  constructor(
    private readonly parent: HTMLElement,
    private readonly acts: Acts,
  ) {}

  show(trees: readonly Tree[]): void {
    const keys = trees.map((tree) => JSON.stringify(tree));
    let same = 0;
    while (same < keys.length && this.shown[same]?.key === keys[same]) {
      same += 1;
    }
    for (const { node } of this.shown.splice(same)) {
      this.parent.removeChild(node);
    }
    for (let at = same; at < keys.length; at += 1) {
      const node = this.parent.appendChild(grow(trees[at]!, this.acts));
      this.shown.push({ key: keys[at]!, node });
    }
  }
}

function scrolling(table: HTMLElement): HTMLElement {
  const around = document.createElement("div");
  around.className = "scrolling";
  around.tabIndex = 0;
  around.append(table);
  return around;
}
