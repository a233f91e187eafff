/** One question and its answer on the page. */
import { markdown } from "./markdown";
import { grow } from "../log";
import type { FromPage, Shown } from "../messages";
import { visible } from "../../pages/text";
import { button, make } from "../../pages/webview/dom";
import { Growing } from "./grow";

const ENDS: Partial<Record<Shown["state"], string>> = {
  cut: "Cut at the most tokens of one answer (setting warmline.chat.maxTokens).",
  stopped: "Stopped.",
};

export class ExchangeView {
  readonly element: HTMLElement;
  private readonly from = make("div", { className: "from" });
  private readonly heading = make("summary");
  private readonly thought = make("div");
  private readonly thinking = make("details", { className: "thought" }, this.heading, this.thought);
  private readonly body = make("div", { className: "answer" });
  private readonly foot = make("div", { className: "foot" });
  private readonly growing: Growing;
  private drawing = 0;

  constructor(
    private exchange: Shown,
    private readonly send: (message: FromPage) => void,
  ) {
    const heading = make("h2", { className: "question", textContent: visible(exchange.question) });
    const chips = exchange.attached.map((label) => make("li", { textContent: visible(label) }));
    this.element = make("article", { className: "exchange" }, heading);
    if (chips.length) {
      this.element.append(make("ul", { className: "chips sent", aria: { label: "Went along" } }, ...chips));
    }
    this.element.append(this.from, this.thinking, this.body, this.foot);
    this.growing = new Growing(this.body, {
      code: (code, language) => this.code(code, language),
      follow: (address) => this.send({ kind: "follow", address }),
    });
    this.update(exchange);
  }

  /** Takes the exchange as it is now. */
  update(exchange: Shown): void {
    this.exchange = exchange;
    const running = exchange.state === "running";
    this.element.setAttribute("aria-busy", String(running));
    this.from.textContent = visible(whoAnswers(exchange));
    this.draw();
    this.foot.replaceChildren(...this.remarks());
  }

  /** Adds what has just been written; it is drawn with the next frame. */
  append(piece: { kind: "thought" | "text"; text: string }): void {
    this.exchange = { ...this.exchange };
    grow(this.exchange, piece);
    this.drawing ||= requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    const { thought, answer, state } = this.exchange;
    this.thinking.hidden = !thought;
    this.thought.textContent = visible(thought ?? "");
    this.heading.textContent = state === "running" && !answer ? "Thinking…" : "Thought";
    this.growing.show(markdown(answer));
  }

  private remarks(): HTMLElement[] {
    const { state, notice, remedy, action, id } = this.exchange;
    const text = [ENDS[state], notice, remedy].filter((part) => part).join(" ");
    if (!text) {
      return [];
    }
    const bad = state === "failed" || state === "broken";
    const remark = make("p", { className: bad ? "remark bad" : "remark", textContent: visible(text) });
    return action ? [remark, button(action.title, () => this.send({ kind: "act", id }))] : [remark];
  }

  private code(code: string, language: string): HTMLElement {
    const pre = make(
      "pre",
      { aria: { label: language ? `${language} code` : "code" } },
      make("code", { textContent: code }),
    );
    pre.tabIndex = 0;
    const bar = make("div", { className: "bar", aria: { role: "group", label: "What to do with this code" } });
    bar.append(
      make("span", { className: "language", textContent: language }),
      button("Insert", () => this.send({ kind: "insert", code }), "Insert at the cursor"),
      button("Copy", () => this.send({ kind: "copy", code }), "Copy this code"),
      button("Apply…", () => this.send({ kind: "apply", id: this.exchange.id, code }), "Show as a change to apply"),
    );
    return make("div", { className: "code" }, bar, pre);
  }
}

function whoAnswers({ variant, adapters, state }: Shown): string {
  if (!variant) {
    return state === "running" ? "Waiting for the variant…" : "";
  }
  return `${variant} · ${adapters.join(" + ") || "no adapter"}`;
}
