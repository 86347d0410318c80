// Parallel coordinates: one axis per parameter, the metric last, one line per trial. Dragging along an axis selects trials; the address keeps it.
import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { locale, t, word } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { go, link, query, set_query } from "../router";
import { at, axis_of, may_be_log, rank_correlation, ticks, value_at, type Axis } from "../charts/axes";
import { Canvas, halo, type Paper } from "../charts/canvas";
import { css, ramp, with_alpha } from "../charts/colors";
import { ChartFrame, DataTable } from "../charts/frame";
import { Tip } from "../charts/tip";
import { plain } from "../format";
import { chart_height } from "../prefs";
import { Menu } from "../ui/menu";
import { Card, Empty, Select, count, num } from "../ui/parts";
import { parse_brushes, write_brushes, type Brush } from "./brushes";
import { paint_ramp } from "./curves";
import { flat, metrics, parameters, shown_name, varying } from "./trials";

const kPad = { side: 64, top: 44, bottom: 24 };

interface Drawn {
  trial: Trial;
  places: (number | null)[];
  color: string;
}

export function Parallel({ trials, experiment }: { trials: Trial[]; experiment: Experiment }) {
  const metric = query("metric", experiment.metric);
  const names = useMemo(() => metrics(trials, experiment), [trials.length, experiment.metric]);
  const scales = parse_scales(query("scales"));
  const axes = useMemo(() => {
    const params = parameters(trials).filter((one) => one.varies).slice(0, 12);
    return [...params.map((one) => axis_of(one.path, trials.map((trial) => flat(trial)[one.path]), scales[one.path])), axis_of(metric, trials.map((trial) => trial.metrics?.[metric]), scales[metric])];
  }, [trials, metric, query("scales")]);
  const lines = useMemo(() => drawn(trials, axes, metric, experiment.mode === "min" && metric === experiment.metric), [trials, axes]);
  const brushes = parse_brushes(query("brush"));
  const best_id = experiment.best?.trial;
  const [live, set_live] = useState<{ axis: number; from: number; to: number } | null>(null);
  const all = live ? { ...brushes, [axes[live.axis].name]: [Math.min(live.from, live.to), Math.max(live.from, live.to)] as Brush } : brushes;
  const key = JSON.stringify(all);
  const chosen = useMemo(() => lines.filter((line) => passes(line, axes, all)), [lines, key]);
  const [hover, set_hover] = useState<{ line: Drawn; x: number; y: number } | null>(null);
  const width = useRef(0);
  const draw = useCallback((paper: Paper) => {
    width.current = paper.width;
    paint(paper, axes, lines, chosen, all, chosen.find((line) => line.trial.id === best_id));
  }, [lines, chosen, key, best_id]);
  const over = useCallback((paper: Paper) => { if (hover) stroke(paper, hover.line, 2.5, hover.line.color, axes.length); }, [hover, axes]);
  if (axes.length < 2 || axes[axes.length - 1].high === -Infinity) return <Card title={t("tab.parallel")}><Empty icon="experiments" title={t("parallel.none")}>{t("parallel.none.next")}</Empty></Card>;

  const down = (x: number, y: number) => {
    const axis = near_axis(x, axes.length, width.current);
    if (axis >= 0) set_live({ axis, from: place_of(y), to: place_of(y) });
  };
  const move = (x: number, y: number) => {
    if (live) return set_live({ ...live, to: place_of(y) });
    const line = nearest_line(chosen, x, y, axes.length, width.current);
    set_hover(line ? { line, x, y } : null);
  };
  const up = () => {
    if (live) {
      const wide = Math.abs(live.to - live.from) > 0.01;
      const next = { ...brushes };
      if (wide) next[axes[live.axis].name] = [Math.min(live.from, live.to), Math.max(live.from, live.to)];
      else delete next[axes[live.axis].name];
      set_live(null);
      set_query({ brush: write_brushes(next) });
    } else if (hover) go(["experiments", experiment.name, "trials", hover.line.trial.id]);
  };
  const tools = (
    <>
      <Select label={t("curves.metric")} value={metric} on_change={(value) => set_query({ metric: value })} options={names.map((name) => [name, name])} />
      <div class="legend inline"><span>{t("curves.worst")}</span><i class="ramp" ref={paint_ramp} /><span>{t("curves.best")}</span></div>
      {axes.some(may_be_log) && (
        <Menu text={t("parallel.scales")} choices={axes.filter(may_be_log).map((axis) => ({ key: axis.name, text: axis.name, checked: axis.log, run: () => set_query({ scales: write_scales({ ...scales, [axis.name]: !axis.log }) }) }))} />
      )}
      {Object.keys(brushes).length > 0 && <button type="button" class="button" onClick={() => set_query({ brush: null })}>{t("parallel.clear")}</button>}
      <span class="note">{t("parallel.count", { shown: count(chosen.length), n: count(lines.length) })}</span>
    </>
  );
  return (
    <>
      <Card title={t("tab.parallel")}>
        <ChartFrame label={t("parallel.label", { n: lines.length })} tools={tools} table={() => <AxisTable axes={axes} trials={trials} metric={metric} />}>
          <Canvas height={chart_height.value} draw={draw} over={over} on_down={down} on_move={move} on_up={up} on_leave={() => set_hover(null)} label={t("parallel.label", { n: lines.length })} pointer={hover !== null} least={2 * kPad.side + 84 * (axes.length - 1)} drags />
          {hover && !live && (
            <Tip x={hover.x} y={hover.y} width={width.current} color={hover.line.color} title={shown_name(hover.line.trial)} value={word(hover.line.trial.status)}
              about={[[metric, num(hover.line.trial.metrics?.[metric])], ...varying(hover.line.trial, parameters(trials), (value) => plain(value, locale()), 8)]} />
          )}
        </ChartFrame>
        <p class="quiet-line">{t("parallel.hint")}</p>
      </Card>
      {Object.keys(brushes).length > 0 && (
        <Card title={t("parallel.chosen", { n: chosen.length })}>
          <ul class="chips">
            {[...chosen].reverse().slice(0, 24).map(({ trial, color }) => (
              <li key={trial.id}><a title={trial.id} href={link(["experiments", experiment.name, "trials", trial.id])}><i style={{ background: color }} /><code>{shown_name(trial, 24)}</code> {num(trial.metrics?.[metric])}</a></li>
            ))}
          </ul>
        </Card>
      )}
    </>
  );
}

