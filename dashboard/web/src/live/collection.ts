// The rows of one subscription, set by a snapshot and changed by deltas. Pure except for the signals that notify the page.
import { signal, type Signal } from "@preact/signals";
import type { Points, Row } from "./protocol";

// replace: an upsert replaces the row. points: an upsert appends to x and y. lines: new rows are appended and the oldest dropped.
export type Merge = "replace" | "points" | "lines";
export type Phase = "loading" | "ready" | "error";

export const kLinesMax = 20_000;
export const kPointsMax = 50_000;

export class Collection<T extends Row> {
  readonly version: Signal<number> = signal(0);  // Increases with every change of the rows.
  readonly phase: Signal<Phase> = signal("loading");
  error = { code: "", detail: "" };
  dropped = 0;  // Number of lines dropped because of kLinesMax.
  private rows_ = new Map<string, T>();
  private seq_ = -1;  // Sequence number of the snapshot; -1: none yet.
  private parts_: T[] | null = null;
  private list_: T[] | null = null;
  private unnamed_ = 0;

  constructor(private readonly merge: Merge) {}

  get(id: string): T | undefined {
    return this.rows_.get(id);
  }
  get size(): number {
    return this.rows_.size;
  }
  // Returns the rows in insertion order; the array stays the same until a row changes.
  list(): T[] {
    return (this.list_ ??= [...this.rows_.values()]);
  }

  on_snapshot(seq: number, rows: T[], more = false): void {
    const gathered = this.parts_ ? this.parts_.concat(rows) : rows;
    this.parts_ = more ? gathered : null;
    if (more) return;
    this.rows_ = new Map(gathered.map((row) => [this.key(row), row]));
    this.seq_ = seq;
    this.dropped = 0;
    this.trim();
    this.phase.value = "ready";
    this.changed();
  }

  // Deltas that are older than the snapshot are already in it. A delta with the snapshot's number is applied: a snapshot in parts has the
  // number of its last part, and a row of an earlier part may have changed since.
  on_delta(seq: number, upserts: T[], deletes: string[]): void {
    if (this.parts_ !== null || this.seq_ < 0 || seq < this.seq_) return;
    for (const row of upserts) this.rows_.set(this.key(row), this.merged(row));
    for (const id of deletes) this.rows_.delete(id);
    this.trim();
    this.changed();
  }

  on_error(code: string, detail: string): void {
    this.error = { code, detail };
    this.phase.value = "error";
    this.changed();
  }

  // Accepts the next snapshot whatever its number; the rows stay until then.
  restart(): void {
    this.seq_ = -1;
    this.parts_ = null;
  }

  // Lines that a node logged before the first subscription have no id.
  private key(row: T): string {
    return row.id ?? "before " + this.unnamed_++;
  }

  private merged(row: T): T {
    const old = this.rows_.get(row.id);
    if (this.merge !== "points" || !old) return row;
    const before = old as unknown as Points;
    const next = row as unknown as Points;
    const joined = { ...before, ...next, x: before.x.concat(next.x), y: before.y.concat(next.y) };
    const over = joined.x.length - kPointsMax;
    if (over > 0) {
      joined.x.splice(0, over);
      joined.y.splice(0, over);
    }
    return joined as unknown as T;
  }

  private trim(): void {
    if (this.merge !== "lines") return;
    for (const id of this.rows_.keys()) {
      if (this.rows_.size <= kLinesMax) break;
      this.rows_.delete(id);
      this.dropped++;
    }
  }

  private changed(): void {
    this.list_ = null;
    this.version.value++;
  }
}
