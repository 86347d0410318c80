// The form of a resource of kind Experiment: its fields are those of the text beside it. Loaded when it is opened.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api";
import { Area, Choice, Text } from "../ui/fields";
import { Icon } from "../ui/icons";
import { Card, Toggle, failure } from "../ui/parts";
import { toast } from "../ui/toast";
import type { Finding } from "./config_findings";
import { LaterText } from "./config_parts";
import { command_of, containers_of, free_name, kSpaceOf, kTrialKinds, number, range_of, renamed_parameter, ResourceText, script_of, text_of_path, trial_of_kind, whole, with_parameter, with_setting, without_parameter, word, words, workers_of, type Algorithm, type Path, type Setting } from "./katib_document";
import { f } from "./katib_form_texts";

const kDistributions = ["uniform", "logUniform", "normal", "logNormal"];
const kResume = ["Never", "LongRunning", "FromVolume"];
const kCollectors = ["StdOut", "File", "TensorFlowEvent", "PrometheusMetric", "Custom", "Push", "None"] as const;
const kStrategies = ["min", "max", "latest"] as const;
const kObjective: Path = ["spec", "objective"];
const kCollector: Path = ["spec", "metricsCollectorSpec"];
const kTemplate: Path = ["spec", "trialTemplate"];
const kTrialParameters: Path = [...kTemplate, "trialParameters"];

// The algorithms of the head, also registered services.
function use_algorithms(): Algorithm[] {
  const [all, set_all] = useState<Algorithm[]>([]);
  useEffect(() => void call<{ algorithms: Algorithm[] }>("GET", "/api/v1/katib/algorithms").then((reply) => set_all(reply.algorithms), (error: unknown) => toast(failure(error).what, "bad")), []);
  return all;
}

// What the head says of the fields. A path that was asked for counts as shown.
class Problems {
  private readonly shown = new Set<string>();
  constructor(private readonly findings: Finding[]) {}
  at(path: Path): string | undefined {
    const text = text_of_path(path);
    this.shown.add(text);
    return this.findings.filter((one) => one.path === text).map((one) => one.said).join("; ") || undefined;
  }
  get others(): Finding[] {
    return this.findings.filter((one) => !this.shown.has(one.path));
  }
}

export function KatibForm({ text, set, findings, namespace }: { text: string; set: (text: string) => void; findings: Finding[]; namespace: string }) {
  const algorithms = use_algorithms();
  const now = new ResourceText(text);
  const usable = useRef(now);  // Shown, but not changed, while the text has another structure.
  if (now.usable) usable.current = now;
  const form = new Form(usable.current, (next) => { if (next !== null) set(next); }, new Problems(findings), algorithms);
  const cards = form.cards(namespace);
  const others = form.problems.others;
  return (
    <>
      {!now.usable && <p class="reason">{f("away")}</p>}
      <fieldset class="config-form" disabled={!now.usable}>
        {others.length > 0 && (
          <ul class="warnings findings" aria-label={f("others")}>{others.map((one, i) => <li key={i} class={one.bad ? "tone-bad" : ""}><div><Icon name={one.bad ? "bad" : "warning"} /><span>{one.message}</span></div></li>)}</ul>
        )}
        {cards}
      </fieldset>
    </>
  );
}

// Renders the cards as one function, so that it is known which findings have a field.
class Form {
  constructor(readonly text: ResourceText, readonly set: (next: string | null) => void, readonly problems: Problems, readonly algorithms: Algorithm[]) {}

  cards(namespace: string): ComponentChildren {
    return (
      <>
        <Card title={f("metadata")}>
          <div class="job-form">
            {this.field(["metadata", "name"], f("name"), word)}
            {this.field(["metadata", "namespace"], f("namespace"), word, namespace.trim() || "default")}
          </div>
        </Card>
        {this.objective()}
        <Card title={f("budget")}>
          <div class="job-form">
            {this.field(["spec", "parallelTrialCount"], f("parallel"), whole, "3")}
            {this.field(["spec", "maxTrialCount"], f("most"), whole)}
            {this.field(["spec", "maxFailedTrialCount"], f("failed"), whole)}
            {this.choice(["spec", "resumePolicy"], f("resume"), kResume)}
          </div>
        </Card>
        {this.parameters()}
        {this.algorithm(["spec", "algorithm"], f("algorithm"), false)}
        {this.algorithm(["spec", "earlyStopping"], f("early"), true)}
        {this.template()}
        {this.collector()}
      </>
    );
  }

