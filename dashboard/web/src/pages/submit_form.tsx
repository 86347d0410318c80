// The form that submits a job or an array of jobs, predicts its start, and shows the same as YAML.
import { useEffect, useState } from "preact/hooks";
import { ApiError, call, may } from "../api";
import { t, word } from "../i18n";
import { use_answer } from "../live/poll";
import { go } from "../router";
import { use_act } from "../ui/confirm";
import { Amount, Area, Choice, Text } from "../ui/fields";
import { Code, Dialog, count, failure } from "../ui/parts";
import { array_of, field_of, job_yaml, kForm, kFurther, kStopSignals, spec_of, task_of, type Form } from "./job_form";
import { kModes, kPriorities, start_text, type Job } from "./job_rows";
import type { QueueReply } from "./queue_settings";

export function Submit({ on_done }: { on_done: () => void }) {
  const [open, set_open] = useState(false);
  if (!may("user")) return null;
  return (
    <>
      <button type="button" class="button primary" onClick={() => set_open(true)}>{t("job.submit")}</button>
      {open && <SubmitForm on_close={() => set_open(false)} on_done={on_done} />}
    </>
  );
}

// The head refuses a job that no node can ever hold. Null: another error.
const never = (error: unknown) => (error instanceof ApiError && error.code === "kInfeasible" ? t("job.start.never", { reason: error.detail.replace(/^the job can never start: /, "") }) : null);

const kPause = 400;  // In ms after the last keystroke.
interface Said { text: string; bad: boolean; at: keyof Form | null }
const kNothing: Said = { text: "", bad: false, at: null };
const said_of = (error: unknown): Said => {
  const reason = never(error);
  const text = reason ?? failure(error).what;
  return { text, bad: true, at: reason ? null : field_of(text) };
};

function SubmitForm({ on_close, on_done }: { on_close: () => void; on_done: () => void }) {
  const [form, set_form] = useState<Form>(kForm);
  const [said, set_said] = useState<Said>(kNothing);
  const [further, set_further] = useState(false);
  const [unique] = useState(() => Math.random().toString(16).slice(2, 10));
  const queue = use_answer<QueueReply>("/api/v1/job_queue").answer;
  const { busy, run } = use_act();
  const of = (key: keyof Form) => ({ value: form[key], error: said.at === key ? said.text : undefined, on_change: (value: string) => set_form((before) => ({ ...before, [key]: value })) });
  const many = array_of(form) !== 1;
  const text = JSON.stringify(form);
  const spec = many ? task_of(form, 0, unique) : spec_of(form);
  useEffect(() => {
    if (!form.command.trim()) return set_said(kNothing);
    let gone = false;
    const timer = setTimeout(() => {
      call<{ job: Job }>("POST", "/api/v1/jobs", { spec, dry_run: true }).then(
        ({ job }) => { if (!gone) set_said({ text: start_text(job.start), bad: Boolean(job.start?.never), at: null }); },
        (error: unknown) => { if (!gone) set_said(said_of(error)); });
    }, kPause);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [text]);
  useEffect(() => { if (said.at && kFurther.includes(said.at)) set_further(true); }, [said.at]);
  const submit = async (event: Event) => {
    event.preventDefault();
    await run(async () => {
      const size = Math.max(1, array_of(form));
      let last = "";
      for (let i = 0; i < size; i++) {
        try {
          last = (await call<{ job: Job }>("POST", "/api/v1/jobs", { spec: many ? task_of(form, i, unique) : spec })).job.id;
        } catch (error) {
          set_said(said_of(error));
          if (i === 0 || !(error instanceof ApiError)) throw error;
          throw new ApiError(error.status, error.code, t("job.array.cut", { done: count(i), size: count(size), what: failure(error).what }), error.next);
        }
      }
      on_close();
      on_done();
      if (!many) go(["jobs", last]);
      else go(["jobs"], { batch: String(spec.batch) });
      return many ? t("job.array.done", { n: size, shown: count(size) }) : t("job.submit.done", { id: last });
    });
  };
  const pools = [...new Set(["default", ...(queue?.pools.map((one) => one.pool.name) ?? [])])];
  const yaml = job_yaml(spec_of(form));
  return (
    <Dialog title={t("job.submit.title")} on_close={on_close} wide>
      <div class="form-beside">
        <form class="job-form" noValidate onSubmit={(event) => void submit(event as unknown as Event)}>
          <Area label={t("job.command.bash")} wide rows={3} focus {...of("command")} hint="python3 train.py --epochs 3" />
          <Text label={t("job.name.optional")} {...of("name")} />
          <Text label={t("job.project")} {...of("project")} hint="default" choices={queue?.projects.map((one) => one.project.name)} />
          <Choice label={t("job.pool")} {...of("pool")} options={pools.map((one) => [one, one])} />
          <Text label={t("job.environment")} {...of("environment")} hint="host" choices={["host", ...(queue?.settings.environments.map((one) => one.name) ?? []), "requirements.txt"]} />
          <Amount label={t("nav.nodes")} {...of("nodes")} least={1} />
          <Choice label={t("job.mode")} {...of("mode")} options={kModes.map((one) => [one, one])} />
          <Amount label={t("job.cpus")} {...of("cpus")} step="any" />
          <Amount label={t("job.gpus")} {...of("gpus")} step="any" />
          <Amount label={t("job.memory")} {...of("memory")} step="any" />
          <Amount label={t("job.minutes")} {...of("minutes")} step="any" />
          <Amount label={t("job.restarts.most")} {...of("restarts")} />
          <Choice label={t("group.priority")} {...of("priority")} options={kPriorities.map((one) => [one, word(one)])} />
          <Text label={t("job.directory")} wide {...of("directory")} hint={t("job.directory.hint")} />
          <details class="wide further" open={further} onToggle={(event) => set_further(event.currentTarget.open)}>
            <summary>{t("job.further")}</summary>
            <div class="job-form">
              <Area label={t("job.env.lines")} wide {...of("env")} hint={"NCCL_DEBUG=WARN\nSEED=7"} />
              <Area label={t("job.setup.line")} wide rows={1} {...of("setup")} hint="pip install -r requirements.txt" />
              <Area label={t("job.mounts.lines")} wide {...of("mounts")} hint="/data:/data:ro" />
              <label class="check wide"><input type="checkbox" checked={Boolean(form.isolated)} onChange={(event) => of("isolated").on_change(event.currentTarget.checked ? "1" : "")} />{t("job.isolated.what")}</label>
              <Text label={t("job.output.folder")} wide {...of("output")} hint="/data/results" />
              <Choice label={t("job.stop_signal")} {...of("stop_signal")} options={kStopSignals.map((one) => [one, "SIG" + one])} />
              <Text label={t("job.notify")} wide {...of("notify")} hint="mei@example.org, ops-feishu" />
              <Amount label={t("job.array")} {...of("array")} least={1} />
            </div>
          </details>
          <footer class="wide">
            <span class={`prediction${said.bad ? " tone-bad" : ""}`} role="status">{said.at ? "" : said.text}</span>
            <button type="button" class="button" onClick={on_close}>{t("cancel")}</button>
            <button type="submit" class="button primary" disabled={busy || !form.command.trim()}>{t("job.submit")}</button>
          </footer>
        </form>
        <section class="yaml" aria-label={t("job.yaml")}>
          <h3>{t("job.yaml")}</h3>
          <Code text={yaml} />
          <p class="quiet-line">{t("queue.terminal")}</p>
          <Code text={`volador job submit --file=job.yaml${many ? ` --array=${array_of(form)}` : ""}`} />
        </section>
      </div>
    </Dialog>
  );
}
