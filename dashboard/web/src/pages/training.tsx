// View of a training run: what it does, its loss, throughput and time in a step, its group over time, and its ranks.
import { useMemo } from "preact/hooks";
import { session } from "../api";
import { clock, plain } from "../format";
import { locale, t, why_of, type Key } from "../i18n";
import type { Actor, Experiment, Points, Trial } from "../live/protocol";
import { head_now, use_tick, use_topic, use_topics } from "../live/use";
import { dark, narrow } from "../prefs";
import { go, link, query, set_query } from "../router";
import { group_color } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { over_time, type Line } from "../charts/lines";
import { StackedBars, type Part } from "../charts/stacked";
import { Card, Copy, Empty, Meter, RowLink, Select, State, count, num, resources_text, seconds, share, span, Toggle } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { TrainingTime } from "./training_time";
import { awaited, binned, doing_of, first_line, kStepMetrics, kStepParts, metric_groups, parts_of, phase_of, progress_of, rank_of, splits_of, workers_asked, workers_text, type RunParts } from "./training_rows";
import { flatten, left_ms } from "./trials";

const kGroups = 4;      // Most charts of metrics,
const kLines = 8;       // and most lines in them together.
const kBars = 120;      // Most bars of the chart of steps.
const kTableRows = 10;  // Rows of ranks that are shown without scrolling.
const kAxes = ["step", "epoch", "time_total_s"];
const kFixed = [...kAxes, ...kStepMetrics];

// Subscribes to the curves of a run. Long ones are drawn less often.
function use_curves(experiment: Experiment, run: Trial, metrics: string[]): { of: (metric: string) => Points | undefined; drawn: string } {
  const names = [...kFixed, ...metrics];
  const { all, drawn } = use_topics("curves", names.map((metric) => ({ experiment: experiment.name, metric })), Math.max(400, run.step / 5), { as: "run", trials: [run.id] });
  return { of: (metric) => all[names.indexOf(metric)]?.get(run.id), drawn };
}

export function Training({ experiment, trials }: { experiment: Experiment; trials: Trial[] }) {
  use_tick(1000);
  const parts = useMemo(() => parts_of(trials, experiment), [trials, experiment]);
  return (
    <>
      <Now experiment={experiment} parts={parts} />
      {parts.run && <Charts experiment={experiment} run={parts.run} />}
      <TrainingTime parts={parts} />
      <Ranks experiment={experiment} parts={parts} />
    </>
  );
}

const elapsed = ({ run }: RunParts) => (run?.started_ms ? (run.ended_ms ?? head_now()) - run.started_ms : null);
const epochs_text = (epochs: number) => num(Math.floor(epochs * 10) / 10);

