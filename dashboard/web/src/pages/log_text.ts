// Lines of logs as people look for them. Pure.
import type { LogLine } from "../live/protocol";

type Text = Pick<LogLine, "text">;

const kTrouble = /\b(error|errors|exception|fatal|panic|traceback|aborted|segmentation fault|assertion|failed|killed by|core dumped)\b/i;
const kNote = /\bwarn(ing)?\b/i;
// Lines of the head and of workers say their level themselves: time, level, component.
const kOurs = /^\d{4}-\d\d-\d\dT[\d:.]+Z (debug|info|warn|error) /;

export function level(line: Text): "bad" | "warn" | "" {
  const ours = kOurs.exec(line.text)?.[1];
  if (ours) return ours === "error" ? "bad" : ours === "warn" ? "warn" : "";
  return kTrouble.test(line.text) ? "bad" : kNote.test(line.text) ? "warn" : "";
}
export const trouble = (line: LogLine): boolean => level(line) === "bad";

// Lines that hold the text, whatever its case; all where it is empty.
export function find(lines: LogLine[], text: string): LogLine[] {
  const wanted = text.trim().toLowerCase();
  return wanted ? lines.filter((line) => line.text.toLowerCase().includes(wanted) || line.source.toLowerCase().includes(wanted)) : lines;
}

// The next line in trouble after `from`, round the end; -1 where there is none.
export function next_trouble(lines: LogLine[], from: number, step: 1 | -1): number {
  for (let i = 1; i <= lines.length; i++) {
    const at = (((from + step * i) % lines.length) + lines.length) % lines.length;
    if (trouble(lines[at])) return at;
  }
  return -1;
}

// The line cut where the text stands in it, for marks.
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

// Colours, cursor moves and links of terminals taken out.
export const bare = (text: string) => text.replace(/\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g, "").replace(/\r/g, "");

export interface Painted {
  text: string;
  look: string;  // Classes: "ansi-31 ansi-bold"; empty: as the rest.
}

// The line in pieces of one colour each, as a terminal shows it (SGR 1, 30–37, 90–97; the rest of the sequences is left out).
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
      else if (code === 38 || code === 48) i += codes[i + 1] === 5 ? 2 : 4;  // 256 colours and more are shown plainly.
    }
  }
  push(text.slice(at));
  return parts;
}

// Lines of at least this level.
export const at_least = (lines: LogLine[], wanted: string): LogLine[] =>
  wanted === "bad" ? lines.filter(trouble) : wanted === "warn" ? lines.filter((line) => level(line) !== "") : lines;
