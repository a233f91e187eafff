/** What the plots show, out of the server's statistics alone: none is made up, none is left out unsaid. Pure. */
import type { RecentAnswer, Statistics } from "../protocol";
import { amount, decades, duration, percent, quantile } from "./scales";

export interface Point {
  /** Seconds since the epoch. */
  at: number;
  value: number;
}

export interface Dots {
  kind: "dots";
  series: { name: string; points: Point[] }[];
  /** What the axis names, lowest first; `logarithmic` for times. */
  ticks: { value: number; text: string }[];
  logarithmic: boolean;
}

export interface Bars {
  kind: "bars";
  bars: { name: string; value: number; text: string }[];
  /** The value of a full bar. */
  full: number;
}

export interface Figure {
  title: string;
  /** In words what is to be seen: a screen reader says it. */
  summary: string;
  plot: Dots | Bars | undefined;
}

/** The series beyond these share one colour, named so. */
const MOST_SERIES = 5;
const MOST_BARS = 12;
const MEMORY = [
  ["weights", "Weights of loaded bases"],
  ["snapshots", "Kept KV, not in use now"],
  ["process", "Engine's process, all of it"],
] as const;

export function figuresOf(statistics: Statistics): Figure[] {
  return [latency(statistics.recent), reuse(statistics.recent), acceptance(statistics), memory(statistics)];
}

function latency(recent: readonly RecentAnswer[]): Figure {
  const title = "Time of an answer";
  if (!recent.length) {
    return nothing(title, "No answers in this window yet: type in a file, or ask in the Chat view.");
  }
  const totals = recent.map((each) => each.total_ms);
  const [median, most] = [quantile(totals, 0.5), quantile(totals, 0.95)];
  return {
    title,
    summary:
      `${answers(recent.length)} in this window: ` +
      `half within ${duration(median)}, 95 % within ${duration(most)}.`,
    plot: {
      kind: "dots",
      series: series(recent, (each) => each.total_ms),
      ticks: decades(totals).map((value) => ({ value, text: duration(value) })),
      logarithmic: true,
    },
  };
}

function reuse(recent: readonly RecentAnswer[]): Figure {
  const title = "Share of the prompt whose KV was there";
  const prompts = recent.filter((each) => each.prompt_tokens > 0);
  if (!prompts.length) {
    return nothing(title, "No prompts yet: it is measured with each answer.");
  }
  const sum = (of: (each: RecentAnswer) => number): number => prompts.reduce((all, each) => all + of(each), 0);
  const [reused, tokens] = [sum((each) => each.reused_tokens), sum((each) => each.prompt_tokens)];
  return {
    title,
    summary: `${reused} of ${tokens} prompt tokens were reused (${percent(reused / tokens)}).`,
    plot: {
      kind: "dots",
      series: series(prompts, (each) => each.reused_tokens / each.prompt_tokens),
      ticks: [0, 0.5, 1].map((value) => ({ value, text: percent(value) })),
      logarithmic: false,
    },
  };
}

function acceptance({ variants, counting }: Statistics): Figure {
  const title = "Suggestions accepted, by variant";
  const known = variants.filter((each) => each.shown > 0);
  if (!known.length) {
    const off = "Counting is off (setting warmline.stats.enabled).";
    return nothing(title, counting ? "No suggestion has been shown yet; accept one with Tab." : off);
  }
  const shown = known.slice(0, MOST_BARS);
  const left = known.length - shown.length;
  return {
    title,
    summary:
      `Counted on this machine${counting ? "" : " until counting was turned off"}` +
      (left ? `; ${left} variants used longer ago are not drawn.` : "."),
    plot: {
      kind: "bars",
      full: 1,
      bars: shown.map(({ variant, shown: all, accepted }) => ({
        name: variant,
        value: Math.min(1, accepted / all),
        text: `${accepted} of ${all} (${percent(accepted / all)})`,
      })),
    },
  };
}

function memory({ memory: sizes }: Statistics): Figure {
  const title = "Memory of the engine, by kind";
  const bars = MEMORY.flatMap(([kind, name]) => {
    const value = sizes?.[kind];
    return value === undefined || (kind === "process" && value === 0) ? [] : [{ name, value, text: amount(value) }];
  });
  if (!bars.length) {
    return nothing(title, "No engine runs for this window: it starts with the first answer.");
  }
  return {
    title,
    summary: "The process holds weights and KV in use besides what the other bars name.",
    plot: { kind: "bars", bars, full: Math.max(1, ...bars.map((each) => each.value)) },
  };
}

function series(recent: readonly RecentAnswer[], value: (each: RecentAnswer) => number): Dots["series"] {
  const found = new Map<string, Point[]>();
  const names = [...new Set(recent.map(nameOf))];
  const own = new Set(names.length > MOST_SERIES ? names.slice(0, MOST_SERIES - 1) : names);
  for (const each of recent) {
    const name = own.has(nameOf(each)) ? nameOf(each) : "others";
    found.set(name, [...(found.get(name) ?? []), { at: each.at, value: value(each) }]);
  }
  return [...found].map(([name, points]) => ({ name, points }));
}

function nameOf({ variant, kind }: RecentAnswer): string {
  return kind === "chat" ? `${variant}, chat` : variant;
}

function nothing(title: string, summary: string): Figure {
  return { title, summary, plot: undefined };
}

function answers(count: number): string {
  return count === 1 ? "One answer" : `${count} answers`;
}
