// A log that is too long for the page: pages of it that come when they are looked at, and which lines are in sight where. Pure.

export interface NumberedLine {
  line: number;
  text: string;
  time_ms?: number;  // Only of lines that begin with their time.
  level?: string;
}

// What the head answers about a whole log.
export interface LogPart {
  node: string;
  first: number;  // The oldest line that is still there.
  last: number;
  next: number;   // Of a search: from where it goes on; 0: it has seen all.
  run: number;
  lines: NumberedLine[];
  runs: { run: number; out_bytes: number; err_bytes: number }[];
}

export const kPageLines = 200;
const kPagesMax = 40;

// The pages looked at last; the newest one grows.
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
  // The first page that is missing for these lines; -1: all are there.
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

export const kLineHeight = 20;  // In px.
const kHeightMax = 15_000_000;  // Browsers draw nothing that lies much further down.

// Beyond kHeightMax a pixel of the scroll bar is worth more than one of the lines.
export const scroll_height = (lines: number) => Math.min(kHeightMax, lines * kLineHeight);

// How many lines lie above the box: a fraction of one, too.
export function lines_above(lines: number, top: number, box: number): number {
  const most = scroll_height(lines) - box;
  const above = lines - box / kLineHeight;
  return most <= 0 || above <= 0 ? 0 : Math.min(1, Math.max(0, top / most)) * above;
}
// The other way round.
export function top_for(lines: number, above: number, box: number): number {
  const most = lines - box / kLineHeight;
  return most <= 0 ? 0 : Math.min(1, Math.max(0, above / most)) * (scroll_height(lines) - box);
}
