// The form that submits a job, an array of jobs or alternatives, predicts its start, and shows the same as YAML.
import { useEffect, useState } from "preact/hooks";
import { ApiError, call } from "../api";
import { t, word } from "../i18n";
import { use_answer } from "../live/poll";
import { go } from "../router";
import { use_act } from "../ui/confirm";
import { Amount, Area, Choice, Text } from "../ui/fields";
import { Code, Dialog, count, failure } from "../ui/parts";
import { field_of, job_yaml, jobs_of, kAccess, kForm, kFurther, kStopSignals, lines_of, spec_of, wrong_of, type Form, type Jobs } from "./job_form";
import { kModes, kPriorities, start_text, type Job } from "./job_rows";
import type { QueueReply } from "./queue_settings";

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

// The prediction for the first of the jobs. The head is asked about each alternative too: one that it refuses throws, with its text.
class Refused extends Error {
  constructor(readonly said: Said, readonly cause: unknown) { super(said.text); }
}
async function predicted(jobs: Jobs): Promise<Said> {
  let first: Job | null = null;
  for (let i = 0; i < (jobs.kind === "alternatives" ? jobs.size : 1); i++) {
    try {
      const { job } = await call<{ job: Job }>("POST", "/api/v1/jobs", { spec: jobs.spec(i), dry_run: true });
      first ??= job;
    } catch (error) {
      const said = said_of(error);
      throw new Refused(i ? { ...said, text: `${jobs.line(i)}: ${said.text}`, at: "alternatives" } : said, error);
    }
  }
  return { text: start_text(first!.start), bad: Boolean(first!.start?.never), at: null };
}

export function SubmitForm({ on_close, on_done }: { on_close: () => void; on_done: () => void }) {
  const [form, set_form] = useState<Form>(kForm);
  const [said, set_said] = useState<Said>(kNothing);
  const [further, set_further] = useState(false);
  const [unique] = useState(() => Math.random().toString(16).slice(2, 10));
  const queue = use_answer<QueueReply>("/api/v1/job_queue").answer;
  const { busy, run } = use_act();
  const of = (key: keyof Form) => ({ value: form[key], error: said.at === key ? said.text : undefined, on_change: (value: string) => set_form((before) => ({ ...before, [key]: value })) });
  const text = JSON.stringify(form);
  const jobs = jobs_of(form, unique);
  const refused_here = (): boolean => {
    const wrong = wrong_of(form);
    if (wrong) set_said({ text: t(wrong.key, { what: wrong.what }), bad: true, at: wrong.at });
    return wrong !== null;
  };
  useEffect(() => {
    if (!form.command.trim()) return set_said(kNothing);
    let gone = false;
    const timer = setTimeout(() => {
      if (refused_here()) return;
      predicted(jobs).then(
        (said) => { if (!gone) set_said(said); },
        (error: unknown) => { if (!gone) set_said(error instanceof Refused ? error.said : said_of(error)); });
    }, kPause);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [text]);
  useEffect(() => { if (said.at && kFurther.includes(said.at)) set_further(true); }, [said.at]);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (refused_here()) return;
    await run(async () => {
      const { kind, size } = jobs;
      const ids: string[] = [];
      try {
        if (kind === "alternatives") await predicted(jobs);  // They are submitted as a whole or not at all.
        while (ids.length < size) ids.push((await call<{ job: Job }>("POST", "/api/v1/jobs", { spec: jobs.spec(ids.length) })).job.id);
      } catch (problem) {
        set_said(problem instanceof Refused ? problem.said : said_of(problem));
        const error = problem instanceof Refused ? problem.cause : problem;
        if (ids.length === 0 || !(error instanceof ApiError)) throw error;
        throw new ApiError(error.status, error.code, t("job.array.cut", { done: count(ids.length), size: count(size), what: failure(error).what }), error.next);
      }
      on_close();
      on_done();
      if (kind === "array") go(["jobs"], { batch: String(jobs.spec(0).batch) });
      else go(["jobs", ids[0]]);
      if (kind === "one") return t("job.submit.done", { id: ids[0] });
      return t(kind === "array" ? "job.array.done" : "job.alternatives.done", { n: size, shown: count(size) });
    });
  };
  const pools = [...new Set(["default", ...(queue?.pools.map((one) => one.pool.name) ?? [])])];
  const yaml = job_yaml(spec_of(form), lines_of(form.alternatives));
  const check = (key: "isolated" | "grow" | "share_nodes", label: string) => <label class="check wide"><input type="checkbox" checked={Boolean(form[key])} onChange={(event) => of(key).on_change(event.currentTarget.checked ? "1" : "")} />{label}</label>;
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
              <h3 class="wide">{t("job.more.around")}</h3>
              <Area label={t("job.env.lines")} wide {...of("env")} hint={"NCCL_DEBUG=WARN\nSEED=7"} />
              <Area label={t("job.setup.line")} wide rows={1} {...of("setup")} hint="pip install -r requirements.txt" />
              <Area label={t("job.teardown.line")} wide rows={1} {...of("teardown")} hint="rm -rf /tmp/cache" />
              <Area label={t("job.mounts.lines")} wide {...of("mounts")} hint="/data:/data:ro" />
              {check("isolated", t("job.isolated.what"))}
              <Amount label={t("job.shm")} {...of("shm")} step="any" />
              <Text label={t("job.output.folder")} {...of("output")} hint="/data/results" />
              <h3 class="wide">{t("job.more.where")}</h3>
              <Amount label={t("job.min_nodes")} {...of("min_nodes")} />
              <Text label={t("job.resources")} {...of("resources")} hint="licence=2" />
              {check("grow", t("job.grow"))}
              {check("share_nodes", t("job.share_nodes.what"))}
              {form.mode === "tensorflow" && <Amount label={t("job.parameter_servers")} wide {...of("parameter_servers")} />}
              <Text label={t("job.labels")} {...of("labels")} hint="zone=a, disk=ssd" />
              <Text label={t("job.only_nodes")} {...of("node_names")} hint="heron, osprey" />
              <h3 class="wide">{t("job.more.ends")}</h3>
              <Choice label={t("job.stop_signal")} {...of("stop_signal")} options={kStopSignals.map((one) => [one, "SIG" + one])} />
              <Amount label={t("job.graceful")} {...of("graceful")} least={1} />
              <Amount label={t("job.max_resumes")} {...of("max_resumes")} />
              <Amount label={t("job.debug")} {...of("debug")} step="any" />
              <Area label={t("job.log_policies")} wide {...of("log_policies")} hint={"notify: loss is nan\nexclude_node: uncorrectable ECC"} />
              <h3 class="wide">{t("job.more.people")}</h3>
              <Choice label={t("job.access")} wide {...of("access")} options={kAccess.map((one) => [one, t(`job.access.${one}` as "job.access.none")])} />
              <Text label={t("job.notify")} wide {...of("notify")} hint="mei@example.org, ops-feishu" />
              <Area label={t("col.note")} wide rows={1} {...of("note")} />
              <h3 class="wide">{t("job.more.several")}</h3>
              <Amount label={t("job.array")} {...of("array")} least={1} />
              <Area label={t("job.alternatives.lines")} wide {...of("alternatives")} hint="gpus=2,pool=old" />
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
          <Code text={`volador job submit --file=job.yaml${jobs.kind === "array" ? ` --array=${jobs.size}` : ""}`} />
        </section>
      </div>
    </Dialog>
  );
}
