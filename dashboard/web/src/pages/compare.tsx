// Comparison of experiments: best value by step, and their settings.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { plain } from "../format";
import { locale, t, word } from "../i18n";
import type { Experiment } from "../live/protocol";
import { head_now, use_topic } from "../live/use";
import { link, query, set_query } from "../router";
import { chart_height } from "../prefs";
import { group_color } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { Card, Empty, Head, Loading, Select, State, Toggle, Unequal, count, num, span } from "../ui/parts";
import { beside } from "./beside";
import { lower_is_better } from "./history";
import { envelope, type Curve } from "./envelope";
import { TagList } from "./notes";
import { ended_count, flatten, shown_name } from "./trials";

const kMost = 6;

export function Compare() {
  const experiments = use_topic("experiments", {}, 500);
  const wanted = query("of").split("\n").filter(Boolean).slice(0, kMost);
  const chosen = wanted.flatMap((name) => experiments.list().find((one) => one.name === name) ?? []);
  const trail = [{ text: t("nav.experiments"), path: ["experiments"] }];
  return (
    <>
      <Head trail={trail} title={t("compare.title")} />
      <div class="page-body">
        {experiments.phase.value === "loading" ? <Loading /> : chosen.length < 2 ? <Empty icon="experiments" title={t("compare.none")}><a href={link(["experiments"])}>{t("compare.none.next")}</a></Empty> : (
          <>
            <BestSoFar experiments={chosen} />
            <Beside experiments={chosen} />
          </>
        )}
      </div>
    </>
  );
}

const metrics_of = (one: Experiment) => [...new Set([one.metric, ...(one.metrics ?? [])])];
const reports = (one: Experiment, metric: string) => !one.metrics || metrics_of(one).includes(metric);
// The metric of all experiments, by default the first one's, and the metric chosen for one experiment if it differs.
const shared_metric = (all: Experiment[]) => query("metric", all[0].metric);
const own_key = (one: Experiment) => "m-" + one.name;
const metric_of = (one: Experiment, all: Experiment[]) => query(own_key(one), shared_metric(all));
const mode_of = (one: Experiment, metric: string) => (metric === one.metric ? one.mode : lower_is_better(metric) ? "min" : "max");

