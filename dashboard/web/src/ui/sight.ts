// Virtual list of rows of equal height: only the rows in view are rendered.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

// Rows first … end - 1 are rendered.
export interface Range {
  first: number;
  end: number;
}

// Returns the rows in view of a box of `room` px scrolled to `top`, and `beside` further rows on each side. Pure.
export function rows_at(top: number, room: number, height: number, total: number, beside: number): Range {
  if (room <= 0) return { first: 0, end: 0 };
  const from = Math.max(0, Math.min(top, total * height - room));
  return { first: Math.max(0, Math.floor(from / height) - beside), end: Math.min(total, Math.ceil((from + room) / height) + beside) };
}

// Returns the scroll position that shows a row. "near": the closest one. `before`: px of the sticky header above the rows. Pure.
export function top_for(row: number, align: "near" | "center", top: number, room: number, height: number, before: number): number {
  if (align === "center") return Math.max(0, row * height + before - (room - height) / 2);
  if (row * height < top) return row * height;
  return Math.max(top, (row + 1) * height + before - room);
}

const kStill = 150;  // ms without a scroll event after which scrolling has ended.

class Sight {
  top = 0;
  room = 0;
  width = 0;
  flies = false;
  private box_: HTMLElement | null = null;
  private drawn_top_ = 0;
  private drawn_ = "";
  private height_ = 1;
  private total_ = 0;
  private beside_ = 0;
  private still_: ReturnType<typeof setTimeout> | undefined;
  private readonly sizes_ = new ResizeObserver(() => this.measure());

  constructor(private readonly redraw_: () => void) {}

  watch(box: HTMLElement | null): void {
    if (box === this.box_) return;
    if (this.box_) {
      this.sizes_.disconnect();
      this.box_.removeEventListener("scroll", this.on_scroll);
      clearTimeout(this.still_);
    }
    this.box_ = box;
    if (!box) return;
    box.addEventListener("scroll", this.on_scroll, { passive: true });
    this.sizes_.observe(box);
    this.top = box.scrollTop;
    this.measure();
  }

  draw(total: number, height: number, beside: number): Range {
    [this.total_, this.height_, this.beside_] = [total, height, beside];
    this.drawn_top_ = this.top;
    const range = this.range();
    this.drawn_ = `${range.first} ${range.end}`;
    return range;
  }

  show(row: number, align: "near" | "center"): void {
    if (!this.box_) return;
    const before = align === "near" ? Math.max(0, this.box_.scrollHeight - this.total_ * this.height_) : 0;
    this.box_.scrollTop = top_for(row, align, this.box_.scrollTop, this.box_.clientHeight, this.height_, before);
  }

  // Fast scrolling renders one row beside the box, since further ones would be removed unseen.
  private range(): Range { return rows_at(this.top, this.room, this.height_, this.total_, this.flies ? 1 : this.beside_); }

  private measure(): void {
    const { offsetWidth: width, offsetHeight: room } = this.box_!;
    if (width === this.width && room === this.room) return;
    [this.width, this.room] = [width, room];
    this.redraw_();
  }

  private on_scroll = () => {
    this.top = this.box_!.scrollTop;
    this.flies = Math.abs(this.top - this.drawn_top_) > this.room;
    clearTimeout(this.still_);
    this.still_ = setTimeout(() => {
      this.flies = false;
      this.redraw_changed();
    }, kStill);
    this.redraw_changed();
  };

  private redraw_changed(): void {
    const { first, end } = this.range();
    if (this.drawn_ !== `${first} ${end}`) this.redraw_();
  }
}

// `width`: width of the box, 0 before it is known. show() scrolls a row into view.
export function use_rows_in_sight(total: number, height: number, beside: number, box: { current: HTMLElement | null }) {
  const [, redraw] = useState(0);
  const [sight] = useState(() => new Sight(() => redraw((n) => n + 1)));
  useLayoutEffect(() => sight.watch(box.current));
  useEffect(() => () => sight.watch(null), []);
  return { ...sight.draw(total, height, beside), width: sight.width, show: (row: number, align: "near" | "center") => sight.show(row, align) };
}
