// Comparison of selected trials of an experiment: curves of a metric, last metrics, and configurations with differences marked.
import { useMemo } from "preact/hooks";
import { plain } from "../format";
import { locale, t, why_of } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { use_topic } from "../live/use";
import { link, query, set_query } from "../router";
import { chart_height } from "../prefs";
import { group_color } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { smooth } from "../charts/lines";
import { Icon } from "../ui/icons";
import { Card, Empty, Head, Loading, Select, State, Toggle, Unequal, count } from "../ui/parts";
import { beside, best_places, kCompared, type BesideRow } from "./beside";
import { Smoothing } from "./curves";
import { ExportMenu } from "./downloads";
import { flat, metrics, shown_name } from "./trials";

export function CompareTrials({ name }: { name: string }) {
  const experiments = use_topic("experiments", {}, 500);
  const trials = use_topic("trials", { experiment: name }, 250);
  const experiment = experiments.list().find((row) => row.name === name || row.id === name);
  const wanted = query("of").split(",").filter(Boolean).slice(0, kCompared);
  const chosen = wanted.flatMap((id) => trials.get(id) ?? []);
  const trail = [{ text: t("nav.experiments"), path: ["experiments"] }, { text: name, path: ["experiments", name] }];
  const loading = experiments.phase.value === "loading" || trials.phase.value === "loading";
  return (
    <>
      <Head trail={trail} title={t("compare_trials.title")} actions={experiment && chosen.length > 1 && (
        <>
          <a class="button" href={link(["experiments", name], { pin: chosen.map((one) => one.id).join(",") })}>{t("trials.highlight")}</a>
          <ExportMenu name={name} trials={chosen} />
        </>
      )} />
      <div class="page-body">
        {loading ? <Loading /> : !experiment || chosen.length < 2 ? (
          <Empty icon="experiments" title={t("compare_trials.none", { n: kCompared })}><a href={link(["experiments", name], { tab: "trials" })}>{t("compare_trials.none.next")}</a></Empty>
        ) : <><Charts experiment={experiment} trials={chosen} /><Beside experiment={experiment} trials={chosen} /></>}
      </div>
    </>
  );
}

// One chart per metric, one below the other.
function Charts({ experiment, trials }: { experiment: Experiment; trials: Trial[] }) {
  const names = metrics(trials, experiment);
  const shown = query("metric", experiment.metric).split("\n");
  const set = (next: string[]) => set_query({ metric: next.join("\n") === experiment.metric ? null : next.join("\n") });
  const more = names.find((name) => !shown.includes(name));
  return (
    <>
      {shown.map((metric, i) => (
        <ChosenCurves key={i} place={i} experiment={experiment} trials={trials} metric={metric} names={names}
          on_change={(name) => set(shown.map((one, k) => (k === i ? name : one)))} on_close={shown.length > 1 ? () => set(shown.filter((_, k) => k !== i)) : undefined} />
      ))}
      {more && shown.length < kCharts && <p><button type="button" class="button" onClick={() => set([...shown, more])}>{t("compare_trials.more")}</button></p>}
    </>
  );
}

const kCharts = 6;

