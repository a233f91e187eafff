/** The parts of the chat that need no editor: chips, the log, faults in words, code made to fit. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  fileSpan,
  followed,
  label,
  MOST_CHIPS,
  withChip,
  type Chip,
  type Span,
} from "../../../../editors/vscode/src/chat/chips";
import { fitted } from "../../../../editors/vscode/src/chat/code";
import { actionOf, faultOf, ServerGone } from "../../../../editors/vscode/src/chat/fault";
import { grow, Log, MOST_CHARACTERS, MOST_EXCHANGES } from "../../../../editors/vscode/src/chat/log";
import { pageOf } from "../../../../editors/vscode/src/pages/page";

function span(...[line, character, endLine, endCharacter]: [number, number, number, number]): Span {
  return { start: { line, character }, end: { line: endLine, character: endCharacter } };
}

const chip = (at: Span, lines?: number): Chip => ({
  uri: "file:///a.py",
  name: "a.py",
  span: at,
  ...(lines ? { lines } : {}),
});

test("a chip says which lines go along", () => {
  const cases: [Chip, string][] = [
    [chip(span(2, 0, 7, 3)), "a.py:3-8"],
    [chip(span(2, 4, 2, 9)), "a.py:3"],
    [chip(span(2, 0, 4, 0)), "a.py:3-4"],
    [chip(fileSpan(10, 120, 3), 10), "a.py"],
    [chip(fileSpan(400, 120, 3), 400), "a.py:1-120 of 400"],
    [chip(fileSpan(1, 120, 0), 1), "a.py"],
    [chip(fileSpan(24, 120, 0), 24), "a.py"],
  ];
  for (const [one, expected] of cases) {
    assert.equal(label(one), expected);
  }
});

test("the same part is there once, a file once, and there is a most", () => {
  const one = chip(span(0, 0, 1, 0));
  assert.deepEqual(withChip([one], { ...one }), [one]);
  const file = chip(fileSpan(10, 120, 3), 10);
  assert.equal(withChip([one, file], chip(fileSpan(11, 120, 3), 11))?.length, 2);
  const many = Array.from({ length: MOST_CHIPS }, (_, line) => chip(span(line, 0, line, 5)));
  assert.equal(withChip(many, chip(span(99, 0, 99, 5))), undefined);
});

test("a chip follows its text through edits", () => {
  // The text is `0123456789` in lines of ten; the marked part is compared before and after each edit.
  const lines = Array.from({ length: 6 }, (_, number) => `${number}abcdefghi`);
  const at = span(2, 2, 3, 4);
  const marked = (text: string[], where: Span): string => {
    const inside = text.slice(where.start.line, where.end.line + 1);
    inside[inside.length - 1] = inside[inside.length - 1]!.slice(0, where.end.character);
    inside[0] = inside[0]!.slice(where.start.character);
    return inside.join("\n");
  };
  const edit = (text: string[], range: Span, added: string): string[] => {
    const before = [...text.slice(0, range.start.line), text[range.start.line]!.slice(0, range.start.character)].join(
      "\n",
    );
    const after = [text[range.end.line]!.slice(range.end.character), ...text.slice(range.end.line + 1)].join("\n");
    return (before + added + after).split("\n");
  };
  const kept: [Span, string][] = [
    [span(0, 0, 0, 0), "new\nlines\n"],
    [span(0, 3, 1, 2), ""],
    [span(1, 0, 2, 2), "x"],
    [span(2, 2, 2, 2), "in front"],
    [span(2, 0, 2, 1), "a\nb"],
    [span(3, 4, 3, 4), "behind"],
    [span(3, 6, 5, 1), ""],
    [span(5, 0, 5, 9), "z"],
  ];
  for (const [range, text] of kept) {
    const now = followed(at, [{ range, text }]);
    assert.equal(marked(edit(lines, range, text), now), marked(lines, at), JSON.stringify([range, text]));
  }
  const inside = span(2, 5, 3, 1);
  assert.equal(marked(edit(lines, inside, "NEW"), followed(at, [{ range: inside, text: "NEW" }])), "bcdNEWabc");
  const over = span(3, 1, 4, 2);
  assert.equal(marked(edit(lines, over, "Q\nR"), followed(at, [{ range: over, text: "Q\nR" }])), "bcdefghi\n3Q\nR");
  assert.deepEqual(followed(at, [{ range: span(1, 0, 5, 0), text: "" }]), span(1, 0, 1, 0));
});

test("the log keeps what was said, and reads back what it wrote", () => {
  const log = Log.empty("c");
  const first = log.begin("q", ["a.py:1"], { uri: "file:///a.py", span: span(0, 0, 0, 1), text: "x" });
  Object.assign(first, { answer: "a", state: "done", variant: "v", adapters: ["s@1"] });
  const stored: unknown = JSON.parse(JSON.stringify(log.toJSON()));
  const again = Log.from(stored, "other");
  assert.equal(again.conversation, "c");
  assert.deepEqual(again.exchanges, [first]);
  assert.equal(again.begin("r", []).id, 2);
});

test("a thought is kept apart from the answer, and is no part of what is sent", () => {
  const log = Log.empty("c");
  const exchange = log.begin("q", []);
  for (const [kind, text] of [
    ["thought", "Hm, "],
    ["thought", "yes."],
    ["text", "Yes"],
    ["text", "."],
  ] as const) {
    grow(exchange, { kind, text });
  }
  exchange.state = "done";
  assert.deepEqual([exchange.thought, exchange.answer], ["Hm, yes.", "Yes."]);
  assert.equal(JSON.stringify(log.history()).includes("Hm"), false);
  const stored = JSON.parse(JSON.stringify(log));
  assert.equal(Log.from(stored, "d").exchanges[0]?.thought, "Hm, yes.");
  stored.exchanges[0].thought = 7;
  assert.equal(Log.from(stored, "d").exchanges.length, 0);
});

test("an answer that ran when the window closed is broken, with what it had", () => {
  const log = Log.empty("c");
  log.begin("q", []).answer = "half";
  const [exchange] = Log.from(JSON.parse(JSON.stringify(log.toJSON())), "d").exchanges;
  assert.equal(exchange?.state, "broken");
  assert.equal(exchange?.answer, "half");
  assert.match(exchange?.notice ?? "", /closed/);
});

test("whatever else is stored is an empty log, or left out of it", () => {
  for (const stored of [undefined, null, 1, "x", [], {}, { conversation: 1, exchanges: [] }, { conversation: "c" }]) {
    assert.deepEqual(Log.from(stored, "d").exchanges, []);
    assert.equal(Log.from(stored, "d").conversation, "d");
  }
  const good = { id: 1, question: "q", attached: [], answer: "", variant: "", adapters: [], state: "done" };
  const bad = [
    null,
    3,
    {},
    { ...good, id: "1" },
    { ...good, state: "x" },
    { ...good, attached: [1] },
    { ...good, target: 1 },
  ];
  assert.deepEqual(Log.from({ conversation: "c", exchanges: [...bad, good] }, "d").exchanges, [good]);
});

test("the log is bounded in number and in size, the oldest gone", () => {
  const log = Log.empty("c");
  for (let number = 0; number < MOST_EXCHANGES + 5; number += 1) {
    log.begin(`q${number}`, []);
  }
  assert.equal(log.exchanges.length, MOST_EXCHANGES);
  assert.equal(log.exchanges[0]?.question, "q5");
  log.exchanges[3]!.answer = "x".repeat(MOST_CHARACTERS);
  log.begin("last", []);
  assert.ok(log.exchanges.every(({ answer }) => answer === ""));
  assert.equal(log.exchanges.at(-1)?.question, "last");
  // A selection that went along counts too.
  log.exchanges[0]!.target = { uri: "file:///a.py", span: span(0, 0, 1, 0), text: "x".repeat(MOST_CHARACTERS) };
  log.begin("one more", []);
  assert.ok(log.exchanges.every(({ target }) => target === undefined));
});

test("the model is given what was finished, in pairs", () => {
  const log = Log.empty("c");
  const states = ["done", "stopped", "cut", "failed", "broken", "running"] as const;
  states.forEach((state, number) => Object.assign(log.begin(`q${number}`, []), { answer: `a${number}`, state }));
  assert.deepEqual(
    log.history().map(({ role, content }) => `${role} ${content}`),
    ["user q0", "assistant a0", "user q2", "assistant a2"],
  );
  log.clear("d");
  assert.deepEqual([log.history(), log.exchanges, log.conversation], [[], [], "d"]);
});

test("a fault has its remedy, and a button where a command mends it", () => {
  const data = { code: "trust.unapproved", message: "`style` is not approved", remedy: "Approve it: warmline trust" };
  assert.deepEqual(faultOf(Object.assign(new Error("x"), { data }), false), {
    notice: "`style` is not approved.",
    remedy: "Approve it: warmline trust.",
    code: "trust.unapproved",
  });
  assert.equal(actionOf("trust.unapproved")?.command, "warmline.trust");
  assert.equal(actionOf("config.no_workspace")?.command, "warmline.selectVariant");
  assert.equal(actionOf("backend.crashed"), undefined);
  for (const gone of [new ServerGone("x"), Object.assign(new Error("x"), { code: -32097 })]) {
    assert.match(faultOf(gone, true).notice, /middle of this answer/);
    assert.match(faultOf(gone, false).notice, /before it answered/);
    assert.match(faultOf(gone, true).remedy, /ask again/);
  }
  assert.deepEqual(faultOf("why", false), { notice: "why.", remedy: "", code: "" });
});

test("code gets the indentation and the line ends of its place", () => {
  assert.equal(
    fitted("def f():\n    return 1\n", "    def f():\n        pass\n", "\n"),
    "    def f():\n        return 1\n",
  );
  assert.equal(fitted("  a\n    b", "x", "\r\n"), "a\r\n  b");
  assert.equal(fitted("a\n\n  b", "\tx", "\n"), "\ta\n\n\t  b");
  assert.equal(fitted("\n\na", "", "\n"), "a");
});

test("a page runs its own script and loads its own style, nothing else", () => {
  const page = pageOf({
    title: "T",
    script: "vscode-resource://x/chat.js",
    style: "vscode-resource://x/chat.css",
    source: "vscode-resource:",
    nonce: "n0",
  });
  const policy = /Content-Security-Policy" content="([^"]*)"/.exec(page)?.[1];
  assert.equal(
    policy,
    "default-src 'none'; script-src 'nonce-n0'; style-src vscode-resource:; base-uri 'none'; form-action 'none'",
  );
  assert.deepEqual(
    [...page.matchAll(/<script[^>]*>/g)].map(([tag]) => tag),
    ['<script nonce="n0" src="vscode-resource://x/chat.js">'],
  );
});
