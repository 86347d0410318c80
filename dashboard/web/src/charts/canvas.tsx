// A canvas that is redrawn when its size, theme or content changes.
import { useEffect, useRef, useState } from "preact/hooks";
import { dark, language } from "../prefs";
import { css } from "./colors";

export interface Paper {
  canvas: CanvasRenderingContext2D;
  width: number;
  height: number;
}

export function Canvas({ height, draw, over, on_move, on_leave, on_down, on_up, label, pointer, least = 0, drags }: {
  height: number;
  draw: (paper: Paper) => void;
  over?: (paper: Paper) => void;      // Draws the upper layer, which follows the pointer.
  on_move?: (x: number, y: number) => void;
  on_leave?: () => void;
  on_down?: (x: number, y: number) => void;
  on_up?: (x: number, y: number) => void;
  label: string;
  pointer?: boolean;
  least?: number;                     // Minimum width in px; a narrower box scrolls.
  drags?: boolean;                    // Vertical swipes on a touch screen go to the canvas, not to the page.
}) {
  const box = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const top = useRef<HTMLCanvasElement>(null);
  const [width, set_width] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => set_width(Math.max(least, Math.floor(entry.contentRect.width))));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, [least]);
  useEffect(() => {
    if (width) draw(paper(base.current!, width, height));
  }, [draw, width, height, dark.value, language.value]);
  useEffect(() => {
    if (width && over) over(paper(top.current!, width, height));
  }, [over, width, height, dark.value]);
  const at = (event: PointerEvent, run?: (x: number, y: number) => void) => {
    if (!run) return;
    const frame = box.current!.getBoundingClientRect();
    run(event.clientX - frame.left + box.current!.scrollLeft, event.clientY - frame.top);
  };
  return (
    <div class={`canvas${pointer ? " picks" : ""}${drags ? " drags" : ""}`} ref={box} role="img" aria-label={label} tabIndex={least > 0 && width <= least ? 0 : undefined} style={{ height: height + "px" }}
      onPointerMove={(event) => at(event, on_move)} onPointerLeave={on_leave}
      onPointerDown={(event) => { if (on_down) box.current!.setPointerCapture(event.pointerId); at(event, on_down); }} onPointerUp={(event) => at(event, on_up)}>
      <canvas ref={base} />
      <canvas ref={top} />
    </div>
  );
}

function paper(element: HTMLCanvasElement, width: number, height: number): Paper {
  const ratio = devicePixelRatio;
  element.width = width * ratio;
  element.height = height * ratio;
  element.style.width = width + "px";
  element.style.height = height + "px";
  const canvas = element.getContext("2d")!;
  canvas.setTransform(ratio, 0, 0, ratio, 0, 0);
  canvas.clearRect(0, 0, width, height);
  canvas.font = `11px ${css("font")}`;
  return { canvas, width, height };
}

// Draws text with an outline in the background's colour, so that it is readable over the drawing.
export function halo(canvas: CanvasRenderingContext2D, text: string, x: number, y: number, color = "muted"): void {
  canvas.strokeStyle = css("panel");
  canvas.lineWidth = 3;
  canvas.lineJoin = "round";
  canvas.strokeText(text, x, y);
  canvas.fillStyle = css(color);
  canvas.fillText(text, x, y);
}

// Draws a ring and a name around a mark.
export function named({ canvas, width }: Paper, x: number, y: number, name: string): void {
  canvas.strokeStyle = css("text");
  canvas.lineWidth = 2;
  canvas.beginPath();
  canvas.arc(x, y, 6, 0, 2 * Math.PI);
  canvas.stroke();
  canvas.font = `600 11px ${css("font")}`;
  canvas.textBaseline = "middle";
  const right = x + canvas.measureText(name).width + 14 < width;
  canvas.textAlign = right ? "left" : "right";
  halo(canvas, name, right ? x + 10 : x - 10, y, "text");
  canvas.font = `11px ${css("font")}`;
}
