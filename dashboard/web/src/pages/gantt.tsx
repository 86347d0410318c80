// Gantt chart of trials over the slots of each node.
import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { session } from "../api";
import { clock, plain } from "../format";
import { locale, t, word } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { head_now, use_tick } from "../live/use";
import { go, query, set_query } from "../router";
import { time_ticks } from "../charts/axes";
import { Canvas, type Paper } from "../charts/canvas";
import { css, status_color } from "../charts/colors";
import { ChartFrame, DataTable } from "../charts/frame";
import { LegendEntry, turned } from "../charts/line_chart";
import { Tip } from "../charts/tip";
import { Card, Empty, count, num, span } from "../ui/parts";
import { kTrialStates } from "../ui/states";
import { slots_of, type Run } from "./slots";
import { parameters, shown_name, varying } from "./trials";

const kLeft = 116;
const kTop = 26;
const kRowsMax = 400;

interface TrialRun extends Run {
  trial: Trial;
}

// A trial that started and ended between two observations of the head has no start; its run time gives it.
function run_of(trial: Trial, now: number): TrialRun | null {
  const took = trial.metrics?.time_total_s;
  const from = trial.started_ms ?? (trial.ended_ms && typeof took === "number" ? trial.ended_ms - took * 1000 : null);
  return from === null ? null : { id: trial.id, node: trial.node, from, to: trial.ended_ms ?? now, trial };
}

export function Gantt({ trials, experiment }: { trials: Trial[]; experiment: Experiment }) {
  use_tick(1000);
  const now = experiment.state === "running" ? head_now() : experiment.updated_ms ?? head_now();
  const off = useMemo(() => new Set(query("hidden").split(",").filter(Boolean)), [query("hidden")]);
  const rows = useMemo(() => slots_of(trials.flatMap((one) => (off.has(one.status) ? [] : run_of(one, now) ?? []))), [trials, off, Math.floor(now / 1000)]);
  const runs = rows.flatMap((row) => row.runs);
  const from = runs.reduce((least, run) => Math.min(least, run.from), Infinity);
  const to = runs.reduce((most, run) => Math.max(most, run.to), -Infinity);
  const shown = rows.slice(0, kRowsMax);
  const row_height = shown.length > 60 ? 8 : shown.length > 24 ? 14 : 22;
  const height = kTop + shown.length * row_height + 8;
  const width = useRef(0);
  const [hover, set_hover] = useState<{ run: TrialRun; x: number; y: number } | null>(null);
  const x_of = (time: number) => kLeft + ((time - from) / Math.max(1, to - from)) * (width.current - kLeft - 12);
  const draw = useCallback((paper: Paper) => {
    width.current = paper.width;
    paint(paper, shown, { from, to, row_height, height, x_of });
  }, [rows, from, to, row_height, height]);
  const move = (x: number, y: number) => {
    const row = shown[Math.floor((y - kTop) / row_height)];
    const run = row?.runs.find((one) => x >= x_of(one.from) - 1 && x <= Math.max(x_of(one.to), x_of(one.from) + 3));
    set_hover(run ? { run, x, y } : null);
  };
  const label = t("gantt.label", { n: runs.length, shown: count(runs.length), slots: count(rows.length) });
  if (!runs.length && !off.size) return <Card title={t("gantt.title")}><Empty icon="experiments" title={t(session.value?.view ? "gantt.none_disk" : "gantt.none")}>{t(session.value?.view ? "gantt.none_disk.next" : "gantt.none.next")}</Empty></Card>;
  return (
    <Card title={t("gantt.title")}>
      <ChartFrame label={label} note={label + (rows.length > shown.length ? ` · ${t("gantt.some", { shown: count(shown.length) })}` : "")}
        tools={<></>}
        table={() => <DataTable heads={[t("col.trial"), t("col.node"), t("gantt.slot"), t("experiment.started"), t("col.took"), t("col.status")]}
          rows={rows.flatMap((row) => row.runs.map((run) => [shown_name(run.trial), row.node, num(row.slot + 1), clock(run.from, locale()), span(run.to - run.from), word(run.trial.status)])).slice(0, 1000)} />}>
        <Canvas height={height} least={560} draw={draw} on_move={move} on_leave={() => set_hover(null)} on_up={() => hover && go(["experiments", experiment.name, "trials", hover.run.id])} label={label} pointer={hover !== null} />
        {hover && (
          <Tip x={hover.x} y={hover.y + 16} width={width.current} color={status_color(hover.run.trial.status)} title={shown_name(hover.run.trial)} value={span(hover.run.to - hover.run.from)}
            about={varying(hover.run.trial, parameters(trials), (value) => plain(value, locale()))}>
            <small>{word(hover.run.trial.status)}, {clock(hover.run.from, locale())}</small>
          </Tip>
        )}
      </ChartFrame>
      <ul class="legend">
        {kTrialStates.filter((state) => trials.some((trial) => trial.status === state && run_of(trial, now))).map((state) => <LegendEntry key={state} color={status_color(state)} text={word(state)} on={!off.has(state)} on_change={() => set_query({ hidden: [...turned(off, state)].join(",") || null })} />)}
      </ul>
    </Card>
  );
}

function paint({ canvas, width, height }: Paper, rows: ReturnType<typeof slots_of<TrialRun>>, { from, to, row_height, x_of }: { from: number; to: number; row_height: number; height: number; x_of: (time: number) => number }): void {
  canvas.textBaseline = "middle";
  canvas.textAlign = "center";
  for (const time of time_ticks(from, to, Math.max(3, (width - kLeft) / 110))) {
    const x = Math.round(x_of(time));
    canvas.fillStyle = css("grid");
    canvas.fillRect(x, kTop - 6, 1, height);
    canvas.fillStyle = css("muted");
    const text = clock(time, locale());
    canvas.fillText(text, Math.min(x, width - canvas.measureText(text).width / 2), 10);
  }
  canvas.textAlign = "left";
  let last = "";
  rows.forEach((row, i) => {
    const y = kTop + i * row_height;
    if (row.node !== last) {
      canvas.fillStyle = css("grid");
      canvas.fillRect(0, y, width, 1);
      canvas.fillStyle = css("muted");
      canvas.fillText(row.node.length > 16 ? row.node.slice(0, 15) + "…" : row.node, 0, y + Math.max(row_height, 12) / 2);
      last = row.node;
    }
    for (const run of row.runs) {
      canvas.fillStyle = status_color(run.trial.status);
      const x = x_of(run.from);
      canvas.fillRect(x, y + 2, Math.max(2, x_of(run.to) - x - 1), Math.max(2, row_height - 4));
    }
  });
}
