// Actions on several selected experiments or trials.
import { useState } from "preact/hooks";
import { call, may } from "../api";
import { t } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { go } from "../router";
import { Dialog, count, failure } from "../ui/parts";
import { Confirm } from "../ui/confirm";
import { toast } from "../ui/toast";
import { kCompared } from "./beside";
import { ExportMenu } from "./downloads";
import { annotate } from "./notes";
import { has_ended } from "./trials";

const is_open = (experiment: Experiment) => experiment.state === "running" || experiment.state === "paused";
const kPinned = 20;  // Most trials that are distinct in one chart.
const kAtOnce = 8;  // Most requests in flight.

// Runs an action on each object, up to kAtOnce at a time; returns those that failed, with their errors.
export async function run_each<T>(things: T[], run: (thing: T) => Promise<unknown>): Promise<[T, unknown][]> {
  const failed: [T, unknown][] = [];
  const queue = [...things];
  await Promise.all(Array.from({ length: Math.min(kAtOnce, queue.length) }, async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      try { await run(next); } catch (error) { failed.push([next, error]); }
    }
  }));
  return failed;
}

// Runs an action on each object and shows the result.
export async function each<T>(things: T[], run: (thing: T) => Promise<unknown>, done: string): Promise<void> {
  const failed = await run_each(things, run);
  if (!failed.length) return toast(done);
  toast(t("many.failed", { failed: count(failed.length), n: count(things.length), what: failure(failed[0][1]).what }), "bad");
}

export function Bar({ n, on_clear, children }: { n: number; on_clear: () => void; children: preact.ComponentChildren }) {
  return (
    <div class="many" role="toolbar" aria-label={t("many.chosen", { n, shown: count(n) })}>
      <b class="num">{t("many.chosen", { n, shown: count(n) })}</b>
      {children}
      <button type="button" class="link" onClick={on_clear}>{t("many.clear")}</button>
    </div>
  );
}

export function ManyTrials({ experiment, trials, on_clear }: { experiment: Experiment; trials: Trial[]; on_clear: () => void }) {
  const [asking, set_asking] = useState(false);
  const [busy, set_busy] = useState(false);
  const open = trials.filter((one) => !has_ended(one));
  const run = async (act: "stop" | "pause" | "resume", which: Trial[]) => {
    set_busy(true);
    set_asking(false);
    await each(which, (one) => call("POST", `/api/v1/experiments/${encodeURIComponent(experiment.name)}:${act}`, { trial: one.id }), t(`many.${act}.done`, { n: which.length, shown: count(which.length) }));
    set_busy(false);
    on_clear();
  };
  const pausable = open.filter((one) => one.status !== "paused");
  const paused = open.filter((one) => one.status === "paused");
  const acts = may("operator") && is_open(experiment);
  const ids = trials.map((one) => one.id).join(",");
  return (
    <Bar n={trials.length} on_clear={on_clear}>
      <button type="button" class="button small" disabled={trials.length < 2 || trials.length > kCompared} title={t("compare_trials.limit", { n: kCompared })} onClick={() => go(["experiments", experiment.name, "compare"], { of: ids })}>{t("compare")}</button>
      <button type="button" class="button small" disabled={!trials.length || trials.length > kPinned} title={t("trials.highlight.limit", { n: kPinned })} onClick={() => go(["experiments", experiment.name], { pin: ids })}>{t("trials.highlight")}</button>
      <ExportMenu name={experiment.name} trials={trials} small />
      {acts && (
        <>
          <button type="button" class="button small" disabled={busy || !pausable.length} onClick={() => void run("pause", pausable)}>{t("control.pause")}</button>
          <button type="button" class="button small" disabled={busy || !paused.length} onClick={() => void run("resume", paused)}>{t("control.resume")}</button>
          <button type="button" class="button small" disabled={busy || !open.length} onClick={() => set_asking(true)}>{t("control.stop")}</button>
        </>
      )}
      {asking && (
        <Confirm title={t("many.stop.trials", { n: open.length, shown: count(open.length) })} explain={t("control.stop.trial")} act={t("control.stop")} danger on_act={() => void run("stop", open)} on_close={() => set_asking(false)} />
      )}
    </Bar>
  );
}

