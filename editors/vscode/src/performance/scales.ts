/** Scales and labels of the plots. Pure. */

/** From a value to a place in pixels. */
export type Scale = (value: number) => number;

/** Maps `from` to `to`, straight. */
export function linear(from: readonly [number, number], to: readonly [number, number]): Scale {
  const width = from[1] - from[0];
  return (value) => (width === 0 ? (to[0] + to[1]) / 2 : to[0] + ((value - from[0]) / width) * (to[1] - to[0]));
}

/** Maps `from` to `to` by the logarithm; values below `from` go to its begin. */
export function logarithmic(from: readonly [number, number], to: readonly [number, number]): Scale {
  const straight = linear([Math.log10(from[0]), Math.log10(from[1])], to);
  return (value) => straight(Math.log10(Math.max(from[0], value)));
}

/** The powers of ten around all values, at least one step apart; values are positive. */
export function decades(values: readonly number[]): number[] {
  const low = Math.floor(Math.log10(Math.max(1, Math.min(...values))));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(1, ...values))));
  return Array.from({ length: high - low + 1 }, (_, step) => 10 ** (low + step));
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

/** Round moments between two, at most `most` of them; all in seconds since the epoch. */
export function moments(from: number, to: number, most: number): number[] {
  const step =
    STEPS.find((each) => (to - from) / each <= most - 1) ?? 86400 * Math.ceil((to - from) / 86400 / (most - 1));
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    found.push(at);
  }
  return found;
}

/** A moment as `14:05`, with seconds where the plot spans less than five minutes. */
export function clock(at: number, span: number): string {
  const date = new Date(at * 1000);
  const two = (value: number): string => String(value).padStart(2, "0");
  const seconds = span < 300 ? `:${two(date.getSeconds())}` : "";
  return `${two(date.getHours())}:${two(date.getMinutes())}${seconds}`;
}

/** `840 ms`, `1.2 s`. */
export function duration(ms: number): string {
  return ms < 1000 ? `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms` : `${Number((ms / 1000).toFixed(1))} s`;
}

/** `512 B`, `98.4 MB`, `1.2 GB`: powers of 1000. */
export function amount(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${units[unit]}`;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** The value below which `share` of them lie: the nearest rank. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? NaN;
}