  // ---- Fields ----

  private put(...changes: [Path, unknown][]): void {
    this.set(this.text.with(...changes));
  }

  private field(path: Path, label: string, to: (text: string) => unknown, hint?: string, wide?: boolean) {
    return <Text label={label} value={this.text.shown(path)} hint={hint} wide={wide} error={this.problems.at(path)} on_change={(next) => this.put([path, to(next)])} />;
  }

  // Texts joined by commas. They are taken when the field loses the focus.
  private texts(path: Path, label: string, wide?: boolean) {
    const list = this.text.list(path);
    const errors = [this.problems.at(path), ...list.map((_, i) => this.problems.at([...path, i]))].filter(Boolean).join("; ");
    return <LaterText label={label} value={list.map(String).join(", ")} wide={wide} error={errors || undefined} on_change={(next) => this.put([path, words(next)])} />;
  }

  private choice(path: Path, label: string, values: readonly string[], names: (value: string) => string = (value) => value, change = (next: string) => this.put([path, word(next)])) {
    const now = this.text.shown(path);
    const all = [...new Set(["", ...values, now])];
    return <Choice label={label} value={now} error={this.problems.at(path)} options={all.map((one) => [one, one ? names(one) : f("unset")])} on_change={change} />;
  }

  private remove(name: string, act: () => void) {
    const label = f("remove", { name });
    return <button type="button" class="icon-button" aria-label={label} title={label} onClick={act}><Icon name="close" /></button>;
  }

  // ---- Cards ----

  private objective() {
    const metric = this.text.shown([...kObjective, "objectiveMetricName"]);
    const metrics = [metric, ...this.text.list([...kObjective, "additionalMetricNames"]).map(String)].filter(Boolean);
    return (
      <Card title={f("objective")}>
        <div class="job-form">
          {this.choice([...kObjective, "type"], f("type"), ["minimize", "maximize"], (value) => (value === "minimize" || value === "maximize" ? f(value) : value))}
          {this.field([...kObjective, "objectiveMetricName"], f("metric"), word, "loss")}
          {this.field([...kObjective, "goal"], f("goal"), number)}
          {this.texts([...kObjective, "additionalMetricNames"], f("additional"))}
          {metrics.map((name) => this.strategy(name))}
        </div>
      </Card>
    );
  }

  // Which of a metric's values counts.
  private strategy(metric: string) {
    const path: Path = [...kObjective, "metricStrategies"];
    const all = this.text.maps(path);
    const index = all.findIndex((one) => one.name === metric);
    const now = index < 0 ? "" : String(all[index].value ?? "");
    const error = index < 0 ? undefined : this.problems.at([...path, index, "value"]) ?? this.problems.at([...path, index, "name"]);
    const change = (next: string) => this.put(next === "" ? [[...path, index], undefined] : index < 0 ? [[...path, all.length], { name: metric, value: next }] : [[...path, index, "value"], next]);
    return <Choice key={metric} label={f("strategy", { metric })} value={now} error={error} options={[["", f("unset")], ...kStrategies.map((one): [string, string] => [one, f(`strategy.${one}`)])]} on_change={change} />;
  }

