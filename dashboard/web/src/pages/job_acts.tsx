// Requests that change jobs: stop, priority, maximum time, delete; of one job, of several, or of a batch.
import { useState } from "preact/hooks";
import { call, may } from "../api";
import { t, word } from "../i18n";
import { go } from "../router";
import { Confirm, use_act } from "../ui/confirm";
import { Amount } from "../ui/fields";
import { Select, count } from "../ui/parts";
import { is_open, job_name, kPriorities, type Job } from "./job_rows";
import { Bar, each } from "./many";

const at = (job: Job, act = "") => `/api/v1/jobs/${encodeURIComponent(job.id)}${act && ":" + act}`;

type Act = "stop" | "priority" | "extend" | "delete";

// `only`: a small button of this one act.
export function JobButtons({ job, on_done, only }: { job: Job; on_done: () => void; only?: Act }) {
  const [asking, set_asking] = useState<Act | "">("");
  const [now, set_now] = useState(false);
  const [priority, set_priority] = useState("normal");
  const [minutes, set_minutes] = useState("0");
  const { busy, run } = use_act();
  if (!may("user")) return null;
  const close = () => set_asking("");
  const name = job_name(job);
  const duration_s = Math.round(Number(minutes) * 60);
  const act = async (which: Act) => {
    const well = await run(async () => {
      if (which === "stop") await call("POST", at(job, "stop"), { now });
      if (which === "priority") await call("POST", at(job, "priority"), { priority });
      if (which === "extend") await call("POST", at(job, "extend"), { duration_s });
      if (which === "delete") await call("DELETE", at(job));
      return t(`job.${which}.done`, { name });
    });
    if (!well) return;
    close();
    if (which === "delete") go(["jobs"]);
    else on_done();
  };
  const open = (which: Act) => {
    set_now(false);
    set_priority(job.spec.priority || "normal");
    set_minutes(String(Math.round(job.spec.duration_s / 6) / 10));
    set_asking(which);
  };
  const acts: Act[] = only ? [only] : is_open(job) ? [...(job.position > 0 ? ["priority" as const] : []), "extend", "stop"] : ["delete"];
  const command = { stop: `volador job stop ${job.id}${now ? " --now" : ""}`, priority: `volador job priority ${job.id} ${priority}`, extend: `volador job extend ${job.id} ${duration_s > 0 ? `${duration_s}s` : "0"}`, delete: `volador job delete ${job.id}` };
  return (
    <>
      {acts.map((act) => (
        <button key={act} type="button" class={`button${act === "stop" || act === "delete" ? " danger" : ""}${only ? " small" : ""}`} aria-label={only && t(`job.${act}.title`, { name })} onClick={() => open(act)}>{t(`job.${act}`)}</button>
      ))}
      {asking && (
        <Confirm title={t(`job.${asking}.title`, { name })} explain={t(`job.${asking}.explain`)} command={command[asking]} act={t(`job.${asking}`)} danger={asking === "stop" || asking === "delete"} busy={busy}
          on_act={() => void act(asking)} on_close={close}>
          {asking === "stop" && <label class="check"><input type="checkbox" checked={now} onChange={(event) => set_now(event.currentTarget.checked)} />{t("job.stop.now")}</label>}
          {asking === "priority" && <Select label={t("group.priority")} value={priority} on_change={set_priority} options={kPriorities.map((one) => [one, word(one)])} />}
          {asking === "extend" && <Amount label={t("job.minutes")} value={minutes} on_change={set_minutes} step="any" />}
        </Confirm>
      )}
    </>
  );
}

const of_all = (jobs: Job[]) => ({ n: jobs.length, shown: count(jobs.length) });

// Stops the open ones of the jobs, or deletes the ended ones. `batch`: its name in the questions.
export function ManyButtons({ jobs, on_done, batch }: { jobs: Job[]; on_done: () => void; batch?: string }) {
  const [asking, set_asking] = useState<"stop" | "delete" | "">("");
  const [busy, set_busy] = useState(false);
  const which = { stop: jobs.filter(is_open), delete: jobs.filter((one) => !is_open(one)) };
  const run = async (act: "stop" | "delete") => {
    set_busy(true);
    set_asking("");
    await each(which[act], (one) => (act === "stop" ? call("POST", at(one, "stop"), {}) : call("DELETE", at(one))), t(`jobs.${act}.done`, of_all(which[act])));
    set_busy(false);
    on_done();
  };
  return (
    <>
      {(["stop", "delete"] as const).map((act) => (
        <button key={act} type="button" class="button small danger" disabled={busy || !which[act].length} onClick={() => set_asking(act)}>{t(`jobs.${act}`, of_all(which[act]))}</button>
      ))}
      {asking && (
        <Confirm title={batch ? t(`batch.${asking}.title`, { ...of_all(which[asking]), batch }) : t(`jobs.${asking}.title`, of_all(which[asking]))} explain={t(`jobs.${asking}.explain`)} act={t(`job.${asking}`)} danger busy={busy}
          on_act={() => void run(asking)} on_close={() => set_asking("")} />
      )}
    </>
  );
}

export const ManyJobs = ({ jobs, on_clear }: { jobs: Job[]; on_clear: () => void }) => <Bar n={jobs.length} on_clear={on_clear}><ManyButtons jobs={jobs} on_done={on_clear} /></Bar>;
