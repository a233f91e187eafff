/** What a model writes is shown and does nothing: the tree has no HTML, no foreign address, no hidden character. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { markdown, type Tree } from "../../../../editors/vscode/src/chat/webview/markdown";
import { visible } from "../../../../editors/vscode/src/pages/text";

const ALLOWED = new Set(
  "a blockquote br code em h3 h4 h5 h6 hr li ol p pre s strong table tbody td th thead tr ul".split(" "),
);
const ATTRIBUTES = new Set(["href", "title", "start", "data-language", "data-target"]);

/** A tree in brackets: `p(a strong(b))`. */
function drawn(trees: readonly Tree[]): string {
  return trees.map((tree) => (typeof tree === "string" ? tree : `${tree.tag}(${drawn(tree.children)})`)).join("");
}

function* elements(trees: readonly Tree[]): Generator<Exclude<Tree, string>> {
  for (const tree of trees) {
    if (typeof tree !== "string") {
      yield tree;
      yield* elements(tree.children);
    }
  }
}

function text(trees: readonly Tree[]): string {
  return trees.map((tree) => (typeof tree === "string" ? tree : text(tree.children))).join("");
}

test("common Markdown becomes a tree", () => {
  const cases: [string, string][] = [
    ["a **b** *c* ~~d~~ `e`", "p(a strong(b) em(c) s(d) code(e))"],
    ["# One\n\n### Three\n\n###### Six", "h3(One)h5(Three)h6(Six)"],
    ["- a\n- b\n  - c", "ul(li(a)li(bul(li(c))))"],
    ["- a\n\n- b", "ul(li(p(a))li(p(b)))"],
    ["> a\n> b", "blockquote(p(a\nb))"],
    ["a  \nb", "p(abr()b)"],
    ["---", "hr()"],
    ["|a|b|\n|-|-|\n|1|2|", "table(thead(tr(th(a)th(b)))tbody(tr(td(1)td(2))))"],
    ["```py\nx = 1\n\ny\n```", "pre(x = 1\n\ny)"],
    ["    indented", "pre(indented)"],
    ["", ""],
  ];
  for (const [source, expected] of cases) {
    assert.equal(drawn(markdown(source)), expected, source);
  }
});

test("a numbered list begins where it says, and a block of code has its language", () => {
  const [list] = elements(markdown("7. a\n8. b"));
  assert.deepEqual(list?.attributes, { start: "7" });
  const [block] = elements(markdown('```c++ title="<x>"\na\n```'));
  assert.deepEqual(block?.attributes, { "data-language": "c++" });
});

test("a block that is still being written is a block already", () => {
  assert.equal(drawn(markdown("Sure:\n\n```py\nx = ")), "p(Sure:)pre(x = )");
});

test("only http and https lead anywhere; of others the target is shown", () => {
  const links = [...elements(markdown("[a](https://example.org/x?y=1) [b](HTTP://example.org)"))].filter(
    (e) => e.tag === "a",
  );
  assert.deepEqual(
    links.map((e) => e.attributes?.href),
    ["https://example.org/x?y=1", "HTTP://example.org"],
  );
  assert.deepEqual(
    links.map((e) => e.attributes?.title),
    ["https://example.org/x?y=1", "HTTP://example.org"],
  );
  for (const target of [
    "command:workbench.action.terminal.new",
    "vscode://x/y",
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "//example.org",
    "/etc",
    "x.md",
    "https://user@example.org",
    "vbscript:x",
    "java&#10;script:x",
    "https:example.org",
  ]) {
    const trees = markdown(`[label](${target})`);
    assert.equal([...elements(trees)].filter((e) => e.tag === "a").length, 0, target);
    assert.match(text(trees), /label/);
  }
  assert.equal(text(markdown("[Docs](command:evil)")), "Docs (command:evil)");
});

test("an image is named and never fetched", () => {
  assert.equal(drawn(markdown("![cat](https://example.org/cat.png)")), "p([image: cat (https://example.org/cat.png)])");
});

test("HTML stays text", () => {
  for (const source of [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "a <b onmouseover=x>b</b>",
    "<!-- c -->",
    "&lt;i&gt;",
    "<iframe srcdoc='<script>'></iframe>",
    '<a href="javascript:1">x</a>',
    "<https://example.org/<b>>",
  ]) {
    for (const element of elements(markdown(source))) {
      assert.ok(ALLOWED.has(element.tag), `${source}: ${element.tag}`);
    }
  }
  assert.equal(text(markdown("<img src=x onerror=alert(1)>")), "<img src=x onerror=alert(1)>");
});

test("whatever is written, only allowed elements and attributes come of it", () => {
  const parts = [
    "<img onerror=x>",
    "[a](",
    "command:x",
    ")",
    "```",
    "\n",
    "\n\n",
    "| a |",
    "|-|",
    "- ",
    "1. ",
    "> ",
    "#",
    "*",
    "_",
    "`",
    "![",
    "](javascript:x)",
    "\u001b[31m",
    "\u202e",
    "<a href=x>",
    "&#x3c;",
    "&#x202e;",
    "&#27;",
    "https://x",
    "\\",
    "\u0000",
    "[x]: data:x",
    "[x]",
    "  ",
  ];
  let seed = 7;
  const random = (below: number): number => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * below);
  };
  for (let round = 0; round < 5000; round += 1) {
    const source = Array.from({ length: 1 + random(14) }, () => parts[random(parts.length)]).join("");
    const trees = markdown(source);
    for (const { tag, attributes = {} } of elements(trees)) {
      assert.ok(ALLOWED.has(tag), `${JSON.stringify(source)}: ${tag}`);
      for (const name of Object.keys(attributes)) {
        assert.ok(ATTRIBUTES.has(name), `${JSON.stringify(source)}: ${name}`);
      }
      if (attributes.href !== undefined) {
        assert.match(attributes.href, /^https?:\/\//i);
      }
    }
    assert.doesNotMatch(text(trees), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
  }
});

test("what acts without being seen is shown as an escape", () => {
  assert.equal(visible("a\u001b[31mb\u202ec\u0000\r\nd\te"), "a\\x1b[31mb\\u202ec\\x00\nd\te");
  assert.equal(text(markdown("a&#x202e;b `&#27;`")), "a\\u202eb &#27;");
  assert.equal(visible("👩‍💻 é"), "👩‍💻 é");
});
