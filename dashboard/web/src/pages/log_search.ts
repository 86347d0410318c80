// Search in a whole log. The node reads a limited part per request, so a search sends requests until it has enough lines.
import { call } from "../api";
import type { Filter } from "../live/protocol";
import type { LogPart, NumberedLine } from "./log_pages";

export const kFoundMax = 1000;

export interface LogOf {
  filter: Filter;   // {id} or {node}.
  stream: string;   // "out", "err".
  run: string;      // Empty: the newest run.
}

export function read_log(of: LogOf, asked: Record<string, string | number>): Promise<LogPart> {
  const query = new URLSearchParams({ ...of.filter, stream: of.stream, ...(of.run ? { run: of.run } : {}) });
  for (const [key, value] of Object.entries(asked)) query.set(key, String(value));
  return call<LogPart>("GET", "/api/v1/logs/lines?" + query.toString());
}

export interface Found {
  lines: NumberedLine[];  // In the order of the log.
  next: number;           // Line at which a search for older matches continues; 0: none are left.
  done: boolean;
}

// Finds the newest matching lines up to `from` (0: the end). Calls `on_some` after every answer and stops when it returns false.
export async function find_back(of: LogOf, text: string, from: number, on_some: (found: Found) => boolean): Promise<void> {
  const lines: NumberedLine[] = [];
  for (let next = from; ; ) {
    const part = await read_log(of, { find: text, backward: 1, lines: kFoundMax - lines.length, ...(next ? { from: next } : {}) });
    lines.unshift(...part.lines);
    next = part.next;
    const done = next === 0 || lines.length >= kFoundMax;
    if (!on_some({ lines: [...lines], next, done }) || done) return;
  }
}

// Returns the next or previous error, starting at `from`; 0: none.
export async function find_trouble(of: LogOf, from: number, step: 1 | -1): Promise<number> {
  for (let next = Math.max(1, from); ; ) {
    const part = await read_log(of, { trouble: 1, lines: 1, from: next, ...(step < 0 ? { backward: 1 } : {}) });
    if (part.lines.length) return part.lines[0].line;
    if (part.next === 0) return 0;
    next = part.next;
  }
}