// What the run does or waits for, in a sentence of the page; below it the program's own words.
function Now({ experiment, parts }: { experiment: Experiment; parts: RunParts }) {
  const { run, ranks, events } = parts;
  const phase = phase_of(experiment, parts);
  const running = ranks.filter((one) => one.status === "running");
  const nodes = [...new Set(running.map((one) => one.node).filter(Boolean))];
  const time = span(elapsed(parts));
  const waits = awaited(ranks);
  const { steps, epochs, part } = progress_of(parts);
  const left = left_ms(experiment, head_now());
  const last = run?.metrics?.[experiment.metric];
  const validation = Object.keys(run?.metrics ?? {}).filter((name) => name.startsWith("val_")).sort()[0];
  const rate = run?.metrics?.samples_per_s;
  const asked = workers_asked(workers_text(experiment));
  const faults = events.filter((one) => one.kind === "fault").length;
  const sentence = phase === "trains" ? nodes.length === 1 ? t("train.now.trains", { n: running.length, node: nodes[0] }) : t("train.now.trains_on", { n: running.length, nodes: nodes.length })
    : phase === "regroups" ? t("train.now.regroups", { n: running.length }) : t(`train.now.${phase}`, { time });
  const own = run ? why_of(run) : "";
  return (
    <>
      <Card label={t("train.now")}>
        <p class="strong">{[sentence, phase === "trains" && waits.ranks.length > 0 && t("train.now.waits", { n: waits.waiting, ranks: waits.ranks.join(", ") })].filter(Boolean).join(locale() === "en" ? " " : "")}</p>
        {own && own !== experiment.state && <p class={`train-words ${phase === "failed" ? "tone-bad" : "quiet-line"}`}>{own}</p>}
        {part !== null && experiment.state === "running" && (
          <p class="train-progress">
            <Meter part={part} of={1} label={t("col.progress")} />
            <span class="num">{share(part)}</span>
            {left && <span class="num" title={t("experiment.left_range", { low: span(left.low), high: span(left.high) })}>{t("experiment.left", { time: span(left.point) })}</span>}
          </p>
        )}
      </Card>
      <div class="tiles training" role="group" aria-label={t("train.numbers")}>
        <Tile name={experiment.metric} value={num(last)} note={experiment.best_so_far ? t(experiment.mode === "min" ? "train.lowest" : "train.highest", { value: num(experiment.best_so_far.value) }) : t("train.no_report")} />
        {validation && <Tile name={validation} value={num(run!.metrics[validation])} note={t("train.last")} />}
        <Tile name={t("train.rate")} value={num(typeof rate === "number" ? Math.round(rate) : rate)} note={t("train.per_s")} />
        <Tile name={t("train.epochs")} value={epochs === null ? "–" : epochs_text(epochs)} note={steps === null ? t("train.no_report") : t("train.steps", { n: steps, shown: count(steps) })} />
        <Tile name={t("train.ranks")} value={count(running.length || ranks.length)} note={asked ? t("train.asked", { range: asked.range }) : workers_text(experiment)} />
        <Tile name={t("col.took")} value={time} note={t("train.faults", { n: faults, shown: count(faults) })} />
      </div>
    </>
  );
}

const Tile = ({ name, value, note }: { name: string; value: string; note: string }) => (
  <div class="tile">
    <span class="tile-name" title={name}>{name}</span>
    <span class="tile-value"><b>{value}</b></span>
    <span class="tile-note" title={note}>{note}</span>
  </div>
);

const kNames: Record<string, Key> = { data: "train.part.data", forward: "train.part.forward", backward: "train.part.backward", communication: "train.part.communication", optimizer: "train.part.optimizer", other: "train.part.other" };
const kColors = [1, 0, 5, 3, 2, 7];  // Group colours by part.

function Charts({ experiment, run }: { experiment: Experiment; run: Trial }) {
  const names = experiment.metrics ?? [];
  const groups = useMemo(() => metric_groups(names, experiment.metric, kGroups), [names.join(), experiment.metric]);
  const shown = groups.flatMap((group) => group.metrics).slice(0, kLines);
  const { of, drawn } = use_curves(experiment, run, shown);
  const axis = ["epoch", "time"].includes(query("along")) ? query("along") : "step";
  const started = run.started_ms ?? 0;
  const placed = (points: Points | undefined): { x: number[]; y: (number | null)[] } => {
    const on_axis = over_time(points, of(axis === "time" ? "time_total_s" : axis));
    if (!on_axis) return { x: axis === "time" ? [] : points?.x ?? [], y: axis === "time" ? [] : points?.y ?? [] };
    return { x: axis === "time" ? on_axis.x.map((s) => started + s * 1000) : on_axis.x, y: on_axis.y };
  };
  const lines = useMemo(() => {
    let color = 0;
    const line = (metric: string, i: number): Line => ({ id: metric, label: metric, ...placed(of(metric)), color: group_color(i) });
    return { groups: groups.map((group) => group.metrics.filter((name) => shown.includes(name)).map((name) => line(name, color++ % 2))), rate: [line("samples_per_s", 2)] };
  }, [drawn, groups, axis, dark.value]);
  const x_label = axis === "time" ? undefined : t(axis === "epoch" ? "train.epoch" : "col.step").toLowerCase();
  const chart = { height: narrow.value ? 190 : 210, time: axis === "time", whole_x: axis !== "time", x_label };
  const log_y = query("y") === "log";
  const choice = <><Select label={t("curves.along")} value={axis} on_change={(value) => set_query({ along: value === "step" ? null : value })} options={[["step", t("col.step")], ["epoch", t("train.epoch")], ["time", t("curves.time")]]} /><Toggle label={t("curves.log_y")} on={log_y} on_change={(on) => set_query({ y: on ? "log" : null })} /></>;
  if (run.step === 0) {
    return <Card title={experiment.metric}><Empty icon="experiments" title={t("train.empty")}>{t("train.no_report.next")}</Empty></Card>;
  }
  return (
    <div class="row-cards training">
      {groups.map((group, i) => (lines.groups[i].some((line) => line.x.length) || i === 0) && (
        <Card key={group.name} title={group.name}>
          <LineChart label={group.metrics.join(", ")} lines={lines.groups[i]} named tools={i === 0 ? choice : undefined} log_y={i === 0 && log_y} {...chart} />
        </Card>
      ))}
      <Card title={t("train.rate_chart")}><LineChart label={t("train.rate_chart")} lines={lines.rate} from_zero fill {...chart} /></Card>
      <Step of={of} drawn={drawn} axis={axis} x_label={x_label ?? t("chart.time")} started={started} height={chart.height} />
    </div>
  );
}

