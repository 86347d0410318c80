// Line chart over steps or time, drawn by uPlot, for many hundreds of lines. The line under the pointer is highlighted on a second canvas,
// so that the other lines are not redrawn. A table holds the same numbers.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { locale, t } from "../i18n";
import { clock } from "../format";
import { dark, language } from "../prefs";
import { num } from "../ui/parts";
import { log_splits } from "./axes";
import { css } from "./colors";
import { ChartFrame, DataTable } from "./frame";
import { join, nearest, range_of, type Line } from "./lines";
import { Tip } from "./tip";

interface Props {
  label: string;
  lines: Line[];
  height: number;
  x_label?: string;
  time?: boolean;            // x is in Unix milliseconds.
  log_x?: boolean;
  log_y?: boolean;
  from_zero?: boolean;
  top?: number;              // The y axis ends at this value or above.
  show?: (value: number) => string;
  fill?: boolean;
  bytes?: boolean;           // Ticks are powers of two.
  raw?: Map<string, Line>;   // Unsmoothed lines, drawn faintly for the line under the pointer.
  on_pick?: (id: string) => void;
  tools?: preact.ComponentChildren;
  note?: string;
  named?: boolean;           // Shows a legend below; a click on an entry hides its line.
  about?: (id: string) => [string, string][];  // Further names and values in the tooltip.
  whole_x?: boolean;         // x is integers (steps).
  stairs?: boolean;          // Draws steps: a value holds until the next one.
}

interface Hover {
  left: number;
  top: number;
  line: Line;
  x: number;
  y: number;
}

export function LineChart(props: Props) {
  const { label, height, time, log_x = false, log_y = false, show = num } = props;
  const [off, set_off] = useState<Set<string>>(new Set());
  const lines = useMemo(() => (off.size ? props.lines.filter((line) => !off.has(line.id)) : props.lines), [props.lines, off]);
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const state = useRef({ props, ys: [] as (number | null)[][], x: [] as number[], zoomed: false });
  const [hover, set_hover] = useState<Hover | null>(null);
  state.current.props = { ...props, lines };
  const slots = Math.ceil(Math.max(1, lines.length) / 16) * 16;

  useLayoutEffect(() => {
    const host = box.current!;
    const made = make(host, slots, state.current, set_hover);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: host.clientWidth, height: state.current.props.height }));
    watch.observe(host);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [slots, log_x, log_y, time, height, dark.value, language.value, props.x_label]);

  useEffect(() => {
    const { x, ys } = join(lines, log_x, log_y);
    state.current.x = x;
    state.current.ys = ys;
    const padded = ys.concat(Array.from({ length: slots - ys.length }, () => new Array(x.length).fill(null)));
    lines.forEach((line, i) => { if (plot.current?.series[i + 1]) plot.current.series[i + 1].dash = line.dash; });
    plot.current?.setData([x, ...padded] as uPlot.AlignedData, !state.current.zoomed);
    if (state.current.zoomed) plot.current?.redraw(true, false);
  }, [lines, slots, log_x, log_y, time, height, dark.value, language.value, props.x_label]);

  const show_x = (x: number) => (time ? clock(x, locale()) : num(x));
  const pick = () => {
    if (hover && props.on_pick) props.on_pick(hover.line.id);
  };
  return (
    <ChartFrame label={label} tools={props.tools} note={props.note}
      table={() => <Numbers lines={lines} show={show} show_x={show_x} x_label={props.x_label ?? ""} />}>
      <div class={`plot${hover && props.on_pick ? " picks" : ""}`} ref={box} onClick={pick} />
      {hover && (
        <Tip x={hover.left} y={hover.top} width={box.current?.clientWidth ?? 0} color={hover.line.color} title={hover.line.label} value={show(hover.y)} about={props.about?.(hover.line.id)}>
          <small>{props.x_label ? `${props.x_label} ${show_x(hover.x)}` : show_x(hover.x)}</small>
        </Tip>
      )}
      {props.named && props.lines.length > 1 && (
        <ul class="legend">{props.lines.map((line) => <LegendEntry key={line.id} color={line.color} dash={line.dash} text={line.label} on={!off.has(line.id)} on_change={() => set_off(turned(off, line.id))} />)}</ul>
      )}
    </ChartFrame>
  );
}

export const turned = (set: Set<string>, key: string): Set<string> => {
  const next = new Set(set);
  if (!next.delete(key)) next.add(key);
  return next;
};

// An entry of a legend that hides and shows its lines.
export const LegendEntry = ({ color, dash, text, note, on, on_change }: { color: string; dash?: number[]; text: string; note?: string; on: boolean; on_change: () => void }) => (
  <li>
    <button type="button" class={`legend-entry${on ? "" : " off"}`} aria-pressed={on} onClick={on_change}>
      {dash ? <svg width="26" height="9" aria-hidden="true"><line x1="1" y1="4.5" x2="25" y2="4.5" stroke={color} stroke-width="2" stroke-dasharray={dash.join(" ")} /></svg> : <i style={{ background: color }} />}
      {text}{note && <small>{note}</small>}
    </button>
  </li>
);

