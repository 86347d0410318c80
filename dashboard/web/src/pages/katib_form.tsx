// The form of a resource of kind Experiment: its fields are those of the text beside it. Loaded when it is opened.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api";
import { Area, Choice, Text } from "../ui/fields";
import { Icon } from "../ui/icons";
import { use_loaded } from "../ui/loaded";
import { Card, Code, Loading, failure } from "../ui/parts";
import { toast } from "../ui/toast";
import type { Finding } from "./config_findings";
import { LaterText } from "./config_parts";
import { command_of, free_name, kSpaceOf, number, range_of, renamed_parameter, ResourceText, script_of, text_of_path, whole, with_parameter, with_setting, without_parameter, word, words, type Algorithm, type Path, type Setting } from "./katib_document";
import { f } from "./katib_form_texts";

const kDistributions = ["uniform", "logUniform", "normal", "logNormal"];
const kResume = ["Never", "LongRunning", "FromVolume"];
const kCollectors = ["StdOut", "File", "TensorFlowEvent", "PrometheusMetric", "Custom", "Push", "None"] as const;
const kStrategies = ["min", "max", "latest"] as const;
const kObjective: Path = ["spec", "objective"];
const kCollector: Path = ["spec", "metricsCollectorSpec"];
const kNasConfig: Path = ["spec", "nasConfig"];
const kNasAlgorithms = ["enas", "darts"];  // Services that search neural architectures.
const load_nas = () => import("./katib_nas");
type Nas = Awaited<ReturnType<typeof load_nas>>;

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