// Time of a step by its parts, for each report, and the shares of the last one.
function Step({ of, drawn, axis, x_label, started, height }: { of: (metric: string) => Points | undefined; drawn: string; axis: string; x_label: string; started: number; height: number }) {
  const splits = useMemo(() => splits_of(of), [drawn]);
  const parts = useMemo((): Part[] => [...kStepParts.map(([name]) => name), "other"].map((name, i) => ({ name: t(kNames[name]), color: group_color(kColors[i]) })), [dark.value, locale()]);
  const rows = useMemo(() => {
    const places = of(axis === "time" ? "time_total_s" : axis);
    const at = new Map(places?.x.map((x, i) => [x, places.y[i]]) ?? []);
    const show = (x: number | null | undefined) => (typeof x !== "number" ? "–" : axis === "time" ? clock(started + x * 1000, locale()) : num(x));
    return binned(splits, kBars).map((one) => ({ x: show(at.get(one.x)), values: one.values }));
  }, [splits, axis, started, locale()]);
  if (!splits.length) return null;
  const last = splits[splits.length - 1].values;
  const whole = last.reduce((sum, value) => sum + value, 0);
  return (
    <Card title={t("train.step_chart")}>
      <StackedBars label={t("train.step_chart")} parts={parts} rows={rows} height={height} show={seconds} x_label={x_label} />
      <ul class="legend" aria-label={t("train.step_now", { time: seconds(whole) })}>
        {parts.map((part, i) => <li key={part.name}><i style={{ background: part.color }} />{part.name} <b class="num">{share(whole > 0 ? last[i] / whole : 0)}</b></li>)}
      </ul>
    </Card>
  );
}

// Device of a rank: the numbers of its GPUs on the node, or else what it reported.
function device_of(rank: Trial, actor: Actor | undefined): string {
  if (actor?.gpus?.length) return actor.gpus.map((gpu) => t("node.gpu_n", { n: gpu })).join(", ");
  const device = typeof rank.config?.device === "string" ? rank.config.device : "";
  return device.replace(/^cpu$/, "CPU").replace(/^cuda(:0)?$/, "GPU");
}

// What a rank is in and waits for, or how it ended.
function doing_text(rank: Trial): string {
  if (rank.status !== "running") return first_line(why_of(rank));
  const { activity, seconds: long, waits_for } = doing_of(rank.reason);
  const name = `train.in.${activity}` as Key;
  const text = activity === "" ? "" : kActivities.has(activity) ? t(name) : activity;
  const what = text && long !== null ? t("train.doing_for", { what: text, time: seconds(long) }) : text;
  return waits_for.length > 0 ? t("train.waits_for", { n: waits_for.length, ranks: waits_for.join(", "), what }) : what;
}
const kActivities = new Set(["forward pass", "backward pass", "sum of the gradients", "optimizer step", "data loading"]);

