// Stacked bars over steps or time: how a whole divides into parts, for each of up to a few hundred rows.
import { useCallback, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { num } from "../ui/parts";
import { round_ticks } from "./axes";
import { Canvas, type Paper } from "./canvas";
import { css } from "./colors";
import { ChartFrame, DataTable } from "./frame";
import { Tip } from "./tip";

export interface Part {
  name: string;
  color: string;
}

export interface Stack {
  x: string;         // Label of the bar.
  values: number[];  // One per part, at least 0.
}

const kTop = 8;
const kBottom = 34;
const kGap = 70;  // px between labels of bars.

export function StackedBars({ label, parts, rows, height, show = num, x_label, tools }: {
  label: string; parts: Part[]; rows: Stack[]; height: number; show?: (value: number) => string; x_label: string; tools?: ComponentChildren;
}) {
  const place = useRef({ left: 0, width: 0, bar: 1 });
  const [hover, set_hover] = useState<number | null>(null);
  const draw = useCallback((paper: Paper) => { place.current = paint(paper, parts, rows, show, x_label); }, [parts, rows, x_label]);
  const over = useCallback(({ canvas, height: all }: Paper) => {
    if (hover === null) return;
    const { left, bar } = place.current;
    canvas.strokeStyle = css("text");
    canvas.lineWidth = 1;
    canvas.strokeRect(left + hover * bar + 0.5, kTop + 0.5, Math.max(2, bar) - 1, all - kTop - kBottom);
  }, [hover]);
  const move = (x: number) => {
    const i = Math.floor((x - place.current.left) / place.current.bar);
    set_hover(i >= 0 && i < rows.length ? i : null);
  };
  const row = hover === null ? undefined : rows[hover];
  return (
    <ChartFrame label={label} tools={tools}
      table={() => <DataTable heads={[x_label, ...parts.map((part) => part.name)]} rows={[...rows].reverse().slice(0, 500).map((one) => [one.x, ...one.values.map(show)])} />}>
      <Canvas height={height} draw={draw} over={over} on_move={move} on_leave={() => set_hover(null)} label={label} />
      {row && hover !== null && (
        <Tip x={place.current.left + (hover + 0.5) * place.current.bar} y={kTop + 12} width={place.current.width} title={`${x_label} ${row.x}`} value={show(row.values.reduce((sum, value) => sum + value, 0))}
          about={parts.map((part, k): [string, string] => [part.name, show(row.values[k])])} />
      )}
    </ChartFrame>
  );
}

// Returns the left end of the bars, the width of the chart, and the width of a bar.
function paint({ canvas, width, height }: Paper, parts: Part[], rows: Stack[], show: (value: number) => string, x_label: string): { left: number; width: number; bar: number } {
  const top = rows.reduce((most, row) => Math.max(most, row.values.reduce((sum, value) => sum + value, 0)), 0) || 1;
  const marks = round_ticks(0, top * 1.04, 4);
  const left = 14 + Math.max(...marks.map((mark) => canvas.measureText(show(mark)).width));
  const room = height - kTop - kBottom;
  const bar = (width - left - 4) / Math.max(1, rows.length);
  const y_of = (value: number) => kTop + room * (1 - value / (top * 1.04));
  canvas.textBaseline = "middle";
  canvas.textAlign = "right";
  for (const mark of marks) {
    canvas.fillStyle = css("grid");
    canvas.fillRect(left, Math.round(y_of(mark)), width - left, 1);
    canvas.fillStyle = css("muted");
    canvas.fillText(show(mark), left - 6, y_of(mark));
  }
  const gap = bar >= 6 ? Math.min(3, Math.round(bar * 0.2)) : 0;
  rows.forEach((row, i) => {
    const [x, end] = [Math.round(left + i * bar), Math.round(left + (i + 1) * bar)];
    let sum = 0;
    row.values.forEach((value, k) => {
      canvas.fillStyle = parts[k].color;
      canvas.fillRect(x, y_of(sum + value), Math.max(1, end - x - gap), y_of(sum) - y_of(sum + value));
      sum += value;
    });
  });
  canvas.fillStyle = css("muted");
  canvas.textAlign = "center";
  const every = Math.max(1, Math.ceil((kGap * rows.length) / (width - left)));
  rows.forEach((row, i) => {
    const half = canvas.measureText(row.x).width / 2;
    if (i % every === 0) canvas.fillText(row.x, Math.min(width - half, left + (i + 0.5) * bar), height - kBottom + 10);
  });
  canvas.fillText(x_label, left + (width - left) / 2, height - 7);
  return { left, width, bar };
}
