// The trials of a resource of kind Experiment: their objective as a plot, and a table with their jobs and logs. Loaded when it is opened.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { day_time, plain } from "../format";
import { locale } from "../i18n";
import { use_answer } from "../live/poll";
import { head_now } from "../live/use";
import { chart_height } from "../prefs";
import { go, link, query, set_query } from "../router";
import { at, axis_of, round_ticks, ticks, type Axis } from "../charts/axes";
import { Canvas, type Paper } from "../charts/canvas";
import { css, with_alpha } from "../charts/colors";
import { ChartFrame, DataTable } from "../charts/frame";
import { closest, ring } from "../charts/marks";
import { Tip } from "../charts/tip";
import { Icon } from "../ui/icons";
import { Card, Empty, Failed, Loading, Middle, Select, failure, num } from "../ui/parts";
import { looks } from "../ui/states";
import { Table, type Column } from "../ui/table";
import { trial_row, type Configured } from "./configured";
import "./configured.css";
import { k } from "./katib_texts";
import { best_so_far, has_ended, kTrialConditions, objective_of, parameter_value, trials_of, type KatibTrial, type Objective, type Resource, type TrialCondition } from "./katib_resource";

const kEvery = 3000;  // In ms.
const kEveryEnded = 30_000;  // The trials of an experiment that has ended.
const kFields = "name,trial,job,object.metadata.creationTimestamp,object.spec.parameterAssignments,object.status";
const kHeightMost = 380;  // In px; the table stands below.
const kPad = { left: 60, right: 18, top: 26, bottom: 44 };
// States of the page's own trials with the same colour and icon.
const kLooks: Record<TrialCondition, string> = { Created: "waiting", Running: "running", Succeeded: "finished", EarlyStopped: "stopped", MetricsUnavailable: "interrupted", Failed: "failed", Killed: "interrupted" };

export function KatibTrials({ of }: { of: Configured }) {
  const [namespace, name] = of.katib.split("/");
  const wanted = new URLSearchParams({ kind: "Experiment", namespace, name });
  const trials_wanted = new URLSearchParams({ kind: "Trial", namespace, labels: `katib.kubeflow.org/experiment=${name}`, page_size: "10000", fields: kFields });
  const found = use_answer<{ rows: Resource[] }>(`/api/v1/katib/resources?${wanted}`, kEvery);
  const resource = found.answer?.rows[0];
  const ended = resource !== undefined && has_ended(resource);
  const rows = use_answer<{ rows: Resource[] }>(`/api/v1/katib/resources?${trials_wanted}`, ended ? kEveryEnded : kEvery);
  const known = useRef<boolean | null>(null);
  useEffect(() => {
    if (!resource) return;
    if (known.current !== null && known.current !== ended) rows.again();
    known.current = ended;
  }, [resource, ended]);
  const objective = useMemo(() => (resource ? objective_of(resource) : null), [resource]);
  const trials = useMemo(() => (objective && rows.answer ? trials_of(rows.answer.rows, objective) : []), [rows.answer, objective]);
  const error = found.error ?? rows.error;
  if (error) return <Failed {...failure(error)} />;
  if (!found.answer || !rows.answer) return <Loading />;
  if (!objective) return <p class="reason">{k("gone", { name: of.katib })}</p>;
  return (
    <div class="stack">
      <Plot trials={trials} objective={objective} run={of.run} />
      <Trials trials={trials} objective={objective} run={of.run} />
    </div>
  );
}

const Condition = ({ of }: { of: TrialCondition }) => {
  const [icon, tone] = looks(kLooks[of]);
  return <span class={`state tone-${tone}`} title={of}><Icon name={icon} />{k(`state.${of}`)}</span>;
};

const names_of = (trials: KatibTrial[]) => [...new Set(trials.flatMap((one) => Object.keys(one.parameters)))];

// ---- The plot ----

const height_of = () => Math.min(chart_height.value, kHeightMost);

interface Mark { x: number; y: number; trial: KatibTrial }
interface Scale { of: Axis; low: number; high: number }

const x_value = (trial: KatibTrial, by: string): number | string | undefined =>
  (by === "number" ? trial.number : by === "ended" ? (trial.ended_ms || undefined) : parameter_value(trial.parameters[by.slice(2)]));