// `template`: the card of the trial template, a module of its own.
export function KatibForm({ text, set, findings, namespace, template }: { text: string; set: (text: string) => void; findings: Finding[]; namespace: string; template: (form: Form) => ComponentChildren }) {
  const algorithms = use_algorithms();
  const now = new ResourceText(text);
  const usable = useRef(now);  // Shown, but not changed, while the text has another structure.
  if (now.usable) usable.current = now;
  const shown = usable.current;
  const nas = use_loaded(shown.value(kNasConfig) !== undefined || kNasAlgorithms.includes(shown.shown(["spec", "algorithm", "algorithmName"])) ? load_nas : null);
  const [apart, set_apart] = useState(false);
  const form = new Form(shown, (next) => { if (next !== null) set(next); }, new Problems(findings), algorithms, nas, { on: apart, set: set_apart });
  const cards = form.cards(namespace, template);
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
// `nas`: null until it is loaded. `apart`: whether each replica has fields of its own.
export class Form {
  constructor(readonly text: ResourceText, readonly set: (next: string | null) => void, readonly problems: Problems, readonly algorithms: Algorithm[], readonly nas: Nas | null, readonly apart: { on: boolean; set: (on: boolean) => void }) {}

  cards(namespace: string, template: (form: Form) => ComponentChildren): ComponentChildren {
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
        {this.space()}
        {this.algorithm(["spec", "algorithm"], f("algorithm"), false)}
        {this.algorithm(["spec", "earlyStopping"], f("early"), true)}
        {template(this)}
        {this.collector()}
      </>
    );
  }

  // ---- Fields ----

  put(...changes: [Path, unknown][]): void {
    this.set(this.text.with(...changes));
  }

  field(path: Path, label: string, to: (text: string) => unknown, hint?: string, wide?: boolean, choices?: string[]) {
    return <Text label={label} value={this.text.shown(path)} hint={hint} wide={wide} choices={choices} error={this.problems.at(path)} on_change={(next) => this.put([path, to(next)])} />;
  }

  // Texts joined by commas. They are taken when the field loses the focus.
  private texts(path: Path, label: string, wide?: boolean) {
    const list = this.text.list(path);
    const errors = [this.problems.at(path), ...list.map((_, i) => this.problems.at([...path, i]))].filter(Boolean).join("; ");
    return <LaterText label={label} value={list.map(String).join(", ")} wide={wide} error={errors || undefined} on_change={(next) => this.put([path, words(next)])} />;
  }

  choice(path: Path, label: string, values: readonly string[], names: (value: string) => string = (value) => value, change = (next: string) => this.put([path, word(next)])) {
    const now = this.text.shown(path);
    const all = [...new Set(["", ...values, now])];
    return <Choice label={label} value={now} error={this.problems.at(path)} options={all.map((one) => [one, one ? names(one) : f("unset")])} on_change={change} />;
  }

  remove(name: string, act: () => void) {
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
    const is_nas = !early && kNasAlgorithms.includes(now);
    const own = (found && !found.external) || !is_nas ? found?.settings ?? [] : this.nas?.settings_of(now) ?? [];
    const more = given.map((one, i) => ({ name: String(one.name ?? ""), i })).filter((one) => !own.some((setting) => setting.name === one.name));
    const names = [...new Set([...known.map((one) => one.name), ...(early ? [] : kNasAlgorithms), now])].filter(Boolean);
    const lacks = (name: string) => known.length > 0 && !known.some((one) => one.name === name);
    const name_of = (name: string) => (known.find((one) => one.name === name)?.external ? f("external", { name }) : lacks(name) ? f("unregistered", { name }) : name);
    // Settings of another algorithm would be refused.
    const change = (next: string) => (next !== "" && this.nas && this.text.value(kNasConfig) !== undefined && !early
      ? this.set(this.nas.with_nas_algorithm(this.text, next))
      : this.put([settings, undefined], next === "" ? [path, undefined] : [[...path, "algorithmName"], next]));
    const errors = [this.problems.at(path), this.problems.at([...path, "algorithmName"])].filter(Boolean).join("; ");
    const free = !found || found.external;
    return (
      <Card title={title}>
        <div class="job-form">
          <Choice label={title} value={now} error={errors || undefined} options={[...(early || !now ? [["", f("none")] as [string, string]] : []), ...names.map((one): [string, string] => [one, name_of(one)])]} on_change={change} />
          {own.map((setting) => this.setting(settings, setting, given))}
        </div>
        {now && found && !own.length && !more.length && <p class="quiet-line katib-part">{f(found.external ? "settings.external" : "settings.none")}</p>}
        {is_nas && this.text.value(kNasConfig) === undefined && <p class="quiet-line katib-part">{f("nas.only")}</p>}
        {now && lacks(now) && <div class="katib-part"><p class="quiet-line">{f(early ? "register.early" : "register", { name: now })}</p><Code text={`katib:\n  ${early ? "early_stopping" : "suggestions"}: '{${now}: {command: [python3, ${now}.py, "--port={port}"]}}'`} /></div>}
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
      : <Text key={setting.name} label={setting.name} value={now} error={error} hint={setting.usual ?? range_of(setting)} on_change={change} />;
  }

  // What is searched: parameters or an architecture. A text that has both shows both.
  private space(): ComponentChildren {
    const has_nas = this.text.value(kNasConfig) !== undefined;
    const both = has_nas && this.text.value(["spec", "parameters"]) !== undefined;
    const now = both ? "both" : has_nas ? "nas" : "parameters";
    const keep = this.algorithms.some((one) => one.external && !one.early_stopping && one.name === this.text.shown(["spec", "algorithm", "algorithmName"]));
    const change = (next: string) => void load_nas().then((nas) => this.set(next === "nas" ? nas.with_architecture(this.text, keep) : nas.with_parameters(this.text)), (error: unknown) => toast(failure(error).what, "bad"));
    return (
      <>
        <Card title={f("space")}>
          <Choice label={f("space.of")} value={now} options={[...(both ? [["both", f("space.both")] as [string, string]] : []), ["parameters", f("space.parameters")], ["nas", f("space.nas")]]} on_change={change} />
        </Card>
        {now !== "nas" && this.parameters()}
        {has_nas && (this.nas ? this.nas.architecture(this) : <Loading />)}
      </>
    );
  }

  private parameters() {
    const path: Path = ["spec", "parameters"];
    const all = this.text.maps(path);
    const error = this.problems.at(path);
    return (
      <Card title={f("parameters")} action={<button type="button" class="button small" onClick={() => this.set(with_parameter(this.text))}>{f("add")}</button>}>
        {error && <small class="field-error" role="alert">{error}</small>}
        {!all.length && !error && <p class="quiet-line">{f("parameter.none")}</p>}
        {all.map((one, i) => this.parameter_row([...path, i], one, (name) => this.set(renamed_parameter(this.text, i, name)), () => this.set(without_parameter(this.text, i))))}
      </Card>
    );
  }

  parameter_row(at: Path, one: Record<string, unknown>, rename: (name: string) => void, remove: () => void) {
    const space: Path = [...at, "feasibleSpace"];
    const name = String(one.name ?? "");
    const type = String(one.parameterType ?? "");
    const is_range = type === "double" || type === "int";
    const change = (next: string) => this.put([[...at, "parameterType"], word(next)], ...(is_range && (next === "double" || next === "int") ? [] : [[space, kSpaceOf[next]] as [Path, unknown]]));
    const whole_error = [this.problems.at(at), this.problems.at(space)].filter(Boolean).join("; ");
    return (
      <fieldset key={at.at(-1)} class="katib-row">
        <legend class="visually-hidden">{name}</legend>
        <LaterText label={f("name")} value={name} error={this.problems.at([...at, "name"]) ?? (whole_error || undefined)} on_change={(next) => { if (next.trim()) rename(next.trim()); }} />
        {this.choice([...at, "parameterType"], f("parameter.type"), Object.keys(kSpaceOf), undefined, change)}
        {is_range ? (
          <>
            {this.field([...space, "min"], f("min"), word)}
            {this.field([...space, "max"], f("max"), word)}
            {this.field([...space, "step"], f("step"), word)}
            {this.choice([...space, "distribution"], f("distribution"), kDistributions)}
          </>
        ) : this.texts([...space, "list"], f("list"), true)}
        {this.remove(name, remove)}
      </fieldset>
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