  private algorithm(path: Path, title: string, early: boolean) {
    const known = this.algorithms.filter((one) => one.early_stopping === early);
    const now = this.text.shown([...path, "algorithmName"]);
    const found = known.find((one) => one.name === now);
    const settings: Path = [...path, "algorithmSettings"];
    const given = this.text.maps(settings);
    const own = found?.settings ?? [];
    const more = given.map((one, i) => ({ name: String(one.name ?? ""), i })).filter((one) => !own.some((setting) => setting.name === one.name));
    const names = [...new Set([...known.map((one) => one.name), now])].filter(Boolean);
    const name_of = (name: string) => (known.find((one) => one.name === name)?.external ? f("external", { name }) : name);
    // Settings of another algorithm would be refused.
    const change = (next: string) => this.put([settings, undefined], next === "" ? [path, undefined] : [[...path, "algorithmName"], next]);
    const errors = [this.problems.at(path), this.problems.at([...path, "algorithmName"])].filter(Boolean).join("; ");
    const free = !found || found.external;
    return (
      <Card title={title}>
        <div class="job-form">
          <Choice label={title} value={now} error={errors || undefined} options={[...(early || !now ? [["", f("none")] as [string, string]] : []), ...names.map((one): [string, string] => [one, name_of(one)])]} on_change={change} />
          {own.map((setting) => this.setting(settings, setting, given))}
        </div>
        {now && found && !own.length && !more.length && <p class="quiet-line katib-part">{f(found.external ? "settings.external" : "settings.none")}</p>}
        {more.map(({ name, i }) => (
          <fieldset key={i} class="katib-row">
            <legend class="visually-hidden">{name}</legend>
            {this.field([...settings, i, "name"], f("setting.name"), (text) => text)}
            {this.field([...settings, i, "value"], f("setting.value"), (text) => text)}
            {this.remove(name, () => this.put([[...settings, i], undefined]))}
          </fieldset>
        ))}
        {now && free && <button type="button" class="button small katib-part" onClick={() => this.put([[...settings, given.length], { name: free_name(given.map((one) => one.name), "setting"), value: "1" }])}>{f("add")}</button>}
      </Card>
    );
  }

  private setting(path: Path, setting: Setting, given: Record<string, unknown>[]) {
    const index = given.findIndex((one) => one.name === setting.name);
    const now = index < 0 ? "" : this.text.shown([...path, index, "value"]);
    const error = index < 0 ? undefined : this.problems.at([...path, index]) ?? this.problems.at([...path, index, "value"]);
    const change = (next: string) => this.set(with_setting(this.text, path, setting.name, next));
    return setting.words.length
      ? <Choice key={setting.name} label={setting.name} value={now} error={error} options={[...new Set(["", ...setting.words, now])].map((one) => [one, one || f("unset")])} on_change={change} />
      : <Text key={setting.name} label={setting.name} value={now} error={error} hint={range_of(setting)} on_change={change} />;
  }

  private parameters() {
    const path: Path = ["spec", "parameters"];
    const all = this.text.maps(path);
    const error = this.problems.at(path);
    return (
      <Card title={f("parameters")} action={<button type="button" class="button small" onClick={() => this.set(with_parameter(this.text))}>{f("add")}</button>}>
        {error && <small class="field-error" role="alert">{error}</small>}
        {!all.length && !error && <p class="quiet-line">{f("parameter.none")}</p>}
        {all.map((one, i) => {
          const at: Path = [...path, i];
          const space: Path = [...at, "feasibleSpace"];
          const name = String(one.name ?? "");
          const type = String(one.parameterType ?? "");
          const is_range = type === "double" || type === "int";
          const change = (next: string) => this.put([[...at, "parameterType"], word(next)], ...(is_range && (next === "double" || next === "int") ? [] : [[space, kSpaceOf[next]] as [Path, unknown]]));
          const whole_error = [this.problems.at(at), this.problems.at(space)].filter(Boolean).join("; ");
          return (
            <fieldset key={i} class="katib-row">
              <legend class="visually-hidden">{name}</legend>
              <LaterText label={f("name")} value={name} error={this.problems.at([...at, "name"]) ?? (whole_error || undefined)} on_change={(next) => { if (next.trim()) this.set(renamed_parameter(this.text, i, next.trim())); }} />
              {this.choice([...at, "parameterType"], f("parameter.type"), Object.keys(kSpaceOf), undefined, change)}
              {is_range ? (
                <>
                  {this.field([...space, "min"], f("min"), word)}
                  {this.field([...space, "max"], f("max"), word)}
                  {this.field([...space, "step"], f("step"), word)}
                  {this.choice([...space, "distribution"], f("distribution"), kDistributions)}
                </>
              ) : this.texts([...space, "list"], f("list"), true)}
              {this.remove(name, () => this.set(without_parameter(this.text, i)))}
            </fieldset>
          );
        })}
      </Card>
    );
  }

