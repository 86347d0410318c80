// The card of the trial template: the kind of the trial, its replicas, what they run, and its placeholders.
import { Area, Choice, Text } from "../ui/fields";
import { Card, Toggle } from "../ui/parts";
import { command_of, free_name, script_of, whole, word, type Path } from "./katib_document";
import type { Form } from "./katib_form";
import { e } from "./katib_template_texts";
import { amount_path, container_names, counts_of, differ, kTrialKinds, parts_of, with_count, with_equal_parts, with_kind, type Count, type TrialPart } from "./katib_trial_document";

const kTemplate: Path = ["spec", "trialTemplate"];
const kTrialParameters: Path = [...kTemplate, "trialParameters"];
const kTrialValues = ["Name", "Namespace", "Kind", "APIVersion"].map((name) => `\${trialSpec.${name}}`);
const kRuntimes = ["torch-distributed", "deepspeed-distributed", "mpi-distributed"];

export function template(form: Form) {
  const spec: Path = [...kTemplate, "trialSpec"];
  const kind = form.text.shown([...spec, "kind"]);
  const parts = parts_of(form.text);
  const apart = parts.length > 1 && (form.apart.on || differ(form.text, parts));
  const groups = !parts.length ? [] : apart ? parts.map((one) => [one]) : [parts];
  const counts = counts_of(form.text);
  const change_kind = (next: string) => {
    if (!next || next === kind) return;
    form.apart.set(false);
    form.set(with_kind(form.text, next));
  };
  const join = () => {
    form.apart.set(false);
    form.set(with_equal_parts(form.text, parts));
  };
  const whole_error = [kTemplate, spec, [...spec, "spec"]].map((one) => form.problems.at(one)).filter(Boolean).join("; ");
  return (
    <Card title={e("template")}>
      {whole_error && <small class="field-error" role="alert">{whole_error}</small>}
      <div class="job-form">
        {form.choice([...spec, "kind"], e("template.kind"), kTrialKinds, undefined, change_kind)}
        {primary(form)}
        {kind === "TrainJob" && form.field([...spec, "spec", "runtimeRef", "name"], e("runtime"), word, kRuntimes[0], false, kRuntimes)}
        {counts.map((one) => count(form, one))}
        {kind && !kTrialKinds.includes(kind) && <p class="quiet-line wide">{e("template.other")}</p>}
        {kind === "MPIJob" && <p class="quiet-line wide">{e("template.mpi")}</p>}
        {parts.length > 1 && <div class="wide"><Toggle label={e("alike")} on={!apart} on_change={(on) => (on ? join() : form.apart.set(true))} /></div>}
        {groups.map((one) => part(form, one, apart))}
      </div>
      {trial_parameters(form)}
      <details class="further katib-part">
        <summary>{e("further")}</summary>
        <div class="job-form">
          {form.field([...kTemplate, "successCondition"], e("success"), word)}
          {form.field([...kTemplate, "failureCondition"], e("failure"), word)}
          <div class="wide"><Toggle label={e("retain")} on={form.text.value([...kTemplate, "retain"]) === true} on_change={(on) => form.put([[...kTemplate, "retain"], on ? true : undefined])} /></div>
        </div>
      </details>
    </Card>
  );
}

function primary(form: Form) {
  const path: Path = [...kTemplate, "primaryContainerName"];
  const names = container_names(form.text);
  const now = form.text.shown(path);
  if (!names.length) return form.field(path, e("container"), word);
  return <Choice label={e("container")} value={now} error={form.problems.at(path)} options={[...new Set([now, ...names])].map((one) => [one, one || e("none")])} on_change={(next) => form.put([path, word(next)])} />;
}

function count(form: Form, one: Count) {
  const error = [form.problems.at(one.path), one.with && form.problems.at(one.with)].filter(Boolean).join("; ");
  return <Text key={one.label} label={e(one.label)} value={form.text.shown(one.path)} hint={one.usual} error={error || undefined} on_change={(next) => form.set(with_count(form.text, one, (one.is_text ? word : whole)(next)))} />;
}

// The command and the amounts of parts that have the same.
function part(form: Form, of: TrialPart[], apart: boolean) {
  const [first] = of;
  const errors_at = (path: Path) => [path, ...form.text.list(path).map((_, i): Path => [...path, i])].map((one) => form.problems.at(one));
  const errors = of.flatMap(({ at }) => [form.problems.at(at), ...errors_at([...at, "command"]), ...errors_at([...at, "args"])]).filter(Boolean).join("; ");
  const command = (script: string) => form.put(...of.flatMap(({ at }): [Path, unknown][] => [[[...at, "args"], undefined], [[...at, "command"], command_of(script)]]));
  const amount = (name: string, label: string, to: (text: string) => unknown, hint: string) => {
    const error = of.map(({ resources }) => form.problems.at(amount_path(form.text, resources, name))).filter(Boolean).join("; ");
    const change = (next: string) => form.put(...of.map(({ resources }): [Path, unknown] => [amount_path(form.text, resources, name), to(next)]));
    return <Text label={label} value={form.text.shown(amount_path(form.text, first.resources, name))} hint={hint} error={error || undefined} on_change={change} />;
  };
  return (
    <fieldset key={first.type} class={`wide katib-replica${apart ? " apart" : ""}`}>
      <legend class={apart ? undefined : "visually-hidden"}>{apart ? first.type : e("template")}</legend>
      <div class="job-form">
        <Area label={e("command")} wide rows={4} value={script_of((form.text.value(first.at) ?? {}) as Record<string, unknown>)} error={errors || undefined} hint="python3 train.py --lr=${trialParameters.lr}" on_change={command} />
        {amount("cpu", e("cpu"), word, "1")}
        {amount("nvidia.com/gpu", e("gpu"), whole, "0")}
        {amount("memory", e("memory"), word, "2Gi")}
      </div>
    </fieldset>
  );
}

function trial_parameters(form: Form) {
  const all = form.text.maps(kTrialParameters);
  const has_nas = form.text.value(["spec", "nasConfig"]) !== undefined;
  const names = has_nas ? form.nas?.values_of(form.text.shown(["spec", "algorithm", "algorithmName"])) ?? [] : form.text.maps(["spec", "parameters"]).map((one) => String(one.name ?? "")).filter(Boolean);
  const error = form.problems.at(kTrialParameters);
  const add = () => {
    const name = free_name(all.map((one) => one.name), "parameter");
    form.put([[...kTrialParameters, all.length], { name, reference: names[0] ?? "" }]);
  };
  return (
    <div class="katib-part">
      <header class="katib-rows"><h3>{e("placeholders")}</h3><button type="button" class="button small" onClick={add}>{e("add")}</button></header>
      <p class="quiet-line">{e("placeholders.about")}</p>
      {error && <small class="field-error" role="alert">{error}</small>}
      {all.map((one, i) => {
        const at: Path = [...kTrialParameters, i];
        const name = String(one.name ?? "");
        return (
          <fieldset key={i} class="katib-row placeholder">
            <legend class="visually-hidden">{name}</legend>
            {form.field([...at, "name"], e("placeholder.name"), word)}
            {has_nas ? <div>{form.field([...at, "reference"], e("reference.nas"), word, undefined, false, names)}</div> : form.choice([...at, "reference"], e("reference"), [...names, ...kTrialValues])}
            {form.field([...at, "description"], e("description"), word)}
            <code>{"${trialParameters." + name + "}"}</code>
            {form.remove(name, () => form.put([at, undefined]))}
          </fieldset>
        );
      })}
    </div>
  );
}