// Leaves out trials without the metric, and sorts the best last so that they are drawn on top.
function drawn(trials: Trial[], axes: Axis[], metric: string, small_is_good: boolean): Drawn[] {
  const last = axes[axes.length - 1];
  const value = (trial: Trial) => at(last, trial.metrics?.[metric]);
  const known = trials.filter((trial) => value(trial) !== null).sort((a, b) => (value(a)! - value(b)!) * (small_is_good ? -1 : 1));
  return known.map((trial, i) => ({ trial, color: ramp(i / Math.max(1, known.length - 1)), places: axes.map((axis, k) => (k === axes.length - 1 ? value(trial) : at(axis, flat(trial)[axis.name]))) }));
}

// Parses "lr:log,width:linear", the scales that the user chose; other scales depend on the values.
const parse_scales = (text: string): Record<string, boolean> => Object.fromEntries(text.split(",").filter(Boolean).map((one) => [decodeURIComponent(one.slice(0, one.lastIndexOf(":"))), one.endsWith(":log")]));
const write_scales = (scales: Record<string, boolean>): string => Object.entries(scales).map(([name, log]) => `${encodeURIComponent(name)}:${log ? "log" : "linear"}`).join(",");

// Draws the best selected trial thick, with its name at the metric's axis.
function draw_best(paper: Paper, line: Drawn, n: number): void {
  stroke(paper, line, 5, css("panel"), n);
  stroke(paper, line, 2.6, line.color, n);
  const place = line.places[n - 1];
  if (place === null) return;
  paper.canvas.font = `600 11px ${css("font")}`;
  paper.canvas.textAlign = "right";
  paper.canvas.textBaseline = "middle";
  halo(paper.canvas, shown_name(line.trial, 20), axis_x(n - 1, n, paper.width) - 8, Math.max(kPad.top + 6, y_of(place) - 9), "text");
  paper.canvas.font = `11px ${css("font")}`;
}

const passes = (line: Drawn, axes: Axis[], brushes: Record<string, Brush>) => axes.every((axis, i) => {
  const brush = brushes[axis.name];
  const where = line.places[i];
  return !brush || (where !== null && where >= brush[0] && where <= brush[1]);
});

const axis_x = (i: number, n: number, width: number) => kPad.side + (i * (width - 2 * kPad.side)) / (n - 1);
const y_of = (place: number) => kPad.top + (1 - place) * (chart_height.value - kPad.top - kPad.bottom);
const place_of = (y: number) => Math.min(1, Math.max(0, 1 - (y - kPad.top) / (chart_height.value - kPad.top - kPad.bottom)));
function near_axis(x: number, n: number, width: number): number {
  const i = Math.round(((x - kPad.side) / (width - 2 * kPad.side)) * (n - 1));
  return i >= 0 && i < n && Math.abs(axis_x(i, n, width) - x) < 18 ? i : -1;
}

