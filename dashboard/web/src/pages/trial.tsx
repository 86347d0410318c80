// The page of a trial: metrics, configuration compared with the best one's, reason of its end.
import { useMemo } from "preact/hooks";
import { plain } from "../format";
import { session } from "../api";
import { locale, t, why_of } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { use_topic } from "../live/use";
import { link, query, set_query } from "../router";
import { group_color } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { Card, Copy, Facts, Failed, Head, Loading, Select, Toggle, count, num } from "../ui/parts";
import { use_loaded } from "../ui/loaded";
import { configured_id, configured_trial } from "./configured";
import { Control } from "./control";
import { TrialDownloads } from "./downloads";
import { Media } from "./media";
import { TrialFiles, use_trial_files } from "./trial_files";
import { UsageCharts } from "./usage";
import { Explained } from "./explained";
import { flatten, has_ended, metrics, shown_name } from "./trials";

export function TrialPage({ name, id }: { name: string; id: string }) {
  const experiments = use_topic("experiments", {}, 250);
  const trials = use_topic("trials", { experiment: name }, 250);
  const experiment = experiments.list().find((row) => row.name === name);
  const trial = trials.get(id) ?? trials.list().find((row) => row.name === id) ?? trials.list().find((row) => row.id.startsWith(id));
  const trail = [{ text: t("nav.experiments"), path: ["experiments"] }, { text: name, path: ["experiments", name] }];
  if (!trial || !experiment) {
    const loading = trials.phase.value === "loading" || experiments.phase.value === "loading";
    return <><Head trail={trail} title={id} />{loading ? <Loading /> : <Failed what={t("trial.unknown", { id, name })} next={t("trial.unknown.next")} />}</>;
  }
  return <Found trial={trial} experiment={experiment} trail={trail} />;
}

function Found({ trial, experiment, trail }: { trial: Trial; experiment: Experiment; trail: { text: string; path: string[] }[] }) {
  const { files, error } = use_trial_files(experiment, trial);
  const name = experiment.name;
  // Curves of a configuration have more: those of other groups.
  const known = metrics([trial], experiment);
  const last = known.some((metric) => typeof trial.metrics?.[metric] === "number") ? known.filter((metric) => trial.metrics?.[metric] !== undefined) : known;
  const configured = configured_id(name, experiment.directory) && configured_trial(trial.id);
  const profile = use_loaded(configured ? () => import("./trial_profile") : null);
  const config = JSON.stringify(trial.config, null, 2);
  return (
    <>
      <Head trail={trail} title={trial.name || trial.id} state={trial.status} actions={<><Control experiment={experiment} trial={trial} /><TrialDownloads experiment={experiment} trial={trial} />{!session.value?.view && <a class="button" href={link(["logs"], { id: trial.id })}>{t("nav.logs")}</a>}<Copy text={config} label={t("best.copy")} /></>} />
      <div class="page-body">
        {(trial.error || trial.reason) && <p class={`reason tone-${trial.error ? "bad" : "calm"}`}>{why_of(trial)}</p>}
        <div class="columns">
          <div class="stack">
            <TrialCurve trial={trial} experiment={experiment} names={known} />
            <Card title={t("trial.metrics")}>
              <dl class="config wide">
                {last.map((metric) => <div key={metric}><dt>{metric}</dt><dd class="num">{num(trial.metrics?.[metric])}</dd></div>)}
              </dl>
            </Card>
            {files && <Media experiment={experiment} trial={trial} files={files} />}
            {configured ? profile && <profile.TrialProfile trial={configured} ended={has_ended(trial)} /> : !session.value?.view && <UsageCharts of={{ experiment: name, trial: trial.id }} ended={has_ended(trial)} />}
            {!session.value?.view && <Card title={t("trial.history")}><Explained id={trial.id} version={trial.status + (has_ended(trial) ? "" : Math.floor(trial.step / 10))} known={trial.error ? undefined : trial.reason} with_error={Boolean(trial.error)} /></Card>}
          </div>
          <div class="stack side">
            <ConfigCard trial={trial} experiment={experiment} />
            {configured ? profile && <profile.TrialCheckpoints trial={configured} run={name} ended={has_ended(trial)} /> : <TrialFiles experiment={experiment} trial={trial} files={files} error={error} />}
            <Card title={t("trial.about")}>
              <Facts of={[
                ["experiment.one", <a href={link(["experiments", name])}>{name}</a>], ["col.step", count(trial.step)],
                ["col.node", trial.node && (session.value?.view ? trial.node : <a href={link(["nodes", trial.node])}>{trial.node}</a>)], ["col.id", <code>{trial.id}</code>],
                ["trial.cloned_from", trial.cloned_from && <a href={link(["experiments", name, "trials", trial.cloned_from])}>{trial.cloned_from}</a>],
                ["col.tags", Boolean(trial.tags?.length) && <span class="tags editable">{trial.tags!.map((tag) => <span key={tag} class="tag"><a href={link(["experiments", name], { tab: "trials", q: `tags:${tag}` })}>{tag}</a></span>)}</span>],
              ]} />
            </Card>
          </div>
        </div>
      </div>
    </>
  );
}

function TrialCurve({ trial, experiment, names }: { trial: Trial; experiment: Experiment; names: string[] }) {
  const metric = query("metric", experiment.metric);
  const curves = use_topic("curves", { experiment: experiment.name, metric }, 200, { as: "trial " + trial.id, trials: [trial.id, ...(experiment.best ? [experiment.best.trial] : [])] });
  const log = query("y") === "log";
  const version = curves.version.value;
  const lines = useMemo(() => {
    const line = (id: string, label: string, color: string) => { const points = curves.get(id); return points ? [{ id, label, x: points.x, y: points.y, color }] : []; };
    const best = experiment.best?.trial;
    return [...(best && best !== trial.id ? line(best, t("trial.best_line", { id: shown_name({ id: best, name: experiment.best?.name }, 28) }), group_color(7)) : []), ...line(trial.id, shown_name(trial, 28), group_color(0))];
  }, [version, trial.id, experiment.best?.trial]);
  return (
    <Card title={t("curves.title", { metric })}>
      {!lines.length ? (curves.phase.value === "loading" ? <Loading /> : <p class="quiet-line pad">{t("trial.no_curve")}</p>) : (
        <LineChart label={t("curves.title", { metric })} lines={lines} named whole_x height={300} x_label={t("col.step").toLowerCase()} log_y={log}
          tools={<><Select label={t("curves.metric")} value={metric} on_change={(value) => set_query({ metric: value })} options={names.map((one) => [one, one])} /><Toggle label={t("curves.log_y")} on={log} on_change={(on) => set_query({ y: on ? "log" : null })} /></>} />
      )}
    </Card>
  );
}

// Marks differences from the best trial.
function ConfigCard({ trial, experiment }: { trial: Trial; experiment: Experiment }) {
  const best = experiment.best && experiment.best.trial !== trial.id ? flatten(experiment.best.config ?? {}) : null;
  const show = (value: unknown) => plain(value, locale());
  return (
    <Card title={best ? t("trial.config_best") : t("trial.config")}>
      <div class="compare">
        <table>
          <thead><tr><th scope="col">{t("col.parameter")}</th><th scope="col">{t("trial.this")}</th>{best && <th scope="col">{t("col.best")}</th>}</tr></thead>
          <tbody>
            {Object.entries(flatten(trial.config)).map(([key, value]) => (
              <tr key={key} class={best && show(best[key]) !== show(value) ? "differs" : ""}>
                <th scope="row" title={key}>{key}</th><td class="num">{show(value)}</td>{best && <td class="num">{show(best[key])}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
