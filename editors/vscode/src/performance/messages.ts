/** What the performance page and the extension say to each other. */
import type { Statistics } from "../protocol";

export type ToPage = { kind: "statistics"; statistics: Statistics } | { kind: "trouble"; text: string };
export type FromPage = { kind: "ready" };
