// Rungs of early stopping: one column per rung, one dot per trial at its value there, and the cutoff between continued and stopped trials.
import { useCallback, useMemo, useState } from "preact/hooks";
import { plain } from "../format";
import { chart_height } from "../prefs";
import { locale, reason_of, t, word } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { use_topic } from "../live/use";
import { go } from "../router";
import { round_ticks } from "../charts/axes";
import { Canvas, type Paper } from "../charts/canvas";
import { css, with_alpha } from "../charts/colors";
import { ChartFrame, DataTable } from "../charts/frame";
import { closest, ring } from "../charts/marks";
import { Tip } from "../charts/tip";
import { Card, Empty, Loading, count, num, share } from "../ui/parts";
import { parameters, rungs, shown_name, varying, type Rung } from "./trials";

const kPad = { left: 56, right: 16, top: 34, bottom: 42 };

interface Dot {
  x: number;
  y: number;
  rung: Rung;
  entry: Rung["entries"][number];
  rank: number;
}

export function Rungs({ trials, experiment }: { trials: Trial[]; experiment: Experiment }) {
  const own = experiment.scheduler?.rungs;
  const by_curves = !own?.length || own.some((rung) => rung.members.length < rung.trials);  // Curves are loaded only if the scheduler's rungs lack values.
  const curves = use_topic(by_curves ? "curves" : null, by_curves ? { experiment: experiment.name, metric: experiment.metric } : {}, 500);
  const version = curves.version.value;
  const found = useMemo(() => rungs(trials, (id) => curves.get(id), experiment.mode, experiment.scheduler?.rungs).filter((one) => one.entries.length), [version, trials]);
  const [hover, set_hover] = useState<Dot | null>(null);
  const [width, set_width] = useState(0);
  const dots = useMemo(() => lay_out(found, width), [found, width, chart_height.value]);
  const draw = useCallback((paper: Paper) => {
    if (paper.width !== width) return set_width(paper.width);
    paint(paper, found, dots, experiment.metric);
  }, [found, dots, width, experiment.metric]);
  const over = useCallback((paper: Paper) => {
    if (!hover) return;
    ring(paper, hover);
    trace(paper, dots.filter((dot) => dot.entry.trial.id === hover.entry.trial.id));
  }, [hover, dots]);
  if (by_curves && curves.phase.value === "loading") return <Card title={t("tab.rungs")}><Loading /></Card>;
  if (!found.length) return <Card title={t("tab.rungs")}><Empty icon="experiments" title={t("rungs.none")}>{t("rungs.none.next")}</Empty></Card>;
  const move = (x: number, y: number) => set_hover(closest(dots, x, y));
  return (
    <Card title={t("tab.rungs")}>
      <ChartFrame label={t("rungs.label", { n: found.length })} note={experiment.scheduler?.rungs?.length ? undefined : t("rungs.derived")} tools={<Legend />} table={() => <RungTable of={found} />}>
        <Canvas height={chart_height.value} draw={draw} over={over} on_move={move} on_leave={() => set_hover(null)} pointer={hover !== null}
          on_up={() => hover && go(["experiments", experiment.name, "trials", hover.entry.trial.id])} label={t("rungs.label", { n: found.length })} />
        {hover && (
          <Tip x={hover.x} y={hover.y} width={width} title={shown_name(hover.entry.trial)} value={num(hover.entry.value)} about={varying(hover.entry.trial, parameters(trials), (value) => plain(value, locale()))}>
            <small>{t("rungs.tip", { rank: hover.rank, n: hover.rung.entries.length, step: hover.rung.step })} · {fate(hover.entry)}</small>
            {hover.entry.trial.reason && hover.entry.fate === "stopped" && <small>{reason_of(hover.entry.trial)}</small>}
          </Tip>
        )}
      </ChartFrame>
    </Card>
  );
}

const fate = (entry: Rung["entries"][number]) => (entry.fate === "on" ? t("rungs.on") : entry.fate === "here" ? t("rungs.here") : word(entry.trial.status));
const fate_color = (of: string) => (of === "on" ? css("st-finished") : of === "here" ? css("st-running") : css("st-stopped"));

const Legend = () => (
  <ul class="legend inline">
    {(["on", "here", "stopped"] as const).map((of) => <li key={of}><i class={`fate-${of}`} />{t(`rungs.${of}`)}</li>)}
  </ul>
);

// Names the bracket if there are several.
const bracket_of = (rung: Rung, found: Rung[]) => (found.some((one) => (one.bracket ?? 0) !== (found[0].bracket ?? 0)) ? " · " + (rung.bracket ?? 0) : "");

function scale(found: Rung[]): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const rung of found) for (const entry of rung.entries) [low, high] = [Math.min(low, entry.value), Math.max(high, entry.value)];
  const pad = (high - low || 1) * 0.04;
  return [low - pad, high + pad];
}