function Ranks({ experiment, parts }: { experiment: Experiment; parts: RunParts }) {
  const actors = use_topic(session.value?.view ? null : "actors", {}, 1000);
  // All ranks do the same steps.
  const step = (row: Trial) => row.metrics?.step ?? (row.status === "running" || row.status === "finished" ? parts.run?.metrics?.step ?? null : null);
  const pid = (row: Trial, actor = actors.get(row.actor ?? "")) => (typeof row.config?.pid === "number" ? row.config.pid : actor?.pid || null);
  const columns = useMemo((): Column<Trial>[] => [
    { key: "rank", title: t("train.rank"), width: 72, right: true, card: "title", look: rank_of, cell: (row) => <RowLink path={["experiments", experiment.name, "trials", row.id]}>{String(rank_of(row))}</RowLink> },
    { key: "state", card: "side", title: t("col.state"), width: 120, small: true, look: (row) => row.status, cell: (row) => <State of={row.status} /> },
    { key: "node", title: t("col.node"), width: 96, small: true, look: (row) => row.node, cell: (row) => (row.node ? session.value?.view ? row.node : <a href={link(["nodes", row.node])}>{row.node}</a> : <span class="soft">–</span>) },
    { key: "device", title: t("train.device"), width: 64, small: true, look: (row) => device_of(row, actors.get(row.actor ?? "")) },
    { key: "pid", title: t("col.pid"), width: 72, right: true, look: (row) => pid(row), cell: (row) => <span class="num">{pid(row) ?? "–"}</span> },
    { key: "step", title: t("col.step"), width: 70, right: true, look: step, cell: (row) => <span class="num">{count(step(row))}</span> },
    { key: "rate", title: t("train.rate_col"), width: 84, right: true, small: true, look: (row) => row.metrics?.samples_per_s, cell: (row) => <span class="num">{num(typeof row.metrics?.samples_per_s === "number" ? Math.round(row.metrics.samples_per_s) : null)}</span> },
    { key: "data", title: t("train.data_col"), width: 84, right: true, small: true, look: (row) => row.metrics?.data_wait_s, cell: (row) => <span class="num">{typeof row.metrics?.data_wait_s === "number" ? seconds(row.metrics.data_wait_s) : "–"}</span> },
    { key: "doing", card: "wide", title: t("train.doing"), width: 168, look: doing_text, cell: (row) => <span class={row.error ? "tone-bad" : "soft"} title={why_of(row)}>{doing_text(row)}</span> },
  ], [experiment.name, actors.list(), parts.run?.metrics?.step, locale()]);
  return (
    <Card title={t("train.ranks")}>
      <Table label={t("train.ranks")} rows={parts.ranks} columns={columns} id={(row) => row.id} prefix="r_" order="rank" bare={parts.ranks.length <= kTableRows} height={narrow.value ? 420 : 34 * (kTableRows + 1) + 1} open={(row) => go(["experiments", experiment.name, "trials", row.id])}
        empty={<p class="quiet-line pad">{t("train.no_ranks")}</p>} />
    </Card>
  );
}

export function workers_shown(experiment: Experiment): string {
  const asked = workers_asked(workers_text(experiment));
  return asked ? t("train.asked_each", { range: asked.range, each: resources_text(asked.each) }) : workers_text(experiment);
}

// Progress and best value, beside the title.
export function TrainingSummary({ experiment }: { experiment: Experiment }) {
  const left = left_ms(experiment, head_now());
  const best = experiment.best_so_far;
  return (
    <div class="summary">
      <p class="sub">
        <span>{t("train.run")}</span>
        {workers_text(experiment) && <span>{workers_shown(experiment)}</span>}
        {left && <span title={t("experiment.left_range", { low: span(left.low), high: span(left.high) })}>{t("experiment.left", { time: span(left.point) })}</span>}
        {best && <span>{t(experiment.mode === "min" ? "experiment.best_min" : "experiment.best_max", { metric: experiment.metric, value: num(best.value) })}</span>}
      </p>
    </div>
  );
}

// Configuration of the run.
export function TrainingConfig({ trials }: { trials: Trial[] }) {
  const config = trials.find((one) => one.name === "train")?.config ?? {};
  const rows = Object.entries(flatten(config));
  if (!rows.length) return null;
  return (
    <Card title={t("trial.config")} action={<Copy text={JSON.stringify(config, null, 2)} label={t("best.copy")} />}>
      <dl class="config">{rows.map(([key, value]) => <div key={key}><dt title={key}>{key}</dt><dd class="num" title={String(value)}>{plain(value, locale())}</dd></div>)}</dl>
    </Card>
  );
}
