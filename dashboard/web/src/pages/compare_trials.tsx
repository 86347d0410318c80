// Chosen trials of one experiment side by side: their curves of a metric, last metrics, and configurations with what differs marked.
import { useMemo } from "preact/hooks";
import { plain } from "../format";
import { locale, t, why_of } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { use_topic } from "../live/use";
import { link, query, set_query } from "../router";
import { chart_height } from "../prefs";
import { group_color } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { Icon } from "../ui/icons";
import { Card, Empty, Head, Loading, Select, State, Toggle, Unequal, count } from "../ui/parts";
import { beside, best_places, kCompared, type BesideRow } from "./beside";
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
        ) : <><ChosenCurves experiment={experiment} trials={chosen} /><Beside experiment={experiment} trials={chosen} /></>}
      </div>
    </>
  );
}

function ChosenCurves({ experiment, trials }: { experiment: Experiment; trials: Trial[] }) {
  const names = metrics(trials, experiment);
  const metric = query("metric", experiment.metric);
  const log = query("y") === "log";
  const ids = trials.map((one) => one.id);
  const curves = use_topic("curves", { experiment: experiment.name, metric }, 200, { as: "compared", trials: ids });
  const lines = useMemo(() => trials.flatMap((one, i) => {
    const points = curves.get(one.id);
    return points?.x.length ? [{ id: one.id, label: shown_name(one, 28), x: points.x, y: points.y, color: group_color(i) }] : [];
  }), [curves.version.value, ids.join()]);
  const title = t("curves.title", { metric });
  return (
    <Card title={title}>
      {curves.phase.value === "loading" ? <Loading /> : !lines.length ? <p class="quiet-line pad">{t("curves.none", { metric })}</p> : (
        <LineChart label={title} lines={lines} named whole_x height={Math.min(460, chart_height.value)} x_label={t("col.step").toLowerCase()} log_y={log} tools={<>
          <Select label={t("curves.metric")} value={metric} on_change={(value) => set_query({ metric: value === experiment.metric ? null : value })} options={[...new Set([metric, ...names])].map((one) => [one, one])} />
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
        <table style={{ minWidth: `${130 + 150 * trials.length}px` }}>
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
