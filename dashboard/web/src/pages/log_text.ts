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

// Colours and cursor moves of terminals are of no use here.
export const bare = (text: string) => text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "").replace(/\r/g, "");
