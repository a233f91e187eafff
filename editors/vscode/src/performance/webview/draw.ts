/** Figures as SVG: dots over time, and bars. */
import { make } from "../../pages/webview/dom";
import { visible } from "../../pages/text";
import type { Bars, Dots, Figure } from "../figures";
import { clock, linear, logarithmic, moments } from "../scales";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 48;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;
const HEIGHT = 120;
const LEAST_WIDTH = 160;
const SIZE = 3; // half of a mark, in pixels

/** Draws a figure for a width in pixels. */
export function drawFigure(figure: Figure, width: number): HTMLElement {
  const title = make("h2", { textContent: figure.title });
  const summary = make("figcaption", { textContent: visible(figure.summary) });
  const { plot } = figure;
  if (!plot) {
    return make("figure", { className: "nothing" }, title, summary);
  }
  if (plot.kind === "bars") {
    return make("figure", {}, title, summary, bars(plot));
  }
  const drawn = dots(plot, Math.max(LEAST_WIDTH, width));
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", `${figure.title}. ${visible(figure.summary)}`);
  return make("figure", {}, title, summary, drawn, legend(plot));
}

function dots({ series, ticks, logarithmic: byLog }: Dots, width: number): SVGElement {
  const values: [number, number] = [ticks[0]!.value, ticks[ticks.length - 1]!.value];
  const times = series.flatMap(({ points }) => points.map(({ at }) => at));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const y = (byLog ? logarithmic : linear)(values, [HEIGHT - BOTTOM, TOP]);
  const x = linear([from, to], [LEFT + SIZE, width - RIGHT - SIZE]);
  const svg = element("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT });
  for (const { value, text } of ticks) {
    svg.append(element("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(element("text", { class: "left", x: LEFT - 6, y: y(value) + 4 }, text));
  }
  const labels = from === to ? [from] : moments(from, to, Math.max(2, Math.floor((width - LEFT) / 70)));
  for (const at of labels) {
    svg.append(element("text", { class: "below", x: x(at), y: HEIGHT - 5 }, clock(at, to - from)));
  }
  series.forEach(({ points }, index) => {
    points.forEach((point) => svg.append(mark(index, x(point.at), y(point.value))));
  });
  return svg;
}

/** Each series has a shape besides its colour, for those who cannot tell colours apart. */
function mark(series: number, x: number, y: number): SVGElement {
  const shapes = [
    `M${x - SIZE} ${y}a${SIZE} ${SIZE} 0 1 0 ${2 * SIZE} 0a${SIZE} ${SIZE} 0 1 0 ${-2 * SIZE} 0`,
    `M${x - SIZE} ${y - SIZE}h${2 * SIZE}v${2 * SIZE}h${-2 * SIZE}z`,
    `M${x} ${y - SIZE - 1}l${SIZE + 1} ${2 * SIZE + 1}h${-2 * SIZE - 2}z`,
    `M${x} ${y - SIZE - 1}l${SIZE + 1} ${SIZE + 1}l${-SIZE - 1} ${SIZE + 1}l${-SIZE - 1} ${-SIZE - 1}z`,
    `M${x} ${y + SIZE + 1}l${SIZE + 1} ${-2 * SIZE - 1}h${-2 * SIZE - 2}z`,
  ];
  return element("path", { class: `mark series-${series % shapes.length}`, d: shapes[series % shapes.length]! });
}

function legend({ series }: Dots): HTMLElement {
  const items = series.map(({ name, points }, index) => {
    const sign = element("svg", { width: 12, height: 12, "aria-hidden": "true" });
    sign.append(mark(index, 6, 6));
    return make("li", {}, sign, `${visible(name)} (${points.length})`);
  });
  return make("ul", { className: "legend" }, ...items);
}

function bars({ bars: all, full }: Bars): HTMLElement {
  const rows = all.map(({ name, value, text }) => {
    const svg = element("svg", {
      class: "bar",
      viewBox: "0 0 100 8",
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    });
    svg.append(element("rect", { class: "track", width: 100, height: 8 }));
    svg.append(element("rect", { class: "value", width: linear([0, full], [0, 100])(value), height: 8 }));
    return make(
      "tr",
      {},
      make("th", { aria: { role: "rowheader" } }, visible(name)),
      make("td", {}, svg),
      make("td", {}, text),
    );
  });
  return make("table", {}, make("tbody", {}, ...rows));
}

function element(tag: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS(SVG, tag) as SVGElement;
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, String(value));
  }
  made.textContent = text;
  return made;
}
