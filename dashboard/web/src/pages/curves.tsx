// Learning curves of hundreds of trials.
import { useMemo } from "preact/hooks";
import { plain } from "../format";
import { locale, t, word } from "../i18n";
import type { Experiment, Points, Trial } from "../live/protocol";
import { use_topic } from "../live/use";
import { go, link, query, set_query } from "../router";
import { group_color, ramp, status_color, with_alpha } from "../charts/colors";
import { LegendEntry, LineChart, turned } from "../charts/line_chart";
import { group_by, mean_of, over_time, smooth, type Group, type Line } from "../charts/lines";
import { chart_height, dark } from "../prefs";
import { kTrialStates } from "../ui/states";
import { Card, Empty, Loading, Popover, Select, Toggle, count } from "../ui/parts";
import { kCompared } from "./beside";
import { flat, metrics, parameters, ranked, shown_name, varying } from "./trials";

const kMost = 500;
const kTime = "time_total_s";  // Run time of a trial, which the training loop adds to every report.

export function Curves({ trials, experiment }: { trials: Trial[]; experiment: Experiment }) {
  const metric = query("metric", experiment.metric);
  const by = query("by", "status");
  const limit = Math.min(kMost, Number(query("top", "200")) || 200);
  const weight = Number(query("smooth", "0"));
  const log_x = query("x") === "log";
  const log_y = query("y") === "log";
  const means = query("mean") === "1";
  const names = useMemo(() => metrics(trials, experiment), [trials.length, experiment.metric]);
  const params = useMemo(() => parameters(trials).filter((one) => one.varies), [trials.length]);
  const pinned = useMemo(() => query("pin").split(",").filter(Boolean), [query("pin")]);
  const off = useMemo(() => new Set(query("off").split(",").filter(Boolean)), [query("off")]);
  const best = metric === experiment.metric ? experiment.best?.trial : undefined;
  const chosen = chosen_trials(trials, metric, metric === experiment.metric ? experiment.mode : "max", limit, [...pinned, ...(best ? [best] : [])]);
  const shown = { as: "shown", trials: chosen.map((one) => one.id) };
  const every = trials.length > 100 ? 400 : 200;
  const curves = use_topic("curves", { experiment: experiment.name, metric }, every, shown);
  const groups = useMemo(() => make_groups(chosen, by), [chosen.map((one) => one.id + one.status).join(), by, locale()]);
  const by_time = query("along") === "time";
  const times = use_topic(by_time ? "curves" : null, by_time ? { experiment: experiment.name, metric: kTime } : {}, 400, shown);
  const version = curves.version.value + times.version.value;
  const { lines, raw } = useMemo(() => make_lines(chosen, groups, (id) => (by_time ? over_time(curves.get(id), times.get(id)) : curves.get(id)), weight, means && !by_time, best, pinned, off), [version, by_time, groups, weight, means, dark.value, best, pinned, off]);
  const by_id = useMemo(() => new Map(chosen.map((one) => [one.id, one])), [groups]);
  const about = (id: string): [string, string][] => {
    const trial = by_id.get(id);
    return trial ? varying(trial, params, (value) => plain(value, locale())) : [];
  };
  const tools = (
    <>
      <Select label={t("curves.metric")} value={metric} on_change={(value) => set_query({ metric: value })} options={names.map((name) => [name, name])} />
      <Select label={t("curves.color")} value={by} on_change={(value) => set_query({ by: value })}
        options={[["status", t("col.status")], ["rank", t("curves.rank")], ...params.map((one): [string, string] => [one.path, one.path])]} />
      <Popover text={t("chart.display")}>
      {names.includes(kTime) && <Select label={t("curves.along")} value={by_time ? "time" : "step"} on_change={(value) => set_query({ along: value === "step" ? null : value })} options={[["step", t("col.step")], ["time", t("curves.time")]]} />}
      <Toggle label={t("curves.mean")} on={means} on_change={(on) => set_query({ mean: on ? "1" : null })} />
      <Smoothing weight={weight} />
      <Toggle label={t("curves.log_x")} on={log_x} on_change={(on) => set_query({ x: on ? "log" : null })} />
      <Toggle label={t("curves.log_y")} on={log_y} on_change={(on) => set_query({ y: on ? "log" : null })} />
      {trials.length > 50 && <Select label={t("curves.top")} value={String(limit)} on_change={(value) => set_query({ top: value })} options={[50, 100, 200, 500].map((n) => [String(n), count(n)])} />}
      </Popover>
      {pinned.length > 1 && pinned.length <= kCompared && <a class="button" href={link(["experiments", experiment.name, "compare"], { of: pinned.join(",") })}>{t("compare")}</a>}
      {pinned.length > 0 && <button type="button" class="link" onClick={() => set_query({ pin: null })}>{count(pinned.length)} {t("curves.pinned")} ×</button>}
    </>
  );
  const note = chosen.length < trials.length ? t("curves.some", { shown: count(chosen.length), n: count(trials.length) }) : undefined;
  return (
    <Card title={t("curves.title", { metric })}>
      {curves.phase.value === "loading" ? <Loading /> : curves.size === 0 ? <Empty icon="experiments" title={t("curves.none", { metric })}>{t("curves.none.next")}</Empty> : (
        <>
          <LineChart label={t("curves.title", { metric })} lines={lines} raw={raw} height={chart_height.value} about={means ? undefined : about} whole_x={!by_time && !log_x} x_label={by_time ? t("curves.time_s") : t("col.step").toLowerCase()} log_x={log_x} log_y={log_y} tools={tools} note={note}
            on_pick={means ? undefined : (id) => go(["experiments", experiment.name, "trials", id])} />
          <Legend groups={groups} by={by} off={off} />
        </>
      )}
    </Card>
  );
}

