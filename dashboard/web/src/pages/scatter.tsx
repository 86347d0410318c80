// Scatter plot of two parameters or metrics, one mark per trial; a third one as colour, and as an interpolated surface.
import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { plain } from "../format";
import { locale, t, word } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { go, query, set_query } from "../router";
import { at, axis_of, may_be_log, rank_correlation, ticks, type Axis } from "../charts/axes";
import { Canvas, named, type Paper } from "../charts/canvas";
import { css, ramp, status_color, with_alpha } from "../charts/colors";
import { surface } from "../charts/surface";
import { ChartFrame, DataTable } from "../charts/frame";
import { LegendEntry, turned } from "../charts/line_chart";
import { closest, ring } from "../charts/marks";
import { Tip } from "../charts/tip";
import { chart_height, dark } from "../prefs";
import { Card, Select, Toggle, count, num } from "../ui/parts";
import { paint_ramp } from "./curves";
import { best_so_far, lower_is_better, pareto } from "./history";
import { flat, metrics, parameters, shown_name, varying } from "./trials";
import { kTrialStates } from "../ui/states";

const kPad = { left: 64, right: 20, top: 26, bottom: 44 };

interface Mark {
  trial: Trial;
  x: number;
  y: number;
  color: string;
  shade: number | null;  // Position on the ramp of the third axis; null: no value, or no third axis.
}

const kOrder = "#order";

const shown_axis = (name: string) => (name === kOrder ? t("scatter.order") : name === "step" ? t("col.step").toLowerCase() : name);

// Draws a step line: the value at a mark holds until the next one.
function stairs({ canvas }: Paper, line: Mark[]): void {
  if (line.length < 2) return;
  canvas.strokeStyle = css("accent");
  canvas.lineWidth = 2;
  canvas.beginPath();
  line.forEach((mark, i) => {
    if (i === 0) return canvas.moveTo(mark.x, mark.y);
    canvas.lineTo(mark.x, line[i - 1].y);
    return canvas.lineTo(mark.x, mark.y);
  });
  canvas.stroke();
}

// Returns the scale that the user chose; undefined: chosen from the values.
const chosen_log = (key: string) => (query(key) === "" ? undefined : query(key) === "1");

