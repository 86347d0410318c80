// Filtering and formatting of log lines. Pure.
import type { LogLine } from "../live/protocol";

export type Tone = "bad" | "warn" | "dim" | "";

// Returns the style for the level of a line.
export const tone_of = (line: { level?: string }): Tone =>
  line.level === "error" ? "bad" : line.level === "warn" ? "warn" : line.level === "debug" ? "dim" : "";
export const trouble = (line: { level?: string }): boolean => line.level === "error";

// Removes the time and level, which have their own columns, from lines of the head and of workers.
const kOwnStart = /^\d{4}-\d\d-\d\dT[\d:.]+Z (?:debug|info|warn|error) +/;
export const without_start = (line: { text: string; time_ms?: number }): string => (line.time_ms ? line.text.replace(kOwnStart, "") : line.text);

// Returns the lines that contain the text, ignoring case; all lines for an empty text.
export function find(lines: LogLine[], text: string): LogLine[] {
  const wanted = text.trim().toLowerCase();
  return wanted ? lines.filter((line) => line.text.toLowerCase().includes(wanted) || line.source.toLowerCase().includes(wanted)) : lines;
}

// Returns the next or previous error after `from`, wrapping around; -1: none.
export function next_trouble(lines: LogLine[], from: number, step: 1 | -1): number {
  for (let i = 1; i <= lines.length; i++) {
    const at = (((from + step * i) % lines.length) + lines.length) % lines.length;
    if (trouble(lines[at])) return at;
  }
  return -1;
}

// Splits a line at the matches of the text, to mark them.
export function cut(line: string, text: string): { text: string; hit: boolean }[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [{ text: line, hit: false }];
  const parts: { text: string; hit: boolean }[] = [];
  const low = line.toLowerCase();
  let at = 0;
  for (let found = low.indexOf(wanted); found >= 0; found = low.indexOf(wanted, at)) {
    if (found > at) parts.push({ text: line.slice(at, found), hit: false });
    parts.push({ text: line.slice(found, found + wanted.length), hit: true });
    at = found + wanted.length;
  }
  if (at < line.length) parts.push({ text: line.slice(at), hit: false });
  return parts;
}

// Removes escape sequences: colours, cursor movements and links.
export const bare = (text: string) => text.replace(/\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g, "").replace(/\r/g, "");

export interface Painted {
  text: string;
  look: string;  // CSS classes: "ansi-31 ansi-bold"; empty: default style.
}

// Splits a line into pieces of one style, as a terminal shows it (SGR 1, 30–37, 90–97; other sequences are dropped).
export function painted(text: string): Painted[] {
  const parts: Painted[] = [];
  let [color, bold] = [0, false];
  let at = 0;
  const push = (piece: string) => {
    const shown = bare(piece);
    if (shown) parts.push({ text: shown, look: [color ? `ansi-${color}` : "", bold ? "ansi-bold" : ""].filter(Boolean).join(" ") });
  };
  for (const found of text.matchAll(/\u001b\[([0-9;]*)m/g)) {
    push(text.slice(at, found.index));
    at = found.index + found[0].length;
    const codes = (found[1] || "0").split(";").map(Number);
    for (let i = 0; i < codes.length; i++) {
      const code = codes[i];
      if (code === 0) [color, bold] = [0, false];
      else if (code === 1) bold = true;
      else if (code === 22) bold = false;
      else if (code === 39) color = 0;
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) color = code >= 90 ? code - 60 : code;
      else if (code === 38 || code === 48) i += codes[i + 1] === 5 ? 2 : 4;  // Extended colours are ignored.
    }
  }
  push(text.slice(at));
  return parts;
}

const kRanks: Record<string, number> = { error: 4, warn: 3, info: 2, debug: 1 };

// Returns the lines of at least this level; empty: all lines, including those without a level.
export const at_least = (lines: LogLine[], wanted: string): LogLine[] =>
  kRanks[wanted] ? lines.filter((line) => (kRanks[line.level ?? ""] ?? 0) >= kRanks[wanted]) : lines;
