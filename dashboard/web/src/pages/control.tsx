// Controls of a running experiment or trial (a training run can only be stopped, as a whole): pause, resume, stop; add a configuration to the experiment beside those of its searcher, or
// clone a trial with changes.
import { useState } from "preact/hooks";
import { call, may } from "../api";
import { t } from "../i18n";
import { says } from "../i18n/reason";
import type { Config, Experiment, Trial } from "../live/protocol";
import { Confirm, use_act } from "../ui/confirm";
import { Code, Dialog } from "../ui/parts";
import { toast } from "../ui/toast";
import { is_training } from "./training_rows";
import { changed_parameters, has_ended, shown_name } from "./trials";

type Act = "stop" | "pause" | "resume";

const is_open = (experiment: Experiment) => experiment.state === "running" || experiment.state === "paused";
// Only these can be resumed by a user: a scheduler resumes the trials that it paused itself.
const paused_by_hand = (trial: Trial) => trial.status === "paused" && (says(trial.why, "trial.held") || says(trial.why, "trial.held_before"));

export function Control({ experiment, trial }: { experiment: Experiment; trial?: Trial }) {
  const [asking, set_asking] = useState(false);
  const { busy, run } = use_act();
  const training = is_training(experiment);
  if (!may("operator") || !is_open(experiment) || (training && trial)) return null;
  if (trial && has_ended(trial)) return <Add experiment={experiment} trial={trial} />;
  const name = trial ? trial.id : experiment.name;
  const control = async (act: Act) => {
    await run(async () => {
      await call("POST", `/api/v1/experiments/${encodeURIComponent(experiment.name)}:${act}`, trial ? { trial: trial.id } : {});
      return t(`control.${act}.done`, { name });
    });
    set_asking(false);
  };
  const paused = trial ? paused_by_hand(trial) : experiment.state === "paused";
  const turn: Act | null = paused ? "resume" : trial?.status === "paused" ? null : "pause";
  return (
    <>
      {turn && !training && <button type="button" class="button" disabled={busy} onClick={() => void control(turn)}>{t(`control.${turn}`)}</button>}
      <button type="button" class="button" disabled={busy} onClick={() => set_asking(true)}>{t("control.stop")}</button>
      {!training && <Add experiment={experiment} trial={trial} />}
      {asking && (
        <Confirm title={t("control.stop.title", { name })} explain={t(training ? "control.stop.train" : trial ? "control.stop.trial" : "control.stop.all")} command={`volador ${training ? "train" : "tune"} stop ${experiment.name}${trial ? " " + trial.id : ""}`}
          act={t("control.stop")} danger busy={busy} on_act={() => void control("stop")} on_close={() => set_asking(false)} />
      )}
    </>
  );
}

// Adds a configuration to the experiment; with `trial`, a clone of it with changed parameters.
function Add({ experiment, trial }: { experiment: Experiment; trial?: Trial }) {
  const [text, set_text] = useState<string | null>(null); // Text of the editor; null: closed.
  const { busy, run } = use_act();
  const close = () => set_text(null);
  const given = parsed(text);
  const changes = given && trial ? changed_parameters(trial.config ?? {}, given) : given;
  const key = trial ? "control.clone" : "control.add";
  const title = t(`${key}.title`, { name: trial ? shown_name(trial) : experiment.name });
  const shown = changes ? JSON.stringify(changes) : text;
  const add = async () => {
    if (!changes) return toast(t("control.add.no_json"), "bad");
    const well = await run(async () => {
      await call("POST", `/api/v1/experiments/${encodeURIComponent(experiment.name)}:add`, trial ? { config: changes, trial: trial.id } : { config: changes });
      return t("control.add.done", { name: experiment.name });
    });
    if (well) close();
  };
  return (
    <>
      <button type="button" class="button" onClick={() => set_text(JSON.stringify((trial ?? experiment.best)?.config ?? {}, null, 2))} title={t(key)}>{t(`${key}.short`)}</button>
      {text !== null && (
        <Dialog title={title} on_close={close}>
          <p>{t(`${key}.what`)}</p>
          <textarea class="text-input" rows={6} autofocus maxLength={65536} spellcheck={false} aria-label={title} value={text}
            onInput={(event) => set_text(event.currentTarget.value)} />
          <Code text={`volador tune add ${experiment.name} ${trial ? `--like=${trial.id} ` : ""}'${shown}'`} />
          <footer>
            <button type="button" class="button" onClick={close}>{t("cancel")}</button>
            <button type="button" class="button primary" disabled={busy} onClick={() => void add()}>{t(key)}</button>
          </footer>
        </Dialog>
      )}
    </>
  );
}

// Parses a JSON object; null: invalid.
function parsed(text: string | null): Config | null {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Config) : null;
  } catch {
    return null;
  }
}