  private template() {
    const kind: Path = [...kTemplate, "trialSpec", "kind"];
    const containers = containers_of(this.text);
    const first = (containers.length ? this.text.value(containers[0]) : {}) as Record<string, unknown>;
    const to_all = (...keys: Path) => (value: unknown) => this.put(...containers.map((one): [Path, unknown] => [[...one, ...keys], value]));
    const limit = (key: string) => this.text.shown([...containers[0], "resources", "limits", key]);
    const workers = workers_of(this.text);
    const change_kind = (next: string) => {
      const made = trial_of_kind(next, first);
      this.put([[...kTemplate, "primaryContainerName"], made.primary], [[...kTemplate, "trialSpec"], made.spec]);
    };
    const command = (script: string) => this.put(...containers.flatMap((one): [Path, unknown][] => [[[...one, "args"], undefined], [[...one, "command"], command_of(script)]]));
    const errors = containers.flatMap((one) => [this.problems.at(one), this.problems.at([...one, "command"]), this.problems.at([...one, "args"])]).filter(Boolean).join("; ");
    const whole_error = [this.problems.at(kTemplate), this.problems.at([...kTemplate, "trialSpec"])].filter(Boolean).join("; ");
    return (
      <Card title={f("template")}>
        {whole_error && <small class="field-error" role="alert">{whole_error}</small>}
        <div class="job-form">
          {this.choice(kind, f("template.kind"), kTrialKinds, undefined, (next) => { if (next) change_kind(next); })}
          {workers ? this.field(workers, f("workers"), whole) : this.field([...kTemplate, "primaryContainerName"], f("container"), word)}
          {containers.length === 0 ? <p class="quiet-line wide">{f("template.other")}</p> : (
            <>
              <Area label={f("command")} wide rows={4} value={script_of(first)} error={errors || undefined} hint="python3 train.py --lr=${trialParameters.lr}" on_change={command} />
              <Text label={f("cpu")} value={limit("cpu")} hint="1" error={this.problems.at([...containers[0], "resources", "limits", "cpu"])} on_change={(next) => to_all("resources", "limits", "cpu")(word(next))} />
              <Text label={f("gpu")} value={limit("nvidia.com/gpu")} hint="0" error={this.problems.at([...containers[0], "resources", "limits", "nvidia.com/gpu"])} on_change={(next) => to_all("resources", "limits", "nvidia.com/gpu")(whole(next))} />
              <Text label={f("memory")} value={limit("memory")} hint="2Gi" error={this.problems.at([...containers[0], "resources", "limits", "memory"])} on_change={(next) => to_all("resources", "limits", "memory")(word(next))} />
            </>
          )}
        </div>
        {this.trial_parameters()}
        <details class="further katib-part">
          <summary>{f("further")}</summary>
          <div class="job-form">
            {workers && this.field([...kTemplate, "primaryContainerName"], f("container"), word)}
            {this.field([...kTemplate, "successCondition"], f("success"), word)}
            {this.field([...kTemplate, "failureCondition"], f("failure"), word)}
            <div class="wide"><Toggle label={f("retain")} on={this.text.value([...kTemplate, "retain"]) === true} on_change={(on) => this.put([[...kTemplate, "retain"], on ? true : undefined])} /></div>
          </div>
        </details>
      </Card>
    );
  }