function BestSoFar({ experiments: all }: { experiments: Experiment[] }) {
  const [curves, set_curves] = useState<Record<string, Curve[]>>({});
  const common = [...new Set(all.flatMap(metrics_of))].filter((name) => all.filter((one) => metrics_of(one).includes(name)).length > 1);
  const metric = shared_metric(all);
  const experiments = all.filter((one) => reports(one, metric_of(one, all)));
  const without = all.filter((one) => !experiments.includes(one));
  const differ = new Set(experiments.map((one) => metric_of(one, all))).size > 1;
  const wanted = JSON.stringify(experiments.map((one) => [one.name, metric_of(one, all)]));
  const log = query("y") === "log";
  useEffect(() => {
    let gone = false;
    const load = () => {
      if (document.visibilityState === "hidden") return;
      for (const [name, of] of JSON.parse(wanted) as [string, string][]) {
        call<{ curves: Curve[] }>("GET", `/api/v1/experiments/${encodeURIComponent(name)}/curves?points=200&metric=${encodeURIComponent(of)}`)
          .then((answer) => { if (!gone) set_curves((known) => ({ ...known, [`${name}\n${of}`]: answer.curves })); }, () => undefined);
      }
    };
    load();
    const timer = setInterval(load, 5000);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [wanted]);
  const lines = experiments.map((one) => {
    const of = metric_of(one, all);
    return { id: one.name, label: differ ? `${one.name} · ${of}` : one.name, ...envelope(curves[`${one.name}\n${of}`] ?? [], mode_of(one, of)), color: group_color(all.indexOf(one)) };
  }).filter((line) => line.x.length);
  const title = differ ? t("compare.best_each") : t("compare.best", { metric: experiments.length ? metric_of(experiments[0], all) : metric });
  return (
    <Card title={title}>
      {without.length > 0 && <p class="quiet-line space-below">{t("compare.without", { names: without.map((one) => one.name).join(", "), metric })}</p>}
      {!lines.length ? <p class="quiet-line pad">{t("curves.none", { metric })}</p> : (
        <LineChart label={title} lines={lines} named whole_x height={Math.min(520, chart_height.value)} x_label={t("col.step").toLowerCase()} log_y={log} tools={<>
          {common.length > 1 && <Select label={t("curves.metric")} value={metric} on_change={(value) => set_query({ metric: value === all[0].metric ? null : value })} options={[...new Set([metric, ...common])].map((name) => [name, name])} />}
          <Toggle label={t("curves.log_y")} on={log} on_change={(on) => set_query({ y: on ? "log" : null })} />
        </>} />
      )}
    </Card>
  );
}

function Beside({ experiments }: { experiments: Experiment[] }) {
  const configs = experiments.map((one) => flatten(one.best?.config ?? {}));
  const took = (one: Experiment) => (one.started_ms ? (one.state === "running" ? head_now() : one.updated_ms ?? head_now()) - one.started_ms : null);
  const facts: [string, (one: Experiment) => preact.ComponentChildren][] = [
    [t("col.state"), (one) => <State of={one.state} />],
    [t("col.metric"), (one) => `${one.metric} (${word(one.mode)})`],
    [t("compare.drawn"), (one) => (
      <label class="select"><span class="visually-hidden">{t("compare.drawn_of", { name: one.name })}</span>
        <select value={metric_of(one, experiments)} onChange={(event) => set_query({ [own_key(one)]: event.currentTarget.value === shared_metric(experiments) ? null : event.currentTarget.value })}>
          {[...new Set([...(reports(one, metric_of(one, experiments)) ? [] : [metric_of(one, experiments)]), ...metrics_of(one)])].map((name) => <option key={name} value={name} disabled={!reports(one, name)}>{name}</option>)}
        </select>
      </label>
    )],
    [t("col.best"), (one) => <b>{num(one.best?.value)}</b>],
    [t("best.title"), (one) => (one.best ? <a href={link(["experiments", one.name, "trials", one.best.trial])} title={one.best.trial}>{shown_name({ id: one.best.trial, name: one.best.name })}</a> : "–")],
    [t("col.step"), (one) => (one.best ? count(one.best.step) : "–")],
    [t("col.trials"), (one) => `${count(ended_count(one))} / ${count(one.trials_total)}`],
    [t("col.took"), (one) => span(took(one))],
    [t("experiment.scheduler"), (one) => one.scheduler?.text ?? "–"],
    [t("col.tags"), (one) => <TagList tags={one.tags} />],
  ];
  return (
    <Card title={t("compare.beside")}>
      <div class="compare wide" tabIndex={0} role="group" aria-label={t("compare.beside")}>
        <table style={{ "--columns": experiments.length }}>
          <thead><tr><th scope="col"><span class="visually-hidden">{t("col.name")}</span></th>{experiments.map((one, i) => <th key={one.name} scope="col"><i style={{ background: group_color(i) }} /> <a href={link(["experiments", one.name])}>{one.name}</a></th>)}</tr></thead>
          <tbody>
            {facts.map(([name, show]) => <tr key={name}><th scope="row">{name}</th>{experiments.map((one) => <td key={one.name}>{show(one)}</td>)}</tr>)}
            <tr class="part"><th scope="rowgroup" colSpan={experiments.length + 1}>{t("compare.config")}</th></tr>
            {beside(configs, (value) => plain(value, locale())).map((row) => (
              <tr key={row.name} class={row.differs ? "varies" : ""}><th scope="row" title={row.name}>{row.differs && <Unequal />}{row.name}</th>{row.shown.map((value, i) => <td key={i} class="num" title={value}>{value}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
