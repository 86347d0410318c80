// Creates an experiment: a form and a text of the same configuration, the code folder, and what the head says of them while they are written.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, call, may } from "../api";
import { t } from "../i18n";
import { language, narrow } from "../prefs";
import { go, link, query } from "../router";
import { Choice, Text } from "../ui/fields";
import { Icon } from "../ui/icons";
import { use_loaded } from "../ui/loaded";
import { Card, Code, Empty, Head, Loading, Tabs, Toggle, count, failure, share, size } from "../ui/parts";
import { toast } from "../ui/toast";
import { TooLarge, chosen_of, dropped, kBytesMost, kFilesMost, send_code, type Chosen } from "./code_upload";
import { Config, list_shown } from "./config_document";
import { ConfigEditor } from "./config_editor";
import { findings_of, span_of, type Finding } from "./config_findings";
import { FileButton, FindingList, LaterText, random_id, Sides } from "./config_parts";
import { about_key, kTypes, values_of } from "./config_keys";
import "./configured.css";
import type { Configured } from "./configured";
import { n } from "./new_experiment_texts";
import { yaml_list, yaml_text } from "./yaml_text";

const kPause = 400;  // In ms after the last keystroke.
const kFile = "config.yaml";
const kTemplate = "template.yaml";
const kFirst = `name: my-experiment
entrypoint: python3 train.py
hyperparameters:
  lr: {type: log, base: 10, minval: -4, maxval: -1}
searcher:
  name: random
  metric: loss
  max_trials: 4
  max_length: {batches: 1000}
resources:
  slots_per_trial: 0
`;

interface Checked { config: string; template: string; findings: Finding[]; other: string }
type Name = Parameters<typeof n>[0];

// `#/new_experiment`: of a configuration; with `of=katib` of resources of Katib, of which `edit` names one to change.
export function NewExperiment() {
  const katib = query("of") === "katib";
  const edit = query("edit");
  const [fork, continues] = [query("fork"), query("continue")];
  const title = edit ? n("title.resource", { name: edit }) : fork ? n("title.fork", { id: fork }) : continues ? n("title.continue", { id: continues }) : n("title");
  const is_new = !edit && !fork && !continues;
  return (
    <>
      <Head trail={[{ text: t("nav.experiments"), path: ["experiments"] }]} title={title}>
        {is_new && may("user") && <Tabs now={katib ? "katib" : "configuration"} tabs={[{ key: "configuration", text: n("form.configuration"), href: link(["new_experiment"]) }, { key: "katib", text: "Katib", href: link(["new_experiment"], { of: "katib" }) }]} />}
      </Head>
      <div class="page-body new-experiment">
        {!may("user") ? <Empty icon="info" title={n("denied")}>{t("error.role.next")}</Empty> : katib ? <Resources key={edit} of={edit} /> : <FromConfiguration key={fork + continues} parent={fork || continues} continues={Boolean(continues)} />}
      </div>
    </>
  );
}

function Resources({ of }: { of: string }) {
  const view = use_loaded(() => import("./katib_apply"));
  return view ? <view.KatibApply of={of} /> : <Loading />;
}

// `parent`: the experiment whose configuration is the first text; empty: none.
function FromConfiguration({ parent, continues }: { parent: string; continues: boolean }) {
  const [source, set_source] = useState<Configured | null>(null);
  const [failed, set_failed] = useState("");
  useEffect(() => {
    if (!parent) return;
    call<Configured>("GET", `/api/v1/determined/experiments/${encodeURIComponent(parent)}`).then(set_source, (error: unknown) => set_failed(n("source", { id: parent, what: failure(error).what })));
  }, [parent]);
  if (failed) return <Empty icon="warning" title={failed} />;
  return parent && !source ? <Loading /> : <Editing parent={source} continues={continues} />;
}

