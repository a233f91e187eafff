/** The chat's page: draws what the extension says, and says what the person does. */
import type { FromPage, Header, ToPage } from "../messages";
import { visible } from "../../pages/text";
import { button, make } from "../../pages/webview/dom";
import { ExchangeView } from "./exchange";

declare function acquireVsCodeApi(): {
  postMessage(message: FromPage): void;
  getState(): unknown;
  setState(state: unknown): void;
};

const NEAR_THE_END = 40; // pixels
const vscode = acquireVsCodeApi();
const send = (message: FromPage): void => vscode.postMessage(message);

const variant = make("span", { className: "variant" });
const made = make("span", { className: "made" });
const trouble = make("p", { className: "trouble", aria: { role: "status" } });
const log = make("div", {
  className: "log",
  aria: { role: "log", live: "polite", relevant: "additions", label: "Conversation" },
});
const empty = make("p", {
  className: "empty",
  textContent:
    "Ask about your code. The answer comes from your workspace's variant on this machine; nothing leaves it. " +
    "Add the selection or the file with the buttons below: what is named there is what goes along.",
});
const chips = make("ul", { className: "chips", aria: { label: "Goes along with the question" } });
const input = make("textarea", { aria: { label: "Question. Enter sends it, Shift and Enter begins a new line" } });
const ask = button("Ask", () => submit());
const stop = button("Stop", () => send({ kind: "stop" }), "Stop this answer");
const saying = make("div", { className: "unseen", aria: { role: "status", live: "polite" } });
const views = new Map<number, ExchangeView>();
// Who has scrolled up is not pulled down by what is being written.
let following = true;
let scrolledTo = 0;

function build(): void {
  input.rows = 2;
  input.placeholder = "Ask…  (Enter sends, Shift+Enter: new line)";
  input.value = draft();
  input.addEventListener("input", () => vscode.setState({ draft: input.value }));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  });
  log.addEventListener("scroll", scrolled);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !stop.hidden) {
      send({ kind: "stop" });
    }
  });
  const clear = button("Clear", () => send({ kind: "clear" }), "Clear the conversation and its history");
  const header = make("header", {}, make("div", { className: "who" }, variant, made), clear);
  const add = make(
    "div",
    { className: "add" },
    button("+ Selection", () => send({ kind: "addSelection" }), "Add the editor's selection to the question"),
    button("+ File", () => send({ kind: "addFile" }), "Add the editor's file to the question"),
  );
  const actions = make("div", { className: "actions" }, add, make("span", { className: "gap" }), stop, ask);
  ask.className = "primary";
  document.body.append(header, trouble, log, make("form", {}, chips, input, actions), saying);
  document.querySelector("form")!.addEventListener("submit", (event) => event.preventDefault());
}

function draft(): string {
  const state = vscode.getState() as { draft?: unknown } | undefined;
  return typeof state?.draft === "string" ? state.draft : "";
}

function submit(): void {
  const text = input.value.trim();
  if (!text || ask.disabled) {
    return;
  }
  input.value = "";
  vscode.setState({ draft: "" });
  following = true;
  send({ kind: "ask", text });
}

function take(message: ToPage): void {
  switch (message.kind) {
    case "all":
      following = true;
      views.clear();
      log.replaceChildren(empty);
      message.exchanges.forEach(show);
      showChips(message.chips);
      showHeader(message.header);
      showBusy(message.busy);
      break;
    case "exchange":
      show(message.exchange);
      showBusy(message.busy);
      break;
    case "thought":
    case "text":
      views.get(message.id)?.append(message);
      break;
    case "chips":
      showChips(message.chips);
      break;
    case "header":
      showHeader(message.header);
      break;
    case "focus":
      input.focus();
      break;
    case "say":
      saying.textContent = message.text;
      break;
  }
  // A frame later: what came in this message is drawn by then.
  requestAnimationFrame(() => {
    if (following) {
      log.scrollTo({ top: log.scrollHeight });
    }
  });
}

/** Text that grows below moves nothing, so only a person gets further up. */
function scrolled(): void {
  const nearTheEnd = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_THE_END;
  following = nearTheEnd || (following && log.scrollTop >= scrolledTo);
  scrolledTo = log.scrollTop;
}

function show(exchange: Extract<ToPage, { kind: "exchange" }>["exchange"]): void {
  const known = views.get(exchange.id);
  if (known) {
    known.update(exchange);
    return;
  }
  empty.remove();
  const view = new ExchangeView(exchange, send);
  views.set(exchange.id, view);
  log.append(view.element);
}

function showBusy(busy: boolean): void {
  const hadFocus = document.activeElement === stop;
  stop.hidden = !busy;
  ask.disabled = busy;
  if (hadFocus && !busy) {
    input.focus();
  }
}

function showChips(labels: readonly string[]): void {
  const items = labels.map((label, index) => {
    const text = visible(label);
    return make(
      "li",
      {},
      text,
      button("×", () => send({ kind: "removeChip", index }), `Remove ${text}`),
    );
  });
  chips.replaceChildren(...items);
  chips.hidden = !items.length;
}

function showHeader(header: Header): void {
  variant.textContent = visible(header.variant || "no variant");
  made.textContent = made.title = visible(header.made);
  trouble.textContent = visible(header.trouble);
  trouble.hidden = !header.trouble;
}

build();
window.addEventListener("message", (event: MessageEvent<ToPage>) => take(event.data));
send({ kind: "ready" });