function make(host: HTMLElement, slots: number, state: { props: Props; ys: (number | null)[][]; x: number[]; zoomed: boolean }, set_hover: (hover: Hover | null) => void): uPlot {
  const { props } = state;
  const text = css("muted");
  const grid = { stroke: css("grid"), width: 1 };
  const font = `11px ${css("font")}`;
  const overlay = document.createElement("canvas");
  overlay.className = "overlay";
  const many = () => state.props.lines.length > 40;
  const series: uPlot.Series[] = Array.from({ length: slots }, (_, i) => ({
    stroke: () => state.props.lines[i]?.color ?? "transparent",
    width: many() ? 1.2 : 1.6,
    fill: props.fill ? () => (state.props.lines[i] ? state.props.lines[i].color.slice(0, 7) + "22" : "transparent") : undefined,
    spanGaps: true,
    ...(props.stairs ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
    points: { show: (u: uPlot, s: number) => (u.data[s] as (number | null)[]).reduce<number>((n, y) => n + (y === null ? 0 : 1), 0) === 1, size: many() ? 3 : 5, width: 0, fill: () => state.props.lines[i]?.color ?? "transparent" },
  }));
  const range_y = (_: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax => {
    return range_of(low, high, props);
  };
  const options: uPlot.Options = {
    width: host.clientWidth || 300,
    height: props.height,
    legend: { show: false },
    cursor: { points: { show: false }, drag: { x: true, y: false }, y: false },
    scales: { x: { time: props.time ?? false, distr: props.log_x ? 3 : 1 }, y: { distr: props.log_y ? 3 : 1, range: range_y } },
    ms: 1,
    tzDate: (ms) => new Date(ms),
    axes: [
      { stroke: text, grid: { ...grid, show: false }, ticks: { ...grid, size: 4 }, font, label: props.x_label, labelFont: font, labelSize: 16, size: 28, space: props.time ? 84 : 50,
        ...(props.whole_x ? { incrs: kWhole } : {}),
        ...(props.log_x ? kLogTicks : {}),
        values: props.time ? (_, ticks) => ticks.map((tick) => short_time(tick)) : (_, ticks) => ticks.map((tick) => (tick === null ? "" : num(tick))) },
      { stroke: text, grid, ticks: { show: false }, font, gap: 6, size: (_, values) => Math.max(36, 14 + 6.4 * Math.max(0, ...(values ?? []).map((value) => value?.length ?? 0))),
        ...(props.bytes ? { incrs: Array.from({ length: 50 }, (_, power) => 2 ** power) } : {}),
        ...(props.log_y ? kLogTicks : {}),
        values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : (props.show ?? num)(tick))) },
    ],
    series: [{}, ...series],
    hooks: {
      init: [(u) => { u.over.append(overlay); }],
      setSelect: [(u) => { state.zoomed = u.select.width > 0 || state.zoomed; }],
      draw: [(u) => draw_strong(u, state)],
      setCursor: [(u) => on_cursor(u, overlay, state, set_hover)],
    },
  };
  const made = new uPlot(options, [[], ...series.map(() => [])] as unknown as uPlot.AlignedData, host);
  made.over.addEventListener("dblclick", () => { state.zoomed = false; });
  return made;
}

// Labels every tick.
const kLogTicks: Pick<uPlot.Axis, "splits" | "filter"> = { splits: (_, __, low, high) => log_splits(low, high), filter: (_, ticks) => ticks };

const kWhole = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();

// Draws the highlighted lines over all others, with their names at their ends.
function draw_strong(u: uPlot, state: { props: Props; ys: (number | null)[][]; x: number[] }): void {
  const { ctx } = u;
  const ratio = devicePixelRatio;
  state.props.lines.forEach((line, i) => {
    const ys = state.ys[i];
    if (!line.strong || !ys) return;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    ctx.beginPath();
    ctx.strokeStyle = css("text");
    ctx.lineJoin = "round";
    let end: [number, number] | null = null;
    for (let k = 0; k < state.x.length; k++) {
      const value = ys[k];
      if (value === null || value === undefined) continue;
      const at: [number, number] = [u.valToPos(state.x[k], "x", true), u.valToPos(value, "y", true)];
      if (end) ctx.lineTo(...at);
      else ctx.moveTo(...at);
      end = at;
    }
    ctx.lineWidth = 5 * ratio;
    ctx.strokeStyle = css("panel");
    ctx.stroke();
    ctx.lineWidth = 2.6 * ratio;
    ctx.strokeStyle = line.color.startsWith("#") ? line.color.slice(0, 7) : line.color;
    ctx.stroke();
    if (end) {
      ctx.font = `600 ${11 * ratio}px ${css("font")}`;
      const wide = ctx.measureText(line.label).width;
      const right = end[0] + wide + 8 * ratio < u.bbox.left + u.bbox.width;
      const [x, y] = [right ? end[0] + 6 * ratio : end[0] - wide - 2 * ratio, Math.max(u.bbox.top + 12 * ratio, end[1] - 8 * ratio)];
      ctx.lineWidth = 3 * ratio;
      ctx.strokeStyle = css("panel");
      ctx.textAlign = "left";
      ctx.textBaseline = "alphabetic";
      ctx.strokeText(line.label, x, y);
      ctx.fillStyle = css("text");
      ctx.fillText(line.label, x, y);
    }
    ctx.restore();
  });
}