// `preset`: "history" has trials in order of their start on the x axis and the best so far as a line; "pareto" has a second metric and the
// Pareto front; "contour" has the metric over two parameters.
export function Scatter({ trials: all, experiment, preset = "scatter" }: { trials: Trial[]; experiment: Experiment; preset?: "scatter" | "history" | "pareto" | "contour" }) {
  const off = useMemo(() => new Set(query("hidden").split(",").filter(Boolean)), [query("hidden")]);
  const trials = useMemo(() => (off.size ? all.filter((one) => !off.has(one.status)) : all), [all, off]);
  const names = useMemo(() => metrics(trials, experiment), [trials.length, experiment.metric]);
  const params = useMemo(() => parameters(trials).filter((one) => one.varies), [trials.length]);
  const other = names.find((name) => name !== experiment.metric && !/^(training_iteration|time_this_iter_s|done)$/.test(name));
  const first = preset === "history" ? kOrder : preset === "pareto" ? other ?? "step" : params[0]?.path ?? "step";
  const second = preset === "contour" ? params.filter((one) => one.numeric)[1]?.path ?? params[1]?.path ?? experiment.metric : experiment.metric;
  const [along, up] = [query("sx", first), query("sy", second)];
  const by = query("color", preset === "contour" ? experiment.metric : "");
  const order = useMemo(() => new Map([...trials].sort((a, b) => (a.started_ms ?? Infinity) - (b.started_ms ?? Infinity)).map((one, i) => [one.id, i + 1])), [trials]);
  const value = (trial: Trial, name: string): unknown => (name === kOrder ? order.get(trial.id) : name === "step" ? trial.step : flat(trial)[name] ?? trial.metrics?.[name]);
  const axes = useMemo((): [Axis, Axis] => [axis_of(along, trials.map((trial) => value(trial, along)), chosen_log("sxlog")), axis_of(up, trials.map((trial) => value(trial, up)), chosen_log("sylog"))], [trials, along, up, query("sxlog"), query("sylog")]);
  const color_axis = useMemo(() => (by ? axis_of(by, trials.map((trial) => value(trial, by))) : null), [trials, by]);
  const may_surface = Boolean(color_axis && !color_axis.words && !axes[0].words && !axes[1].words);
  const with_surface = may_surface && query("surface", preset === "contour" ? "1" : "") === "1";
  const best_id = experiment.best?.trial;
  const width = useRef(0);
  const [wide, set_wide] = useState(0);
  const marks = useMemo(() => lay_out(trials, axes, (trial, name) => value(trial, name), wide, color_axis), [trials, axes, wide, chart_height.value, color_axis, dark.value]);
  const [hover, set_hover] = useState<Mark | null>(null);
  const lower = (name: string) => (query("low-" + name) ? query("low-" + name) === "1" : name === experiment.metric ? experiment.mode === "min" : lower_is_better(name));
  const line = useMemo(() => {
    const points = marks.map((mark) => ({ of: mark, x: Number(value(mark.trial, along)), y: Number(value(mark.trial, up)) })).filter((one) => Number.isFinite(one.x) && Number.isFinite(one.y));
    if (preset === "pareto") return pareto(points, lower(along), lower(up)).map((one) => one.of);
    if (preset !== "history" || along !== kOrder) return [];
    const sorted = points.sort((a, b) => a.x - b.x);
    const best = best_so_far(sorted.map((one) => one.y), lower(up) ? "min" : "max");
    let height = NaN;
    return sorted.map((one, i) => {
      if (one.y === best[i]) height = one.of.y;
      return { ...one.of, y: height };
    });
  }, [marks, preset, query("low-" + along), query("low-" + up)]);
  const draw = useCallback((paper: Paper) => {
    width.current = paper.width;
    if (paper.width !== wide) return set_wide(paper.width);
    paint(paper, axes, marks, with_surface);
    stairs(paper, line);
    const best = marks.find((mark) => mark.trial.id === best_id);
    if (best) named(paper, best.x, best.y, shown_name(best.trial, 28));
  }, [line, marks, axes, wide, chart_height.value, best_id, with_surface]);
  const over = useCallback((paper: Paper) => { if (hover) ring(paper, hover); }, [hover]);
  const move = (x: number, y: number) => set_hover(closest(marks, x, y));
  const pairs = trials.map((trial) => [value(trial, along), value(trial, up)]).filter((pair) => pair.every((one) => typeof one === "number" && Number.isFinite(one))) as [number, number][];
  const correlation = rank_correlation(pairs);
  const choices = [...params.map((one) => one.path), ...names, "step", kOrder].map((name): [string, string] => [name, name === "step" ? t("col.step") : name === kOrder ? t("scatter.order") : name]);
  const tools = (
    <>
      <Select label={t("scatter.x")} value={along} on_change={(name) => set_query({ sx: name })} options={choices} />
      <Select label={t("scatter.y")} value={up} on_change={(name) => set_query({ sy: name })} options={choices} />
      <Toggle label={t("curves.log_x")} on={axes[0].log} disabled={!may_be_log(axes[0])} on_change={(on) => set_query({ sxlog: on ? "1" : "0" })} />
      <Toggle label={t("curves.log_y")} on={axes[1].log} disabled={!may_be_log(axes[1])} on_change={(on) => set_query({ sylog: on ? "1" : "0" })} />
      <Select label={t("curves.color")} value={by} on_change={(name) => set_query({ color: name === (preset === "contour" ? experiment.metric : "") ? null : name })}
        options={[...(preset === "contour" ? [] : [["", t("col.status")] as [string, string]]), ...choices.filter(([name]) => name !== along && name !== up)]} />
      {may_surface && <Toggle label={t("scatter.surface")} on={with_surface} on_change={(on) => set_query({ surface: on === (preset === "contour") ? null : on ? "1" : "0" })} />}
      {preset === "pareto" && [along, up].map((name) => <Toggle key={name} label={t("scatter.lower", { name })} on={lower(name)} on_change={(on) => set_query({ ["low-" + name]: on ? "1" : "0" })} />)}
      {preset === "pareto" && <span class="note">{t("scatter.front", { n: line.length })}</span>}
      {preset === "scatter" && correlation !== null && <span class="note">{t("scatter.correlation", { value: num(correlation) })}</span>}
    </>
  );
  const present = kTrialStates.filter((state) => experiment.trials_by_status[state] > 0);
  return (
    <Card title={along === kOrder ? t("history.title", { metric: up }) : t("scatter.title", { x: along, y: up })}>
      <ChartFrame label={t("scatter.label", { n: marks.length, x: shown_axis(along), y: up })} tools={tools}
        table={() => <DataTable heads={[t("col.trial"), shown_axis(along), up, t("col.status")]} rows={marks.slice(0, 500).map(({ trial }) => [shown_name(trial), plain(value(trial, along), locale()), plain(value(trial, up), locale()), word(trial.status)])} />}>
        <Canvas height={chart_height.value} draw={draw} over={over} on_move={move} on_leave={() => set_hover(null)} on_up={() => hover && go(["experiments", experiment.name, "trials", hover.trial.id])}
          label={t("scatter.label", { n: marks.length, x: shown_axis(along), y: up })} pointer={hover !== null} />
        {hover && (
          <Tip x={hover.x} y={hover.y} width={width.current} color={hover.color} title={shown_name(hover.trial)} value={word(hover.trial.status)}
            about={[...[...new Set([up, along, ...(by ? [by] : [])])].map((name): [string, string] => [shown_axis(name), plain(value(hover.trial, name), locale())]), ...varying(hover.trial, params.filter((one) => ![along, up, by].includes(one.path)), (one) => plain(one, locale()))]} />
        )}
      </ChartFrame>
      {color_axis && !color_axis.words ? (
        <div class="legend"><span>{shown_axis(by)}</span><span>{num(color_axis.low)}</span><i class="ramp" ref={paint_ramp} /><span>{num(color_axis.high)}</span></div>
      ) : <ul class="legend">
        {color_axis?.words ? color_axis.words.map((text, i) => <li key={text}><i style={{ background: ramp(i / Math.max(1, color_axis.words!.length - 1)) }} />{text}</li>) : present.map((state) => <LegendEntry key={state} color={status_color(state)} text={word(state)} note={count(experiment.trials_by_status[state])} on={!off.has(state)} on_change={() => set_query({ hidden: [...turned(off, state)].join(",") || null })} />)}
      </ul>}
    </Card>
  );
}

