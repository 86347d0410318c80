// What can be asked of an experiment that has not ended, or of a trial of it: to pause, to go on, to stop; and of an experiment to try a
// configuration besides those of its searcher.
import { useState } from "preact/hooks";
import { call, may } from "../api";
import { t } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { toast } from "../ui/toast";
import { Code, Dialog, failure } from "../ui/parts";
import { has_ended } from "./trials";

type Act = "stop" | "pause" | "resume";

const is_open = (experiment: Experiment) => experiment.state === "running" || experiment.state === "paused";
// A scheduler pauses trials as well, and goes on with them by itself.
const paused_by_hand = (trial: Trial) => trial.status === "paused" && trial.reason?.startsWith("paused on request");

export function Control({ experiment, trial }: { experiment: Experiment; trial?: Trial }) {
  const [asking, set_asking] = useState(false);
  const [busy, set_busy] = useState(false);
  if (!may("operator") || !is_open(experiment) || (trial && has_ended(trial))) return null;
  const name = trial ? trial.id : experiment.name;
  const run = async (act: Act) => {
    set_busy(true);
    try {
      await call("POST", `/api/v1/experiments/${encodeURIComponent(experiment.name)}:${act}`, trial ? { trial: trial.id } : {});
      toast(t(`control.${act}.done`, { name }));
    } catch (error) {
      const { what, next } = failure(error);
      toast(`${what} ${next}`, "bad");
    }
    set_busy(false);
    set_asking(false);
  };
  const paused = trial ? paused_by_hand(trial) : experiment.state === "paused";
  const turn: Act | null = paused ? "resume" : trial?.status === "paused" ? null : "pause";
  return (
    <>
      {turn && <button type="button" class="button" disabled={busy} onClick={() => void run(turn)}>{t(`control.${turn}`)}</button>}
      <button type="button" class="button" disabled={busy} onClick={() => set_asking(true)}>{t("control.stop")}</button>
      {!trial && <Add experiment={experiment} />}
      {asking && (
        <Dialog title={t("control.stop.title", { name })} on_close={() => set_asking(false)}>
          <p>{t(trial ? "control.stop.trial" : "control.stop.all")}</p>
          <Code text={`volador tune stop ${experiment.name}${trial ? " " + trial.id : ""}`} />
          <footer>
            <button type="button" class="button" onClick={() => set_asking(false)}>{t("cancel")}</button>
            <button type="button" class="button primary danger" disabled={busy} onClick={() => void run("stop")}>{t("control.stop")}</button>
          </footer>
        </Dialog>
      )}
    </>
  );
}

function Add({ experiment }: { experiment: Experiment }) {
  const [text, set_text] = useState<string | null>(null); // Null: nobody adds anything.
  const [busy, set_busy] = useState(false);
  const close = () => set_text(null);
  const add = async () => {
    set_busy(true);
    try {
      await call("POST", `/api/v1/experiments/${encodeURIComponent(experiment.name)}:add`, { config: JSON.parse(text!) });
      toast(t("control.add.done", { name: experiment.name }));
      close();
    } catch (error) {
      const { what, next } = error instanceof SyntaxError ? { what: t("control.add.no_json"), next: "" } : failure(error);
      toast(`${what} ${next}`, "bad");
    }
    set_busy(false);
  };
  return (
    <>
      <button type="button" class="button" onClick={() => set_text(JSON.stringify(experiment.best?.config ?? {}, null, 2))} title={t("control.add")}>{t("control.add.short")}</button>
      {text !== null && (
        <Dialog title={t("control.add.title", { name: experiment.name })} on_close={close}>
          <p>{t("control.add.what")}</p>
          <textarea class="text-input" rows={6} autofocus maxLength={65536} spellcheck={false} aria-label={t("control.add.title", { name: experiment.name })} value={text}
            onInput={(event) => set_text(event.currentTarget.value)} />
          <Code text={`volador tune add ${experiment.name} '${text}'`} />
          <footer>
            <button type="button" class="button" onClick={close}>{t("cancel")}</button>
            <button type="button" class="button primary" disabled={busy} onClick={() => void add()}>{t("control.add")}</button>
          </footer>
        </Dialog>
      )}
    </>
  );
}