const y_of = (value: number, [low, high]: [number, number]) => kPad.top + (1 - (value - low) / (high - low)) * (chart_height.value - kPad.top - kPad.bottom);
const column = (i: number, n: number, width: number) => ({ center: kPad.left + ((i + 0.5) * (width - kPad.left - kPad.right)) / n, half: ((width - kPad.left - kPad.right) / n) * 0.4 });

// Places dots of similar value side by side, from the middle outwards.
function lay_out(found: Rung[], width: number): Dot[] {
  if (!width) return [];
  const ends = scale(found);
  return found.flatMap((rung, i) => {
    const { center, half } = column(i, found.length, width);
    const lanes = new Map<number, number>();
    const step = rung.entries.length > 600 ? 3 : rung.entries.length > 150 ? 5 : 8;
    return rung.entries.map((entry, rank) => {
      const y = y_of(entry.value, ends);
      const lane = Math.round(y / step);
      const taken = lanes.get(lane) ?? 0;
      lanes.set(lane, taken + 1);
      const aside = Math.ceil(taken / 2) * step * (taken % 2 ? 1 : -1);
      return { x: center + Math.max(-half, Math.min(half, aside)), y, rung, entry, rank: rank + 1 };
    });
  });
}

function paint({ canvas, width, height }: Paper, found: Rung[], dots: Dot[], metric: string): void {
  const ends = scale(found);
  canvas.fillStyle = css("muted");
  canvas.textAlign = "right";
  canvas.textBaseline = "middle";
  for (const value of round_ticks(ends[0], ends[1], 5)) {
    const y = y_of(value, ends);
    canvas.fillText(num(value), kPad.left - 8, y);
    canvas.fillStyle = css("grid");
    canvas.fillRect(kPad.left, Math.round(y), width - kPad.left - kPad.right, 1);
    canvas.fillStyle = css("muted");
  }
  canvas.textAlign = "left";
  canvas.fillText(metric, 4, 12);
  canvas.textAlign = "center";
  found.forEach((rung, i) => {
    const { center, half } = column(i, found.length, width);
    canvas.fillStyle = css("text");
    canvas.fillText(t("rungs.step", { step: count(rung.step) }) + bracket_of(rung, found), center, height - kPad.bottom + 16);
    canvas.fillStyle = css("muted");
    const on = count(rung.entries.filter((entry) => entry.fate === "on").length);
    const text = t("rungs.count", { on, n: count(rung.entries.length) });
    const fits = canvas.measureText(text).width < half * 2.4;
    canvas.fillText(fits ? text : `${on}/${count(rung.entries.length)}`, center, height - kPad.bottom + 31);
    if (rung.cut === null) return;
    canvas.fillStyle = css("text");
    canvas.globalAlpha = 0.55;
    for (let x = center - half; x < center + half; x += 8) canvas.fillRect(x, Math.round(y_of(rung.cut, ends)), 4, 1);
    canvas.globalAlpha = 1;
  });
  const radius = dots.length > 3000 ? 1.5 : dots.length > 600 ? 2.2 : 3.2;
  for (const of of ["stopped", "on", "here"] as const) {
    canvas.fillStyle = with_alpha(fate_color(of), of === "stopped" ? 0.6 : 0.9);
    for (const dot of dots) {
      if (dot.entry.fate !== of) continue;
      canvas.beginPath();
      if (of === "stopped") canvas.rect(dot.x - radius, dot.y - radius, 2 * radius, 2 * radius);
      else canvas.arc(dot.x, dot.y, radius, 0, 2 * Math.PI);
      canvas.fill();
    }
  }
}

// Draws the path of a trial through the rungs.
function trace({ canvas }: Paper, dots: Dot[]): void {
  canvas.strokeStyle = css("text");
  canvas.globalAlpha = 0.5;
  canvas.lineWidth = 1;
  canvas.beginPath();
  dots.forEach((dot, i) => (i ? canvas.lineTo(dot.x, dot.y) : canvas.moveTo(dot.x, dot.y)));
  canvas.stroke();
  canvas.globalAlpha = 1;
}

function RungTable({ of }: { of: Rung[] }) {
  const some = (rung: Rung, fate_of: string) => rung.entries.filter((entry) => entry.fate === fate_of).length;
  return (
    <DataTable heads={[t("col.step"), t("rungs.reached"), t("rungs.on"), t("rungs.stopped"), t("rungs.here"), t("rungs.share"), t("col.best"), t("rungs.cut")]}
      rows={of.map((rung) => [count(rung.step) + bracket_of(rung, of), count(rung.entries.length), count(some(rung, "on")), count(some(rung, "stopped")), count(some(rung, "here")),
        share(some(rung, "on") / Math.max(1, rung.entries.length - some(rung, "here"))), num(rung.entries[0]?.value), num(rung.cut)])} />
  );
}
