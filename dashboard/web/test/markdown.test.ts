// Notes in Markdown: what becomes of each form, and of hostile texts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { elements_of, safe_address } from "../src/pages/markdown_elements";
import { tokens_of } from "../src/pages/markdown_tokens";

interface Node { type: string; props: Record<string, unknown> & { children?: unknown } }
const is_node = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value);
const children = (value: unknown): unknown[] => (Array.isArray(value) ? value.flatMap(children) : is_node(value) ? [value] : [value]);
const nodes = (value: unknown): Node[] => children(value).filter(is_node).flatMap((one) => [one, ...nodes(one.props.children)]);
const text_of = (value: unknown): string => children(value).map((one) => (is_node(one) ? text_of(one.props.children) : one === null || one === undefined || one === false ? "" : String(one))).join("");

// As HTML, for comparison only.
const shown = (value: unknown): string => children(value).map((one) => {
  if (!is_node(one)) return one === null || one === undefined || one === false ? "" : String(one).replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const attributes = Object.entries(one.props).filter(([key, is]) => key !== "children" && is !== undefined).map(([key, is]) => ` ${key}="${String(is)}"`).join("");
  return `<${one.type}${attributes}>${shown(one.props.children)}</${one.type}>`;
}).join("");
const elements = (text: string) => elements_of(tokens_of(text)!);
const html = (text: string) => shown(elements(text));

test("the usual forms become elements", () => {
  assert.equal(html("a *b* **c** ~~d~~ `e <f>`"), "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e &lt;f></code></p>");
  assert.equal(html("- a\n- b\n  1. c"), "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>");
  assert.equal(html("3. a"), '<ol start="3"><li>a</li></ol>');
  assert.equal(html("- [x] a\n- [ ] b"), '<ul><li class="task">☑ a</li><li class="task">☐ b</li></ul>');
  assert.equal(html("```py\nx < 1\n```"), '<pre tabIndex="0"><code>x &lt; 1</code></pre>');
  assert.equal(html("> a\n\n---"), "<blockquote><p>a</p></blockquote><hr></hr>");
  assert.ok(html("|a|b|\n|-|-:|\n|1|2|").includes('<th scope="col">a</th><th class="right" scope="col">b</th></tr></thead><tbody><tr><td>1</td><td class="right">2</td>'));
});

test("the line breaks of a plain note stay", () => {
  assert.equal(html("one\ntwo"), "<p>one<br></br>two</p>");
});

test("character references and escapes are resolved", () => {
  assert.equal(text_of(elements("a &amp; b &lt;c&gt; &#8364; &#x20ac; \\*d\\* &unknown; &#0;")), "a & b <c> € € *d* &unknown; \ufffd");
});

test("headings begin below those of the page and skip no level", () => {
  assert.equal(html("# a\n### b\n## c\n###### d"), "<h3>a</h3><h4>b</h4><h4>c</h4><h5>d</h5>");
  assert.equal(html("#### a"), "<h3>a</h3>");
});

test("links of the web open in a tab of their own, without access to the page", () => {
  assert.equal(html('[a](https://example.org/?x=1&amp;y=2 "t")'), '<p><a href="https://example.org/?x=1&y=2" title="t" target="_blank" rel="noopener noreferrer">a</a></p>');
  assert.equal(html("https://example.org/"), '<p><a href="https://example.org/" target="_blank" rel="noopener noreferrer">https://example.org/</a></p>');
  assert.equal(html("[a](#/experiments/digits-1)"), '<p><a href="#/experiments/digits-1">a</a></p>');
});

test("no image is loaded: it becomes a link", () => {
  assert.equal(html("![chart](https://example.org/a.png)"), '<p><a href="https://example.org/a.png" target="_blank" rel="noopener noreferrer">chart</a></p>');
  assert.equal(html("![](https://example.org/a.png)"), '<p><a href="https://example.org/a.png" target="_blank" rel="noopener noreferrer">https://example.org/a.png</a></p>');
  assert.equal(html("![x](data:image/svg+xml;base64,PHN2Zz4=)"), "<p>![x](data:image/svg+xml;base64,PHN2Zz4=)</p>");
});