function stroke({ canvas, width }: Paper, line: Drawn, thick: number, color: string, n: number): void {
  canvas.strokeStyle = color;
  canvas.lineWidth = thick;
  canvas.beginPath();
  let begun = false;
  line.places.forEach((place, i) => {
    if (place === null) return;
    if (begun) canvas.lineTo(axis_x(i, n, width), y_of(place));
    else canvas.moveTo(axis_x(i, n, width), y_of(place));
    begun = true;
  });
  canvas.stroke();
}

function paint(paper: Paper, axes: Axis[], lines: Drawn[], chosen: Drawn[], brushes: Record<string, Brush>, best: Drawn | undefined): void {
  const { canvas, width } = paper;
  const n = axes.length;
  if (chosen.length < lines.length) {
    const grey = with_alpha(css("faint"), lines.length > 500 ? 0.12 : 0.3);
    for (const line of lines) stroke(paper, line, 1, grey, n);
  }
  const alpha = chosen.length > 2000 ? 0.2 : chosen.length > 400 ? 0.4 : chosen.length > 80 ? 0.65 : 0.9;
  for (const line of chosen) stroke(paper, line, 1.2, with_alpha(line.color, alpha), n);
  if (best) draw_best(paper, best, n);
  axes.forEach((axis, i) => {
    const x = axis_x(i, n, width);
    canvas.fillStyle = css("axis");
    canvas.fillRect(Math.round(x), kPad.top, 1, chart_height.value - kPad.top - kPad.bottom);
    const brush = brushes[axis.name];
    if (brush) {
      canvas.fillStyle = with_alpha(css("accent"), 0.25);
      canvas.fillRect(x - 7, y_of(brush[1]), 14, y_of(brush[0]) - y_of(brush[1]));
      canvas.strokeStyle = css("accent");
      canvas.lineWidth = 1;
      canvas.strokeRect(Math.round(x - 7) + 0.5, Math.round(y_of(brush[1])) + 0.5, 14, Math.round(y_of(brush[0]) - y_of(brush[1])));
    }
    canvas.textBaseline = "middle";
    canvas.textAlign = "center";
    canvas.fillStyle = css("text");
    canvas.fillText(clip(canvas, axis.name, (width - 2 * kPad.side) / (n - 1) - 8), x, 14);
    canvas.fillStyle = css("muted");
    if (axis.log) canvas.fillText(t("parallel.log"), x, 28);
    canvas.textAlign = i === n - 1 ? "left" : "right";
    for (const tick of ticks(axis)) halo(canvas, typeof tick.value === "number" ? num(tick.value) : clip(canvas, tick.value, kPad.side - 14), x + (i === n - 1 ? 6 : -6), y_of(tick.at));
  });
}

function clip(canvas: CanvasRenderingContext2D, text: string, width: number): string {
  if (canvas.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && canvas.measureText(text.slice(0, end) + "…").width > width) end--;
  return text.slice(0, end) + "…";
}

function nearest_line(lines: Drawn[], x: number, y: number, n: number, width: number): Drawn | null {
  const gap = (width - 2 * kPad.side) / (n - 1);
  const left = Math.min(n - 2, Math.max(0, Math.floor((x - kPad.side) / gap)));
  const part = (x - axis_x(left, n, width)) / gap;
  let best: Drawn | null = null;
  let best_far = 7;
  for (const line of lines) {
    const [a, b] = [line.places[left], line.places[left + 1]];
    if (a === null || b === null) continue;
    const far = Math.abs(y_of(a + (b - a) * part) - y);
    if (far <= best_far) [best, best_far] = [line, far];
  }
  return best;
}

function AxisTable({ axes, trials, metric }: { axes: Axis[]; trials: Trial[]; metric: string }) {
  const rows = axes.slice(0, -1).map((axis) => {
    const pairs = trials.map((trial) => [flat(trial)[axis.name], trial.metrics?.[metric]]).filter(([a, b]) => typeof a === "number" && typeof b === "number" && Number.isFinite(b)) as [number, number][];
    const show = (place: number) => { const value = value_at(axis, place); return typeof value === "number" ? num(value) : value; };
    return [axis.name, show(0), show(1), axis.words ? "–" : num(rank_correlation(pairs))];
  });
  return <DataTable heads={[t("col.parameter"), t("chart.min"), t("chart.max"), t("parallel.correlation", { metric })]} rows={rows} />;
}
