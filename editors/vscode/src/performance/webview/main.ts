/** The performance page: draws the latest statistics, again when its width changes. */
import { make } from "../../pages/webview/dom";
import { visible } from "../../pages/text";
import { figuresOf } from "../figures";
import type { FromPage, ToPage } from "../messages";
import type { Statistics } from "../../protocol";
import { drawFigure } from "./draw";

declare function acquireVsCodeApi(): { postMessage(message: FromPage): void };

const MARGIN = 24; // pixels left and right together, as in the style
const trouble = make("p", { className: "trouble", aria: { role: "status" } });
const figures = make("main");
let latest: Statistics | undefined;

function draw(): void {
  if (latest) {
    const width = document.documentElement.clientWidth - MARGIN;
    figures.replaceChildren(...figuresOf(latest).map((figure) => drawFigure(figure, width)));
  }
}

window.addEventListener("message", ({ data }: MessageEvent<ToPage>) => {
  trouble.hidden = data.kind !== "trouble";
  if (data.kind === "trouble") {
    trouble.textContent = visible(data.text);
    figures.replaceChildren();
    latest = undefined;
  } else {
    latest = data.statistics;
    draw();
  }
});
window.addEventListener("resize", draw);
trouble.hidden = true;
document.body.append(trouble, figures);
acquireVsCodeApi().postMessage({ kind: "ready" });