// Selects `limit` trials: the wanted ones, running ones (up to half of `limit`), then the best others.
export function chosen_trials(trials: Trial[], metric: string, mode: string, limit: number, wanted: string[]): Trial[] {
  if (trials.length <= limit) return trials;
  const named = new Set(wanted);
  const running = trials.filter((one) => named.has(one.id)).concat(trials.filter((one) => one.status === "running" && !named.has(one.id)).slice(0, Math.floor(limit / 2)));
  const taken = new Set(running.map((one) => one.id));
  return running.concat(ranked(trials, metric, mode).filter((one) => !taken.has(one.id)).slice(0, Math.max(0, limit - running.length)));
}

interface Groups {
  list: (Group & { color: () => string })[];
  of: Map<string, number>;
  ramp: boolean;
}

export function make_groups(trials: Trial[], by: string): Groups {
  const show = (value: unknown) => plain(value, locale());
  if (by === "status") {
    const list = kTrialStates.map((state) => ({ label: word(state), from: 0, ids: trials.filter((one) => one.status === state).map((one) => one.id), color: () => status_color(state) })).filter((one) => one.ids.length);
    return finish(list, false);
  }
  if (by === "rank") {
    const list = trials.map((one, i) => ({ label: shown_name(one), from: 1 - i / Math.max(1, trials.length - 1), ids: [one.id], color: () => ramp(1 - i / Math.max(1, trials.length - 1)) }));
    return finish(list, true);
  }
  const { groups, ramp: graded } = group_by(trials.map((one) => [one.id, flat(one)[by]]), 6, show);
  return finish(groups.map((one, i) => ({ ...one, color: () => (graded ? ramp(one.from) : group_color(i)) })), graded);
}

function finish(list: Groups["list"], graded: boolean): Groups {
  const of = new Map<string, number>();
  list.forEach((group, i) => group.ids.forEach((id) => of.set(id, i)));
  return { list, of, ramp: graded };
}

export function make_lines(trials: Trial[], groups: Groups, curve: (id: string) => Points | undefined, weight: number, means: boolean, best: string | undefined, pinned: string[], off: Set<string>): { lines: Line[]; raw: Map<string, Line> } {
  const colors = groups.list.map((group) => group.color());
  // Pinned trials, or else the best trial, are highlighted; the others are faint.
  const strong = new Set(pinned.length ? pinned : best ? [best] : []);
  const alpha = strong.size && trials.length > 8 ? (pinned.length ? 0.25 : 0.4) : trials.length > 150 ? 0.6 : trials.length > 40 ? 0.8 : 1;
  const last: Line[] = [];
  const raw = new Map<string, Line>();
  const lines: Line[] = [];
  for (const trial of trials) {
    const points = curve(trial.id);
    const group = groups.of.get(trial.id) ?? 0;
    if (!points?.x.length || off.has(groups.list[group]?.label ?? "")) continue;
    const stands_out = strong.has(trial.id);
    const color = stands_out && pinned.length ? group_color(pinned.indexOf(trial.id)) : colors[group] ?? "#888888";
    raw.set(trial.id, { id: trial.id, label: shown_name(trial, 28), x: points.x, y: points.y, color });
    const line = { id: trial.id, label: shown_name(trial, 28), x: points.x, y: smooth(points.y, weight), color: stands_out ? color : with_alpha(color, alpha), strong: stands_out };
    (stands_out ? last : lines).push(line);
  }
  if (!means || groups.list.length === trials.length) return { lines: lines.reverse().concat(last), raw: weight > 0 ? raw : new Map() };
  const by_group = groups.list.map((group, i) => {
    const { x, y } = mean_of(lines.concat(last).filter((line) => groups.of.get(line.id) === i));
    return { id: group.label, label: `${group.label} (${group.ids.length})`, x, y, color: colors[i] };
  });
  return { lines: by_group.filter((line) => line.x.length), raw: new Map() };
}

function Legend({ groups, by, off }: { groups: Groups; by: string; off: Set<string> }) {
  if (by === "rank") {
    return <div class="legend"><span>{t("curves.worst")}</span><i class="ramp" ref={paint_ramp} /><span>{t("curves.best")}</span></div>;
  }
  return (
    <ul class="legend">
      {groups.list.slice(0, 12).map((group) => (
        <LegendEntry key={group.label} color={group.color()} text={group.label || by} note={count(group.ids.length)} on={!off.has(group.label)} on_change={() => set_query({ off: [...turned(off, group.label)].join(",") || null })} />
      ))}
    </ul>
  );
}

export const Smoothing = ({ weight }: { weight: number }) => (
  <label class="range"><span>{t("curves.smooth")}</span>
    <input type="range" min="0" max="0.95" step="0.05" value={weight} onInput={(event) => set_query({ smooth: event.currentTarget.value === "0" ? null : event.currentTarget.value })} />
  </label>
);

export function paint_ramp(element: HTMLElement | null): void {
  if (element) element.style.background = `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(ramp).join(",")})`;
}