function Plot({ trials, objective, run }: { trials: KatibTrial[]; objective: Objective; run: string }) {
  const parameters = names_of(trials);
  const wanted = query("x", "number");
  const by = wanted === "ended" || parameters.includes(wanted.slice(2)) ? wanted : "number";
  const [width, set_width] = useState(0);
  const [hover, set_hover] = useState<Mark | null>(null);
  const seen = useMemo(() => trials.filter((one) => one.value !== null && x_value(one, by) !== undefined), [trials, by]);
  const scale = useMemo(() => scale_of(seen, by, objective), [seen, by, objective]);
  const marks = useMemo(() => seen.map((trial): Mark => ({ trial, x: x_of(x_value(trial, by), scale, width), y: y_of(trial.value!, scale) })), [seen, by, scale, width, height_of()]);
  const draw = useCallback((paper: Paper) => {
    if (paper.width !== width) return set_width(paper.width);
    paint(paper, marks, scale, objective, by);
  }, [marks, scale, objective, by, width]);
  const over = useCallback((paper: Paper) => { if (hover) ring(paper, hover); }, [hover]);
  const label = k("plot", { metric: objective.metric, n: seen.length });
  const title = [k(objective.maximize ? "objective.maximize" : "objective.minimize", { metric: objective.metric }), ...(objective.goal === null ? [] : [k("goal.value", { value: num(objective.goal) })])].join(" · ");
  const options: [string, string][] = [["number", k("x.number")], ["ended", k("x.ended")], ...parameters.map((name): [string, string] => ["p." + name, name])];
  return (
    <Card title={title}>
      {!seen.length ? <Empty icon="experiments" title={k("plot.none", { metric: objective.metric })} /> : (
        <ChartFrame label={label} tools={<><Select label={k("x")} value={by} on_change={(value) => { set_hover(null); set_query({ x: value === "number" ? null : value }); }} options={options} /><Legend trials={seen} objective={objective} by={by} /></>}
          table={() => <DataTable heads={[k("trial"), k("condition"), objective.metric, ...parameters]} rows={seen.map((one) => [one.name, k(`state.${one.condition}`), num(one.value), ...parameters.map((name) => one.parameters[name] ?? "–")])} />}>
          <Canvas height={height_of()} draw={draw} over={over} label={label} pointer={hover !== null} on_move={(x, y) => set_hover(closest(marks, x, y))} on_leave={() => set_hover(null)}
            on_up={() => hover && hover.trial.trial > 0 && go(["experiments", run, "trials", trial_row(hover.trial.trial)])} />
          {hover && (
            <Tip x={hover.x} y={hover.y} width={width} title={hover.trial.name} value={num(hover.trial.value)} about={Object.entries(hover.trial.parameters).map(([name, value]): [string, string] => [name, plain(parameter_value(value), locale())])}>
              <small>{k(`state.${hover.trial.condition}`)}</small>
            </Tip>
          )}
        </ChartFrame>
      )}
    </Card>
  );
}

const color_of = (condition: TrialCondition) => css("st-" + kLooks[condition]) || css("muted");

function Legend({ trials, objective, by }: { trials: KatibTrial[]; objective: Objective; by: string }) {
  const used = kTrialConditions.filter((one) => trials.some((trial) => trial.condition === one));
  return (
    <ul class="legend inline">
      {used.map((one) => <li key={one}><i class={`st-${kLooks[one]}`} />{k(`state.${one}`)}</li>)}
      {!by.startsWith("p.") && <li><i class="katib-best" />{k("best")}</li>}
      {objective.goal !== null && <li><i class="katib-goal" />{k("goal")}</li>}
    </ul>
  );
}

function scale_of(trials: KatibTrial[], by: string, { goal }: Objective): Scale {
  const values = [...trials.map((one) => one.value!), ...(goal === null ? [] : [goal])];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return { of: axis_of(by, trials.map((one) => x_value(one, by)), by === "number" || by === "ended" ? false : undefined), low: low - room, high: high + room };
}
const y_of = (value: number, { low, high }: Scale) => kPad.top + (1 - (value - low) / (high - low)) * (height_of() - kPad.top - kPad.bottom);
const x_of = (value: unknown, { of }: Scale, width: number) => {
  const place = of.low === of.high && !of.words ? 0.5 : at(of, value) ?? 0.5;
  return kPad.left + (0.02 + 0.96 * place) * (width - kPad.left - kPad.right);
};