  private trial_parameters() {
    const all = this.text.maps(kTrialParameters);
    const names = this.text.maps(["spec", "parameters"]).map((one) => String(one.name ?? "")).filter(Boolean);
    const error = this.problems.at(kTrialParameters);
    const add = () => {
      const name = free_name(all.map((one) => one.name), "parameter");
      this.put([[...kTrialParameters, all.length], { name, reference: names[0] ?? "" }]);
    };
    return (
      <div class="katib-part">
        <header class="katib-rows"><h3>{f("placeholders")}</h3><button type="button" class="button small" onClick={add}>{f("add")}</button></header>
        <p class="quiet-line">{f("placeholders.about")}</p>
        {error && <small class="field-error" role="alert">{error}</small>}
        {all.map((one, i) => {
          const at: Path = [...kTrialParameters, i];
          const name = String(one.name ?? "");
          return (
            <fieldset key={i} class="katib-row placeholder">
              <legend class="visually-hidden">{name}</legend>
              {this.field([...at, "name"], f("placeholder.name"), word)}
              {this.choice([...at, "reference"], f("reference"), names)}
              {this.field([...at, "description"], f("description"), word)}
              <code>{"${trialParameters." + name + "}"}</code>
              {this.remove(name, () => this.put([at, undefined]))}
            </fieldset>
          );
        })}
      </div>
    );
  }

  private collector() {
    const kind: Path = [...kCollector, "collector", "kind"];
    const now = this.text.shown(kind) || "StdOut";
    const place: Path = [...kCollector, "source", "fileSystemPath"];
    const http: Path = [...kCollector, "source", "httpGet"];
    const formats: Path = [...kCollector, "source", "filter", "metricsFormat"];
    const custom: Path = [...kCollector, "collector", "customCollector"];
    const first: Record<string, unknown> = {
      File: { fileSystemPath: { path: "/tmp/metrics.log", kind: "File", format: "TEXT" } },
      TensorFlowEvent: { fileSystemPath: { path: "/tmp/tensorboard", kind: "Directory" } },
      PrometheusMetric: { httpGet: { port: 8080, path: "/metrics" } },
    };
    const change = (next: string) => this.put([kCollector, next === "StdOut" || next === "" ? undefined : { ...(first[next] ? { source: first[next] } : {}), collector: { kind: next, ...(next === "Custom" ? { customCollector: { name: "collector", command: ["bash", "-c", "echo loss=1"] } } : {}) } }]);
    const lines = this.text.list(formats).map(String);
    const reads_lines = now === "StdOut" || now === "Custom" || (now === "File" && this.text.shown([...place, "format"]) !== "JSON");
    const errors = [this.problems.at(formats), this.problems.at(formats.slice(0, -1)), ...lines.map((_, i) => this.problems.at([...formats, i]))].filter(Boolean).join("; ");
    const whole_errors = [this.problems.at(kind), this.problems.at(place), this.problems.at(http), this.problems.at(custom)].filter(Boolean).join("; ");
    return (
      <Card title={f("collector")}>
        <div class="job-form">
          <Choice label={f("collector.kind")} value={now} error={whole_errors || undefined} options={[...new Set([...kCollectors, now])].map((one) => [one, kCollectors.includes(one as "File") ? f(`collector.${one as "File"}`) : one])} on_change={change} />
          {(now === "File" || now === "TensorFlowEvent") && this.field([...place, "path"], f("path"), word)}
          {now === "File" && this.choice([...place, "format"], f("format"), ["TEXT", "JSON"])}
          {now === "PrometheusMetric" && <>{this.field([...http, "port"], f("port"), whole, "8080")}{this.field([...http, "path"], f("path"), word, "/metrics")}</>}
          {now === "Custom" && <Area label={f("command")} wide value={script_of((this.text.value(custom) ?? {}) as Record<string, unknown>)} error={this.problems.at([...custom, "command"])} on_change={(next) => this.put([[...custom, "args"], undefined], [[...custom, "command"], command_of(next)])} />}
          {reads_lines && <Area label={f("formats")} wide value={lines.join("\n")} hint="([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?)" error={errors || undefined} on_change={(next) => this.put([formats, next === "" ? undefined : next.split("\n")])} />}
        </div>
      </Card>
    );
  }
}
