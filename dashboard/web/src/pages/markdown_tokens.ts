// Parses a note in Markdown, in the flavour of GitHub: tables, tasks, bare addresses, and every line break is kept.
import { Lexer, type Token } from "marked";

// null: it is nested more deeply than the parser can go.
export function tokens_of(text: string): Token[] | null {
  try {
    return [...new Lexer({ gfm: true, breaks: true }).lex(text)];
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
