/** The plots: scales that are right, figures made of the statistics and of nothing else. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { figuresOf, type Bars, type Dots } from "../../../../editors/vscode/src/performance/figures";
import {
  amount,
  clock,
  decades,
  duration,
  linear,
  logarithmic,
  moments,
  percent,
  quantile,
} from "../../../../editors/vscode/src/performance/scales";
import type { RecentAnswer, Statistics } from "../../../../editors/vscode/src/protocol";

const NOTHING: Statistics = { recent: [], variants: [], memory: null, counting: true };

function answer(at: number, total: number, more: Partial<RecentAnswer> = {}): RecentAnswer {
  return {
    at,
    kind: "completion",
    variant: "v",
    ttft_ms: 1,
    total_ms: total,
    prompt_tokens: 100,
    reused_tokens: 50,
    ...more,
  };
}

test("scales map ends to ends, and one value to the middle", () => {
  const straight = linear([0, 10], [100, 0]);
  assert.deepEqual([straight(0), straight(5), straight(10)], [100, 50, 0]);
  assert.equal(linear([3, 3], [0, 10])(3), 5);
  const byLog = logarithmic([1, 1000], [0, 30]);
  assert.deepEqual(
    [1, 10, 100, 1000].map((value) => Math.round(byLog(value))),
    [0, 10, 20, 30],
  );
  assert.equal(byLog(0), 0);
});

test("ticks enclose all values", () => {
  assert.deepEqual(decades([12, 480]), [10, 100, 1000]);
  assert.deepEqual(decades([100]), [100, 1000]);
  assert.deepEqual(decades([40, 700]), [10, 100, 1000]);
  assert.deepEqual(decades([0.2, 3]), [1, 10]);
  assert.deepEqual(moments(3, 62, 4), [30, 60]);
  assert.deepEqual(moments(0, 10, 3), [0, 5, 10]);
  for (const width of [1, 59, 600, 86400, 9e6]) {
    const found = moments(1000, 1000 + width, 5);
    assert.ok(found.length <= 5 && found.every((at) => at >= 1000 && at <= 1000 + width), String(width));
  }
});

test("amounts are said as people say them", () => {
  assert.deepEqual([0.44, 9.96, 840.2, 1200, 61000].map(duration), ["0.4 ms", "10 ms", "840 ms", "1.2 s", "61 s"]);
  assert.deepEqual([0, 999, 98_362_432, 1.25e9, 312e6].map(amount), ["0 B", "999 B", "98.4 MB", "1.3 GB", "312 MB"]);
  assert.equal(percent(0.306), "31 %");
  assert.match(clock(0, 10), /^\d\d:\d\d:00$/);
  assert.match(clock(0, 1000), /^\d\d:\d\d$/);
  assert.equal(quantile([5, 1, 4, 2, 3], 0.5), 3);
  assert.equal(quantile([5, 1, 4, 2, 3], 0.95), 5);
});

test("without data nothing is drawn, and it is said what to do", () => {
  const figures = figuresOf(NOTHING);
  assert.equal(figures.length, 4);
  for (const { plot, summary } of figures) {
    assert.equal(plot, undefined);
    assert.ok(summary.length > 10);
  }
  assert.match(figuresOf({ ...NOTHING, counting: false })[2]!.summary, /warmline\.stats\.enabled/);
});

test("each answer is one dot of its variant", () => {
  const recent = [
    answer(1, 20),
    answer(2, 2000, { kind: "chat" }),
    answer(3, 40, { variant: "w", reused_tokens: 100 }),
  ];
  const [latency, reuse] = figuresOf({ ...NOTHING, recent });
  const dots = latency!.plot as Dots;
  assert.deepEqual(dots.series, [
    { name: "v", points: [{ at: 1, value: 20 }] },
    { name: "v, chat", points: [{ at: 2, value: 2000 }] },
    { name: "w", points: [{ at: 3, value: 40 }] },
  ]);
  assert.deepEqual(
    dots.ticks.map(({ text }) => text),
    ["10 ms", "100 ms", "1 s", "10 s"],
  );
  assert.match(latency!.summary, /3 answers .* half within 40 ms, 95 % within 2 s/);
  assert.deepEqual(
    (reuse!.plot as Dots).series.map(({ points }) => points[0]?.value),
    [0.5, 0.5, 1],
  );
  assert.match(reuse!.summary, /200 of 300 .*67 %/);
});

test("many variants share the last colour and lose no answer", () => {
  const recent = Array.from({ length: 9 }, (_, number) => answer(number, 10, { variant: `v${number}` }));
  const { series } = figuresOf({ ...NOTHING, recent })[0]!.plot as Dots;
  assert.deepEqual(
    series.map(({ name }) => name),
    ["v0", "v1", "v2", "v3", "others"],
  );
  assert.equal(
    series.reduce((sum, { points }) => sum + points.length, 0),
    9,
  );
});

test("shares accepted and memory are told as counted", () => {
  const tally = { acceptance: 0.3, median_ms: 1, p95_ms: 2 };
  const variants = [
    { variant: "v", shown: 40, accepted: 12, ...tally },
    { variant: "w", shown: 0, accepted: 0, ...tally },
  ];
  const figures = figuresOf({ ...NOTHING, variants, memory: { weights: 100e6, snapshots: 25e6, process: 0 } });
  assert.deepEqual((figures[2]!.plot as Bars).bars, [{ name: "v", value: 0.3, text: "12 of 40 (30 %)" }]);
  const memory = figures[3]!.plot as Bars;
  assert.deepEqual(
    memory.bars.map(({ text }) => text),
    ["100 MB", "25 MB"],
  );
  assert.equal(memory.full, 100e6);
});
