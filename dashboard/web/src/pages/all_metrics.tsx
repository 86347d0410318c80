// Small charts of all metrics of an experiment, with its most relevant trials.
import { useMemo } from "preact/hooks";
import { t } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { use_topic } from "../live/use";
import { dark } from "../prefs";
import { go, link, query } from "../router";
import { LineChart } from "../charts/line_chart";
import { Card, count } from "../ui/parts";
import { chosen_trials, make_groups, make_lines } from "./curves";
import { metrics } from "./trials";

const kTrials = 40;
const kCharts = 24;

export function AllMetrics({ trials, experiment }: { trials: Trial[]; experiment: Experiment }) {
  const names = useMemo(() => metrics(trials, experiment).filter((name) => name !== "training_iteration").slice(0, kCharts), [trials.length, experiment.metric]);
  const pinned = query("pin").split(",").filter(Boolean);
  const best = experiment.best?.trial;
  const chosen = chosen_trials(trials, experiment.metric, experiment.mode, kTrials, [...pinned, ...(best ? [best] : [])]);
  return (
    <Card title={t("tab.metrics")}>
      {chosen.length < trials.length && <p class="quiet-line space-below">{t("curves.some", { shown: count(chosen.length), n: count(trials.length) })}</p>}
      <div class="small-charts">{names.map((name) => <One key={name} metric={name} trials={chosen} experiment={experiment} pinned={pinned} />)}</div>
    </Card>
  );
}

function One({ metric, trials, experiment, pinned }: { metric: string; trials: Trial[]; experiment: Experiment; pinned: string[] }) {
  const curves = use_topic("curves", { experiment: experiment.name, metric }, 500, { as: "shown", trials: trials.map((one) => one.id) });
  const lines = useMemo(() => make_lines(trials, make_groups(trials, "status"), (id) => curves.get(id), 0, false, experiment.best?.trial, pinned, new Set()).lines,
    [curves.version.value, trials.map((one) => one.id + one.status).join(), experiment.best?.trial, pinned.join(), dark.value]);
  return (
    <section>
      <h3><a href={link(["experiments", experiment.name], { metric })}>{metric}</a></h3>
      {lines.length ? <LineChart label={t("curves.title", { metric })} lines={lines} height={190} whole_x on_pick={(id) => go(["experiments", experiment.name, "trials", id])} /> : <p class="quiet-line">{t("curves.none", { metric })}</p>}
    </section>
  );
}
