/** Elements made by code. */

type Props = Partial<Record<"className" | "textContent" | "title" | "type", string>> & {
  aria?: Record<string, string>;
};

/** Makes an element with its attributes and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const { aria, ...rest } = props;
  const element = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(aria ?? {})) {
    element.setAttribute(name === "role" ? name : `aria-${name}`, value);
  }
  element.append(...children);
  return element;
}

/** Makes a button; `label` is what a screen reader says where the text alone is not clear. */
export function button(text: string, act: () => void, label = ""): HTMLButtonElement {
  const element = make("button", {
    textContent: text,
    type: "button",
    ...(label ? { aria: { label }, title: label } : {}),
  });
  element.addEventListener("click", act);
  return element;
}