function ChosenCurves({ experiment, trials, place, metric, names, on_change, on_close }: {
  experiment: Experiment; trials: Trial[]; place: number; metric: string; names: string[]; on_change: (name: string) => void; on_close?: () => void;
}) {
  const log = query("y") === "log";
  const weight = Number(query("smooth", "0"));
  const ids = trials.map((one) => one.id);
  const curves = use_topic("curves", { experiment: experiment.name, metric }, 200, { as: `compared ${place}`, trials: ids });
  const lines = useMemo(() => trials.flatMap((one, i) => {
    const points = curves.get(one.id);
    return points?.x.length ? [{ id: one.id, label: shown_name(one, 28), x: points.x, y: smooth(points.y, weight), color: group_color(i) }] : [];
  }), [curves.version.value, ids.join(), weight, metric]);
  const title = t("curves.title", { metric });
  return (
    <Card title={title} action={on_close && <button type="button" class="icon-button" onClick={on_close} aria-label={t("compare_trials.fewer", { metric })} title={t("compare_trials.fewer", { metric })}><Icon name="close" /></button>}>
      {curves.phase.value === "loading" ? <Loading /> : !lines.length ? <p class="quiet-line pad">{t("curves.none", { metric })}</p> : (
        <LineChart label={title} lines={lines} named whole_x height={Math.min(460, chart_height.value)} x_label={t("col.step").toLowerCase()} log_y={log} tools={<>
          <Select label={t("curves.metric")} value={metric} on_change={on_change} options={[...new Set([metric, ...names])].map((one) => [one, one])} />
          <Smoothing weight={weight} />
          <Toggle label={t("curves.log_y")} on={log} on_change={(on) => set_query({ y: on ? "log" : null })} />
        </>} />
      )}
    </Card>
  );
}

function Beside({ experiment, trials }: { experiment: Experiment; trials: Trial[] }) {
  const show = (value: unknown) => plain(value, locale());
  const config = beside(trials.map(flat), show);
  const measured = beside(trials.map((one) => one.metrics ?? {}), show);
  const only = query("only") === "1";
  const differing = config.filter((row) => row.differs).length;
  const best = best_places(trials.map((one) => one.metrics?.[experiment.metric]), experiment.mode);
  const without = (id: string) => set_query({ of: trials.map((one) => one.id).filter((one) => one !== id).join(",") });
  const part = (title: string) => <tr class="part"><th scope="rowgroup" colSpan={trials.length + 1}>{title}</th></tr>;
  const line = (row: BesideRow, strong = false) => (
    <tr key={row.name} class={row.differs ? "varies" : ""}>
      <th scope="row" title={row.name}>{row.differs && <Unequal />}{row.name}</th>
      {row.shown.map((value, i) => <td key={i} class={`num${strong && best.has(i) ? " best" : ""}`} title={value}>{value}{strong && best.has(i) && <small> {t("curves.best")}</small>}</td>)}
    </tr>
  );
  return (
    <Card title={t("compare.beside")} action={<Toggle label={t("compare_trials.only", { n: differing, shown: count(differing) })} on={only} on_change={(on) => set_query({ only: on ? "1" : null })} />}>
      <div class="compare wide" tabIndex={0} role="group" aria-label={t("compare.beside")}>
        <table style={{ "--columns": trials.length }}>
          <thead>
            <tr>
              <th scope="col"><span class="visually-hidden">{t("col.name")}</span></th>
              {trials.map((one, i) => (
                <th key={one.id} scope="col">
                  <span class="with-close"><i style={{ background: group_color(i) }} /> <a href={link(["experiments", experiment.name, "trials", one.id])} title={one.id}>{shown_name(one, 24)}</a>
                    {trials.length > 2 && <button type="button" class="icon-button" onClick={() => without(one.id)} aria-label={t("compare_trials.without", { name: shown_name(one) })} title={t("compare_trials.without", { name: shown_name(one) })}><Icon name="close" /></button>}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr><th scope="row">{t("col.status")}</th>{trials.map((one) => <td key={one.id} title={why_of(one)}><State of={one.status} /></td>)}</tr>
            <tr><th scope="row">{t("col.step")}</th>{trials.map((one) => <td key={one.id} class="num">{count(one.step)}</td>)}</tr>
            <tr><th scope="row">{t("col.node")}</th>{trials.map((one) => <td key={one.id}>{one.node || "–"}</td>)}</tr>
            {part(t("trial.metrics"))}
            {measured.map((row) => line({ ...row, differs: false }, row.name === experiment.metric))}
            {part(t("trial.config"))}
            {config.filter((row) => row.differs || !only).map((row) => line(row))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