function lay_out(trials: Trial[], [x_axis, y_axis]: [Axis, Axis], value: (trial: Trial, name: string) => unknown, width: number, color: Axis | null): Mark[] {
  const marks: Mark[] = [];
  for (const trial of trials) {
    const [x, y] = [at(x_axis, value(trial, x_axis.name)), at(y_axis, value(trial, y_axis.name))];
    if (x === null || y === null) continue;
    const shade = color ? at(color, value(trial, color.name)) : null;
    marks.push({ trial, shade, x: kPad.left + x * (width - kPad.left - kPad.right), y: kPad.top + (1 - y) * (chart_height.value - kPad.top - kPad.bottom), color: !color ? status_color(trial.status) : shade === null ? css("faint") : ramp(shade) });
  }
  return marks;
}

function paint({ canvas, width }: Paper, [x_axis, y_axis]: [Axis, Axis], marks: Mark[], with_surface: boolean): void {
  if (with_surface) {
    const known = marks.flatMap((mark) => (mark.shade === null ? [] : [{ x: mark.x, y: mark.y, value: mark.shade }]));
    const place = { left: kPad.left, top: kPad.top, right: width - kPad.right, bottom: chart_height.value - kPad.bottom };
    for (const cell of surface(known, place)) {
      canvas.fillStyle = with_alpha(ramp(cell.value), 0.45);
      canvas.fillRect(cell.x, cell.y, cell.width, cell.height);
    }
  }
  canvas.textBaseline = "middle";
  for (const tick of ticks(y_axis)) {
    const y = kPad.top + (1 - tick.at) * (chart_height.value - kPad.top - kPad.bottom);
    canvas.fillStyle = css("grid");
    canvas.fillRect(kPad.left, Math.round(y), width - kPad.left - kPad.right, 1);
    canvas.fillStyle = css("muted");
    canvas.textAlign = "right";
    canvas.fillText(typeof tick.value === "number" ? num(tick.value) : tick.value, kPad.left - 8, y);
  }
  canvas.textAlign = "center";
  for (const tick of ticks(x_axis)) {
    const x = kPad.left + tick.at * (width - kPad.left - kPad.right);
    canvas.fillStyle = css("grid");
    canvas.fillRect(Math.round(x), kPad.top, 1, chart_height.value - kPad.top - kPad.bottom);
    canvas.fillStyle = css("muted");
    canvas.fillText(typeof tick.value === "number" ? num(tick.value) : tick.value, x, chart_height.value - kPad.bottom + 14);
  }
  canvas.textAlign = "left";
  canvas.fillText(y_axis.name + (y_axis.log ? ` (${t("parallel.log")})` : ""), 8, 8);
  canvas.textAlign = "center";
  canvas.fillText(shown_axis(x_axis.name) + (x_axis.log ? ` (${t("parallel.log")})` : ""), kPad.left + (width - kPad.left - kPad.right) / 2, chart_height.value - 10);
  const radius = marks.length > 2000 ? 2 : marks.length > 300 ? 3 : 4;
  for (const mark of marks) {
    if (with_surface) {  // Separates the mark from the surface around it.
      canvas.fillStyle = css("panel");
      canvas.beginPath();
      canvas.arc(mark.x, mark.y, radius + 1.5, 0, 2 * Math.PI);
      canvas.fill();
    }
    canvas.fillStyle = with_alpha(mark.color, marks.length > 300 ? 0.55 : 0.8);
    canvas.beginPath();
    canvas.arc(mark.x, mark.y, radius, 0, 2 * Math.PI);
    canvas.fill();
  }
}
