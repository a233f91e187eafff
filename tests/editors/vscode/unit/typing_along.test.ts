import assert from "node:assert/strict";
import { test } from "node:test";
import { TypingAlong } from "../../../../editors/vscode/src/suggest/typing_along";

// The line `  re` at offset 100; asked for at its end.
const ITEMS = [
  { insertText: "return 1", start: 102 },
  { insertText: "reset()", start: 102 },
];
const along = () => new TypingAlong(ITEMS, 104, "re");
const typed = (offset: number, text: string) => [{ offset, removed: 0, text }];
const texts = (found: readonly { insertText: string }[]) => found.map((each) => each.insertText);

test("what is typed of a suggestion leaves the rest of it", () => {
  const one = along();
  assert(one.change(typed(104, "t")));
  assert.deepEqual(texts(one.at(105)), ["return 1"]);
  assert(one.change(typed(105, "ur")));
  assert.deepEqual(texts(one.at(107)), ["return 1"]);
});

test("before any key all stand, at their place only", () => {
  assert.deepEqual(texts(along().at(104)), ["return 1", "reset()"]);
  assert.deepEqual(texts(along().at(103)), []);
});

for (const [what, changes] of Object.entries({
  "another text": typed(104, "x"),
  "the whole of it": typed(104, "turn 1"),
  "a change elsewhere": typed(90, "t"),
  "a deletion": [{ offset: 103, removed: 1, text: "" }],
  "a replacement": [{ offset: 104, removed: 1, text: "t" }],
  "two changes at once": [...typed(104, "t"), ...typed(0, "t")],
})) {
  test(`${what} ends it`, () => {
    const one = along();
    assert(!one.change(changes));
    assert.deepEqual(one.at(104), []);
    assert.deepEqual(one.at(105), []);
  });
}

test("a suggestion that does not begin with what stands there is none", () => {
  assert.deepEqual(texts(new TypingAlong(ITEMS, 104, "ret").at(104)), ["return 1"]);
});
