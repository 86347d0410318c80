// Cache of pages of a long log, loaded when they come into view, and conversion between scroll position and line. Pure.

export interface NumberedLine {
  line: number;
  text: string;
  time_ms?: number;  // Absent unless the line begins with a time.
  level?: string;
}

// The head's answer about a whole log.
export interface LogPart {
  node: string;
  first: number;  // The oldest line that still exists.
  last: number;
  next: number;   // For a search: the line at which it continues; 0: it is complete.
  run: number;
  lines: NumberedLine[];
  runs: { run: number; out_bytes: number; err_bytes: number }[];
}

export const kPageLines = 200;
const kPagesMax = 40;

// The most recently loaded pages; the last page of the log grows.
export class LogPages {
  private pages_ = new Map<number, NumberedLine[]>();
  first = 1;
  last = 0;

  static page_of(line: number): number {
    return Math.floor((line - 1) / kPageLines);
  }
  static start_of(page: number): number {
    return page * kPageLines + 1;
  }

  add(page: number, part: LogPart): void {
    this.first = part.first;
    this.last = Math.max(part.last, part.first - 1);
    const lines: NumberedLine[] = [];
    for (const one of part.lines) lines[one.line - LogPages.start_of(page)] = one;
    this.pages_.delete(page);
    this.pages_.set(page, lines);
    for (const old of this.pages_.keys()) {
      if (this.pages_.size <= kPagesMax) break;
      this.pages_.delete(old);
    }
  }
  get(line: number): NumberedLine | undefined {
    return this.pages_.get(LogPages.page_of(line))?.[(line - 1) % kPageLines];
  }
  // Returns the first page missing for these lines; -1: none.
  missing(from: number, to: number): number {
    for (let line = Math.max(from, this.first); line <= Math.min(to, this.last); ) {
      const page = LogPages.page_of(line);
      const end = Math.min(to, this.last, LogPages.start_of(page) + kPageLines - 1);
      if (this.get(line) === undefined || this.get(end) === undefined) return page;
      line = end + 1;
    }
    return -1;
  }
  get size(): number {
    return this.pages_.size;
  }
}

export const kLineHeight = 20;  // px
const kHeightMax = 15_000_000;  // px; browsers limit the height of an element.

// Above kHeightMax, one pixel of the scroll bar stands for more than one pixel of lines.
export const scroll_height = (lines: number) => Math.min(kHeightMax, lines * kLineHeight);

// Returns the number of lines above the box, with a fraction.
export function lines_above(lines: number, top: number, box: number): number {
  const most = scroll_height(lines) - box;
  const above = lines - box / kLineHeight;
  return most <= 0 || above <= 0 ? 0 : Math.min(1, Math.max(0, top / most)) * above;
}
// Inverse of lines_above().
export function top_for(lines: number, above: number, box: number): number {
  const most = lines - box / kLineHeight;
  return most <= 0 ? 0 : Math.min(1, Math.max(0, above / most)) * (scroll_height(lines) - box);
}