function paint({ canvas, width, height }: Paper, marks: Mark[], scale: Scale, objective: Objective, by: string): void {
  const right = width - kPad.right;
  canvas.textBaseline = "middle";
  for (const value of round_ticks(scale.low, scale.high, 7)) {
    const y = y_of(value, scale);
    canvas.fillStyle = css("grid");
    canvas.fillRect(kPad.left, Math.round(y), right - kPad.left, 1);
    canvas.fillStyle = css("muted");
    canvas.textAlign = "right";
    canvas.fillText(num(value), kPad.left - 8, y);
  }
  canvas.textAlign = "left";
  canvas.fillText(objective.metric, 4, 10);
  canvas.textAlign = "center";
  let end = -Infinity;
  for (const tick of ticks(scale.of)) {
    const x = x_of(tick.value, scale, width);
    const text = by === "ended" ? day_time(tick.value as number, head_now(), locale()) : typeof tick.value === "number" ? num(tick.value) : tick.value;
    const half = canvas.measureText(text).width / 2;
    const middle = Math.min(Math.max(x, kPad.left + half), right - half);
    if (middle - half < end + 8) continue;
    end = middle + half;
    canvas.fillText(text, middle, height - kPad.bottom + 14);
  }
  const name = by === "number" ? k("x.number") : by === "ended" ? k("x.ended") : by.slice(2);
  canvas.fillText(name, (kPad.left + right) / 2, height - 10);
  if (objective.goal !== null) {
    const y = Math.round(y_of(objective.goal, scale));
    canvas.fillStyle = css("good");
    for (let x = kPad.left; x < right; x += 9) canvas.fillRect(x, y, 5, 1);
    canvas.textAlign = "right";
    canvas.fillText(k("goal.value", { value: num(objective.goal) }), right, y - 9 < 8 ? y + 9 : y - 9);
  }
  if (by === "number" || by === "ended") steps(canvas, marks, scale, objective, right, by);
  for (const mark of marks) {
    canvas.fillStyle = with_alpha(color_of(mark.trial.condition), 0.9);
    canvas.beginPath();
    canvas.arc(mark.x, mark.y, marks.length > 600 ? 2.2 : 4, 0, 2 * Math.PI);
    canvas.fill();
  }
}

// The line of the best value so far, in the order of the X axis.
function steps(canvas: CanvasRenderingContext2D, marks: Mark[], scale: Scale, objective: Objective, right: number, by: "number" | "ended"): void {
  const places = new Map(marks.map((mark) => [mark.trial, mark.x]));
  const line = best_so_far(marks.map((mark) => mark.trial), objective, by).map(({ trial, best }) => ({ x: places.get(trial)!, y: y_of(best, scale) }));
  if (!line.length) return;
  canvas.strokeStyle = css("accent");
  canvas.lineWidth = 1.5;
  canvas.beginPath();
  let level = line[0].y;
  canvas.moveTo(line[0].x, level);
  for (const point of line.slice(1)) {
    canvas.lineTo(point.x, level);
    level = point.y;
    canvas.lineTo(point.x, level);
  }
  canvas.lineTo(right, level);
  canvas.stroke();
}

// ---- The table ----

function Trials({ trials, objective, run }: { trials: KatibTrial[]; objective: Objective; run: string }) {
  const columns: Column<KatibTrial>[] = [
    { key: "trial", card: "title", title: k("trial"), width: 170, small: true, look: (row) => row.name, cell: (row) => (row.trial > 0 ? <a href={link(["experiments", run, "trials", trial_row(row.trial)])}><Middle text={row.name} /></a> : <Middle text={row.name} />) },
    { key: "condition", card: "side", title: k("condition"), width: 150, small: true, look: (row) => row.condition, cell: (row) => <Condition of={row.condition} /> },
    { key: "objective", title: objective.metric, width: 100, right: true, small: true, look: (row) => row.value, cell: (row) => <b class="num">{num(row.value)}</b> },
    ...names_of(trials).map((name): Column<KatibTrial> => ({ key: "p." + name, title: name, width: 90, right: trials.every((one) => typeof parameter_value(one.parameters[name]) !== "string"), look: (row) => parameter_value(row.parameters[name]), cell: (row) => <span class="num" title={row.parameters[name]}>{plain(parameter_value(row.parameters[name]), locale())}</span> })),
    { key: "job", title: k("job"), width: 80, small: true, look: (row) => row.job, cell: (row) => (row.job ? <a href={link(["jobs", row.job])}>{row.job}</a> : <span class="soft">–</span>) },
    { key: "logs", title: k("logs"), width: 80, small: true, look: () => "", cell: (row) => (row.trial > 0 && row.job ? <a href={link(["logs"], { id: trial_row(row.trial) })} aria-label={`${k("logs")} ${row.name}`}>{k("logs")}</a> : <span class="soft">–</span>) },
    { key: "created", title: k("started"), width: 110, look: (row) => row.created_ms, cell: (row) => <span class="num">{row.created_ms ? day_time(row.created_ms, head_now(), locale()) : "–"}</span> },
    { key: "message", card: "wide", title: k("message"), width: 200, look: (row) => row.message, cell: (row) => <span class="soft" title={row.message}>{row.message}</span> },
  ];
  return <Table label={k("trials")} rows={trials} columns={columns} id={(row) => row.name} order="trial" prefix="t." height={460} empty={<Empty icon="experiments" title={k("trials.none")} />} />;
}
