// Elements of the page for the tokens of a note in Markdown. Pure. They are of a fixed set, and no HTML is ever parsed: tags of a note
// appear as text, images as links, and only addresses of the web and of this page become links.
import type { ComponentChildren } from "preact";
import type { Token, Tokens } from "marked";

const kDeep = 24;  // Most levels of quotes, lists and emphasis; deeper ones appear as they were typed.

const kNamed: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
// Replaces character references: "&amp;", "&#8364;". Others stay as they are.
const decoded = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,4}));/gi, (all: string, decimal?: string, hex?: string, name?: string) => {
    if (name) return kNamed[name] ?? all;
    const code = decimal ? Number(decimal) : parseInt(hex!, 16);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? String.fromCodePoint(code) : "\ufffd";
  });

// The address as a link has it, or null: it is neither a page of the web, nor an address of mail, nor a place in this page.
export function safe_address(text: string): string | null {
  if (text.startsWith("#/")) return text;
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;  // Relative, or no address.
  }
}

// `href` is safe.
const link_to = (href: string, title: string | undefined, text: ComponentChildren) =>
  href.startsWith("#/") ? <a href={href} title={title}>{text}</a> : <a href={href} title={title} target="_blank" rel="noopener noreferrer">{text}</a>;

class Writer {
  private smallest = 6;  // Depth of the highest heading, which becomes h3: the page has h1 and the card h2.
  private level = 2;

  constructor(tokens: Token[]) {
    for (const one of tokens) if (one.type === "heading") this.smallest = Math.min(this.smallest, (one as Tokens.Heading).depth);
  }

  // Headings skip no level, so that screen readers can go through them.
  private heading(token: Tokens.Heading, depth: number) {
    this.level = Math.max(3, Math.min(token.depth - this.smallest + 3, this.level + 1, 6));
    const Name = `h${this.level}` as "h3";
    return <Name>{this.inline(token, depth)}</Name>;
  }

  private inline(token: { text?: string; tokens?: Token[] }, depth: number): ComponentChildren {
    return token.tokens?.length ? this.all(token.tokens, depth + 1) : decoded(token.text ?? "");
  }

  all(tokens: Token[], depth: number): ComponentChildren[] {
    return tokens.map((token) => (depth > kDeep ? token.raw : this.one(token, depth)));
  }

  private cell(token: Tokens.TableCell, depth: number) {
    const side = token.align && token.align !== "left" ? token.align : undefined;
    return token.header && token.text ? <th class={side} scope="col">{this.inline(token, depth)}</th> : <td class={side}>{this.inline(token, depth)}</td>;
  }

  private list(token: Tokens.List, depth: number) {
    const items = token.items.map((item) => <li class={item.task ? "task" : undefined}>{this.all(item.tokens, depth + 1)}</li>);
    const start = typeof token.start === "number" && token.start !== 1 ? token.start : undefined;
    return token.ordered ? <ol start={start}>{items}</ol> : <ul>{items}</ul>;
  }

  private one(token: Token, depth: number): ComponentChildren {
    switch (token.type) {
      case "space":
      case "def": return null;
      case "heading": return this.heading(token as Tokens.Heading, depth);
      case "paragraph": return <p>{this.inline(token as Tokens.Paragraph, depth)}</p>;
      case "code": return <pre tabIndex={0}><code>{(token as Tokens.Code).text}</code></pre>;
      case "blockquote": return <blockquote>{this.all((token as Tokens.Blockquote).tokens, depth + 1)}</blockquote>;
      case "list": return this.list(token as Tokens.List, depth);
      case "checkbox": return (token as Tokens.Checkbox).checked ? "☑ " : "☐ ";
      case "hr": return <hr />;
      case "table": {
        const { header, rows } = token as Tokens.Table;
        return <div class="table-part" tabIndex={0}><table><thead><tr>{header.map((one) => this.cell(one, depth))}</tr></thead><tbody>{rows.map((row) => <tr>{row.map((one) => this.cell(one, depth))}</tr>)}</tbody></table></div>;
      }
      case "html": {
        const raw = token.raw.trim();
        if (/^<!--[^]*-->$/.test(raw)) return null;
        return /^<br\s*\/?>$/i.test(raw) ? <br /> : (token as Tokens.HTML).block ? <p>{raw}</p> : token.raw;
      }
      case "strong": return <strong>{this.inline(token as Tokens.Strong, depth)}</strong>;
      case "em": return <em>{this.inline(token as Tokens.Em, depth)}</em>;
      case "del": return <del>{this.inline(token as Tokens.Del, depth)}</del>;
      case "codespan": return <code>{(token as Tokens.Codespan).text}</code>;
      case "br": return <br />;
      case "link": {
        const { href, title, autolink } = token as Tokens.Link;
        const to = safe_address(autolink ? href : decoded(href));
        return to === null ? token.raw : link_to(to, title ? decoded(title) : undefined, this.inline(token as Tokens.Link, depth));
      }
      case "image": {
        const { href, text } = token as Tokens.Image;
        const to = safe_address(decoded(href));
        return to === null ? token.raw : link_to(to, undefined, decoded(text) || to);
      }
      case "escape": return (token as Tokens.Escape).text;
      case "text": return this.inline(token as Tokens.Text, depth);
      default: return token.raw;
    }
  }
}

export const elements_of = (tokens: Token[]): ComponentChildren[] => new Writer(tokens).all(tokens, 0);