const kHostile = [
  "<script>alert(1)</script>", "a <script>alert(1)</script> b", "<img src=x onerror=alert(1)>", "a <b onclick=\"alert(1)\">b</b>", "<svg/onload=alert(1)>", "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<style>*{display:none}</style>", "<link rel=stylesheet href=//evil.example>", "<meta http-equiv=refresh content='0;url=//evil.example'>", "<base href=//evil.example>", "<form action=//evil.example><button>x</button></form>", "<details open ontoggle=alert(1)>",
  "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](<java\tscript:alert(1)>)", "[a](&#106;avascript:alert(1))", "[a](javascript&colon;alert(1))", "[a](&#x6A&#x61;vascript:alert(1))", "[a](\u0001javascript:alert(1))", "[a]( javascript:alert(1))", "<javascript:alert(1)>",
  "[a](vbscript:x)", "[a](data:text/html,<script>alert(1)</script>)", "[a](data:text/html;base64,PHNjcmlwdD4=)", "[a](blob:https://x/1)", "[a](file:///etc/passwd)", "[a](/login?key=stolen)", "[a](//evil.example)", "[a](login)", "[a]: javascript:alert(1)\n\n[a]", "[a]: javascript:alert(1)\n\n![a]",
  '[a](https://example.org "x" onclick="alert(1)")', '[a](https://example.org "\\" onclick=alert(1) x=\\"")', "![a](javascript:alert(1))", "![a\" onerror=\"alert(1)](https://example.org/x)", "`<script>`", "```html\"onload=\"x\n<script>\n```", "|<script>|\n|-|\n|<img src=x onerror=y>|", "# <script>alert(1)</script>", "- <script>x</script>", "&lt;script&gt;alert(1)&lt;/script&gt;",
];
const kElements = ["p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "a", "em", "strong", "del", "code", "pre", "blockquote", "hr", "br", "div", "table", "thead", "tbody", "tr", "th", "td"];
const kAttributes = ["children", "href", "title", "target", "rel", "class", "tabIndex", "scope", "start"];

test("hostile notes give elements and attributes of the fixed set only, and no address of another kind", () => {
  for (const text of kHostile) {
    for (const node of nodes(elements(text))) {
      assert.ok(kElements.includes(node.type), `${text}: <${node.type}>`);
      assert.deepEqual(Object.keys(node.props).filter((key) => !kAttributes.includes(key)), [], text);
      const href = node.props.href as string | undefined;
      if (href === undefined) continue;
      assert.ok(/^(https?:\/\/|mailto:|#\/)/.test(href), `${text}: ${href}`);
      if (!href.startsWith("#/")) assert.equal(node.props.rel, "noopener noreferrer", text);
    }
  }
});

test("tags appear as they were typed", () => {
  assert.equal(text_of(elements("<script>alert(1)</script>")), "<script>alert(1)</script>");
  assert.equal(text_of(elements("a <b onclick=x>b</b>")), "a <b onclick=x>b</b>");
  assert.equal(text_of(elements("a <!-- hidden --> b<br>c")), "a  bc");
  assert.equal(text_of(elements("[a](javascript:alert(1))")), "[a](javascript:alert(1))");
});

test("addresses of other kinds are none", () => {
  assert.equal(safe_address("HTTPS://Example.org"), "https://example.org/");
  assert.equal(safe_address("mailto:mei@example.org"), "mailto:mei@example.org");
  for (const text of ["javascript:x", " javascript:x", "java\nscript:x", "data:,x", "ftp://a", "//a", "/a", "a", "", "#a"]) assert.equal(safe_address(text), null, text);
});

test("huge nesting gives plain text, or elements down to a depth", () => {
  for (const text of [">".repeat(40_000), "> ".repeat(20_000) + "a", "1. ".repeat(10_000), "> - ".repeat(10_000)]) assert.equal(tokens_of(text), null, text.slice(0, 10));
  const depth = (value: unknown): number => Math.max(0, ...children(value).filter(is_node).map((one) => 1 + depth(one.props.children)));
  for (const text of ["> ".repeat(200) + "a", "- ".repeat(100) + "a", Array.from({ length: 90 }, (_, i) => " ".repeat(2 * i) + "- a").join("\n"), "*a **b ".repeat(100) + "c** d*".repeat(100)]) {
    const made = elements(text);
    assert.ok(depth(made) < 60, text.slice(0, 10));
    assert.ok(text_of(made).includes("a"), text.slice(0, 10));
  }
});