// What the head says of the configuration; null: it has not been asked yet.
function use_checked(config: string, template: string, parent: number, continues: boolean): Checked | null {
  const [checked, set_checked] = useState<Checked | null>(null);
  useEffect(() => {
    let gone = false;
    const timer = setTimeout(() => {
      const say = (findings: Finding[], other = "") => { if (!gone) set_checked({ config, template, findings, other }); };
      call<{ warnings: string[] }>("POST", "/api/v1/determined/experiments", request_of(config, template, parent, continues, true)).then(
        (reply) => say(reply.warnings.flatMap((one) => findings_of(one, false))),
        (error: unknown) => (error instanceof ApiError && error.code === "kInvalidArgument" ? say(findings_of(error.detail, true)) : say([], failure(error).what)));
    }, kPause);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [config, template, parent, continues]);
  return checked;
}
const request_of = (config: string, template: string, parent: number, continues: boolean, only_check: boolean) => ({
  config, config_name: kFile, ...(template.trim() ? { config_template: template, template_name: kTemplate } : {}), ...(parent ? { parent } : {}), ...(continues ? { continues } : {}), ...(only_check ? { validate_only: true } : {}),
});

function Editing({ parent, continues }: { parent: Configured | null; continues: boolean }) {
  const [text, set_text] = useState(parent ? parent.original_config : kFirst);
  const [template, set_template] = useState("");
  const [code, set_code] = useState<Chosen | null>(null);
  const [paused, set_paused] = useState(false);
  const [side, set_side] = useState<"form" | "text">("form");
  const [target, set_target] = useState<{ offset: number } | null>(null);
  const [sent, set_sent] = useState<number | null>(null);
  const [busy, set_busy] = useState(false);
  const config = useMemo(() => new Config(text), [text]);
  const id = parent?.id ?? 0;
  const usable = useRef(config);  // Shown, but not changed, while the text is no YAML.
  if (config.usable) usable.current = config;
  const checked = use_checked(text, template, id, continues);
  const fresh = checked !== null && checked.config === text && checked.template === template;
  const findings = useMemo(() => (fresh ? checked.findings.filter((one) => one.file === kFile) : []), [fresh, checked]);
  const bad = fresh && (checked.other !== "" || checked.findings.some((one) => one.bad));
  const submit = async () => {
    set_busy(true);
    try {
      const files_sha256 = code ? await send_code(code.files, set_sent) : "";
      const { experiment } = await call<{ experiment: Configured }>("POST", "/api/v1/determined/experiments", { ...request_of(text, template, id, continues, false), ...(files_sha256 ? { files_sha256 } : {}), ...(paused ? { paused } : {}), request_id: random_id() });
      toast(n("done", { id: experiment.id }));
      go(["experiments", experiment.run]);
    } catch (error) {
      const { what, next } = failure(error);
      toast(`${what} ${next}`, "bad");
    } finally {
      set_busy(false);
      set_sent(null);
    }
  };
  const show = (one: Finding) => {
    const span = span_of(text, one);
    if (!span) return;
    set_side("text");
    set_target({ offset: span[0] });
  };
  const both = !narrow.value;
  const view = use_loaded(() => import("./search_preview"));
  const preview = view && <view.PreviewCard config={fresh && !bad ? text : null} template={template} />;
  return (
    <>
      {parent?.original_config.includes("********") && <p class="reason">{n("secrets", { id })}</p>}
      {continues && <p class="reason tone-calm">{n("continue.about", { id })}</p>}
      {!both && <Sides side={side} set={set_side} />}
      <div class="config-sides">
        {(both || side === "form") && (
          <div class="stack">
            {!config.usable && <p class="reason">{n("form.away")}</p>}
            <fieldset class="config-form" disabled={!config.usable}><Form config={usable.current} set={set_text}>{preview}</Form></fieldset>
            <CodeCard parent={id} chosen={code} set={set_code} />
            <Template text={template} set={set_template} />
          </div>
        )}
        {(both || side === "text") && (
          <section class="card config-text" aria-label={n("text")}>
            <header><h2>{n("text")}</h2><FileButton text={n("config.open")} on_text={set_text} /></header>
            <ConfigEditor text={text} on_change={set_text} findings={findings} go_to={target} />
            <p class="quiet-line">{n("keys")}</p>
            <FindingList findings={fresh ? checked.findings : []} file={kFile} show={show} />
            {!both && preview}
          </section>
        )}
      </div>
      <footer class="config-acts">
        <Verdict checked={fresh ? checked : null} />
        {sent !== null && <span role="status">{n("sending", { share: share(sent) })}</span>}
        <Toggle label={n("paused")} on={paused} on_change={set_paused} />
        <button type="button" class="button primary" disabled={busy || !fresh || bad} onClick={() => void submit()}>{n(continues ? "submit.continue" : "submit")}</button>
      </footer>
    </>
  );
}

function Verdict({ checked }: { checked: Checked | null }) {
  if (!checked) return <span class="prediction" role="status">{n("checking")}</span>;
  const bad = checked.findings.filter((one) => one.bad).length;
  const mild = checked.findings.length - bad;
  const text = checked.other || [bad > 0 && n("errors", { n: bad }), mild > 0 && n("warnings", { n: mild })].filter(Boolean).join(", ") || n("valid");
  return <span class={`prediction${bad || checked.other ? " tone-bad" : ""}`} role="status">{text}</span>;
}

function Template({ text, set }: { text: string; set: (text: string) => void }) {
  return (
    <details class="card further">
      <summary>{n("template")}</summary>
      <p class="quiet-line">{n("template.about")}</p>
      <textarea class="text-input mono" rows={6} spellcheck={false} aria-label={n("template")} value={text} onInput={(event) => set(event.currentTarget.value)} />
      <FileButton text={n("template.open")} on_text={set} />
    </details>
  );
}

// ---- The form ----

interface Part { config: Config; set: (text: string) => void }

// `kind`: a text, which is quoted where YAML needs it; a value, as it is written; or texts, joined by commas.
function Field({ config, set, path, kind = "value", wide, hint }: Part & { path: string; kind?: "text" | "value" | "texts"; wide?: boolean; hint?: string }) {
  const keys = path.split(".");
  const value = config.value(keys);
  const shown = kind === "texts" ? list_shown(value) : config.shown(keys);
  const change = (text: string) => {
    const structured = kind === "text" && typeof value === "object" && value !== null;
    const source = text.trim() === "" ? null : kind === "texts" ? yaml_list(text.split(/[,，]\s*/).filter(Boolean)) : kind === "text" && !structured ? yaml_text(text) : plain(text);
    const next = config.with(keys, source);
    if (next !== null) set(next);
  };
  const choices = values_of(keys);
  const about = about_key(keys, language.value === "zh");
  return (
    <div class={wide ? "wide" : ""} title={about}>
      {choices.length ? <Choice label={n(path as Name)} value={shown ?? ""} options={[...new Set(["", ...choices, shown ?? ""])].map((one) => [one, one || n(path === "checkpoint_storage.type" ? "as_cluster" : "unset")])} on_change={change} />
        : kind === "texts" ? <LaterText label={n(path as Name)} value={shown ?? config.shown(keys)} disabled={shown === null} hint={hint} on_change={change} />
          : <Text label={n(path as Name)} value={shown ?? ""} hint={hint} on_change={change} />}
    </div>
  );
}

// A value as it is written: what is no YAML by itself becomes a text.
const plain = (text: string): string => (/^[\w.+-]+$/.test(text) || new Config(`x: ${text}\n`).usable && !/[\n#]/.test(text) && !/^[&*!|>%@`]/.test(text) ? text : JSON.stringify(text));

const kStorage: Record<string, string[]> = { shared_fs: ["host_path", "storage_path"], directory: ["container_path"], s3: ["bucket", "prefix"], gcs: ["bucket", "prefix"], azure: ["container"] };
const kSearch: Record<string, string[]> = {
  single: ["max_length"], random: ["max_trials", "max_length", "max_concurrent_trials"], grid: ["max_length", "max_concurrent_trials"],
  adaptive_asha: ["max_trials", "max_length", "mode", "max_concurrent_trials"], async_halving: ["max_trials", "max_length", "num_rungs", "divisor", "max_concurrent_trials"],
};

// `children`: behind the card of the search.
function Form({ config, set, children }: Part & { children: ComponentChildren }) {
  const part = { config, set };
  const method = config.shown(["searcher", "name"]);
  const storage = config.shown(["checkpoint_storage", "type"]);
  return (
    <>
      <Card title={n("basics")}>
        <div class="job-form">
          <Field {...part} path="name" kind="text" />
          <Field {...part} path="labels" kind="texts" hint="baseline, sweep" />
          <Field {...part} path="description" kind="text" wide />
          <Field {...part} path="entrypoint" kind="text" wide hint="model_def:MNistTrial" />
          <Field {...part} path="workspace" kind="text" />
          <Field {...part} path="project" kind="text" />
        </div>
      </Card>
      <Card title={n("search")}>
        <div class="job-form">
          <Field {...part} path="searcher.name" />
          <Field {...part} path="searcher.metric" kind="text" hint="validation_loss" />
          <Field {...part} path="searcher.smaller_is_better" />
          {(kSearch[method] ?? []).map((key) => <Field key={key} {...part} path={`searcher.${key}`} hint={key === "max_length" ? "{batches: 1000}" : undefined} />)}
        </div>
      </Card>
      {children}
      <Space {...part} />
      <Card title={n("resources")}>
        <div class="job-form">
          <Field {...part} path="resources.slots_per_trial" hint="1" />
          <Field {...part} path="resources.max_slots" />
          <Field {...part} path="resources.resource_pool" kind="text" hint="default" />
          <Field {...part} path="resources.priority" />
          <Field {...part} path="max_restarts" hint="5" />
        </div>
      </Card>
      <Card title={n("checkpoints")}>
        <div class="job-form">
          <Field {...part} path="checkpoint_storage.type" />
          {(kStorage[storage] ?? []).map((key) => <Field key={key} {...part} path={`checkpoint_storage.${key}`} kind="text" />)}
          <Field {...part} path="checkpoint_policy" />
          <Field {...part} path="min_validation_period" hint="{batches: 100}" />
          <Field {...part} path="min_checkpoint_period" hint="{batches: 100}" />
        </div>
      </Card>
    </>
  );
}

const kOf: Record<string, { fields: string[]; first: string }> = {
  const: { fields: ["val"], first: "1" },
  int: { fields: ["minval", "maxval", "count"], first: "{type: int, minval: 1, maxval: 10}" },
  double: { fields: ["minval", "maxval", "count"], first: "{type: double, minval: 0.0, maxval: 1.0}" },
  log: { fields: ["base", "minval", "maxval", "count"], first: "{type: log, base: 10, minval: -4, maxval: -1}" },
  categorical: { fields: ["vals"], first: "{type: categorical, vals: [a, b]}" },
};

function Space({ config, set }: Part) {
  const names = config.names(["hyperparameters"]);
  const put = (path: string[], source: string | null) => {
    const next = config.with(["hyperparameters", ...path], source);
    if (next !== null) set(next);
  };
  const free = () => {
    for (let i = names.length + 1; ; ++i) if (!names.includes(`hparam_${i}`)) return `hparam_${i}`;
  };
  return (
    <Card title={n("space")} action={<button type="button" class="button small" onClick={() => put([free()], kOf.double.first)}>{n("hp.add")}</button>}>
      {names.length === 0 && <p class="quiet-line">{n("hp.none")}</p>}
      {names.map((name, i) => {
        const path = ["hyperparameters", name];
        const value = config.value(path);
        const map = typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
        const type = map ? (typeof map.type === "string" && kTypes.includes(map.type) ? map.type : "") : "const";
        const plain_constant = type === "const" && !map;
        return (
          <fieldset key={i} class="hyperparameter">
            <legend class="visually-hidden">{name}</legend>
            <LaterText label={n("hp.name")} value={name} on_change={(next) => {
              const text = next.trim() && !names.includes(next.trim()) ? config.renamed(path, yaml_text(next.trim())) : null;
              if (text !== null) set(text);
            }} />
            {type === "" ? <p class="quiet-line">{n("hp.nested.next")}</p> : (
              <>
                <Choice label={n("hp.type")} value={type} options={kTypes.map((one) => [one, one === "const" ? n("hp.const") : one])} on_change={(next) => put([name], kOf[next].first)} />
                {plain_constant ? <Text label={n("hp.value")} value={config.shown(path)} on_change={(text) => put([name], text === "" ? '""' : plain(text))} />
                  : kOf[type].fields.map((key) => {
// The other labels are the keys themselves.
                    const label = key === "val" ? n("hp.value") : key;
                    return <Text key={key} label={label} value={config.shown([...path, key])} on_change={(text) => put([name, key], text.trim() === "" ? null : plain(text))} />;
                  })}
              </>
            )}
            <button type="button" class="icon-button" aria-label={n("hp.remove", { name })} title={n("hp.remove", { name })} onClick={() => put([name], null)}><Icon name="close" /></button>
          </fieldset>
        );
      })}
    </Card>
  );
}

// ---- The code folder ----

function CodeCard({ parent, chosen, set }: { parent: number; chosen: Chosen | null; set: (chosen: Chosen | null) => void }) {
  const [over, set_over] = useState(false);
  const folder = useRef<HTMLInputElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const limits = { size: size(kBytesMost), n: count(kFilesMost) };
  const take = (found: Promise<{ path: string; file: File }[]>) => void found.then((all) => (all.length ? chosen_of(all).then(set) : undefined)).catch((error: unknown) => toast(error instanceof TooLarge ? n("code.too_large", limits) : String(error), "bad"));
  const listed = (list: FileList | null) => Promise.resolve([...(list ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
  useEffect(() => folder.current?.setAttribute("webkitdirectory", ""), []);
  return (
    <Card title={n("code")}>
      <div class={`drop${over ? " over" : ""}`} onDragOver={(event) => { event.preventDefault(); set_over(true); }} onDragLeave={() => set_over(false)}
        onDrop={(event) => { event.preventDefault(); set_over(false); if (event.dataTransfer) take(dropped(event.dataTransfer)); }}>
        <span>{n("code.drop")}</span>
        <button type="button" class="button small" onClick={() => folder.current?.click()}>{n("code.folder")}</button>
        <button type="button" class="button small" onClick={() => files.current?.click()}>{n("code.files")}</button>
        <input ref={folder} type="file" hidden data-code="folder" onChange={(event) => take(listed(event.currentTarget.files))} />
        <input ref={files} type="file" hidden multiple data-code="files" onChange={(event) => take(listed(event.currentTarget.files))} />
      </div>
      {chosen ? (
        <>
          <p class="code-chosen" role="status">
            <b>{chosen.name}</b> <span>{n("code.chosen", { n: chosen.files.length, shown: count(chosen.files.length), size: size(chosen.bytes) })}</span>
            {chosen.left_out > 0 && <span class="soft" title={n("code.left_out.why")}>{n("code.left_out", { n: chosen.left_out })}</span>}
            <button type="button" class="link" onClick={() => set(null)}>{n("code.clear")}</button>
          </p>
          <details><summary>{n("code.list")}</summary><ul class="code-files">{chosen.files.slice(0, 200).map((one) => <li key={one.path}><code>{one.path}</code> <small>{size(one.data.length)}</small></li>)}</ul></details>
        </>
      ) : <p class="quiet-line">{parent ? n("code.parent", { id: parent }) : n("code.none")}</p>}
      <details class="code-limit"><summary>{n("code.limit", limits)}</summary><Code text={parent ? `volador experiment fork ${parent} ${kFile} .` : `volador experiment create ${kFile} .`} /></details>
    </Card>
  );
}
