// Downloads of a trial's checkpoints and files.
import { useEffect } from "preact/hooks";
import { date_time } from "../format";
import { locale, t } from "../i18n";
import type { Experiment, RunFile, Trial } from "../live/protocol";
import { Icon } from "../ui/icons";
import { Card, count, size } from "../ui/parts";
import { file_href, use_files } from "./downloads";

// Reloads at each step and at the end, since either may add a checkpoint.
export function use_trial_files(experiment: Experiment, trial: Trial) {
  const { files, error, load } = use_files(experiment, trial.id);
  useEffect(() => {
    const timer = setTimeout(load, files || error ? 2000 : 0);
    return () => clearTimeout(timer);
  }, [trial.id, trial.step, trial.status]);
  return { files, error };
}

export function TrialFiles({ experiment, trial, files, error }: { experiment: Experiment; trial: Trial; files: RunFile[] | null; error: string }) {
  const checkpoints = (files ?? []).filter((file) => file.kind === "checkpoint").reverse();
  const rest = (files ?? []).filter((file) => file.kind !== "checkpoint");
  return (
    <>
      <Card title={t("checkpoints")}>
        {error && !files ? <p class="quiet-line">{error}</p> : !files ? <div class="bone" /> : !checkpoints.length ? <p class="quiet-line">{t("checkpoints.none")}</p> : (
          <ul class="files">
            {checkpoints.slice(0, 50).map((file) => <One key={file.name} file={file} text={t("checkpoints.step", { step: count(Number(file.name.replace(/\D/g, ""))) })} href={file_href(experiment.name, trial.id, file.name)} />)}
          </ul>
        )}
      </Card>
      {rest.length > 0 && (
        <Card title={t("trial.files")}>
          <ul class="files">{rest.slice(0, 50).map((file) => <One key={file.name} file={file} text={file.name} href={file_href(experiment.name, trial.id, file.name)} />)}</ul>
        </Card>
      )}
    </>
  );
}

const One = ({ file, text, href }: { file: RunFile; text: string; href: string }) => (
  <li>
    <a href={href} download title={date_time(file.modified_ms, locale())}><Icon name="download" /><span>{text}</span><small class="num">{size(file.bytes)}</small></a>
  </li>
);
