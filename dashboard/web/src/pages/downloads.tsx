// Downloads of an experiment or trial: tables, configuration, files of the run.
import { useState } from "preact/hooks";
import { ApiError, call } from "../api";
import { t } from "../i18n";
import type { Experiment, RunFile, Trial } from "../live/protocol";
import { failure, size } from "../ui/parts";
import { Menu, type Choice } from "../ui/menu";
import { save_text } from "./logs";
import { csv_of, json_of } from "./trial_export";

const at = (experiment: string, trial?: string) => `/api/v1/experiments/${encodeURIComponent(experiment)}${trial ? "/trials/" + encodeURIComponent(trial) : ""}`;

// Files on another machine are read by a node or the program there; the head answers 409 if neither is connected.
const why_not = (experiment: Experiment, failed: unknown) =>
  failed instanceof ApiError && failed.status === 409 ? t("downloads.elsewhere", { directory: experiment.directory }) : failure(failed).what;

// Loads the list of files on demand.
export function use_files(experiment: Experiment, trial?: string) {
  const [files, set_files] = useState<RunFile[] | null>(null);
  const [error, set_error] = useState("");
  const load = () => {
    if (experiment.files === "none") return set_error(t("downloads.no_files"));
    void call<{ rows: RunFile[] }>("GET", at(experiment.name, trial) + "/files").then((answer) => { set_files(answer.rows); set_error(""); }, (failed) => set_error(why_not(experiment, failed)));
  };
  return { files, error, load };
}

export const file_href = (experiment: string, trial: string | undefined, name: string) => `${at(experiment, trial)}/files/${encodeURIComponent(name)}`;

const kFirst = ["journal.vlj", "experiment_state.json"];
const rank = (name: string) => (kFirst.indexOf(name) + kFirst.length + 1) % (kFirst.length + 1);

export function ExperimentDownloads({ experiment }: { experiment: Experiment }) {
  const { files, error, load } = use_files(experiment);
  const config = at(experiment.name) + "/config";
  const has_best = Boolean(experiment.best);
  const choices: Choice[] = [
    { key: "trials", text: t("downloads.trials"), note: "CSV", href: at(experiment.name) + "/trials.csv" },
    { key: "curves", text: t("downloads.curves"), note: "CSV", href: at(experiment.name) + "/curves.csv" },
    { key: "json", text: t("downloads.config"), note: has_best ? "JSON" : t("downloads.no_best"), href: config + "?format=json", disabled: !has_best },
    { key: "yaml", text: t("downloads.config"), note: has_best ? "YAML" : t("downloads.no_best"), href: config + "?format=yaml", disabled: !has_best },
    ...[...(files ?? [])].sort((a, b) => rank(a.name) - rank(b.name)).slice(0, 12).map((file): Choice => ({
      key: file.name, text: file.name === "journal.vlj" ? t("downloads.journal") : file.name, note: size(file.bytes), href: file_href(experiment.name, undefined, file.name),
    })),
  ];
  if (!files && error) choices.push({ key: "why", text: t("downloads.journal"), note: error, disabled: true });
  return <Menu text={t("downloads")} icon="download" choices={choices} on_open={load} />;
}

export function TrialDownloads({ experiment, trial }: { experiment: Experiment; trial: Trial }) {
  const config = `${at(experiment.name)}/config?trial=${encodeURIComponent(trial.id)}`;
  return (
    <Menu text={t("downloads")} icon="download" choices={[
      { key: "json", text: t("trial.config"), note: "JSON", href: config + "&format=json" },
      { key: "yaml", text: t("trial.config"), note: "YAML", href: config + "&format=yaml" },
    ]} />
  );
}

// Exports trials to a file that the browser builds.
export const ExportMenu = ({ name, trials, small }: { name: string; trials: Trial[]; small?: boolean }) => (
  <Menu text={t("downloads")} icon="download" small={small} choices={[
    { key: "csv", text: t("downloads.trials"), note: "CSV", run: () => save_text(`${name}-trials.csv`, csv_of(trials)) },
    { key: "json", text: t("downloads.trials"), note: "JSON", run: () => save_text(`${name}-trials.json`, json_of(trials)) },
  ]} />
);
