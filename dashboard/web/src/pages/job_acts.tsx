// Requests that change jobs: stop, priority, maximum time, delete, and the form that submits a job and predicts its start.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, call, may } from "../api";
import { t, word } from "../i18n";
import { go } from "../router";
import { Confirm, use_act } from "../ui/confirm";
import { Dialog, Select, failure } from "../ui/parts";
import { is_open, job_name, kModes, kPriorities, start_text, type Job } from "./job_rows";

const at = (job: Job, act = "") => `/api/v1/jobs/${encodeURIComponent(job.id)}${act && ":" + act}`;

const Field = ({ label, children, wide }: { label: string; children: ComponentChildren; wide?: boolean }) => <label class={`field${wide ? " wide" : ""}`}><span>{label}</span>{children}</label>;
const Text = ({ label, value, on_change, hint, wide }: { label: string; value: string; on_change: (value: string) => void; hint?: string; wide?: boolean }) => (
  <Field label={label} wide={wide}><input class="text-input" value={value} placeholder={hint} spellcheck={false} onInput={(event) => on_change(event.currentTarget.value)} /></Field>
);
const Amount = ({ label, value, on_change, least = 0, step = "1" }: { label: string; value: string; on_change: (value: string) => void; least?: number; step?: string }) => (
  <Field label={label}><input class="text-input" type="number" min={least} step={step} value={value} onInput={(event) => on_change(event.currentTarget.value)} /></Field>
);

type Act = "stop" | "priority" | "extend" | "delete";

export function JobButtons({ job, on_done }: { job: Job; on_done: () => void }) {
  const [asking, set_asking] = useState<Act | "">("");
  const [now, set_now] = useState(false);
  const [priority, set_priority] = useState("normal");
  const [minutes, set_minutes] = useState("0");
  const { busy, run } = use_act();
  if (!may("operator")) return null;
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
  const command = { stop: `volador job stop ${job.id}${now ? " --now" : ""}`, priority: `volador job priority ${job.id} ${priority}`, extend: `volador job extend ${job.id} ${duration_s > 0 ? `${duration_s}s` : "0"}`, delete: `volador job delete ${job.id}` };
  return (
    <>
      {job.position > 0 && <button type="button" class="button" onClick={() => open("priority")}>{t("job.priority")}</button>}
      {is_open(job) && <button type="button" class="button" onClick={() => open("extend")}>{t("job.extend")}</button>}
      {is_open(job) && <button type="button" class="button danger" onClick={() => open("stop")}>{t("job.stop")}</button>}
      {!is_open(job) && <button type="button" class="button danger" onClick={() => open("delete")}>{t("job.delete")}</button>}
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

const kForm = { command: "", name: "", nodes: "1", cpus: "1", gpus: "0", memory: "0", mode: "single", minutes: "0", restarts: "0", priority: "normal", directory: "" };
type Form = typeof kForm;

// Empty fields are left out, so that the head fills in the defaults.
function spec_of(form: Form) {
  const number = (text: string) => (Number.isFinite(Number(text)) ? Number(text) : 0);
  const texts = Object.fromEntries((["name", "directory"] as const).filter((key) => form[key].trim()).map((key) => [key, form[key].trim()]));
  return { ...texts, command: ["bash", "-c", form.command], nodes: Math.round(number(form.nodes)), cpus: number(form.cpus), gpus: number(form.gpus), memory_bytes: Math.round(number(form.memory) * 2 ** 30), mode: form.mode,
    duration_s: Math.round(number(form.minutes) * 60), max_restarts: Math.round(number(form.restarts)), priority: form.priority };
}

export function Submit({ on_done }: { on_done: () => void }) {
  const [open, set_open] = useState(false);
  if (!may("operator")) return null;
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

function SubmitForm({ on_close, on_done }: { on_close: () => void; on_done: () => void }) {
  const [form, set_form] = useState<Form>(kForm);
  const [said, set_said] = useState<{ text: string; bad: boolean }>({ text: "", bad: false });
  const { busy, run } = use_act();
  const set = (key: keyof Form) => (value: string) => set_form((before) => ({ ...before, [key]: value }));
  const text = JSON.stringify(form);
  useEffect(() => {
    if (!form.command.trim()) return set_said({ text: "", bad: false });
    let gone = false;
    const timer = setTimeout(() => {
      call<{ job: Job }>("POST", "/api/v1/jobs", { spec: spec_of(form), dry_run: true }).then(
        ({ job }) => { if (!gone) set_said({ text: start_text(job.start), bad: Boolean(job.start?.never) }); },
        (error: unknown) => { if (!gone) set_said({ text: never(error) ?? failure(error).what, bad: true }); });
    }, kPause);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [text]);
  const submit = async (event: Event) => {
    event.preventDefault();
    await run(async () => {
      const { job } = await call<{ job: Job }>("POST", "/api/v1/jobs", { spec: spec_of(form) });
      on_close();
      on_done();
      go(["jobs", job.id]);
      return t("job.submit.done", { id: job.id });
    });
  };
  return (
    <Dialog title={t("job.submit.title")} on_close={on_close}>
      <form class="job-form" onSubmit={(event) => void submit(event as unknown as Event)}>
        <Field label={t("job.command.bash")} wide><textarea class="text-input mono" rows={3} autofocus spellcheck={false} value={form.command} placeholder="python3 train.py --epochs 3" onInput={(event) => set("command")(event.currentTarget.value)} /></Field>
        <Text label={t("job.name.optional")} value={form.name} on_change={set("name")} />
        <Text label={t("job.directory")} value={form.directory} on_change={set("directory")} hint={t("job.directory.hint")} />
        <Amount label={t("nav.nodes")} value={form.nodes} on_change={set("nodes")} least={1} />
        <Select label={t("job.mode")} value={form.mode} on_change={set("mode")} options={kModes.map((one) => [one, one])} />
        <Amount label={t("job.cpus")} value={form.cpus} on_change={set("cpus")} step="any" />
        <Amount label={t("job.gpus")} value={form.gpus} on_change={set("gpus")} step="any" />
        <Amount label={t("job.memory")} value={form.memory} on_change={set("memory")} step="any" />
        <Amount label={t("job.minutes")} value={form.minutes} on_change={set("minutes")} step="any" />
        <Amount label={t("job.restarts.most")} value={form.restarts} on_change={set("restarts")} />
        <Select label={t("group.priority")} value={form.priority} on_change={set("priority")} options={kPriorities.map((one) => [one, word(one)])} />
        <footer class="wide">
          <span class={`prediction${said.bad ? " tone-bad" : ""}`} role="status">{said.text}</span>
          <button type="button" class="button" onClick={on_close}>{t("cancel")}</button>
          <button type="submit" class="button primary" disabled={busy || !form.command.trim()}>{t("job.submit")}</button>
        </footer>
      </form>
    </Dialog>
  );
}