const short_time = (ms: number) => new Intl.DateTimeFormat(locale(), { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }).format(ms);

function on_cursor(u: uPlot, overlay: HTMLCanvasElement, state: { props: Props; ys: (number | null)[][]; x: number[] }, set_hover: (hover: Hover | null) => void): void {
  const ratio = devicePixelRatio;
  const { width, height } = { width: u.over.clientWidth, height: u.over.clientHeight };
  if (overlay.width !== width * ratio || overlay.height !== height * ratio) {
    overlay.width = width * ratio;
    overlay.height = height * ratio;
  }
  const canvas = overlay.getContext("2d")!;
  canvas.setTransform(ratio, 0, 0, ratio, 0, 0);
  canvas.clearRect(0, 0, width, height);
  const { idx, left = -1, top = -1 } = u.cursor;
  if (idx === null || idx === undefined || left < 0) return set_hover(null);
  const far = (y: number, i: number) => Math.hypot((u.valToPos(state.x[i], "x") - left) / 4, u.valToPos(y, "y") - top);
  const found = nearest(state.ys, idx, 24, far);
  const line = state.props.lines[found];
  if (!line) return set_hover(null);
  const at = [...Array(49).keys()].map((k) => idx + (k % 2 ? -(k + 1) / 2 : k / 2)).find((i) => state.ys[found][i] != null)!;
  const raw = state.props.raw?.get(line.id);
  if (raw) draw(canvas, u, raw.x, raw.y, line.color, 1, 0.45);
  if (state.props.lines.length > 1) draw(canvas, u, state.x, state.ys[found], line.color, 3, 1);
  const [px, py] = [u.valToPos(state.x[at], "x"), u.valToPos(state.ys[found][at]!, "y")];
  canvas.globalAlpha = 1;
  canvas.fillStyle = line.color.slice(0, 7);
  canvas.beginPath();
  canvas.arc(px, py, 4, 0, 2 * Math.PI);
  canvas.fill();
  const frame = u.over as HTMLElement;
  set_hover({ left: frame.offsetLeft + px, top: py, line, x: state.x[at], y: state.ys[found][at]! });
}

function draw(canvas: CanvasRenderingContext2D, u: uPlot, x: number[], y: (number | null)[], color: string, width: number, alpha: number): void {
  canvas.globalAlpha = alpha;
  canvas.strokeStyle = color.startsWith("#") ? color.slice(0, 7) : color.replace(/rgba\((.*),[^,]*\)/, "rgb($1)");
  canvas.lineWidth = width;
  canvas.lineJoin = "round";
  canvas.beginPath();
  let begun = false;
  for (let i = 0; i < x.length; i++) {
    const value = y[i];
    if (value === null || value === undefined || !Number.isFinite(value)) continue;
    const [px, py] = [u.valToPos(x[i], "x"), u.valToPos(value, "y")];
    if (begun) canvas.lineTo(px, py);
    else canvas.moveTo(px, py);
    begun = true;
  }
  canvas.stroke();
}

// Lists every value of a few lines, or one row per line of many.
function Numbers({ lines, show, show_x, x_label }: { lines: Line[]; show: (value: number) => string; show_x: (value: number) => string; x_label: string }) {
  const value = (y: number | null | undefined) => (y === null || y === undefined ? "–" : show(y));
  if (lines.length <= 6) {
    const { x, ys } = join(lines, false, false);
    const rows = x.map((at, i) => [show_x(at), ...ys.map((y) => value(y[i]))]).reverse().slice(0, 500);
    return <DataTable heads={[x_label || t("chart.time"), ...lines.map((line) => line.label)]} rows={rows} />;
  }
  const rows = lines.slice(0, 500).map((line) => {
    const known = line.y.filter((y): y is number => y !== null && Number.isFinite(y));
    return [line.label, String(known.length), value(known[known.length - 1]), value(known.length ? Math.min(...known) : null), value(known.length ? Math.max(...known) : null)];
  });
  return <DataTable heads={[t("chart.line"), t("chart.points"), t("chart.last"), t("chart.min"), t("chart.max")]} rows={rows} />;
}
