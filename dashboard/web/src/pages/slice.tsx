// Slice plots: the metric over each varying parameter, one small chart per parameter, trials coloured by their order.
import { useCallback, useMemo } from "preact/hooks";
import { plain } from "../format";
import { locale, t } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { dark } from "../prefs";
import { link, query, set_query } from "../router";
import { at, axis_of, rank_correlation, ticks, type Axis } from "../charts/axes";
import { Canvas, named, type Paper } from "../charts/canvas";
import { css, ramp, with_alpha } from "../charts/colors";
import { ChartFrame, DataTable } from "../charts/frame";
import { Card, Empty, Select, count, num } from "../ui/parts";
import { flat, metrics, parameters, shown_name } from "./trials";

const kHeight = 190;
const kPad = { left: 52, right: 12, top: 8, bottom: 24 };
const kMost = 24;  // Most parameters shown.

export function Slice({ trials, experiment }: { trials: Trial[]; experiment: Experiment }) {
  const metric = query("metric", experiment.metric);
  const names = useMemo(() => metrics(trials, experiment), [trials.length, experiment.metric]);
  const params = useMemo(() => parameters(trials).filter((one) => one.varies).slice(0, kMost), [trials.length]);
  const known = useMemo(() => trials.filter((one) => Number.isFinite(one.metrics?.[metric] ?? NaN)).sort((a, b) => (a.started_ms ?? 0) - (b.started_ms ?? 0)), [trials, metric]);
  const up = useMemo(() => axis_of(metric, known.map((one) => one.metrics[metric])), [known]);
  const title = t("slice.title", { metric });
  const rows = () => params.map((one) => {
    const pairs = known.map((trial): [unknown, number] => [flat(trial)[one.path], trial.metrics[metric]!]).filter((pair): pair is [number, number] => typeof pair[0] === "number");
    const best = experiment.best?.config && metric === experiment.metric ? known.find((trial) => trial.id === experiment.best!.trial) : undefined;
    return [one.path, count(known.filter((trial) => flat(trial)[one.path] !== undefined).length), best ? plain(flat(best)[one.path], locale()) : "–", num(one.numeric ? rank_correlation(pairs) : null)];
  });
  return (
    <Card title={title}>
      {!known.length || !params.length ? <Empty icon="experiments" title={t("parallel.none")}>{t("parallel.none.next")}</Empty> : (
        <ChartFrame label={title} tools={<><Select label={t("curves.metric")} value={metric} on_change={(value) => set_query({ metric: value })} options={names.map((name) => [name, name])} />
          <div class="legend inline"><span>{t("slice.first")}</span><i class="ramp" ref={paint_order} /><span>{t("slice.last")}</span></div></>}
          table={() => <DataTable heads={[t("col.parameter"), t("chart.points"), t("best.title"), t("parallel.correlation", { metric })]} rows={rows()} />}>
          <div class="slices">
            {params.map((one) => <One key={one.path} path={one.path} trials={known} metric={metric} up={up} best={experiment.best?.trial} href={link(["experiments", experiment.name], { tab: "scatter", sx: one.path, sy: metric })} />)}
          </div>
          <p class="quiet-line">{t("slice.hint")}</p>
        </ChartFrame>
      )}
    </Card>
  );
}

// Later trials have more contrast to the background.
const by_order = (place: number) => ramp(dark.value ? place : 1 - place);
const paint_order = (element: HTMLElement | null) => { if (element) element.style.background = `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(by_order).join(",")})`; };

function One({ path, trials, metric, up, best, href }: { path: string; trials: Trial[]; metric: string; up: Axis; best?: string; href: string }) {
  const across = useMemo(() => axis_of(path, trials.map((one) => flat(one)[path])), [trials, path]);
  const draw = useCallback((paper: Paper) => paint(paper, across, up, trials, metric, best), [across, up, trials, metric, best]);
  return (
    <a class="slice" href={href} title={t("slice.open", { x: path })}>
      <b>{path}{across.log && <small> {t("parallel.log")}</small>}</b>
      <Canvas height={kHeight} draw={draw} label={t("scatter.title", { x: path, y: metric })} />
    </a>
  );
}

function paint(paper: Paper, across: Axis, up: Axis, trials: Trial[], metric: string, best: string | undefined): void {
  const { canvas, width, height } = paper;
  const [wide, high] = [width - kPad.left - kPad.right, height - kPad.top - kPad.bottom];
  const text = (value: number | string) => (typeof value === "number" ? num(value) : value);
  canvas.textBaseline = "middle";
  canvas.textAlign = "right";
  for (const tick of ticks(up)) {
    const y = kPad.top + (1 - tick.at) * high;
    canvas.fillStyle = css("grid");
    canvas.fillRect(kPad.left, Math.round(y), wide, 1);
    canvas.fillStyle = css("muted");
    canvas.fillText(text(tick.value), kPad.left - 7, y);
  }
  canvas.textAlign = "center";
  canvas.fillStyle = css("muted");
  let right = -Infinity;  // Right end of the previous label.
  for (const tick of ticks(across)) {
    const half = canvas.measureText(text(tick.value)).width / 2;
    const x = Math.min(width - half, kPad.left + tick.at * wide);
    if (x - half < right + 8) continue;
    right = x + half;
    canvas.fillText(text(tick.value), x, height - 9);
  }
  const radius = trials.length > 2000 ? 1.6 : trials.length > 300 ? 2.4 : 3.2;
  let found: [number, number, Trial] | null = null;
  trials.forEach((trial, i) => {
    const [x_at, y_at] = [at(across, flat(trial)[across.name]), at(up, trial.metrics[metric])];
    if (x_at === null || y_at === null) return;
    const [x, y] = [kPad.left + x_at * wide, kPad.top + (1 - y_at) * high];
    if (trial.id === best) found = [x, y, trial];
    canvas.fillStyle = with_alpha(by_order(i / Math.max(1, trials.length - 1)), 0.75);
    canvas.beginPath();
    canvas.arc(x, y, radius, 0, 2 * Math.PI);
    canvas.fill();
  });
  if (found) named(paper, found[0], found[1], shown_name(found[2], 16));
}