export function ManyExperiments({ chosen, on_clear }: { chosen: Experiment[]; on_clear: () => void }) {
  const [asking, set_asking] = useState<"stop" | "tag" | null>(null);
  const [busy, set_busy] = useState(false);
  const [tag, set_tag] = useState("");
  const open = chosen.filter(is_open);
  const work = async (which: Experiment[], act: (one: Experiment) => Promise<unknown>, done: string) => {
    set_busy(true);
    set_asking(null);
    await each(which, act, done);
    set_busy(false);
    on_clear();
  };
  const control = (act: "stop" | "pause" | "resume", which: Experiment[]) =>
    void work(which, (one) => call("POST", `/api/v1/experiments/${encodeURIComponent(one.name)}:${act}`, {}), t(`many.${act}.done`, { n: which.length, shown: count(which.length) }));
  const archive = (archived: boolean) => void work(chosen, (one) => annotate(one.name, { archived }), t(archived ? "many.archive.done" : "many.unarchive.done", { n: chosen.length, shown: count(chosen.length) }));
  const add = (event: Event) => {
    event.preventDefault();
    const tags = tag.split(/[\s,]+/).filter(Boolean);
    if (tags.length) void work(chosen, (one) => annotate(one.name, { add_tags: tags }), t("many.tag.done", { n: chosen.length, shown: count(chosen.length) }));
  };
  const running = open.filter((one) => one.state === "running");
  const paused = open.filter((one) => one.state === "paused");
  return (
    <Bar n={chosen.length} on_clear={on_clear}>
      <button type="button" class="button small" disabled={chosen.length < 2 || chosen.length > 6} title={t("compare.limit")} onClick={() => go(["compare"], { of: chosen.map((one) => one.name).join("\n") })}>{t("compare")}</button>
      {may("operator") && (
        <>
          <button type="button" class="button small" disabled={busy} onClick={() => set_asking("tag")}>{t("many.tag")}</button>
          {chosen.every((one) => one.archived)
            ? <button type="button" class="button small" disabled={busy} onClick={() => archive(false)}>{t("archive.undo")}</button>
            : <button type="button" class="button small" disabled={busy} onClick={() => archive(true)}>{t("archive")}</button>}
          <button type="button" class="button small" disabled={busy || !running.length} onClick={() => control("pause", running)}>{t("control.pause")}</button>
          <button type="button" class="button small" disabled={busy || !paused.length} onClick={() => control("resume", paused)}>{t("control.resume")}</button>
          <button type="button" class="button small" disabled={busy || !open.length} onClick={() => set_asking("stop")}>{t("control.stop")}</button>
        </>
      )}
      {asking === "stop" && (
        <Confirm title={t("many.stop.experiments", { n: open.length, shown: count(open.length) })} explain={t("control.stop.trial")} act={t("control.stop")} danger on_act={() => control("stop", open)} on_close={() => set_asking(null)} />
      )}
      {asking === "tag" && (
        <Dialog title={t("many.tag.title", { n: chosen.length, shown: count(chosen.length) })} on_close={() => set_asking(null)}>
          <form onSubmit={add}>
            <input class="text-input" autofocus value={tag} maxLength={64} placeholder={t("notes.add_tag")} aria-label={t("notes.add_tag")} spellcheck={false} onInput={(event) => set_tag(event.currentTarget.value)} />
            <footer>
              <button type="button" class="button" onClick={() => set_asking(null)}>{t("cancel")}</button>
              <button type="submit" class="button primary" disabled={!tag.trim()}>{t("many.tag")}</button>
            </footer>
          </form>
        </Dialog>
      )}
    </Bar>
  );
}
